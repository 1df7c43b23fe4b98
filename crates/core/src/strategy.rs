//! The strategies: how a failed message comes back. Each has its own file in `strategy/`, with its queues, the policies
//! that it refuses, and what the message-processor does with its messages. This file and `on_failure` are the registries.

mod async_retry;
mod delayed_resend;
mod direct_resend;
mod on_failure;
mod on_queue;
mod ordered;
mod queues;
mod visibility;

use std::fmt;
use std::time::Duration;

use strum::VariantArray;

use crate::message::schema::Violation;
use crate::policy::{OnGiveUp, Policy, PolicyError};
pub use delayed_resend::DelayedResend;
pub use on_failure::{GivenUp, Missing, OnFailure, SendContext, Unsent, Wiring};
pub use ordered::{AttemptCounter, Ordered};
pub use queues::{NeededQueue, Redrive, Role, SOURCE_RETENTION};
pub use visibility::Visibility;

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

/// Without an intermediate DLQ, messages that SQS moves do not come back.
fn redriven(policy: &Policy) -> Option<Violation> {
    let rule = "which only the strategies delayed-resend and direct-resend support: remove it";
    policy.max_redrives.map(|_| Violation::new("/max_redrives", rule))
}

#[cfg(test)]
mod tests;
