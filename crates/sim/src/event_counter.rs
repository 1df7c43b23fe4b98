//! Counts of the events that the functions report.

use std::sync::Mutex;

use redeliver_core::events::Event;
use redeliver_core::ports::Observer;

use redeliver_core::lock;

/// An observer that counts events.
#[derive(Debug, Default)]
pub struct EventCounter(Mutex<EventCounts>);

#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    /// The number of retries by delay: the index is the delay in seconds, up to the longest one.
    pub delays: Vec<u64>,
    /// Hops of messages with long delays.
    pub hops: u64,
    /// Immediate retries in the same invocation.
    pub immediate_retries: u64,
    /// The number of times a circuit breaker opened.
    pub openings: u64,
    /// Probes of a target that was down, including the successful probe.
    pub probes: u64,
    /// Holds of messages whose target was down, responded "not now", or had reached its rate limit. A message held
    /// twice counts twice.
    pub holds: u64,
}

impl EventCounter {
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        lock(&self.0).clone()
    }
}

impl Observer for EventCounter {
    fn observe(&self, event: &Event) {
        let mut counts = lock(&self.0);
        match *event {
            Event::RetryScheduled { delay_seconds, .. } => {
                let seconds = usize::from(delay_seconds.get());
                let length = counts.delays.len().max(seconds + 1);
                counts.delays.resize(length, 0);
                counts.delays[seconds] += 1;
            }
            Event::Hopped { messages } => counts.hops += u64::from(messages),
            Event::RetriedImmediately { .. } => counts.immediate_retries += 1,
            Event::CircuitOpened { .. } => counts.openings += 1,
            Event::ProbeFailed { .. } | Event::CircuitClosed { .. } => counts.probes += 1,
            Event::Held { messages, .. }
            | Event::NotNow { messages, .. }
            | Event::RateLimited { messages, .. } => {
                counts.holds += u64::from(messages);
            }
            _ => {}
        }
    }
}
