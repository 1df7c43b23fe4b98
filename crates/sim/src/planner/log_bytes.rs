//! Counts the functions' events and the bytes of their log lines.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use redeliver_aws::settings::Logging;
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::events::Event;
use redeliver_core::ports::Observer;
use redeliver_embedded::VirtualClock;

use crate::event_counter::Tally;

/// A name as long as functions have them.
const FUNCTION: &str = "orders-prod-failed-message-processor";

/// What the functions reported.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) tally: Tally,
    clock: VirtualClock,
    log_bytes: AtomicU64,
}

impl Events {
    pub(super) fn new(clock: VirtualClock) -> Self {
        Self { tally: Tally::default(), clock, log_bytes: AtomicU64::new(0) }
    }

    /// Bytes of all log lines.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// The observer of one environment.
    pub(super) fn of_environment(&self) -> EnvironmentObserver<'_> {
        EnvironmentObserver { tally: &self.tally, lines: lines(FUNCTION, &self.clock, &self.log_bytes) }
    }
}

/// Bytes of the log lines of a batch.
#[cfg(test)]
pub(crate) fn log_bytes(function: &str, clock: &VirtualClock, events: &[Event]) -> u64 {
    let length = AtomicU64::new(0);
    let lines = lines(function, clock, &length);
    lines.observe_all(events);
    lines.flush();
    drop(lines);
    length.into_inner()
}

fn lines<'a>(
    function: &str,
    clock: &VirtualClock,
    length: &'a AtomicU64,
) -> JsonLines<VirtualClock, Length<'a>> {
    JsonLines::new(function, Logging::default(), clock.clone(), Length(length))
}

/// What one environment reports.
#[derive(Debug)]
pub(super) struct EnvironmentObserver<'a> {
    tally: &'a Tally,
    lines: JsonLines<VirtualClock, Length<'a>>,
}

impl Observer for EnvironmentObserver<'_> {
    fn observe(&self, event: &Event) {
        self.tally.observe(event);
        self.lines.observe(event);
    }

    fn flush(&self) {
        self.lines.flush();
    }
}

#[derive(Debug)]
struct Length<'a>(&'a AtomicU64);

impl Write for Length<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
