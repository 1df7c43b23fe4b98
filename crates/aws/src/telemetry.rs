//! Telemetry: each domain event is one JSON line on standard output, log and CloudWatch metric at once.

mod line;
pub mod metrics;
mod panics;

pub use panics::without_text as panics_without_text;

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use redeliver_core::events::Event;
use redeliver_core::ports::{Clock, Observer};
use tracing_subscriber::filter::LevelFilter;

use crate::SystemClock;
use crate::settings::function_name;
use line::Lines;

/// Writes domain events as JSON lines in CloudWatch's embedded metric format.
#[derive(Debug)]
pub struct JsonLines<C, W> {
    function: String,
    clock: C,
    writer: Mutex<W>,
}

impl JsonLines<SystemClock, std::io::Stdout> {
    /// To standard output, which Lambda brings to CloudWatch, under the name that the function has in Lambda, so that
    /// two deployments in one account have metrics of their own; outside of Lambda `otherwise`.
    #[must_use]
    pub fn stdout(otherwise: &str) -> Self {
        let function = function_name().unwrap_or_else(|| otherwise.to_owned());
        Self::new(function, SystemClock, std::io::stdout())
    }
}

impl<C: Clock, W: Write + Send> JsonLines<C, W> {
    /// To `writer`; `function` is the metrics' dimension.
    pub fn new(function: impl Into<String>, clock: C, writer: W) -> Self {
        Self { function: function.into(), clock, writer: Mutex::new(writer) }
    }
}

impl<C: Clock, W: Write + Send> Observer for JsonLines<C, W> {
    fn observe(&self, event: &Event) {
        self.observe_all(std::slice::from_ref(event));
    }

    /// All in one write.
    fn observe_all(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let mut lines = Lines::new(&self.function, self.clock.now());
        for event in events {
            lines.push(event);
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written must not fail the message.
        let _ = writer.write_all(&lines.text).and_then(|()| writer.flush());
    }
}

/// Sets the process up: our dependencies' logs as JSON from WARN upwards, whatever the environment says (some log whole
/// events at TRACE), and panics without their text, which may hold payload.
pub fn init() {
    panics::without_text();
    // A second call changes nothing.
    let _ = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .try_init();
}

#[cfg(test)]
mod tests;
