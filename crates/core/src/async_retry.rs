//! Failed asynchronous Lambda invocations: what Lambda says of one, whether and when the function is invoked again, and
//! the envelope that says so to the function.
//!
//! Nothing is kept anywhere: the envelope carries the attempts and the first failure's time from one failure to the
//! next, and the due time follows from the record alone, so each copy and each receive of it comes to the same moment.

mod envelope;
mod record;

use chrono::TimeDelta;

use crate::decide::backoff::{Key, delay};
use crate::decide::{AgeLimit, Due, check_age, check_attempts, classify};
use crate::failure::reason::{DeadLetterReason, GiveUp};
use crate::failure::{Answer, Kind, LastError};
use crate::function_arn::FunctionArns;
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
use crate::policy::Policy;
pub use envelope::{Retry, read_payload};
pub use record::{FailedInvocation, NotADestinationRecord};

/// What is absent from the policy: full jitter from 1 s, doubling up to 12 h, for a day.
pub const DEFAULT_POLICY: &str = r#"{"circuit_breaker":false,"long_delays":true,"max_attempts":1000,"max_age_seconds":86400,"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":2,"max_delay_seconds":43200,"jitter":"full"}}"#;

/// So much may clocks differ, as in requests to AWS ("RequestTimeTooSkewed"). A record of a later moment would wait for
/// it.
const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::minutes(5);

/// What is to be done with a failed invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Invoke the function again, now.
    Invoke(Invocation),
    /// Its backoff is not over: let the record wait on its queue, as long as that can hold it back and not longer than
    /// what remains, rounded up.
    Hop(DelaySeconds),
    GiveUp(GiveUp),
}

/// An invocation to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The original payload in its envelope.
    pub payload: String,
    /// What the envelope says.
    pub retry: Retry,
    /// How long it has waited at least, counted from the failure.
    pub waited: RetryDelay,
}

/// Decides. Pure: the same record, settings and moment give the same answer.
///
/// A record that `came_back` from the final DLQ starts afresh: somebody wants it tried again now.
#[must_use]
pub fn decide(
    policy: &Policy,
    functions: &FunctionArns,
    failed: &FailedInvocation<'_>,
    came_back: bool,
    now: Timestamp,
) -> Decision {
    if !functions.admits(&failed.function_arn) {
        let explanation =
            "/requestContext/functionArn is not in FUNCTION_ARNS, the functions that may be invoked again";
        return Decision::GiveUp(GiveUp {
            reason: DeadLetterReason::NonRetryableError,
            explanation: explanation.to_owned(),
        });
    }
    // A new start, so neither its attempts nor its age count, and nobody who sends it back wants to wait for a backoff.
    if came_back {
        let retry = Retry { attempt: 1, initial_timestamp: now.timestamp() };
        return Decision::Invoke(failed.invocation(retry, RetryDelay::ZERO));
    }
    next_retry(policy, failed, now).unwrap_or_else(Decision::GiveUp)
}

fn next_retry(policy: &Policy, failed: &FailedInvocation<'_>, now: Timestamp) -> Result<Decision, GiveUp> {
    if failed.failed_at > now + CLOCK_SKEW_MAX {
        return Err(GiveUp {
            reason: DeadLetterReason::InvalidMessageFormat,
            explanation: "/timestamp is in the future".to_owned(),
        });
    }
    let kind = Answer::of(failed.error.kind).kind();
    if classify(policy, &LastError::of(&failed.error).error_type, kind) == Kind::Permanent {
        return Err(DeadLetterReason::NonRetryableError.into());
    }
    check_attempts(policy, None, failed.retries_made)?;
    let attempt = failed.retries_made + 1;
    // Each invocation has a request id of its own, so no two failures of an event share a key.
    let delay = delay(policy, Key { message_id: failed.request_id, generation: 0, attempt });
    let due = Due::from_now(delay, failed.failed_at);
    // What waited in a long queue may be past its due time: what counts is when it would run.
    check_age(AgeLimit::of(policy, None, failed.first_failed_at), due.at.max(now))?;
    Ok(match due.delay_from(now) {
        Some(DelaySeconds::ZERO) => {
            let retry = Retry { attempt, initial_timestamp: failed.first_failed_at.timestamp() };
            Decision::Invoke(failed.invocation(retry, delay))
        }
        remaining => Decision::Hop(remaining.unwrap_or(DelaySeconds::MAX)),
    })
}

impl FailedInvocation<'_> {
    fn invocation(&self, retry: Retry, waited: RetryDelay) -> Invocation {
        Invocation { payload: retry.wrap(self.payload), retry, waited }
    }
}

#[cfg(test)]
mod tests;
