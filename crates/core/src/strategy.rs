//! The strategies, which define how failed messages are retried. Each strategy is a file in `strategy/`: its queues,
//! the policies that it rejects, and its rules for the message-processor. This file and `on_failure` list all
//! strategies.

mod async_retry;
mod definition;
mod delayed_resend;
mod direct_resend;
mod on_failure;
mod on_queue;
mod ordered;
mod queues;
mod retry_loop;
mod visibility;

use std::fmt;

use strum::VariantArray;

use crate::message::schema::Violation;
use crate::policy::Policy;
pub use async_retry::DEFINITION as ASYNC_RETRY;
pub use definition::StrategyDefinition;
pub use delayed_resend::DelayedResend;
pub use on_failure::{GivenUpMessage, MissingSetting, OnFailure, SendContext, UnsentMessages, Wiring};
pub use ordered::{AttemptCounter, Ordered};
pub use queues::{NeededQueue, RedriveEdge, Role, SOURCE_RETENTION};
pub use retry_loop::RetryLoop;
pub use visibility::Visibility;

/// The way in which the message-processor retries failed messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum Strategy {
    /// The message is handed off to the intermediate DLQ and sent again with a delay.
    #[default]
    DelayedResend,
    /// The message-processor sends the message again with a delay; messages that SQS moves still go through the
    /// intermediate DLQ.
    DirectResend,
    /// The message remains hidden on the source queue for the delay; each retry is a receive.
    Visibility,
    /// The message remains hidden on the source queue, a FIFO queue, for the delay; the rest of its group waits behind
    /// it.
    Ordered,
}

impl Strategy {
    /// All strategies, the default (`delayed-resend`) first.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the strategy's queues, its default policy, and the policies that it rejects.
    #[must_use]
    pub const fn definition(self) -> &'static StrategyDefinition {
        match self {
            Self::DelayedResend => &delayed_resend::DEFINITION,
            Self::DirectResend => &direct_resend::DEFINITION,
            Self::Visibility => &visibility::DEFINITION,
            Self::Ordered => &ordered::DEFINITION,
        }
    }

    /// Returns the name used in settings and on the command line: `delayed-resend`, `direct-resend`, `visibility` or
    /// `ordered`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// Returns the strategy with this name, if any.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Refuses `max_redrives`: without an intermediate DLQ, messages that SQS moves are not retried.
fn refuse_redrives(policy: &Policy) -> Option<Violation> {
    let rule = "which only the strategies delayed-resend and direct-resend support: remove it";
    policy.max_redrives.map(|_| Violation::new("/max_redrives", rule))
}

#[cfg(test)]
mod tests;
