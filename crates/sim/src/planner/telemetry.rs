//! The functions' telemetry: their events, and the size of the resulting log lines.

use std::io::{self, Write};
use std::sync::Mutex;

use redeliver_aws::settings::Logging;
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use redeliver_embedded::VirtualClock;

use super::invocation_counter::{Counter, HeldMessageIds};
use super::load::LoadBySecond;
use crate::event_counter::EventCounter;

/// A function name of typical length.
const FUNCTION: &str = "orders-prod-failed-message-processor";

/// The telemetry of all environments.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    pub(super) events: EventCounter,
    pub(super) log_bytes: Counter,
    /// The number of retries that spend an attempt.
    pub(super) retries: Counter,
}

impl Telemetry {
    /// Creates an environment's observer. It records holds in `load`, by second since `start`, and the ids of messages
    /// held on their queue in `held`.
    pub(super) fn environment_observer<'a>(
        &'a self,
        clock: &'a VirtualClock,
        start: Timestamp,
        load: &'a Mutex<LoadBySecond>,
        held: &'a HeldMessageIds,
    ) -> EnvironmentObserver<'a> {
        let lines = json_lines_observer(FUNCTION, clock, &self.log_bytes);
        EnvironmentObserver { telemetry: self, lines, clock, start, load, held }
    }
}

/// Returns the size of a batch's log lines.
#[cfg(test)]
pub(crate) fn log_bytes(function: &str, clock: &VirtualClock, events: &[Event]) -> u64 {
    let bytes = Counter::default();
    let lines = json_lines_observer(function, clock, &bytes);
    lines.observe_all(events);
    lines.flush();
    drop(lines);
    bytes.get()
}

fn json_lines_observer<'a>(
    function: &str,
    clock: &VirtualClock,
    bytes: &'a Counter,
) -> JsonLinesObserver<VirtualClock, ByteCounter<'a>> {
    JsonLinesObserver::new(function, Logging::default(), clock.clone(), ByteCounter(bytes))
}

/// The observer for one environment.
#[derive(Debug)]
pub(super) struct EnvironmentObserver<'a> {
    telemetry: &'a Telemetry,
    lines: JsonLinesObserver<VirtualClock, ByteCounter<'a>>,
    clock: &'a VirtualClock,
    start: Timestamp,
    load: &'a Mutex<LoadBySecond>,
    held: &'a HeldMessageIds,
}

impl Observer for EnvironmentObserver<'_> {
    fn observe(&self, event: &Event) {
        self.telemetry.events.observe(event);
        self.lines.observe(event);
        match event {
            Event::Held { messages, .. }
            | Event::NotNow { messages, .. }
            | Event::RateLimited { messages, .. } => {
                let second = time_until(self.start, self.clock.now()).as_secs();
                lock(self.load).record_holds(second, u64::from(*messages));
            }
            Event::RetryScheduled { spends_attempt: true, .. } => self.telemetry.retries.add(1),
            // A retry that spends no attempt is a hold, never a snooze, since the simulated target requests none. A
            // message that remains on its queue does not record its own holds.
            Event::RetryScheduled { message_id, .. } => self.held.record_held(message_id),
            _ => {}
        }
    }

    fn flush(&self) {
        self.lines.flush();
    }
}

#[derive(Debug)]
struct ByteCounter<'a>(&'a Counter);

impl Write for ByteCounter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
