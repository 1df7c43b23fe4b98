//! Due times of retries, and the part of a delay that fits in a single `DelaySeconds`.

use chrono::TimeDelta;

use crate::decide::backoff::{JitterKey, retry_after_delay, retry_delay};
use crate::failure::{Classification, Delivery, FailureClass, HandOff};
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
use crate::message::metadata::format_rfc3339;
use crate::message::reason::{DeadLetterReason, GiveUp};
use crate::policy::Policy;

/// A due time, never in the past, and the delay that it results from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueTime {
    pub(crate) at: Timestamp,
    pub(crate) delay: RetryDelay,
}

impl DueTime {
    /// Returns the due time that the last hop wrote into the message. Ignores a time that the policy cannot produce:
    /// the policy has changed, or the time is forged.
    pub(super) fn from_hop(
        policy: &Policy,
        HandOff { classification, delivery, .. }: &HandOff,
        due_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        // Without long delays, messages do not hop: a due time is left over from an earlier policy and may be 12 hours
        // away, so a new delay is drawn.
        let at = due_at.filter(|_| policy.long_delays)?;
        // Counted from the failure, like the original delay, so that every hop computes the same delay.
        let seconds = round_up_seconds(at - delivery.failed_at(now));
        let longest = match classification.retry_after_seconds {
            Some(_) => policy.delay_limit(),
            None => policy.backoff.longest_delay(policy.delay_limit()),
        };
        let delay = RetryDelay::new(seconds).filter(|delay| *delay <= longest)?;
        Some(Self { at: at.max(now), delay })
    }

    /// Computes a due time from a backoff. With long delays, the backoff starts at the failure, so that every copy and
    /// every receive computes the same time; otherwise it starts now.
    pub(super) fn from_backoff(
        backoff: &FlooredBackoff,
        limit: Option<Timestamp>,
        policy: &Policy,
        delivery: &Delivery,
        now: Timestamp,
    ) -> Self {
        backoff.due_time(if policy.long_delays { delivery.failed_at(now) } else { now }, limit, now)
    }

    pub(crate) fn from_now(delay: RetryDelay, now: Timestamp) -> Self {
        Self { at: now + TimeDelta::seconds(i64::from(delay.get())), delay }
    }

    /// Returns the remaining delay, rounded up so that no retry is early, or `None` if it exceeds the limit of
    /// `DelaySeconds`.
    pub(crate) fn delay_from(self, now: Timestamp) -> Option<DelaySeconds> {
        DelaySeconds::new(round_up_seconds(self.at - now))
    }
}

/// Converts to whole seconds, rounded up; 0 if negative. SQS counts whole seconds, and a delay rounded down would end
/// before the time that the target requested.
fn round_up_seconds(duration: TimeDelta) -> u64 {
    let whole = duration.num_seconds() + i64::from(duration.subsec_nanos() > 0);
    u64::try_from(whole).unwrap_or(0)
}

/// Margin between a message's last call and its expiry, because delivery by SQS and its pollers takes some time.
pub(crate) const ARRIVAL_MARGIN: TimeDelta = TimeDelta::seconds(5);

/// The policy's delay before a retry, with the delay requested by the target as its floor.
pub(super) struct FlooredBackoff {
    backoff: RetryDelay,
    floor: RetryDelay,
}

impl FlooredBackoff {
    /// Computes both delays for the retry with this key.
    pub(super) fn for_retry(policy: &Policy, classification: &Classification, key: JitterKey) -> Self {
        let requested = classification.retry_after_seconds;
        let floor = requested
            .map_or(RetryDelay::ZERO, |requested| retry_after_delay(requested, policy.delay_limit(), key));
        // A snooze is not a failure, so no backoff applies.
        let backoff = match (classification.known_class(), requested) {
            (FailureClass::Snooze, Some(_)) => RetryDelay::ZERO,
            _ => retry_delay(policy, key),
        };
        Self { backoff, floor }
    }

    /// Limits both delays to `longest`, the longest time for which the queue can hide a message.
    pub(super) fn with_cap(self, longest: RetryDelay) -> Self {
        Self { backoff: self.backoff.min(longest), floor: self.floor.min(longest) }
    }

    /// Returns the due time, counted from `from`. If the target requests a longer delay than the message has left, the
    /// last call is made 5 s before the message expires: otherwise, the message would be given up on without that call.
    /// If there is no time left to wait, the last call has already been made.
    pub(super) fn due_time(&self, from: Timestamp, limit: Option<Timestamp>, now: Timestamp) -> DueTime {
        let due = DueTime::from_now(self.backoff.max(self.floor), from);
        let last_call =
            limit.filter(|limit| *limit < due.at).and_then(|limit| self.last_call(from, limit, now));
        let due = last_call.unwrap_or(due);
        DueTime { at: due.at.max(now), ..due }
    }

    fn last_call(&self, from: Timestamp, limit: Timestamp, now: Timestamp) -> Option<DueTime> {
        let backoff = DueTime::from_now(self.backoff, from);
        let left = u64::try_from((limit - ARRIVAL_MARGIN - from).num_seconds()).ok()?;
        let last = DueTime::from_now(RetryDelay::saturating(left), from);
        let is_possible = backoff.at <= limit && last.at > now;
        is_possible.then_some(if backoff.at > last.at { backoff } else { last })
    }
}

/// Checks the number of retries made against the policy's limit, or against the producer's if it is lower.
pub(crate) fn check_attempts(policy: &Policy, producer_max: Option<u32>, made: u32) -> Result<(), GiveUp> {
    // A producer may request fewer retries, but not more: the target's owner sets the policy. The explanation names the
    // limit that was reached, so the producer's limit is ignored unless it is lower.
    let producer_max = producer_max.filter(|max| *max < policy.max_attempts);
    let max = producer_max.unwrap_or(policy.max_attempts);
    if made < max {
        return Ok(());
    }
    let limit_source = if producer_max.is_some() { " (metadata.max_attempts)" } else { "" };
    Err(GiveUp {
        reason: DeadLetterReason::RetryAttemptExceeded,
        explanation: format!("Max retry attempts {max} exceeded{limit_source}"),
    })
}

/// The latest time for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgeLimit {
    pub(crate) at: Timestamp,
    setting: &'static str,
}

impl AgeLimit {
    /// Returns true if there is no time left for another wait.
    pub(crate) fn is_near(self, now: Timestamp) -> bool {
        now + ARRIVAL_MARGIN >= self.at
    }

    /// Returns the earlier of the policy's limit and the producer's.
    pub(crate) fn from_limits(
        policy: &Policy,
        expires_at: Option<Timestamp>,
        first_sent: Timestamp,
    ) -> Option<Self> {
        let policy_limit = policy.max_age_seconds.map(|age| Self {
            at: first_sent + TimeDelta::seconds(i64::from(age)),
            setting: "max_age_seconds",
        });
        let producer_limit = expires_at.map(|at| Self { at, setting: "metadata.expires_at" });
        policy_limit.into_iter().chain(producer_limit).min()
    }
}

/// Checks that a retry at `next` is in time.
pub(crate) fn check_age(limit: Option<AgeLimit>, next: Timestamp) -> Result<(), GiveUp> {
    match limit {
        Some(AgeLimit { at, setting }) if next > at => Err(GiveUp {
            reason: DeadLetterReason::MessageExpired,
            explanation: format!(
                "The next retry, at {}, would be too late: {setting} ends at {}",
                format_rfc3339(next),
                format_rfc3339(at)
            ),
        }),
        _ => Ok(()),
    }
}
