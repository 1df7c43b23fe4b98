//! The load on the target per second.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

/// The calls in each second since the first message; seconds without calls are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadBySecond {
    seconds: BTreeMap<u64, CallsInSecond>,
    /// Messages held in each second.
    holds: BTreeMap<u64, u64>,
    /// Failed calls by cause.
    pub wasted: WastedCalls,
}

/// The calls in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsInSecond {
    pub calls: u64,
    pub succeeded: u64,
}

/// Failed calls to the target, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WastedCalls {
    /// The target was down.
    pub while_down: u64,
    /// The target had reached its capacity in that second.
    pub over_capacity: u64,
    pub by_chance: u64,
}

impl WastedCalls {
    pub const fn total(&self) -> u64 {
        self.while_down + self.over_capacity + self.by_chance
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCause {
    WhileDown,
    OverCapacity,
    ByChance,
}

/// The load from the target's recovery until the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryLoad {
    /// Calls in the busiest second.
    pub peak_per_second: u64,
    /// The 99th percentile of calls per second, including seconds without calls.
    pub p99_per_second: u64,
}

impl LoadBySecond {
    /// Records a call in this second.
    pub(super) fn record_call(&mut self, second: u64, outcome: Result<(), FailureCause>) {
        let calls = self.seconds.entry(second).or_default();
        calls.calls += 1;
        match outcome {
            Ok(()) => calls.succeeded += 1,
            Err(FailureCause::WhileDown) => self.wasted.while_down += 1,
            Err(FailureCause::OverCapacity) => self.wasted.over_capacity += 1,
            Err(FailureCause::ByChance) => self.wasted.by_chance += 1,
        }
    }

    /// Records messages held in this second.
    pub(super) fn record_holds(&mut self, second: u64, messages: u64) {
        *self.holds.entry(second).or_default() += messages;
    }

    /// Returns the calls in one second.
    pub fn calls_at_second(&self, second: u64) -> CallsInSecond {
        self.seconds.get(&second).copied().unwrap_or_default()
    }

    pub fn total_calls(&self) -> u64 {
        self.seconds.values().map(|second| second.calls).sum()
    }

    /// Returns the last second with a call.
    pub fn last_second(&self) -> u64 {
        self.seconds.last_key_value().map_or(0, |(second, _)| *second)
    }

    /// Returns the calls in the busiest second of a range.
    pub fn busiest_second(&self, range: Range<u64>) -> CallsInSecond {
        self.seconds
            .range(range)
            .map(|(_, second)| *second)
            .max_by_key(|second| second.calls)
            .unwrap_or_default()
    }

    /// Returns the maximum number of messages held in one second of a range.
    pub fn max_holds(&self, range: Range<u64>) -> u64 {
        self.holds.range(range).map(|(_, messages)| *messages).max().unwrap_or(0)
    }

    /// Returns the number of successful calls before a given second.
    pub fn successes_before(&self, second: u64) -> u64 {
        self.seconds.range(..second).map(|(_, second)| second.succeeded).sum()
    }

    /// Returns the load from a given second on.
    pub fn load_after(&self, second: u64) -> RecoveryLoad {
        let mut calls: Vec<_> = self.seconds.range(second..).map(|(_, second)| second.calls).collect();
        calls.sort_unstable_by(|one, other| other.cmp(one));
        let Some(peak) = calls.first().copied() else {
            return RecoveryLoad::default();
        };
        let seconds = self.last_second() + 1 - second;
        // The number of seconds that are busier than the percentile, according to the nearest-rank method.
        let above = seconds - (seconds * 99).div_ceil(100);
        let p99 = usize::try_from(above).ok().and_then(|above| calls.get(above)).copied().unwrap_or(0);
        RecoveryLoad { peak_per_second: peak, p99_per_second: p99 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(calls: &[(u64, u64)]) -> LoadBySecond {
        let mut load = LoadBySecond::default();
        for (second, count) in calls {
            (0..*count).for_each(|_| load.record_call(*second, Ok(())));
        }
        load
    }

    #[test]
    fn the_99th_percentile_includes_seconds_without_calls() {
        // Of the 200 seconds from 100 on, the busiest two are above the 99th percentile.
        let load = load(&[(50, 99), (100, 7), (120, 5), (200, 3), (299, 1)]);
        assert_eq!(load.load_after(100), RecoveryLoad { peak_per_second: 7, p99_per_second: 3 });
        assert_eq!(load.load_after(121), RecoveryLoad { peak_per_second: 3, p99_per_second: 1 });
        assert_eq!(load.load_after(300), RecoveryLoad::default());
        assert_eq!((load.total_calls(), load.last_second()), (115, 299));
        assert_eq!(load.busiest_second(0..100).calls, 99);
    }

    #[test]
    fn failures_are_counted_by_cause() {
        let mut load = LoadBySecond::default();
        load.record_call(1, Err(FailureCause::WhileDown));
        load.record_call(1, Err(FailureCause::OverCapacity));
        load.record_call(1, Err(FailureCause::ByChance));
        load.record_call(1, Ok(()));
        assert_eq!(load.calls_at_second(1), CallsInSecond { calls: 4, succeeded: 1 });
        assert_eq!((load.successes_before(1), load.successes_before(2)), (0, 1));
        assert_eq!(load.wasted, WastedCalls { while_down: 1, over_capacity: 1, by_chance: 1 });
    }
}
