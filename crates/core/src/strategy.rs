//! The strategies: how a failed message comes back. Each has its own file in `strategy/`; this one is the registry.

mod async_retry;
mod delayed_resend;
mod direct_resend;
mod ordered;
mod queues;
mod visibility;

use std::fmt;
use std::time::Duration;

use strum::VariantArray;

use crate::decide::{AttemptCounter, QueueTimes};
use crate::message::schema::Violation;
use crate::policy::{OnGiveUp, Policy, PolicyError};
use crate::redelivery::Redelivery;
pub use queues::{NeededQueue, Redrive, Role, SOURCE_RETENTION};

/// The way in which a failed message comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum Strategy {
    /// It is handed off to the intermediate DLQ and sent again with a delay.
    #[default]
    DelayedResend,
    /// It is sent again with a delay by the function that called it; other failures go through the intermediate DLQ.
    DirectResend,
    /// It stays on the source queue, hidden for the delay; each retry is a receive.
    Visibility,
    /// It stays on the source queue, a FIFO queue, hidden for the delay: the rest of its group waits behind it.
    Ordered,
    /// The failure is that of an asynchronous Lambda invocation, whose record Lambda sends to the retry queue.
    AsyncRetry,
}

/// The definition of a strategy.
pub struct Definition {
    name: &'static str,
    /// One line, for humans.
    pub summary: &'static str,
    /// Defaults for members that a policy omits, as JSON.
    pub default_policy: &'static str,
    /// Each finds a policy member that the strategy does not support.
    refusals: &'static [fn(&Policy) -> Option<Violation>],
    queues: fn(max_attempts: u32) -> Vec<NeededQueue>,
    /// True if a message-processor reads the source queue. [`OnFailure`] is its way to handle failures.
    pub has_message_processor: bool,
    /// True if a failed message stays on the source queue: nothing is written into it, and nobody re-sends it.
    pub stays_on_queue: bool,
    /// True if the source queue is a FIFO queue.
    pub is_fifo: bool,
}

impl Strategy {
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    #[must_use]
    pub const fn definition(self) -> &'static Definition {
        match self {
            Self::DelayedResend => &delayed_resend::DEFINITION,
            Self::DirectResend => &direct_resend::DEFINITION,
            Self::Visibility => &visibility::DEFINITION,
            Self::Ordered => &ordered::DEFINITION,
            Self::AsyncRetry => &async_retry::DEFINITION,
        }
    }

    /// The name in settings and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The strategy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }

    /// Parses a policy for this strategy, with the strategy's defaults.
    ///
    /// # Errors
    /// As [`Policy::from_json`] and [`Strategy::check`].
    pub fn policy(self, text: &str) -> Result<Policy, PolicyError> {
        let policy = Policy::from_json_over(self.definition().default_policy, text)?;
        self.check(&policy).map(|()| policy)
    }

    /// Checks that the strategy supports a policy. The longest time that SQS can hide a message is not checked: it
    /// depends on the queue.
    ///
    /// # Errors
    /// All members that it does not support.
    pub fn check(self, policy: &Policy) -> Result<(), PolicyError> {
        let wrong = self.definition().refusals.iter().filter_map(|refusal| refusal(policy));
        let wrong: Vec<_> = wrong.chain(self.refused_block(policy)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(PolicyError::NotForStrategy(wrong)) }
    }

    /// Only a group of a FIFO queue can be blocked.
    fn refused_block(self, policy: &Policy) -> Option<Violation> {
        let is_refused = policy.on_give_up == OnGiveUp::Block && !self.definition().is_fifo;
        let rule = "which is block: only the strategy ordered supports it; remove it";
        is_refused.then(|| Violation::new("/on_give_up", rule))
    }

    /// The source queue's retention.
    #[must_use]
    pub fn source_retention(self) -> Duration {
        let source = self.queues(0).into_iter().find(|queue| queue.role == Role::Source);
        source.map_or(SOURCE_RETENTION, |queue| queue.retention)
    }

    /// The queues for a policy with `max_attempts`; a dead-letter queue comes before the queues that it serves.
    #[must_use]
    pub fn queues(self, max_attempts: u32) -> Vec<NeededQueue> {
        (self.definition().queues)(max_attempts)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A message-processor's way to handle failed messages, with the queues that it needs: first as URLs in its settings,
/// then as the queues themselves.
#[derive(Debug)]
pub enum OnFailure<Q> {
    /// Handed off to the failed-message-processor, which sends it again with a delay.
    DelayedResend {
        /// Receives hand-offs.
        intermediate_dlq: Q,
    },
    /// Sent again with a delay by this function. Messages that SQS moves still go to the failed-message-processor.
    DirectResend(Redelivery<Q>),
    /// Hidden on its queue for the policy's delay. The queue counts its retries.
    Visibility {
        /// The queue on which it stays.
        source_queue: Q,
        queue_times: QueueTimes,
    },
    /// Hidden on its FIFO queue for the policy's delay, and its group with it.
    Ordered {
        /// The queue on which it stays.
        source_queue: Q,
        queue_times: QueueTimes,
        attempts: AttemptCounter,
        /// `on_give_up`: receives a notice for each group that is blocked. `None`: no group is.
        blocked: Option<Q>,
    },
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

    /// The queue for notices of blocked groups; `Some(None)` if no group is blocked.
    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Option<Option<Self::Queue>> {
        Some(None)
    }
}

impl<Q> OnFailure<Q> {
    /// Collects everything that the strategy needs, even after something is missing. `None` if anything is, or if the
    /// strategy has no message-processor.
    pub fn wired(strategy: Strategy, mut wiring: impl Wiring<Queue = Q>) -> Option<Self> {
        match strategy {
            Strategy::DelayedResend => {
                Some(Self::DelayedResend { intermediate_dlq: wiring.queue(Role::IntermediateDlq)? })
            }
            Strategy::DirectResend => {
                let (source_queue, intermediate_dlq) =
                    (wiring.queue(Role::Source), wiring.queue(Role::IntermediateDlq));
                let (source_queue, intermediate_dlq) = (source_queue?, intermediate_dlq?);
                Some(Self::DirectResend(Redelivery { source_queue, intermediate_dlq }))
            }
            Strategy::Visibility => {
                let (source_queue, queue_times) = (wiring.queue(Role::Source), wiring.queue_times());
                Some(Self::Visibility { source_queue: source_queue?, queue_times: queue_times? })
            }
            Strategy::Ordered => {
                let (source_queue, queue_times) = (wiring.fifo_queue(Role::Source), wiring.queue_times());
                let batch_size = wiring.batch_size();
                let attempts = batch_size.map(AttemptCounter::for_batches_of);
                let blocked = wiring.blocked_queue(batch_size);
                Some(Self::Ordered {
                    source_queue: source_queue?,
                    queue_times: queue_times?,
                    attempts: attempts?,
                    blocked: blocked?,
                })
            }
            Strategy::AsyncRetry => None,
        }
    }

    /// The same with each queue converted.
    pub fn map<R>(self, queue: impl Fn(Q) -> R) -> OnFailure<R> {
        match self {
            Self::DelayedResend { intermediate_dlq } => {
                OnFailure::DelayedResend { intermediate_dlq: queue(intermediate_dlq) }
            }
            Self::DirectResend(Redelivery { source_queue, intermediate_dlq }) => {
                let (source_queue, intermediate_dlq) = (queue(source_queue), queue(intermediate_dlq));
                OnFailure::DirectResend(Redelivery { source_queue, intermediate_dlq })
            }
            Self::Visibility { source_queue, queue_times } => {
                OnFailure::Visibility { source_queue: queue(source_queue), queue_times }
            }
            Self::Ordered { source_queue, queue_times, attempts, blocked } => {
                let (source_queue, blocked) = (queue(source_queue), blocked.map(queue));
                OnFailure::Ordered { source_queue, queue_times, attempts, blocked }
            }
        }
    }

    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self {
            Self::DelayedResend { .. } => Strategy::DelayedResend,
            Self::DirectResend(_) => Strategy::DirectResend,
            Self::Visibility { .. } => Strategy::Visibility,
            Self::Ordered { .. } => Strategy::Ordered,
        }
    }

    /// The largest batch that the counting of attempts allows.
    #[must_use]
    pub const fn batch_size_max(&self) -> u8 {
        match self {
            Self::Ordered { attempts: AttemptCounter::Receives, .. } => 1,
            _ => 10,
        }
    }

    /// The times of the queue on which failed messages stay; `None` with other strategies.
    #[must_use]
    pub const fn queue_times(&self) -> Option<QueueTimes> {
        match self {
            Self::Visibility { queue_times, .. } | Self::Ordered { queue_times, .. } => Some(*queue_times),
            _ => None,
        }
    }
}

/// Without an intermediate DLQ, messages that SQS moves do not come back.
fn redriven(policy: &Policy) -> Option<Violation> {
    let rule = "which only the strategies delayed-resend and direct-resend support: remove it";
    policy.max_redrives.map(|_| Violation::new("/max_redrives", rule))
}

#[cfg(test)]
mod tests;
