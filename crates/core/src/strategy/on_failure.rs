//! The next step of messages that failed or that the message-processor cannot call, by its strategy.

use crate::accepted::{AcceptedMessage, FailedMessage};
use crate::decide::{QueueTimes, may_be_held};
use crate::deliver::{Outbox, Outgoing};
use crate::message::{Confirmed, ReceiveTimes, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};
use crate::redelivery::Redelivery;
use crate::strategy::{DelayedResend, Ordered, Role, Strategy, Visibility};

/// A strategy with the queues that it needs: first as URLs in the settings, then as the queues themselves.
#[derive(Debug)]
pub enum OnFailure<Q> {
    /// Handed off to the failed-message-processor, which sends it again with a delay.
    DelayedResend(DelayedResend<Q>),
    /// Sent again with a delay by this function. Messages that SQS moves still go to the failed-message-processor.
    DirectResend(Redelivery<Q>),
    /// Hidden on its queue for the policy's delay. The queue counts its retries.
    Visibility(Visibility<Q>),
    /// Hidden on its FIFO queue for the policy's delay, and its group with it.
    Ordered(Ordered<Q>),
}

/// The rules of a strategy about a message. The defaults are those of a strategy whose messages are sent again.
pub(super) trait StrategyRules {
    fn retries_made(&self, accepted: &AcceptedMessage) -> u32 {
        accepted.metadata().retry_attempt
    }

    fn failed_calls(&self, accepted: &AcceptedMessage) -> u32 {
        accepted.metadata().failed_calls().max(self.retries_made(accepted))
    }

    fn held_seconds(&self, accepted: &AcceptedMessage, _now: Timestamp) -> u32 {
        accepted.held_seconds()
    }

    fn calls_before(&self, accepted: &AcceptedMessage) -> u32 {
        self.failed_calls(accepted)
    }

    fn is_overdue(&self, policy: &Policy, accepted: &AcceptedMessage, now: Timestamp) -> bool {
        !may_be_held(policy, self.held_seconds(accepted, now))
    }

    fn check_receives(
        &self,
        _policy: &Policy,
        accepted: AcceptedMessage,
        _now: Timestamp,
    ) -> Result<AcceptedMessage, Box<Outgoing>> {
        Ok(accepted)
    }

    fn ordering_group<'a>(&self, _accepted: &'a AcceptedMessage) -> Option<&'a str> {
        None
    }

    fn forget_attempts(&self, _sqs_message_id: &str) {}

    fn batch_size_max(&self) -> u8 {
        10
    }

    fn queue_times(&self) -> Option<QueueTimes> {
        None
    }
}

/// The messages to send once the calls are over.
#[derive(Debug, Default)]
#[must_use = "its messages are received again unless they are sent"]
pub struct Unsent {
    pub failed: Vec<FailedMessage>,
    pub given_up: Vec<GivenUp>,
}

/// A message that is given up, with the times of its record.
#[derive(Debug)]
#[must_use = "its record is received again unless it is sent on"]
pub struct GivenUp {
    pub verdict: Outgoing,
    pub received: ReceiveTimes,
}

/// The parts of an invocation that every strategy needs to send messages.
#[derive(Debug)]
pub struct SendContext<'a, Q, C, O> {
    pub policy: &'a Policy,
    /// Receives verdicts.
    pub annotation_queue: &'a Q,
    pub outbox: Outbox<'a, C, O>,
}

impl<Q: QueueSender, C: Clock, O: Observer> SendContext<'_, Q, C, O> {
    pub(super) async fn send_verdicts(&self, given_up: Vec<GivenUp>) -> Vec<Confirmed> {
        let verdicts = given_up.into_iter().map(|given_up| given_up.verdict).collect();
        self.outbox.send(self.annotation_queue, "verdict", verdicts).await
    }
}

impl<Q: QueueSender + VisibilityControl> OnFailure<Q> {
    /// Sends the verdicts, and keeps the failed messages. Returns the records that are done.
    pub async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: Unsent,
    ) -> Vec<Confirmed> {
        match self {
            Self::DelayedResend(strategy) => strategy.settle_unsent(context, unsent).await,
            Self::DirectResend(strategy) => strategy.settle_unsent(context, unsent).await,
            Self::Visibility(strategy) => strategy.settle_unsent(context, unsent).await,
            Self::Ordered(strategy) => strategy.settle_unsent(context, unsent).await,
        }
    }
}

impl<Q> OnFailure<Q> {
    fn rules(&self) -> &dyn StrategyRules {
        match self {
            Self::DelayedResend(strategy) => strategy,
            Self::DirectResend(strategy) => strategy,
            Self::Visibility(strategy) => strategy,
            Self::Ordered(strategy) => strategy,
        }
    }

    /// Retries made so far: counted by the queue or by the message.
    #[must_use]
    pub fn retries_made(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().retries_made(accepted)
    }

    /// Failed calls of a message that asks the circuit breaker for a call: 0 makes it evidence of an outage.
    #[must_use]
    pub fn failed_calls(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().failed_calls(accepted)
    }

    /// Seconds for which the message was held before. On an ordered queue it is the time since the first receive, or since
    /// the first failed call that the environment remembers.
    #[must_use]
    pub fn held_seconds(&self, accepted: &AcceptedMessage, now: Timestamp) -> u32 {
        self.rules().held_seconds(accepted, now)
    }

    /// Earlier calls of a message whose next hold they limit. On an ordered queue these are its receives: its holds grow with
    /// the time since the first one.
    #[must_use]
    pub fn calls_before(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().calls_before(accepted)
    }

    /// True if the message is called in any state of the breaker: its holds, or its age, are at their limit.
    #[must_use]
    pub fn is_overdue(&self, policy: &Policy, accepted: &AcceptedMessage, now: Timestamp) -> bool {
        self.rules().is_overdue(policy, accepted, now)
    }

    /// Checks that the target may be called for this receive. A queue that counts the attempts also counts receives that
    /// were not answered.
    ///
    /// # Errors
    /// The verdict on the message.
    pub fn check_receives(
        &self,
        policy: &Policy,
        accepted: AcceptedMessage,
        now: Timestamp,
    ) -> Result<AcceptedMessage, Box<Outgoing>> {
        self.rules().check_receives(policy, accepted, now)
    }

    /// The group whose messages are called one after the other; `None` if order does not matter.
    #[must_use]
    pub fn ordering_group<'a>(&self, accepted: &'a AcceptedMessage) -> Option<&'a str> {
        self.rules().ordering_group(accepted)
    }

    /// Removes the remembered attempts of a message that is processed or given up. No effect where the queue or the
    /// message counts them.
    pub fn forget_attempts(&self, sqs_message_id: &str) {
        self.rules().forget_attempts(sqs_message_id);
    }

    /// The largest batch that the counting of attempts allows: 10, or 1 on an ordered queue where receives count.
    #[must_use]
    pub fn batch_size_max(&self) -> u8 {
        self.rules().batch_size_max()
    }

    /// The times of the queue on which failed messages stay; `None` with other strategies.
    #[must_use]
    pub fn queue_times(&self) -> Option<QueueTimes> {
        self.rules().queue_times()
    }

    /// True if a failed message stays on the source queue, hidden, and is not re-sent.
    #[must_use]
    pub const fn stays_on_queue(&self) -> bool {
        self.strategy().definition().stays_on_queue
    }

    /// True if the messages of a group are processed in the order in which they were sent.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        self.strategy().definition().is_fifo
    }

    /// The strategy, without its queues.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self {
            Self::DelayedResend(_) => Strategy::DelayedResend,
            Self::DirectResend(_) => Strategy::DirectResend,
            Self::Visibility(_) => Strategy::Visibility,
            Self::Ordered(_) => Strategy::Ordered,
        }
    }

    /// Collects everything that the strategy needs, even after something is missing. `None` if anything is.
    pub fn from_wiring(strategy: Strategy, mut wiring: impl Wiring<Queue = Q>) -> Option<Self> {
        match strategy {
            Strategy::DelayedResend => DelayedResend::from_wiring(&mut wiring).map(Self::DelayedResend),
            Strategy::DirectResend => Redelivery::from_wiring(&mut wiring).map(Self::DirectResend),
            Strategy::Visibility => Visibility::from_wiring(&mut wiring).map(Self::Visibility),
            Strategy::Ordered => Ordered::from_wiring(&mut wiring).map(Self::Ordered),
        }
    }

    /// The same with each queue converted.
    pub fn map_queues<R>(self, queue: impl Fn(Q) -> R) -> OnFailure<R> {
        match self {
            Self::DelayedResend(strategy) => OnFailure::DelayedResend(strategy.map_queues(queue)),
            Self::DirectResend(strategy) => OnFailure::DirectResend(strategy.map_queues(queue)),
            Self::Visibility(strategy) => OnFailure::Visibility(strategy.map_queues(queue)),
            Self::Ordered(strategy) => OnFailure::Ordered(strategy.map_queues(queue)),
        }
    }
}

/// The source of a strategy's queues: settings, or existing queues.
pub trait Wiring {
    type Queue;

    /// `None` if there is none. Settings record what is missing.
    fn queue(&mut self, role: Role) -> Option<Self::Queue>;

    /// The same for a FIFO queue.
    fn fifo_queue(&mut self, role: Role) -> Option<Self::Queue> {
        self.queue(role)
    }

    /// The times of the source queue.
    fn queue_times(&mut self) -> Option<QueueTimes>;

    /// The largest batch from an ordered source queue.
    fn batch_size(&mut self) -> Option<u16>;

    /// The queue for notices of blocked groups; `None` if no group is blocked.
    ///
    /// # Errors
    /// The queue is missing, or the batch size does not allow it. Settings record which.
    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Result<Option<Self::Queue>, MissingSetting> {
        Ok(None)
    }
}

/// Something that a strategy needs is missing, and recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSetting;
