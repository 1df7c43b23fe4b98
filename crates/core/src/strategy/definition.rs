//! The definition of a strategy: its name, its queues, and the policies that it rejects.

use std::time::Duration;

use super::queues::{NeededQueue, Role, SOURCE_RETENTION};
use crate::message::schema::Violation;
use crate::policy::{OnGiveUp, Policy, PolicyError};

/// A strategy: its name, its queues, its default policy, and the policies that it rejects.
#[derive(Debug)]
pub struct StrategyDefinition {
    /// The name used in settings and on the command line.
    pub name: &'static str,
    /// A human-readable summary in one line.
    pub summary: &'static str,
    /// Defaults for members that a policy omits, as JSON.
    pub default_policy: &'static str,
    /// Checks that each return a violation if the policy has a member that the strategy does not support.
    pub(super) refusals: &'static [fn(&Policy) -> Option<Violation>],
    pub(super) queues: fn(max_attempts: u32) -> Vec<NeededQueue>,
    /// True if a failed message remains on the source queue, neither changed nor re-sent.
    pub stays_on_queue: bool,
    /// True if the source queue is a FIFO queue.
    pub is_fifo: bool,
}

impl StrategyDefinition {
    /// Parses a policy for this strategy, with the strategy's defaults.
    ///
    /// # Errors
    /// Same as [`Policy::from_json`] and [`StrategyDefinition::check_policy`].
    pub fn parse_policy(&self, text: &str) -> Result<Policy, PolicyError> {
        let policy = Policy::from_json_with_defaults(self.default_policy, text)?;
        self.check_policy(&policy).map(|()| policy)
    }

    /// Checks that the strategy supports a policy. Delays are not compared with the longest time for which SQS can hide
    /// a message, which depends on the queue.
    ///
    /// # Errors
    /// The policy has unsupported members. The error lists all of them.
    pub fn check_policy(&self, policy: &Policy) -> Result<(), PolicyError> {
        let unsupported = self.refusals.iter().filter_map(|refusal| refusal(policy));
        let unsupported: Vec<_> = unsupported.chain(self.refuse_block(policy)).collect();
        if unsupported.is_empty() { Ok(()) } else { Err(PolicyError::NotForStrategy(unsupported)) }
    }

    /// Refuses blocking without a FIFO queue, since only such queues have ordered groups.
    fn refuse_block(&self, policy: &Policy) -> Option<Violation> {
        let is_refused = policy.on_give_up == OnGiveUp::Block && !self.is_fifo;
        let rule = "which is block: only the strategy ordered supports it; remove it";
        is_refused.then(|| Violation::new("/on_give_up", rule))
    }

    /// Returns the retention of the source queue: 7 days, or 14 days for an ordered queue or a retry queue.
    #[must_use]
    pub fn source_retention(&self) -> Duration {
        let source = self.queues(0).into_iter().find(|queue| queue.role == Role::Source);
        source.map_or(SOURCE_RETENTION, |queue| queue.retention)
    }

    /// Returns the queues for a policy with this `max_attempts`. A dead-letter queue precedes the queues whose messages
    /// SQS moves to it.
    #[must_use]
    pub fn queues(&self, max_attempts: u32) -> Vec<NeededQueue> {
        (self.queues)(max_attempts)
    }
}
