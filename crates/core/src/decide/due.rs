//! When a retry is due, and how much of that one `DelaySeconds` can hold.

use std::ops::RangeInclusive;

use chrono::TimeDelta;

use super::unspent::Drawn;
use crate::decide::backoff::{Key, bounds, delay, target_delay};
use crate::decide::pacing::Window;
use crate::failure::reason::{DeadLetterReason, GiveUp};
use crate::failure::{Answer, Delivery, HandOff, Kind};
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
use crate::message::metadata::rfc3339;
use crate::policy::Policy;

/// A due time, never in the past, and the delay that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Timestamp,
    pub(crate) delay: RetryDelay,
}

impl Due {
    /// The due time that the message brings from its last hop. One that no delay of the policy leads to is not
    /// believed: the policy has changed, or somebody has written it.
    pub(super) fn of_hop(
        policy: &Policy,
        HandOff { answer, delivery, .. }: &HandOff,
        due_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        // Without long delays nothing hops: an old due time of up to 12 hours is from another policy, and the delay is
        // drawn anew.
        let at = due_at.filter(|_| policy.long_delays)?;
        // Counted from the failure, as it was when it was drawn: each hop comes to the same delay.
        let seconds = rounded_up(at - delivery.failed_at(now));
        let longest = match answer.retry_after_seconds {
            Some(_) => policy.delay_limit(),
            None => policy.backoff.longest(policy.delay_limit()),
        };
        let delay = RetryDelay::new(seconds).filter(|delay| *delay <= longest)?;
        Some(Self { at: at.max(now), delay })
    }

    /// With long delays a delay is counted from the failure, so that each copy of the message and each receive of it
    /// comes to the same moment; without, from now.
    pub(super) fn after(
        wait: &Wait,
        limit: Option<Timestamp>,
        policy: &Policy,
        delivery: &Delivery,
        now: Timestamp,
    ) -> Self {
        wait.due(if policy.long_delays { delivery.failed_at(now) } else { now }, limit, now)
    }

    pub(crate) fn from_now(delay: RetryDelay, now: Timestamp) -> Self {
        Self { at: now + TimeDelta::seconds(i64::from(delay.get())), delay }
    }

    /// The same, or later if too many messages wait, but not after `limit`. What hops is paced when it is sent at last.
    pub(super) fn stretched(
        self,
        window: Window,
        key: Key,
        limit: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        // More than 900 s away: it hops, and who waits then is not known now.
        let Some(own) = self.delay_from(now) else { return self };
        // Stretched by what the window adds, but neither past the limit nor, if the limit is nearer than its own,
        // shortened.
        let left = limit.map_or(DelaySeconds::MAX, |limit| whole_seconds(limit - now));
        let longer = window.stretched(own, key).min(left).max(own).get() - own.get();
        Self {
            at: self.at + TimeDelta::seconds(longer.into()),
            delay: RetryDelay::saturating(u64::from(self.delay.get()) + u64::from(longer)),
        }
    }

    /// What remains of it, rounded up: nothing comes early. `None` if that is more than `DelaySeconds` can say.
    pub(crate) fn delay_from(self, now: Timestamp) -> Option<DelaySeconds> {
        // SQS counts whole seconds. Rounded down, a target would be called before the time that it asked for.
        DelaySeconds::new(rounded_up(self.at - now))
    }
}

/// Whole seconds, rounded down, 0 if it is past.
fn whole_seconds(duration: TimeDelta) -> DelaySeconds {
    DelaySeconds::saturating(u64::try_from(duration.num_seconds()).unwrap_or(0))
}

/// Whole seconds, 0 if it is past.
fn rounded_up(duration: TimeDelta) -> u64 {
    let whole = duration.num_seconds() + i64::from(duration.subsec_nanos() > 0);
    u64::try_from(whole).unwrap_or(0)
}

/// Left between the last call of a message and the end of its time: SQS and the pollers take a moment to deliver.
const ARRIVAL: TimeDelta = TimeDelta::seconds(5);

/// The policy's delay before a retry, and the one that the target asks for, which is a floor.
pub(super) struct Wait {
    backoff: Drawn,
    floor: RetryDelay,
}

impl Wait {
    /// The wait before the retry of this key.
    pub(super) fn before(policy: &Policy, answer: &Answer, key: Key) -> Self {
        let asked = answer.retry_after_seconds;
        let floor = asked.map_or(RetryDelay::ZERO, |asked| target_delay(asked, policy.delay_limit(), key));
        // A snooze is no failure, so there is nothing to back off from.
        let backoff = match (answer.kind(), asked) {
            (Kind::Snooze, Some(_)) => Drawn::fixed(RetryDelay::ZERO),
            _ => Drawn { delay: delay(policy, key), bounds: bounds(policy, key.attempt) },
        };
        Self { backoff, floor }
    }

    /// The same on a queue that can hide a message for so long.
    pub(super) fn at_most(self, longest: RetryDelay) -> Self {
        let Drawn { delay, bounds } = self.backoff;
        let backoff = Drawn { delay: delay.min(longest), bounds };
        Self { backoff, floor: self.floor.min(longest) }
    }

    /// The bounds that the delay is drawn from.
    pub(super) fn bounds(&self) -> RangeInclusive<RetryDelay> {
        let (low, high) = (*self.backoff.bounds.start(), *self.backoff.bounds.end());
        low.max(self.floor)..=high.max(self.floor)
    }

    /// When the retry is due, counted from this moment. A target that asks for more time than the message has left
    /// gets all of it but a moment: given up at once, the message would have been called for nothing. If its time is
    /// nearly over, that call has been made.
    pub(super) fn due(&self, from: Timestamp, limit: Option<Timestamp>, now: Timestamp) -> Due {
        let due = Due::from_now(self.backoff.delay.max(self.floor), from);
        let last_call =
            limit.filter(|limit| *limit < due.at).and_then(|limit| self.last_call(from, limit, now));
        let due = last_call.unwrap_or(due);
        Due { at: due.at.max(now), ..due }
    }

    fn last_call(&self, from: Timestamp, limit: Timestamp, now: Timestamp) -> Option<Due> {
        let backoff = Due::from_now(self.backoff.delay, from);
        let left = u64::try_from((limit - ARRIVAL - from).num_seconds()).ok()?;
        let last = Due::from_now(RetryDelay::saturating(left), from);
        let is_possible = backoff.at <= limit && last.at > now;
        is_possible.then_some(if backoff.at > last.at { backoff } else { last })
    }
}

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
