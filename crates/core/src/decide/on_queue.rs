//! The decision on a failed message that stays on its queue (strategy `visibility`): its next visibility timeout, or a
//! verdict.

use std::time::Duration;

use super::{AgeLimit, FlooredBackoff, check_age, check_attempts, classify};
use crate::accepted::FailedMessage;
use crate::decide::backoff::Key;
use crate::failure::reason::{DeadLetterReason, GiveUp};
use crate::failure::{HandOff, Kind};
use crate::limits::{RetryDelay, VisibilitySeconds};
use crate::message::Timestamp;
use crate::message::metadata::{Metadata, rfc3339};
use crate::policy::Policy;

/// Settings of a queue on which failed messages stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// Its visibility timeout. The 12 hours that a message can be hidden count from its receive.
    pub visibility_timeout: VisibilitySeconds,
    /// `MessageRetentionPeriod`, 60 s..=14 days: SQS deletes what is older, hidden or not.
    pub retention: Duration,
}

/// Returns the visibility timeout for the message's retry. Pure, like [`super::decide`].
///
/// # Errors
/// The message is given up, with the reason.
pub fn decide_on_queue(
    policy: &Policy,
    failed: &FailedMessage,
    queue_times: QueueTimes,
    now: Timestamp,
) -> Result<VisibilitySeconds, GiveUp> {
    let FailedMessage { accepted, hand_off: HandOff { error, answer, delivery, .. }, .. } = failed;
    let metadata = accepted.metadata();
    if classify(policy, &error.error_type, answer.kind()) == Kind::Permanent {
        return Err(DeadLetterReason::NonRetryableError.into());
    }
    // The queue counts all receives alike, snoozes included. The first was not a retry, so the next retry has the
    // number of this receive.
    let receive_count = accepted.record().receive_count;
    check_attempts(policy, metadata.max_attempts, receive_count.saturating_sub(1))?;
    let key =
        Key { message_id: metadata.message_id, generation: metadata.generation(), attempt: receive_count };
    // 12 hours in all, from the receive ("ChangeMessageVisibility", Amazon SQS API Reference). The call may have taken
    // as long as the visibility timeout, so that much is reserved.
    let left = VisibilitySeconds::MAX.get() - queue_times.visibility_timeout.get();
    let backoff = FlooredBackoff::before(policy, answer, key).at_most(RetryDelay::saturating(left.into()));
    let age_limit = AgeLimit::of(policy, metadata.expires_at, accepted.first_sent());
    // The retry must also have time to fail: a message that is received but not yet hidden again when the retention
    // ends is lost.
    let retained_until = delivery.sent_at + queue_times.retention - queue_times.visibility_timeout.duration();
    let limit = age_limit.map_or(retained_until, |age_limit| age_limit.at.min(retained_until));
    // From now, not from the failure: the new timeout counts from the request that sets it.
    let due = backoff.due(now, Some(limit), now);
    check_age(age_limit, due.at)?;
    if due.at > retained_until {
        return Err(not_retained(queue_times, delivery.sent_at, due.at));
    }
    Ok(due.delay)
}

/// Checks that the target may be called for this receive. If the previous receive was the last one allowed and nobody
/// answered for it, the message is given up: a crash must not lead to more calls than the policy allows.
///
/// # Errors
/// The message is given up, with the reason.
pub fn may_be_called(policy: &Policy, metadata: &Metadata, receive_count: u32) -> Result<(), GiveUp> {
    // The first receive was not a retry, and this one has not been used yet.
    match receive_count.checked_sub(2) {
        Some(made_before) => check_attempts(policy, metadata.max_attempts, made_before),
        None => Ok(()),
    }
}

/// SQS would delete the message silently.
fn not_retained(queue_times: QueueTimes, sent_at: Timestamp, next: Timestamp) -> GiveUp {
    let explanation = format!(
        "The next retry at {} would come too near to the end of the queue's retention at {}",
        rfc3339(next),
        rfc3339(sent_at + queue_times.retention)
    );
    GiveUp { reason: DeadLetterReason::MessageExpired, explanation }
}
