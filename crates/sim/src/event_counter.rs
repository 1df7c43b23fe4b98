//! Counts the functions' own events.

use std::sync::Mutex;

use redeliver_core::events::Event;
use redeliver_core::limits::RetryDelay;
use redeliver_core::ports::Observer;

use crate::sync::lock;

/// What the functions reported.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Clone, Debug)]
pub struct Counts {
    /// Retries by delay: the index is the delay in seconds.
    pub delays: Vec<u64>,
    /// Hops of messages with long delays.
    pub hops: u64,
    /// Retries whose delay was stretched, since many messages waited.
    pub paced: u64,
    /// Calls at once, after a blip.
    pub immediate_retries: u64,
    /// Times that a circuit breaker opened, anew after a closing.
    pub openings: u64,
    /// Calls that asked whether a target that was down was back, the one that was answered included.
    pub probes: u64,
    /// Messages that were not called since their target was down, each time that one was.
    pub holds: u64,
}

impl Tally {
    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.0).clone()
    }
}

impl Default for Counts {
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

impl Observer for Tally {
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
