//! Re-sends that spend no attempt, since the target has not failed: held messages, and those that SQS moved.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decide::backoff::{Key, spread};
use crate::failure::Kind;
use crate::failure::reason::{DeadLetterReason, GiveUp};
use crate::limits::RetryDelay;
use crate::message::metadata::{Metadata, SNOOZES_MAX};
use crate::policy::{CircuitBreaker, Policy};

/// What a re-send is counted as. Each count has an end, so the loop has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spends {
    /// `metadata.retry_attempt`, up to `max_attempts`.
    Attempt,
    /// `metadata.snooze_count`, up to 100.
    Snooze,
    /// `metadata.held_seconds`, up to `hold_seconds_max`.
    Hold,
    /// `metadata.redrive_count`, up to `max_redrives` since the last answer and five times as many in all.
    Redrive,
}

impl Spends {
    /// What the next re-send of a message is counted as.
    pub(super) fn of(policy: &Policy, kind: Kind, before: &Metadata, held_seconds: u32) -> Self {
        match kind {
            Kind::Unanswered => Self::Redrive,
            Kind::Held if may_be_held(policy, held_seconds) => Self::Hold,
            // Whoever held it has another policy: the message does not pay for that while anything else is left.
            Kind::Held | Kind::Snooze | Kind::NotStarted if before.snooze_count < SNOOZES_MAX => Self::Snooze,
            _ => Self::Attempt,
        }
    }
}

/// Whether a message that was held for so long may be held once more.
#[must_use]
pub fn may_be_held(policy: &Policy, held_seconds: u32) -> bool {
    Duration::from_secs(held_seconds.into()) < policy.with_breaker(|breaker| breaker.hold_max)
}

/// A delay, and what it was drawn from.
pub(super) struct Drawn {
    pub(super) delay: RetryDelay,
    pub(super) bounds: RangeInclusive<RetryDelay>,
}

impl Drawn {
    pub(super) fn fixed(delay: RetryDelay) -> Self {
        Self { delay, bounds: delay..=delay }
    }

    fn between(low: u64, high: u64, key: Key) -> Self {
        let bounds = RetryDelay::saturating(low)..=RetryDelay::saturating(high);
        Self { delay: RetryDelay::saturating(spread(key, low, high)), bounds }
    }
}

/// The delay of a held message. The first one puts it anywhere in the longest delay, and the others, of the longest
/// delay each, leave it there: so all that is held comes back evenly, as slowly as it can in a quarter of an hour, and
/// is asked for as seldom.
///
/// A message whose time is short is asked for more often: after half of what is `left` until it expires, and never later
/// than it may be held.
pub(super) fn hold(policy: &Policy, held_seconds: u32, left: Option<Duration>, key: Key) -> Drawn {
    // The breaker has just opened, so an earlier return would be held again. It also makes each hold count.
    const MIN_SECONDS: u64 = 15;
    let longest = policy.with_breaker(CircuitBreaker::hold_delay_max);
    let Drawn { delay, bounds } = match held_seconds {
        0 => Drawn::between(MIN_SECONDS, longest.get().into(), key),
        _ => Drawn::fixed(longest),
    };
    let held = Duration::from_secs(held_seconds.into());
    let until_called = policy.with_breaker(|breaker| breaker.hold_max).saturating_sub(held);
    let most = left.map_or(until_called, |left| until_called.min(left / 2));
    let most = RetryDelay::saturating(most.as_secs().max(MIN_SECONDS));
    Drawn { delay: delay.min(most), bounds: (*bounds.start()).min(most)..=(*bounds.end()).min(most) }
}

/// The delay of a message that SQS moved for the `count`th time since its last answer: a few seconds, since most crashes are one process's, then
/// twice as long each time up to 900 s. Twenty of them are about three hours, and SQS's own waiting another one.
pub(super) fn redrive(count: u32, key: Key) -> Drawn {
    let longest = u64::from(RetryDelay::SHORT_MAX.get());
    let base = 5_u64.checked_shl(count.saturating_sub(1).min(32)).map_or(longest, |base| base.min(longest));
    Drawn::between(base / 2, base, key)
}

/// Whether a message comes back once more that SQS has moved.
pub(super) fn check_redrives(policy: &Policy, before: &Metadata) -> Result<(), GiveUp> {
    let (max, max_in_all) = (policy.redrives_max(), policy.redrives_in_all_max());
    let (since_answer, in_all) = (before.redrives_since_answer(), before.redrive_count);
    let (times, limit) = if since_answer >= max {
        let since = if since_answer < in_all { " since its last answer" } else { "" };
        (format!("{} times{since}", since_answer + 1), format!("max_redrives is {max}"))
    } else if in_all >= max_in_all {
        let limit = format!("with max_redrives {max} it comes back {max_in_all} times at most");
        (format!("{} times in all", in_all + 1), limit)
    } else {
        return Ok(());
    };
    Err(GiveUp {
        reason: DeadLetterReason::OrchestrationFailed,
        explanation: format!("SQS moved it {times}, and each time nobody had answered for it: {limit}"),
    })
}
