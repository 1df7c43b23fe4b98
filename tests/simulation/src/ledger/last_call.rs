//! Delays that the target asks for, for a message with less time than that: it gets one last call just before its end.

use chrono::{DateTime, TimeDelta, Utc};

use super::oracle::Retry;
use super::{Ledger, seconds};
use crate::policy::Asked;

/// Margin between the last call and the end.
const ARRIVAL: TimeDelta = TimeDelta::seconds(5);

/// The delays of a retry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// Without the target's delay: no retry comes sooner.
    own: u64,
    /// With the target's delay, if there is time.
    pub(super) drawn: u64,
}

impl Ledger {
    pub(super) fn delays(&self, n: usize, retry: Retry, asked: Option<Asked>) -> Delays {
        let drawn = self.delay(n, retry, asked);
        let own = match asked {
            None => drawn,
            Some(Asked::Snooze(_)) => 0,
            Some(Asked::Floor(_)) => self.delay(n, retry, None),
        };
        Delays { own, drawn }
    }
}

impl Delays {
    pub(super) fn at_most(self, longest: u64) -> Self {
        Self { own: self.own.min(longest), drawn: self.drawn.min(longest) }
    }

    /// The shortest and the longest delay with this much time left, give or take `slack`.
    pub(super) fn range(self, left: Option<TimeDelta>, slack: TimeDelta) -> (u64, u64) {
        let Self { own, drawn } = self;
        let Some(left) = left else { return (drawn, drawn) };
        let whole = |left: TimeDelta| left.num_seconds().max(0).unsigned_abs();
        let cut = |left: TimeDelta| own.max(whole(left - ARRIVAL)).min(drawn);
        let fits = |left: TimeDelta| seconds(drawn) <= left;
        let least = if fits(left - slack) { drawn } else { cut(left - slack - seconds(1)) };
        let most = if fits(left + slack) { drawn } else { cut(left + slack) };
        (least, most)
    }

    /// The earliest and the latest due time of a retry whose delay counts from `from`, or from up to `ahead` before it.
    pub(super) fn due(
        self,
        from: DateTime<Utc>,
        ahead: TimeDelta,
        limit: Option<DateTime<Utc>>,
    ) -> (DateTime<Utc>, DateTime<Utc>) {
        let (own, last) = (from + seconds(self.own), from + seconds(self.drawn));
        let first = last - ahead;
        let Some(limit) = limit.filter(|limit| last > *limit) else { return (first, last) };
        // Whole seconds, rounded down.
        let cut = (own - ahead).max(limit - ARRIVAL - seconds(1));
        (first.min(cut), if first > limit { own.max(limit - ARRIVAL).min(last) } else { last })
    }

    /// True if a message may be given up, when each of its delays ends at these times and the decision is made by
    /// `decided_at`.
    pub(super) fn are_over(
        self,
        due: impl Fn(u64) -> DateTime<Utc>,
        limit: DateTime<Utc>,
        decided_at: DateTime<Utc>,
    ) -> bool {
        let has_been_called = limit - ARRIVAL - seconds(1) <= decided_at;
        due(self.drawn) > limit && (due(self.own) > limit || has_been_called)
    }
}
