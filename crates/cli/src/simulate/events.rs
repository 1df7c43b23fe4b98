//! Counts the functions' events and the bytes of their log lines.

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use redeliver_aws::telemetry::JsonLines;
use redeliver_core::events::Event;
use redeliver_core::ports::Observer;
use redeliver_embedded::VirtualClock;
use redeliver_loop::Tally;

/// A name as long as functions have them.
const FUNCTION: &str = "orders-prod-failed-message-processor";
/// So many lines of each kind of event are written out; the others are taken to be as long as those are on average.
const WRITTEN: u64 = 200;

/// What the functions reported.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) tally: Tally,
    clock: VirtualClock,
    lines: Mutex<HashMap<Discriminant<Event>, Lines>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    count: u64,
    written_bytes: u64,
}

impl Events {
    pub(super) fn new(clock: VirtualClock) -> Self {
        Self { tally: Tally::default(), clock, lines: Mutex::default() }
    }

    /// Bytes of all log lines.
    pub(super) fn log_bytes(&self) -> u64 {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.values().map(|lines| lines.written_bytes * lines.count / lines.count.clamp(1, WRITTEN)).sum()
    }
}

/// Bytes of an event's log line.
pub(crate) fn line_bytes(function: &str, clock: &VirtualClock, event: &Event) -> u64 {
    let length = AtomicU64::new(0);
    JsonLines::new(function, clock.clone(), Length(&length)).observe(event);
    length.into_inner()
}

impl Observer for Events {
    fn observe(&self, event: &Event) {
        self.tally.observe(event);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.entry(discriminant(event)).or_default();
        lines.count += 1;
        if lines.count <= WRITTEN {
            lines.written_bytes += line_bytes(FUNCTION, &self.clock, event);
        }
    }
}

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
