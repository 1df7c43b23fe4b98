//! The budget that a re-send spends, and the delays of re-sends that spend no attempt because the target did not fail:
//! held messages, and messages that SQS moved.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decide::backoff::{JitterKey, draw_number};
use crate::decide::breaker::HOLD_SECONDS_MAX;
use crate::failure::FailureClass;
use crate::limits::RetryDelay;
use crate::message::Timestamp;
use crate::message::metadata::{Metadata, SNOOZES_MAX};
use crate::message::reason::{DeadLetterReason, GiveUp};
use crate::policy::Policy;

/// The budget that a re-send spends. Every budget has a limit, so every retry loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// `metadata.retry_attempt`, up to `max_attempts` (default 5).
    Attempt,
    /// `metadata.snooze_count`, up to 100.
    Snooze,
    /// `metadata.held_seconds`, up to `hold_seconds_max` (default 86,400: a day).
    Hold,
    /// `metadata.redrive_count`, up to `max_redrives` (default 20) since the last answer, and up to five times as many
    /// in total.
    Redrive,
}

impl Budget {
    /// Returns the budget for a message's next re-send.
    pub(super) fn new(class: FailureClass, before: &Metadata) -> Self {
        match class {
            FailureClass::Unanswered => Self::Redrive,
            FailureClass::Held => Self::Hold,
            // The message spends an attempt only if this budget is exhausted.
            FailureClass::Snooze | FailureClass::NotStarted if before.snooze_count < SNOOZES_MAX => {
                Self::Snooze
            }
            _ => Self::Attempt,
        }
    }
}

/// Returns true if a message that was held for `held_seconds` may be held again: below `hold_seconds_max`, a day by
/// default.
#[must_use]
pub fn may_be_held(policy: &Policy, held_seconds: u32) -> bool {
    Duration::from_secs(held_seconds.into()) < policy.with_breaker(|breaker| breaker.hold_max)
}

/// Returns how much longer a message may be held without a call once its holds or its age have reached their limit: up
/// to 900 s beyond the hold limit. After that, the call is made regardless of the target's state.
#[must_use]
pub fn hold_grace(policy: &Policy, held_seconds: u32) -> Duration {
    let hold_max = policy.with_breaker(|breaker| breaker.hold_max);
    let excess = Duration::from_secs(held_seconds.into()).saturating_sub(hold_max);
    Duration::from_secs(RETRY_AFTER_SECONDS_MAX.into()).saturating_sub(excess)
}

/// Checks that a message may be held again. At its hold limit, a message that was held without a call waits at most 900
/// s for a `Retry-After` to end, or for a free slot in the rate limit of a busy target.
pub(crate) fn check_holds(policy: &Policy, held_seconds: u32, was_called: bool) -> Result<(), GiveUp> {
    let counted_seconds =
        if was_called { held_seconds } else { held_seconds.saturating_sub(RETRY_AFTER_SECONDS_MAX) };
    if may_be_held(policy, counted_seconds) {
        return Ok(());
    }
    let limit = policy.with_breaker(|breaker| breaker.hold_max).as_secs();
    Err(GiveUp {
        reason: DeadLetterReason::HoldTimeExceeded,
        explanation: format!(
            "Held for {held_seconds} s without a successful call (hold_seconds_max is {limit})"
        ),
    })
}

const RETRY_AFTER_SECONDS_MAX: u32 = 900;

/// The times that limit the delay of a held message.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldTimes {
    /// The delay chosen by the function that held the message.
    pub(super) requested_seconds: Option<u64>,
    pub(super) held_seconds: u32,
    /// Time until the message expires.
    pub(super) left: Option<Duration>,
}

/// Holds longer than a minute end on multiples of ten seconds, so that the messages are received in full batches.
const GRID_SECONDS: i64 = 10;
const GRID_DELAY_SECONDS_MIN: i64 = 60;

/// Returns the delay for a held message, at most 900 s. A message with little time left is sent back sooner: after half
/// of the time until it expires, and no later than its hold limit. At that limit, only a `Retry-After` or a rate limit
/// holds it.
pub(super) fn hold_delay(policy: &Policy, times: HoldTimes, now: Timestamp) -> RetryDelay {
    // At least 1 s, so that every hold counts towards the hold limit.
    const MIN_SECONDS: u64 = 1;
    let HoldTimes { requested_seconds, held_seconds, left } = times;
    let requested =
        RetryDelay::saturating(requested_seconds.unwrap_or(HOLD_SECONDS_MAX)).min(RetryDelay::SHORT_MAX);
    let held_time = Duration::from_secs(held_seconds.into());
    let hold_max = policy.with_breaker(|breaker| breaker.hold_max);
    let until_called = if held_time < hold_max { hold_max - held_time } else { Duration::MAX };
    let delay_max = left.map_or(until_called, |left| until_called.min(left / 2));
    let delay_max = RetryDelay::saturating(delay_max.as_secs()).min(RetryDelay::SHORT_MAX);
    align_to_grid(requested, now).min(delay_max).max(RetryDelay::saturating(MIN_SECONDS))
}

/// Extends the delay so that it ends on a multiple of ten seconds.
fn align_to_grid(delay: RetryDelay, now: Timestamp) -> RetryDelay {
    let seconds = i64::from(delay.get());
    if seconds <= GRID_DELAY_SECONDS_MIN {
        return delay;
    }
    let past = (now.timestamp() + seconds).rem_euclid(GRID_SECONDS);
    let padding = (GRID_SECONDS - past) % GRID_SECONDS;
    RetryDelay::saturating((seconds + padding).unsigned_abs())
}

/// Returns the delay for a message that SQS moved for the `count`th time since its last answer.
pub(super) fn redrive_delay(count: u32, key: JitterKey) -> RetryDelay {
    let (low, high) = redrive_bounds(count).into_inner();
    RetryDelay::saturating(draw_number(key, low, high))
}

/// Returns the range of [`redrive_delay`]. It starts at a few seconds, since most crashes affect a single process, and
/// doubles up to 900 s. Twenty such delays take about three hours; the time before SQS moves the messages adds about
/// another hour.
pub(super) fn redrive_bounds(count: u32) -> RangeInclusive<u64> {
    let longest = u64::from(RetryDelay::SHORT_MAX.get());
    let base = 5_u64.checked_shl(count.saturating_sub(1).min(32)).map_or(longest, |base| base.min(longest));
    base / 2..=base
}

/// Checks that a message that SQS moved may be re-sent once more.
pub(super) fn check_redrives(policy: &Policy, before: &Metadata) -> Result<(), GiveUp> {
    let (max, max_in_all) = (policy.redrives_max(), policy.total_redrives_max());
    let (since_answer, in_all) = (before.redrives_since_answer(), before.redrive_count);
    let (times, limit) = if since_answer >= max {
        let since = if since_answer < in_all { " since its last answer" } else { "" };
        (format!("{} times{since}", since_answer + 1), format!("max_redrives is {max}"))
    } else if in_all >= max_in_all {
        let limit = format!("with max_redrives {max} the limit in all is {max_in_all}");
        (format!("{} times in all", in_all + 1), limit)
    } else {
        return Ok(());
    };
    Err(GiveUp {
        reason: DeadLetterReason::OrchestrationFailed,
        explanation: format!("SQS moved it {times} because no call was answered: {limit}"),
    })
}
