//! Failed asynchronous Lambda invocations: Lambda's record of the failure, the decision on a retry, and the envelope
//! that carries the attempt count to the function.
//!
//! No state is stored: the envelope also carries the time of the first failure from one invocation to the next. The due
//! time follows from the record alone, so every copy and every receive computes the same one.

mod envelope;
mod record;

use chrono::TimeDelta;

use crate::decide::backoff::{JitterKey, retry_delay};
use crate::decide::{AgeLimit, DueTime, check_age, check_attempts, retryable_kind};
use crate::failure::{Classification, LastError};
use crate::function_arn::FunctionArns;
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
use crate::message::reason::{DeadLetterReason, GiveUp};
use crate::policy::Policy;
pub use envelope::{EventRetry, read_payload};
pub use record::{FailedInvocation, NotADestinationRecord};

/// Defaults for members that the policy omits: full jitter from 1 s, doubling up to 12 hours, for a day.
pub const DEFAULT_POLICY: &str = r#"{"circuit_breaker":false,"long_delays":true,"max_attempts":1000,"max_age_seconds":86400,"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":2,"max_delay_seconds":43200,"jitter":"full"}}"#;

/// Tolerated difference between clocks, as in AWS requests ("RequestTimeTooSkewed"). A record with a later failure
/// would wait until that time.
const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::minutes(5);

/// The decision on a failed invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationDecision {
    /// Invoke the function again now.
    Invoke(RetryInvocation),
    /// The backoff is not over: send the record to its queue again, delayed by the remaining time, rounded up, or by
    /// the limit of `DelaySeconds`.
    Hop(DelaySeconds),
    /// Do not retry: the record goes to the final DLQ.
    GiveUp(GiveUp),
}

/// An invocation to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryInvocation {
    /// The original payload in an envelope.
    pub payload: String,
    /// The content of the envelope.
    pub retry: EventRetry,
    /// The minimum wait since the failure.
    pub waited: RetryDelay,
}

/// Decides on a failed invocation. Pure: the same record, settings and time yield the same decision.
///
/// Reasons to give up, in this order: a function outside `FUNCTION_ARNS`, a failure more than five minutes in the
/// future, a permanent error, and a record at the limit of its attempts or its age. A record that `came_back` from the
/// final DLQ restarts at attempt 1 and is invoked immediately, since an operator requested it.
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
    // A restart: attempts and age do not count, and no backoff applies.
    if came_back {
        let retry = EventRetry { attempt: 1, initial_timestamp: now.timestamp() };
        return InvocationDecision::Invoke(failed.to_retry(retry, RetryDelay::ZERO));
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
    let kind = Classification::from_failure_kind(failed.error.kind).known_class();
    retryable_kind(policy, &LastError::from_handler_error(&failed.error).error_type, kind)?;
    check_attempts(policy, None, failed.retries_made)?;
    let attempt = failed.retries_made + 1;
    // Every invocation has its own request id, so no two failures of an event share a key.
    let delay = retry_delay(policy, JitterKey { message_id: failed.request_id, generation: 0, attempt });
    let due = DueTime::from_now(delay, failed.failed_at);
    // After a long wait in the queue, a record may be past its due time: the limit applies to the time when it would
    // run.
    check_age(AgeLimit::from_limits(policy, None, failed.first_failed_at), due.at.max(now))?;
    Ok(match due.delay_from(now) {
        Some(DelaySeconds::ZERO) => {
            let retry = EventRetry { attempt, initial_timestamp: failed.first_failed_at.timestamp() };
            InvocationDecision::Invoke(failed.to_retry(retry, delay))
        }
        remaining => InvocationDecision::Hop(remaining.unwrap_or(DelaySeconds::MAX)),
    })
}

impl FailedInvocation<'_> {
    fn to_retry(&self, retry: EventRetry, waited: RetryDelay) -> RetryInvocation {
        RetryInvocation { payload: retry.wrap_payload(self.payload), retry, waited }
    }
}

#[cfg(test)]
mod tests;
