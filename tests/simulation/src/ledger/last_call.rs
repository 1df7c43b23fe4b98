//! Delays requested by the target that exceed the message's remaining time: the target is called one last time just
//! before the message expires.

use chrono::{DateTime, TimeDelta, Utc};

use super::oracle::RetryKey;
use super::{Ledger, time_delta};
use crate::policy::TargetDelay;

/// The margin between the last call and the time at which the message expires.
const LAST_CALL_MARGIN: TimeDelta = TimeDelta::seconds(5);

/// The delays of a retry.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryDelays {
    /// The delay without the target's request; no retry comes sooner.
    own: u64,
    /// The delay with the target's request, if there is enough time.
    pub(super) drawn: u64,
}

impl Ledger {
    pub(super) fn retry_delays(&self, n: usize, retry: RetryKey, asked: Option<TargetDelay>) -> RetryDelays {
        let drawn = self.exact_delay(n, retry, asked);
        let own = match asked {
            None => drawn,
            Some(TargetDelay::Snooze(_)) => 0,
            Some(TargetDelay::Floor(_)) => self.exact_delay(n, retry, None),
        };
        RetryDelays { own, drawn }
    }
}

impl RetryDelays {
    pub(super) fn at_most(self, longest: u64) -> Self {
        Self { own: self.own.min(longest), drawn: self.drawn.min(longest) }
    }

    /// Returns the shortest and the longest delay if this much time is left, give or take `slack`.
    pub(super) fn delay_range(self, left: Option<TimeDelta>, slack: TimeDelta) -> (u64, u64) {
        let Self { own, drawn } = self;
        let Some(left) = left else { return (drawn, drawn) };
        let whole = |left: TimeDelta| left.num_seconds().max(0).unsigned_abs();
        let cut = |left: TimeDelta| own.max(whole(left - LAST_CALL_MARGIN)).min(drawn);
        let fits = |left: TimeDelta| time_delta(drawn) <= left;
        let least = if fits(left - slack) { drawn } else { cut(left - slack - time_delta(1)) };
        let most = if fits(left + slack) { drawn } else { cut(left + slack) };
        (least, most)
    }

    /// Returns the earliest and the latest due time of a retry whose delay starts at `from`, or up to `ahead` earlier.
    pub(super) fn due_range(
        self,
        from: DateTime<Utc>,
        ahead: TimeDelta,
        limit: Option<DateTime<Utc>>,
    ) -> (DateTime<Utc>, DateTime<Utc>) {
        let (own, last) = (from + time_delta(self.own), from + time_delta(self.drawn));
        let first = last - ahead;
        let Some(limit) = limit.filter(|limit| last > *limit) else { return (first, last) };
        // The delay is rounded down to whole seconds.
        let cut = (own - ahead).max(limit - LAST_CALL_MARGIN - time_delta(1));
        (first.min(cut), if first > limit { own.max(limit - LAST_CALL_MARGIN).min(last) } else { last })
    }

    /// Returns true if a message may be given up. `due` maps its delays to due times; the decision was made no later
    /// than `decided_at`.
    pub(super) fn may_give_up(
        self,
        due: impl Fn(u64) -> DateTime<Utc>,
        limit: DateTime<Utc>,
        decided_at: DateTime<Utc>,
    ) -> bool {
        let has_been_called = limit - LAST_CALL_MARGIN - time_delta(1) <= decided_at;
        due(self.drawn) > limit && (due(self.own) > limit || has_been_called)
    }
}
