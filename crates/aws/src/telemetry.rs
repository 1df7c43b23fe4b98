//! Telemetry: JSON lines on standard output, logs and CloudWatch metrics at once. One line tells what a batch has counted;
//! what somebody must act on, and each dead letter, has a line of its own.

mod gathered;
mod line;
pub mod metrics;
mod panics;

pub use panics::without_text as panics_without_text;

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redeliver_core::events::Event;
use redeliver_core::ports::{Clock, Observer};
use tracing_subscriber::filter::LevelFilter;

use crate::SystemClock;
use crate::settings::{LogDetail, LogLevel, Logging, function_name};
use gathered::Gathered;
use line::Lines;
use metrics::{Observed, Told};

/// Writes domain events as JSON lines in CloudWatch's embedded metric format.
#[derive(Debug)]
pub struct JsonLines<C, W> {
    function: String,
    logging: Logging,
    clock: C,
    writer: Mutex<W>,
    gathered: Mutex<Gathered>,
}

impl JsonLines<SystemClock, std::io::Stdout> {
    /// To standard output, which Lambda brings to CloudWatch, under the name that the function has in Lambda, so that
    /// two deployments in one account have metrics of their own; outside of Lambda `otherwise`.
    #[must_use]
    pub fn stdout(otherwise: &str, logging: Logging) -> Self {
        let function = function_name().unwrap_or_else(|| otherwise.to_owned());
        Self::new(function, logging, SystemClock, std::io::stdout())
    }
}

impl<C: Clock, W: Write + Send> JsonLines<C, W> {
    /// To `writer`; `function` is the metrics' dimension.
    pub fn new(function: impl Into<String>, logging: Logging, clock: C, writer: W) -> Self {
        let (function, writer, gathered) = (function.into(), Mutex::new(writer), Mutex::default());
        Self { function, logging, clock, writer, gathered }
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, fill: impl FnOnce(&mut Lines<'_>)) {
        let mut lines = Lines::new(&self.function, self.clock.now());
        fill(&mut lines);
        if lines.text.is_empty() {
            return;
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written must not fail the message.
        let _ = writer.write_all(&lines.text).and_then(|()| writer.flush());
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
        let Logging { detail, level } = self.logging;
        self.write(|lines| {
            for event in events {
                let observed = Observed::of(event);
                match (observed.told, level) {
                    (Told::AtOnce, _) | (Told::AtOnceUnlessQuiet, LogLevel::Info) => {
                        lines.push(event, &observed);
                    }
                    _ => {
                        self.gathered().add(event, &observed);
                        if (detail, level) == (LogDetail::Messages, LogLevel::Info) {
                            lines.push_without_metrics(event, &observed);
                        }
                    }
                }
            }
        });
    }

    fn flush(&self) {
        let gathered = std::mem::take(&mut *self.gathered());
        self.write(|lines| gathered.write(lines));
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
