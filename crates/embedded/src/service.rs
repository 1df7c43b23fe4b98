//! The service: creates, finds and deletes queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, EntryError, Queue, QueueService, QueueSettings};

use crate::changes::Change;
use crate::clock::VirtualClock;
use crate::embedded_queue::EmbeddedQueue;
use crate::faults::{Action, FaultPlan};
use crate::state::State;

const ARN_PREFIX: &str = "arn:aws:sqs:us-east-1:000000000000:";
const URL_PREFIX: &str = "https://sqs.us-east-1.amazonaws.com/000000000000/";

/// SQS in memory. Clones share one service.
#[derive(Clone, Debug)]
pub struct EmbeddedSqs {
    clock: VirtualClock,
    state: Arc<Mutex<State>>,
}

impl EmbeddedSqs {
    /// A service without queues, in the time of `clock`. Message ids and receipt handles come from `seed`.
    #[must_use]
    pub fn new(clock: VirtualClock, seed: u64) -> Self {
        Self { clock, state: Arc::new(Mutex::new(State::new(seed))) }
    }

    /// Requests so far, by action; those that failed on purpose count too. A long poll is one request.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.lock().requests.clone()
    }

    /// Replaces the faults; [`FaultPlan::default`] heals all.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.lock().faults = faults;
    }

    /// Lets queues' counts be so old at most, the same old ones for all who ask. SQS's become right "at least 1 minute
    /// after the producers stop sending messages" ("GetQueueAttributes", Amazon SQS API Reference). At first they are
    /// exact.
    pub fn set_counts_lag(&self, lag: Duration) {
        self.lock().counts_lag = lag;
    }

    /// Messages of a queue that can be received now, exactly; 0 if there is no such queue. Not a request.
    #[must_use]
    pub fn visible(&self, arn: &str) -> u64 {
        let now = self.clock.now();
        self.lock().queue(arn).map_or(0, |queue| queue.depth(now).visible)
    }

    /// What happened to messages since the last call, in order. The first call begins the log: it has nothing from
    /// before.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        self.lock().log.take()
    }

    /// The moment at which the next message of any queue is or will be visible; `None` when all queues are empty.
    ///
    /// Not later than now if one is visible already. It may be too early: the message may expire before.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.lock().next_visible()
    }

    /// The time that it lives in.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, so a panic elsewhere leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `request` on the state, then wakes whom it concerns, with the lock released: a waker is code of others.
    pub(crate) fn request<T>(&self, request: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let answer = request(&mut state);
        let arrivals = state.take_arrivals();
        drop(state);
        arrivals.iter().for_each(|arrival| arrival.notify_waiters());
        answer
    }
}

impl QueueService for EmbeddedSqs {
    type Queue = EmbeddedQueue;

    /// As in SQS, a queue that exists with the same settings is returned, and a dead-letter queue must exist first.
    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<EmbeddedQueue, EntryError> {
        let (arn, url) = (format!("{ARN_PREFIX}{name}"), format!("{URL_PREFIX}{name}"));
        let queue = EmbeddedQueue::new(self.clone(), arn, url);
        let arn = queue.arn();
        self.lock().request(Action::CreateQueue, arn, |state| state.create(name, arn, settings))?;
        Ok(queue)
    }

    async fn delete_queue(&self, queue: &EmbeddedQueue) -> Result<(), EntryError> {
        let arn = queue.arn();
        self.request(|state| state.request(Action::DeleteQueue, arn, |state| state.delete(arn)))
    }
}
