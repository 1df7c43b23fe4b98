//! Counts the functions' own events.

use std::sync::{Mutex, PoisonError};

use redeliver_core::events::Event;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::ports::Observer;

/// Re-sends by delay: the index is `DelaySeconds`.
#[derive(Debug)]
pub struct Tally {
    delays: Mutex<Vec<u64>>,
}

impl Tally {
    /// How many re-sends had a delay of so many seconds.
    #[must_use]
    pub fn delays(&self) -> Vec<u64> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self { delays: Mutex::new(vec![0; usize::from(DelaySeconds::MAX.get()) + 1]) }
    }
}

impl Observer for Tally {
    fn observe(&self, event: &Event) {
        if let Event::RetryScheduled(retry) = event {
            let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
            delays[usize::from(retry.delay_seconds.get())] += 1;
        }
    }
}
