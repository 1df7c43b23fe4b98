//! Failed asynchronous Lambda invocations: Lambda's record of a failure, the decision on a retry, and the envelope that
//! carries the attempt count to the function.
//!
//! No state is stored: the envelope also carries the time of the first failure from one invocation to the next. The due
//! time depends only on the record, so it is the same for every copy and every receive.

mod envelope;
mod record;

use chrono::TimeDelta;

use crate::decide::backoff::{JitterKey, retry_delay};
use crate::decide::{AgeLimit, DueTime, check_age, check_attempts, retryable_class};
use crate::failure::{Classification, LastError};
use crate::function_arn::FunctionArns;
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
use crate::message::reason::{DeadLetterReason, GiveUp};
use crate::policy::Policy;
pub use envelope::{EventRetry, read_payload};
pub use record::{FailedInvocation, NotADestinationRecord};

/// Defaults for members that the policy omits: retries for a day, with full jitter over a delay that doubles from 1 s
/// to 12 hours.
pub const DEFAULT_POLICY: &str = r#"{"circuit_breaker":false,"long_delays":true,"max_attempts":1000,"max_age_seconds":86400,"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":2,"max_delay_seconds":43200,"jitter":"full"}}"#;

/// Tolerated difference between clocks, the same as for AWS requests ("RequestTimeTooSkewed"). A record whose failure
/// is further in the future is given up on, so that it does not hop until then.
const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::minutes(5);

/// The decision on a failed invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationDecision {
    /// Invoke the function again now.
    Invoke(RetryInvocation),
    /// The backoff is not over: send the record to its queue again, delayed by the remaining time, rounded up and
    /// capped at the limit of `DelaySeconds`.
    Hop(DelaySeconds),
    /// Do not retry: the record goes to the final DLQ.
    GiveUp(GiveUp),
}

/// An invocation to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryInvocation {
    /// The original payload, wrapped in an envelope.
    pub payload: String,
    /// The content of the envelope.
    pub retry: EventRetry,
    /// The retry's delay, counted from the failure: at least this much time has passed. Zero on a restart.
    pub total_delay: RetryDelay,
}

/// Decides how to handle a failed invocation. Pure: the same record, settings and time yield the same decision.
///
/// The reasons to give up are, in this order: a function outside `FUNCTION_ARNS`, a failure more than five minutes in
/// the future, a permanent error, and the limit on attempts or on age. A record that `came_back` from the final DLQ
/// restarts at attempt 1 and is invoked immediately, since an operator requested the retry.
#[must_use]
pub fn decide_invocation(
    policy: &Policy,
    functions: &FunctionArns,
    failed: &FailedInvocation<'_>,
    came_back: bool,
    now: Timestamp,
) -> InvocationDecision {
    if !functions.allows_function(&failed.function_arn) {
        let explanation =
            "/requestContext/functionArn is not in FUNCTION_ARNS, the functions that may be invoked again";
        return InvocationDecision::GiveUp(GiveUp {
            reason: DeadLetterReason::NonRetryableError,
            explanation: explanation.to_owned(),
        });
    }
    // On a restart, attempts and age do not count, and no backoff applies.
    if came_back {
        let retry = EventRetry { attempt: 1, initial_timestamp: now.timestamp() };
        return InvocationDecision::Invoke(failed.retry_invocation(retry, RetryDelay::ZERO));
    }
    next_retry(policy, failed, now).unwrap_or_else(InvocationDecision::GiveUp)
}

fn next_retry(
    policy: &Policy,
    failed: &FailedInvocation<'_>,
    now: Timestamp,
) -> Result<InvocationDecision, GiveUp> {
    if failed.failed_at > now + CLOCK_SKEW_MAX {
        return Err(GiveUp {
            reason: DeadLetterReason::InvalidMessageFormat,
            explanation: "/timestamp is in the future".to_owned(),
        });
    }
    let class = Classification::from_failure_kind(failed.error.kind).known_class();
    retryable_class(policy, &LastError::from_handler_error(&failed.error).error_type, class)?;
    check_attempts(policy, None, failed.retries_made)?;
    let attempt = failed.retries_made + 1;
    // Every invocation has its own request id, so all failures of an event have different keys.
    let delay = retry_delay(policy, JitterKey { message_id: failed.request_id, generation: 0, attempt });
    let due = DueTime::from_now(delay, failed.failed_at);
    // After a long wait in the queue, a record may be past its due time: the age limit applies to the time of the
    // retry.
    check_age(AgeLimit::from_limits(policy, None, failed.first_failed_at), due.at.max(now))?;
    Ok(match due.delay_from(now) {
        Some(DelaySeconds::ZERO) => {
            let retry = EventRetry { attempt, initial_timestamp: failed.first_failed_at.timestamp() };
            InvocationDecision::Invoke(failed.retry_invocation(retry, delay))
        }
        remaining => InvocationDecision::Hop(remaining.unwrap_or(DelaySeconds::MAX)),
    })
}

impl FailedInvocation<'_> {
    fn retry_invocation(&self, retry: EventRetry, total_delay: RetryDelay) -> RetryInvocation {
        RetryInvocation { payload: retry.wrap_payload(self.payload), retry, total_delay }
    }
}

#[cfg(test)]
mod tests;
