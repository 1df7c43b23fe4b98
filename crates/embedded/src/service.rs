//! The service: its clock, its faults, and its observable state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;

use crate::changes::MessageChange;
use crate::clock::VirtualClock;
use crate::faults::FaultPlan;
use crate::state::ServiceState;

/// SQS in memory. Clones share one service.
#[derive(Clone, Debug)]
pub struct EmbeddedSqs {
    clock: VirtualClock,
    state: Arc<Mutex<ServiceState>>,
}

impl EmbeddedSqs {
    /// Creates a service that has no queues and reads the time from `clock`. `seed` seeds message ids and receipt
    /// handles.
    #[must_use]
    pub fn new(clock: VirtualClock, seed: u64) -> Self {
        Self { clock, state: Arc::new(Mutex::new(ServiceState::new(seed))) }
    }

    /// Returns the number of requests so far, by action, including injected faults. A long poll is one request.
    #[must_use]
    pub fn request_counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock_state().requests.clone()
    }

    /// Replaces the faults; [`FaultPlan::default`] has none.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.lock_state().faults = faults;
    }

    /// Sets the maximum age of the queues' counts, which are exact by default. SQS's counts become consistent "at least
    /// 1 minute after the producers stop sending messages" ("GetQueueAttributes", Amazon SQS API Reference).
    pub fn set_counts_lag(&self, lag: Duration) {
        self.lock_state().counts_lag = lag;
    }

    /// Returns the exact number of visible messages, or 0 if the queue does not exist. This is not counted as a
    /// request.
    #[must_use]
    pub fn visible_count(&self, arn: &str) -> u64 {
        let now = self.clock.now();
        self.lock_state().queue_mut(arn).map_or(0, |queue| queue.exact_depth(now).visible)
    }

    /// Returns the changes to messages since the last call, in order. The first call starts the log.
    #[must_use]
    pub fn take_changes(&self) -> Vec<MessageChange> {
        self.lock_state().log.take_changes()
    }

    /// Returns the time at which the next message in any queue became or becomes visible; `None` if all queues are
    /// empty. That message may expire first.
    #[must_use]
    pub fn next_due_at(&self) -> Option<Timestamp> {
        self.lock_state().next_visible_at()
    }

    /// Returns the clock of the service.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, ServiceState> {
        // No caller's code runs under the lock, so a panic leaves the state intact.
        lock(&self.state)
    }

    /// Runs `request` on the state, and wakes the affected long polls after the lock is released.
    pub(crate) fn run_request<T>(&self, request: impl FnOnce(&mut ServiceState) -> T) -> T {
        let mut state = self.lock_state();
        let answer = request(&mut state);
        let arrivals = state.take_arrivals();
        drop(state);
        arrivals.iter().for_each(|arrival| arrival.notify_waiters());
        answer
    }
}
