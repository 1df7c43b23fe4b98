//! When retries end: after so many, or at a moment.

use chrono::TimeDelta;

use crate::failure::reason::{DeadLetterReason, GiveUp};
use crate::message::Timestamp;
use crate::message::metadata::rfc3339;
use crate::policy::Policy;

/// Whether one more retry is allowed after so many: by the policy, and by the producer if that is fewer.
pub(crate) fn check_attempts(policy: &Policy, by_producer: Option<u32>, made: u32) -> Result<(), GiveUp> {
    // A producer may ask for fewer retries, never for more: the policy belongs to who runs the target.
    // Whose limit it is the explanation says, so a producer's counts only if it is the lower one.
    let by_producer = by_producer.filter(|max| *max < policy.max_attempts);
    let max = by_producer.unwrap_or(policy.max_attempts);
    if made < max {
        return Ok(());
    }
    let whose = if by_producer.is_some() { " (metadata.max_attempts)" } else { "" };
    Err(GiveUp {
        reason: DeadLetterReason::RetryAttemptExceeded,
        explanation: format!("Max retry attempts {max} exceeded{whose}"),
    })
}

/// The last moment at which a message may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgeLimit {
    pub(super) at: Timestamp,
    by: &'static str,
}

impl AgeLimit {
    /// The earlier one of the policy's and the producer's.
    pub(crate) fn of(policy: &Policy, expires_at: Option<Timestamp>, first_sent: Timestamp) -> Option<Self> {
        let by_policy = policy
            .max_age_seconds
            .map(|age| Self { at: first_sent + TimeDelta::seconds(i64::from(age)), by: "max_age_seconds" });
        let by_producer = expires_at.map(|at| Self { at, by: "metadata.expires_at" });
        by_policy.into_iter().chain(by_producer).min()
    }
}

/// Whether a retry at `next` comes in time.
pub(crate) fn check_age(limit: Option<AgeLimit>, next: Timestamp) -> Result<(), GiveUp> {
    match limit {
        Some(AgeLimit { at, by }) if next > at => Err(GiveUp {
            reason: DeadLetterReason::MessageExpired,
            explanation: format!(
                "The next retry at {} would come after {by} at {}",
                rfc3339(next),
                rfc3339(at)
            ),
        }),
        _ => Ok(()),
    }
}
