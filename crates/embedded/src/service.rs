//! The service: creates, finds and deletes queues.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, EntryError, Queue, QueueService, QueueSettings};

use crate::changes::Change;
use crate::clock::VirtualClock;
use crate::embedded_queue::EmbeddedQueue;
use crate::faults::{Action, FaultPlan};
use crate::shared::Shared;

const ARN_PREFIX: &str = "arn:aws:sqs:us-east-1:000000000000:";
const URL_PREFIX: &str = "https://sqs.us-east-1.amazonaws.com/000000000000/";

/// SQS in memory. Clones share one service.
#[derive(Clone, Debug)]
pub struct EmbeddedSqs {
    shared: Shared,
}

impl EmbeddedSqs {
    /// A service without queues, in the time of `clock`. Message ids and receipt handles come from `seed`.
    #[must_use]
    pub fn new(clock: VirtualClock, seed: u64) -> Self {
        Self { shared: Shared::new(clock, seed) }
    }

    /// The queue with this ARN, if it exists.
    #[must_use]
    pub fn queue(&self, arn: &str) -> Option<EmbeddedQueue> {
        let name = arn.strip_prefix(ARN_PREFIX)?;
        self.shared.lock().exists(arn).then(|| self.named(name))
    }

    /// Requests so far, by action; those that failed on purpose count too. A long poll is one request.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.shared.lock().requests.clone()
    }

    /// Replaces the faults; [`FaultPlan::default`] heals all.
    pub fn set_faults(&self, faults: FaultPlan) {
        self.shared.lock().faults = faults;
    }

    /// Lets queues' counts be so old at most, the same old ones for all who ask. SQS's become right "at least 1 minute
    /// after the producers stop sending messages" ("GetQueueAttributes", Amazon SQS API Reference). At first they are
    /// exact.
    pub fn set_counts_lag(&self, lag: Duration) {
        self.shared.lock().counts_lag = lag;
    }

    /// Messages of a queue that can be received now, exactly; 0 if there is no such queue. Not a request.
    #[must_use]
    pub fn visible(&self, arn: &str) -> u64 {
        let now = self.shared.clock.now();
        self.shared.lock().queue(arn).map_or(0, |queue| queue.depth(now).visible)
    }

    /// What happened to messages since the last call, in order. The first call begins the log: it has nothing from
    /// before.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        self.shared.lock().log.take()
    }

    /// The moment at which the next message of any queue is or will be visible; `None` when all queues are empty.
    ///
    /// Not later than now if one is visible already. It may be too early: the message may expire before.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shared.lock().next_visible()
    }

    /// The time that it lives in.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.shared.clock
    }

    fn named(&self, name: &str) -> EmbeddedQueue {
        EmbeddedQueue::new(self.shared.clone(), format!("{ARN_PREFIX}{name}"), format!("{URL_PREFIX}{name}"))
    }
}

impl QueueService for EmbeddedSqs {
    type Queue = EmbeddedQueue;

    /// As in SQS, a queue that exists with the same settings is returned, and a dead-letter queue must exist first.
    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<EmbeddedQueue, EntryError> {
        let queue = self.named(name);
        let arn = queue.arn();
        self.shared.lock().request(Action::CreateQueue, arn, |state| state.create(name, arn, settings))?;
        Ok(queue)
    }

    async fn delete_queue(&self, queue: &EmbeddedQueue) -> Result<(), EntryError> {
        let arn = queue.arn();
        self.shared.request(|state| state.request(Action::DeleteQueue, arn, |state| state.delete(arn)))
    }
}
