//! Counts the events that the functions report.

use std::sync::Mutex;

use redeliver_core::events::Event;
use redeliver_core::limits::RetryDelay;
use redeliver_core::ports::Observer;

use crate::sync::lock;

#[derive(Debug, Default)]
pub struct EventCounter(Mutex<EventCounts>);

#[derive(Clone, Debug)]
pub struct EventCounts {
    /// Retries by their delay in seconds, which is the index.
    pub delays: Vec<u64>,
    /// Hops of messages with long delays.
    pub hops: u64,
    /// Retries that were delayed for longer because many messages were waiting.
    pub paced: u64,
    /// Second calls within the same invocation.
    pub immediate_retries: u64,
    /// Times that a circuit breaker opened.
    pub openings: u64,
    /// Probes of a target that was down, including the successful one.
    pub probes: u64,
    /// Messages that were held because their target was down; a message counts each time.
    pub holds: u64,
}

impl EventCounter {
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        lock(&self.0).clone()
    }
}

impl Default for EventCounts {
    fn default() -> Self {
        Self {
            delays: vec![0; usize::from(RetryDelay::MAX.get()) + 1],
            hops: 0,
            paced: 0,
            immediate_retries: 0,
            openings: 0,
            probes: 0,
            holds: 0,
        }
    }
}

impl Observer for EventCounter {
    fn observe(&self, event: &Event) {
        let mut counts = lock(&self.0);
        match *event {
            Event::RetryScheduled { delay_seconds, .. } => {
                counts.delays[usize::from(delay_seconds.get())] += 1
            }
            Event::Hopped { messages } => counts.hops += u64::from(messages),
            Event::Paced { paced, .. } => counts.paced += u64::from(paced),
            Event::RetriedImmediately { .. } => counts.immediate_retries += 1,
            Event::CircuitOpened { .. } => counts.openings += 1,
            Event::ProbeFailed { .. } | Event::CircuitClosed { .. } => counts.probes += 1,
            Event::Held { messages, .. } => counts.holds += u64::from(messages),
            _ => {}
        }
    }
}
