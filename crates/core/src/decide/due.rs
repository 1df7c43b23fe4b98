//! When a retry is due, and how much of that one `DelaySeconds` can hold.

use chrono::TimeDelta;

use super::wait::Wait;
use crate::decide::backoff::Key;
use crate::decide::pacing::Window;
use crate::failure::{Delivery, HandOff};
use crate::limits::{DelaySeconds, RetryDelay};
use crate::message::Timestamp;
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
