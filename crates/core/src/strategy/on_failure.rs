//! Each strategy's next step for messages whose call failed or was not made.

use crate::accepted::{AcceptedMessage, FailedMessage};
use crate::decide::{QueueTimes, may_be_held};
use crate::deliver::{Outbox, PendingSend};
use crate::message::{Confirmed, ReceiveTimes, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};
use crate::redelivery::Redelivery;
use crate::strategy::{DelayedResend, Ordered, Role, Strategy, Visibility};

/// A strategy with the queues that it needs: first as URLs from the settings, later as opened queues.
#[derive(Debug)]
pub enum OnFailure<Q> {
    /// The message is handed off to the failed-message-processor, which sends it again with a delay.
    DelayedResend(DelayedResend<Q>),
    /// This function sends the message again with a delay. Messages that SQS moves still go to the
    /// failed-message-processor.
    DirectResend(Redelivery<Q>),
    /// The message is hidden on its queue for the policy's delay. The queue counts its retries.
    Visibility(Visibility<Q>),
    /// The message is hidden on its FIFO queue for the policy's delay, which also delays its group.
    Ordered(Ordered<Q>),
}

/// A strategy's rules for a message. The defaults suit strategies that re-send messages.
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
    ) -> Result<AcceptedMessage, Box<PendingSend>> {
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

/// The messages to send after the calls.
#[derive(Debug, Default)]
#[must_use = "its messages are received again unless they are sent"]
pub struct UnsentMessages {
    pub failed: Vec<FailedMessage>,
    pub given_up: Vec<GivenUpMessage>,
}

/// A message to give up on, with the times at which it was sent and first received.
#[derive(Debug)]
#[must_use = "its record is received again unless the verdict is sent"]
pub struct GivenUpMessage {
    pub verdict: PendingSend,
    pub received: ReceiveTimes,
}

/// The parts of an invocation that every strategy needs to send messages.
#[derive(Debug)]
pub struct SendContext<'a, Q, C, O> {
    pub policy: &'a Policy,
    /// The queue for verdicts.
    pub annotation_queue: &'a Q,
    pub outbox: Outbox<'a, C, O>,
}

impl<Q: QueueSender, C: Clock, O: Observer> SendContext<'_, Q, C, O> {
    pub(super) async fn send_verdicts(&self, given_up: Vec<GivenUpMessage>) -> Vec<Confirmed> {
        let verdicts = given_up.into_iter().map(|given_up| given_up.verdict).collect();
        self.outbox.send(self.annotation_queue, "verdict", verdicts).await
    }
}

impl<Q: QueueSender + VisibilityControl> OnFailure<Q> {
    /// Sends the verdicts, and applies the strategy to the failed messages. Returns the completed records.
    pub async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: UnsentMessages,
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

    /// Returns the number of retries made so far, as counted by the queue or in the message.
    #[must_use]
    pub fn retries_made(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().retries_made(accepted)
    }

    /// Returns the number of failed calls for a message. A failing message with 0 earlier failures is evidence of an
    /// outage for the circuit breaker.
    #[must_use]
    pub fn failed_calls(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().failed_calls(accepted)
    }

    /// Returns the total seconds for which the message was held; on an ordered queue, the time since the first receive,
    /// or since the first failed call that the environment remembers.
    #[must_use]
    pub fn held_seconds(&self, accepted: &AcceptedMessage, now: Timestamp) -> u32 {
        self.rules().held_seconds(accepted, now)
    }

    /// Returns the number of earlier calls for the message, which limits its next hold; on an ordered queue, the number
    /// of earlier receives, because holds there grow with the time since the first receive.
    #[must_use]
    pub fn calls_before(&self, accepted: &AcceptedMessage) -> u32 {
        self.rules().calls_before(accepted)
    }

    /// True if the call is made regardless of the breaker's state, because the message's holds or its age have reached
    /// their limit.
    #[must_use]
    pub fn is_overdue(&self, policy: &Policy, accepted: &AcceptedMessage, now: Timestamp) -> bool {
        self.rules().is_overdue(policy, accepted, now)
    }

    /// Checks that the target may be called for this receive. A queue that counts attempts also counts receives with an
    /// unknown outcome.
    ///
    /// # Errors
    /// The target must not be called. The error is the verdict on the message.
    pub fn check_receives(
        &self,
        policy: &Policy,
        accepted: AcceptedMessage,
        now: Timestamp,
    ) -> Result<AcceptedMessage, Box<PendingSend>> {
        self.rules().check_receives(policy, accepted, now)
    }

    /// Returns the group whose messages must be processed one after another; `None` if order does not matter.
    #[must_use]
    pub fn ordering_group<'a>(&self, accepted: &'a AcceptedMessage) -> Option<&'a str> {
        self.rules().ordering_group(accepted)
    }

    /// Forgets the attempts for a message that was processed or given up on. Has no effect if the queue or the message
    /// counts them.
    pub fn forget_attempts(&self, sqs_message_id: &str) {
        self.rules().forget_attempts(sqs_message_id);
    }

    /// Returns the largest batch for which attempts can be counted: 10, or 1 on an ordered queue whose receives are
    /// counted.
    #[must_use]
    pub fn batch_size_max(&self) -> u8 {
        self.rules().batch_size_max()
    }

    /// Returns the visibility timeout and the retention of the queue on which failed messages remain; `None` if the
    /// strategy re-sends messages.
    #[must_use]
    pub fn queue_times(&self) -> Option<QueueTimes> {
        self.rules().queue_times()
    }

    /// True if a failed message remains hidden on the source queue instead of being re-sent.
    #[must_use]
    pub const fn stays_on_queue(&self) -> bool {
        self.strategy().definition().stays_on_queue
    }

    /// True if the messages of a group are processed in the order in which they were sent.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        self.strategy().definition().is_fifo
    }

    /// Returns the strategy, without its queues.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self {
            Self::DelayedResend(_) => Strategy::DelayedResend,
            Self::DirectResend(_) => Strategy::DirectResend,
            Self::Visibility(_) => Strategy::Visibility,
            Self::Ordered(_) => Strategy::Ordered,
        }
    }

    /// Collects everything that the strategy needs; `None` if anything is missing. Continues after a missing setting,
    /// so that all missing settings are recorded.
    pub fn from_wiring(strategy: Strategy, mut wiring: impl Wiring<Queue = Q>) -> Option<Self> {
        match strategy {
            Strategy::DelayedResend => DelayedResend::from_wiring(&mut wiring).map(Self::DelayedResend),
            Strategy::DirectResend => Redelivery::from_wiring(&mut wiring).map(Self::DirectResend),
            Strategy::Visibility => Visibility::from_wiring(&mut wiring).map(Self::Visibility),
            Strategy::Ordered => Ordered::from_wiring(&mut wiring).map(Self::Ordered),
        }
    }

    /// Converts every queue.
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

    /// Returns the queue with this role; `None` if it is missing. An implementation that reads settings records what is
    /// missing.
    fn queue(&mut self, role: Role) -> Option<Self::Queue>;

    /// Like [`Self::queue`], for a FIFO queue.
    fn fifo_queue(&mut self, role: Role) -> Option<Self::Queue> {
        self.queue(role)
    }

    /// Returns the source queue's visibility timeout and retention.
    fn queue_times(&mut self) -> Option<QueueTimes>;

    /// Returns the batch size of an ordered source queue.
    fn batch_size(&mut self) -> Option<u16>;

    /// Returns the queue for notices about blocked groups; `None` if groups are never blocked.
    ///
    /// # Errors
    /// The queue is missing, or the batch size does not permit blocking. An implementation that reads settings records
    /// the cause.
    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Result<Option<Self::Queue>, MissingSetting> {
        Ok(None)
    }
}

/// A setting that the strategy needs is missing, and this has been recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSetting;
