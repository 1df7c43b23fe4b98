//! The decision on a failed message that stays on its queue (strategy `visibility`): when it is seen again, or not.

use super::{Due, GiveUp, check_age, check_attempts, classify, delay_before};
use crate::backoff::Key;
use crate::failure::{Failure, Kind};
use crate::limits::{RetryDelay, VisibilitySeconds};
use crate::message::Timestamp;
use crate::metadata::Metadata;
use crate::policy::Policy;
use crate::reason::DeadLetterReason;

/// What is decided on.
#[derive(Clone, Copy, Debug)]
pub struct Stayed<'a> {
    /// Of the message.
    pub metadata: &'a Metadata,
    /// Why it failed.
    pub failure: &'a Failure,
    /// `ApproximateReceiveCount`, 1 at the first: the retry that comes next has this number.
    pub receive_count: u32,
    /// When the message was first sent.
    pub first_sent: Timestamp,
    /// The queue's visibility timeout: the 12 hours that a message can be hidden run from its receive.
    pub visibility_timeout: VisibilitySeconds,
}

/// How long the message stays hidden, or that it is given up. Pure, like [`super::decide`].
///
/// # Errors
/// The message is given up, and why.
pub fn decide_on_queue(
    policy: &Policy,
    stayed: Stayed<'_>,
    now: Timestamp,
) -> Result<VisibilitySeconds, GiveUp> {
    let Stayed { metadata, failure, receive_count, .. } = stayed;
    let kind = classify(policy, failure);
    if kind == Kind::Permanent {
        return Err(GiveUp { reason: DeadLetterReason::NonRetryableError, explanation: String::new() });
    }
    if kind == Kind::Transient {
        check_attempts(policy, metadata.max_attempts, receive_count.saturating_sub(1))?;
    }
    let key =
        Key { message_id: metadata.message_id, generation: metadata.generation(), attempt: receive_count };
    let left = VisibilitySeconds::MAX.get() - stayed.visibility_timeout.get();
    let delay = delay_before(policy, failure, key).min(RetryDelay::saturating(left.into()));
    let due = Due::from_now(delay, now);
    check_age(policy, metadata.expires_at, stayed.first_sent, due.at)?;
    Ok(VisibilitySeconds::from(delay))
}
