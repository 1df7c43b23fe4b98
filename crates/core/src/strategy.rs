//! The strategies: how a message that failed comes back. What one is has a file of its own in `strategy/`, and this file
//! is the registry: it has them all by name.

mod async_retry;
mod delayed_resend;
mod direct_resend;
mod queues;
mod visibility;

use std::fmt;

use strum::VariantArray;

use crate::decide::QueueTimes;
use crate::message::schema::Violation;
use crate::policy::{Policy, PolicyError};
use crate::redelivery::Redelivery;
pub use queues::{NeededQueue, Redrive, Role, SOURCE_RETENTION};

/// How a message that failed comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum Strategy {
    /// It is handed off to the intermediate DLQ and sent again with a delay.
    #[default]
    DelayedResend,
    /// It is sent again with a delay by the function that called it; what that cannot do goes by the intermediate DLQ.
    DirectResend,
    /// It stays on the source queue, hidden for the delay; each retry is a receive.
    Visibility,
    /// What failed is an asynchronous invocation of a Lambda function, and Lambda's record of it goes to the retry
    /// queue.
    AsyncRetry,
}

/// All that a strategy's name stands for.
pub struct Definition {
    name: &'static str,
    /// In a line, for people.
    pub summary: &'static str,
    /// The retry policy whose members count if a policy does not have them, as JSON.
    pub default_policy: &'static str,
    /// Each finds a member of a policy that the strategy cannot follow.
    refusals: &'static [fn(&Policy) -> Option<Violation>],
    queues: fn(max_attempts: u32) -> Vec<NeededQueue>,
    /// Whether the source queue has messages for a message-processor. [`OnFailure`] is what that does with a failed one.
    pub has_message_processor: bool,
    /// Whether each receive of the source queue is an attempt: SQS counts them, and the message says nothing of it.
    pub attempts_are_receives: bool,
}

impl Strategy {
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    #[must_use]
    pub const fn definition(self) -> &'static Definition {
        match self {
            Self::DelayedResend => &delayed_resend::DEFINITION,
            Self::DirectResend => &direct_resend::DEFINITION,
            Self::Visibility => &visibility::DEFINITION,
            Self::AsyncRetry => &async_retry::DEFINITION,
        }
    }

    /// As settings and the command line have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The strategy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }

    /// Reads a policy for this strategy: what is absent is as in its default policy.
    ///
    /// # Errors
    /// As [`Policy::from_json`] and [`Strategy::check`].
    pub fn policy(self, text: &str) -> Result<Policy, PolicyError> {
        let policy = Policy::from_json_over(self.definition().default_policy, text)?;
        self.check(&policy).map(|()| policy)
    }

    /// Whether the strategy can follow a policy. How long SQS can hide a message is not looked at: that depends on the
    /// queue.
    ///
    /// # Errors
    /// All members that it cannot follow.
    pub fn check(self, policy: &Policy) -> Result<(), PolicyError> {
        let wrong: Vec<_> = self.definition().refusals.iter().filter_map(|refusal| refusal(policy)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(PolicyError::NotForStrategy(wrong)) }
    }

    /// The queues, for a policy with so many attempts; a dead-letter queue before the queue whose messages end there.
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

/// What a message-processor does with a message that failed, and the queues that it does it with: their URLs in its
/// settings, and then the queues themselves.
#[derive(Debug)]
pub enum OnFailure<Q> {
    /// It is handed off to the failed-message-processor, which sends it again with a delay.
    DelayedResend {
        /// Where it is handed off.
        intermediate_dlq: Q,
    },
    /// It is sent again with a delay by this function. What SQS moves still comes to the failed-message-processor.
    DirectResend(Redelivery<Q>),
    /// It stays on its queue, hidden for the policy's delay. The queue counts its retries.
    Visibility {
        /// Its queue.
        source_queue: Q,
        queue_times: QueueTimes,
    },
}

/// Where a message-processor finds what its strategy needs: in its settings, or in queues that are there.
pub trait Wiring {
    type Queue;

    /// `None` if there is none. Settings note what they miss.
    fn queue(&mut self, role: Role) -> Option<Self::Queue>;

    /// Of the source queue.
    fn queue_times(&mut self) -> Option<QueueTimes>;
}

impl<Q> OnFailure<Q> {
    /// Asks for all that the strategy needs, also if some of it is missing. `None` if it is, or if the strategy has no
    /// message-processor.
    pub fn wired(strategy: Strategy, mut wiring: impl Wiring<Queue = Q>) -> Option<Self> {
        match strategy {
            Strategy::DelayedResend => {
                Some(Self::DelayedResend { intermediate_dlq: wiring.queue(Role::IntermediateDlq)? })
            }
            Strategy::DirectResend => {
                let (source_queue, intermediate_dlq) =
                    (wiring.queue(Role::Source), wiring.queue(Role::IntermediateDlq));
                Some(Self::DirectResend(Redelivery::new(source_queue?, intermediate_dlq?)))
            }
            Strategy::Visibility => {
                let (source_queue, queue_times) = (wiring.queue(Role::Source), wiring.queue_times());
                Some(Self::Visibility { source_queue: source_queue?, queue_times: queue_times? })
            }
            Strategy::AsyncRetry => None,
        }
    }

    /// The same with other queues, each made of one of these.
    pub fn map<R>(self, queue: impl Fn(Q) -> R) -> OnFailure<R> {
        match self {
            Self::DelayedResend { intermediate_dlq } => {
                OnFailure::DelayedResend { intermediate_dlq: queue(intermediate_dlq) }
            }
            Self::DirectResend(Redelivery { source_queue, intermediate_dlq, .. }) => {
                OnFailure::DirectResend(Redelivery::new(queue(source_queue), queue(intermediate_dlq)))
            }
            Self::Visibility { source_queue, queue_times } => {
                OnFailure::Visibility { source_queue: queue(source_queue), queue_times }
            }
        }
    }

    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self {
            Self::DelayedResend { .. } => Strategy::DelayedResend,
            Self::DirectResend(_) => Strategy::DirectResend,
            Self::Visibility { .. } => Strategy::Visibility,
        }
    }

    /// Of the queue on which failed messages stay, if they do.
    #[must_use]
    pub const fn queue_times(&self) -> Option<QueueTimes> {
        match self {
            Self::Visibility { queue_times, .. } => Some(*queue_times),
            _ => None,
        }
    }
}

/// Without an intermediate DLQ nothing comes back that SQS moved.
fn redriven(policy: &Policy) -> Option<Violation> {
    let rule = "which is for the strategies delayed-resend and direct-resend: remove it";
    policy.max_redrives.map(|_| Violation::new("/max_redrives", rule))
}

/// If nothing is sent to a source queue again, nothing can be paced.
fn paced(policy: &Policy) -> Option<Violation> {
    let rule = "which is for the strategies delayed-resend and direct-resend: remove it";
    policy.max_redelivery_per_second.map(|_| Violation::new("/max_redelivery_per_second", rule))
}

#[cfg(test)]
mod tests;
