//! Decides what happens to a failed message that remains on its queue (strategies `visibility` and `ordered`): a new
//! visibility timeout, or a verdict.

use std::time::Duration;

use super::{AgeLimit, FlooredBackoff, check_age, check_attempts, retryable_class};
use crate::accepted::{AcceptedMessage, FailedMessage};
use crate::decide::backoff::JitterKey;
use crate::failure::HandOff;
use crate::limits::{RetryDelay, VisibilitySeconds};
use crate::message::Timestamp;
use crate::message::metadata::format_rfc3339;
use crate::message::reason::{DeadLetterReason, GiveUp};
use crate::policy::Policy;

/// Settings of a queue on which failed messages remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// The queue's visibility timeout. The 12 hours for which a message can be hidden start when it is received.
    pub visibility_timeout: VisibilitySeconds,
    /// `MessageRetentionPeriod`, 60 s..=14 days: SQS deletes older messages, hidden or not.
    pub retention: Duration,
}

/// The attempts of a message that remains on its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// Number of calls or receives so far, including the current one.
    pub made: u32,
    /// The time from which the age for `max_age_seconds` is measured.
    pub since: Timestamp,
}

impl Attempts {
    /// Counts each receive as an attempt, and measures the age from the first send.
    #[must_use]
    pub fn from_receives(accepted: &AcceptedMessage) -> Self {
        Self { made: accepted.record().receive_count, since: accepted.first_sent() }
    }
}

impl QueueTimes {
    /// Returns the latest time for a retry, with a margin in case it fails: a message is lost if its retention ends
    /// after it was received and before it is hidden again.
    pub(crate) fn latest_retry_time(self, sent_at: Timestamp) -> Timestamp {
        sent_at + self.retention - self.visibility_timeout.duration()
    }

    /// Returns the longest time for which a received message can be hidden: 12 hours after the receive
    /// ("ChangeMessageVisibility", Amazon SQS API Reference), minus the visibility timeout, because the call may have
    /// taken that long.
    pub(crate) fn hidden_time_max(self) -> VisibilitySeconds {
        let left = VisibilitySeconds::MAX.get() - self.visibility_timeout.get();
        VisibilitySeconds::saturating(left.into())
    }
}

/// Returns the visibility timeout for the message's retry. Pure, like [`super::decide`].
///
/// # Errors
/// Returns the reason if the message is given up on.
pub fn decide_visibility_timeout(
    policy: &Policy,
    failed: &FailedMessage,
    attempts: Attempts,
    queue_times: QueueTimes,
    now: Timestamp,
) -> Result<VisibilitySeconds, GiveUp> {
    let FailedMessage { accepted, hand_off: HandOff { error, classification, delivery, .. }, .. } = failed;
    let metadata = accepted.metadata();
    retryable_class(policy, &error.error_type, classification.known_class())?;
    // The first call was not a retry, so the next retry has the same number as this call.
    let Attempts { made, since } = attempts;
    check_attempts(policy, metadata.max_attempts, made.saturating_sub(1))?;
    let key = JitterKey { message_id: metadata.message_id, generation: metadata.generation(), attempt: made };
    let hidden_max = RetryDelay::saturating(queue_times.hidden_time_max().get().into());
    let backoff = FlooredBackoff::for_retry(policy, classification, key).with_cap(hidden_max);
    let age_limit = AgeLimit::from_limits(policy, metadata.expires_at, since);
    let latest_retry_time = queue_times.latest_retry_time(delivery.sent_at);
    let limit = age_limit.map_or(latest_retry_time, |age_limit| age_limit.at.min(latest_retry_time));
    // Counted from now, not from the failure, because the new timeout starts with the request that sets it.
    let due = backoff.due_time(now, Some(limit), now);
    check_age(age_limit, due.at)?;
    if due.at > latest_retry_time {
        return Err(give_up_before_retention_ends(queue_times, delivery.sent_at, due.at));
    }
    Ok(due.delay)
}

/// Returns the reason for giving up on a message whose retry would be too close to the end of the retention: SQS could
/// delete the message silently.
pub(crate) fn give_up_before_retention_ends(
    queue_times: QueueTimes,
    sent_at: Timestamp,
    next: Timestamp,
) -> GiveUp {
    let explanation = format!(
        "The next retry at {} is too close to the end of the queue's retention at {}",
        format_rfc3339(next),
        format_rfc3339(sent_at + queue_times.retention)
    );
    GiveUp { reason: DeadLetterReason::MessageExpired, explanation }
}
