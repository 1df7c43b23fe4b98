//! `async-retry`: Lambda sends the record of a failed asynchronous invocation to the retry queue, and the
//! async-retry-handler invokes the function again.

use super::queues::{RECEIVES, RETENTION, Role, with_dead_letter_queues};
use super::{StrategyDefinition, refuse_redrives};
use crate::async_retry::DEFAULT_POLICY;
use crate::message::schema::Violation;
use crate::policy::Policy;

pub const DEFINITION: StrategyDefinition = StrategyDefinition {
    name: "async-retry",
    summary: "Each line is the payload of an asynchronous invocation; Lambda sends a record of each failure to the retry queue",
    default_policy: DEFAULT_POLICY,
    refusals: &[refuse_breaker, refuse_immediate_retries, refuse_redrives],
    queues: |_| with_dead_letter_queues(Role::Source, "retry", RETENTION, RECEIVES),
    stays_on_queue: false,
    is_fifo: false,
};

fn refuse_immediate_retries(policy: &Policy) -> Option<Violation> {
    let rule = "but an asynchronous invocation has no outcome yet when it is made: remove it";
    policy.immediate.map(|_| Violation::new("/immediate", rule))
}

fn refuse_breaker(policy: &Policy) -> Option<Violation> {
    let rule = "but Lambda calls the function before redeliver gets the record: remove it";
    policy.circuit_breaker.as_ref().map(|_| Violation::new("/circuit_breaker", rule))
}
