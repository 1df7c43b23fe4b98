//! The remaining time, estimated from the work done so far.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use crate::terminal::units::approximate_span;

/// Minimum observation time before an estimate is shown.
const OBSERVED_MIN: TimeDelta = TimeDelta::seconds(3);

/// An estimate of the remaining time. Work that restarts, such as another pass through a queue, starts a new estimate.
#[derive(Clone, Copy, Debug)]
pub struct RemainingTime {
    since: Timestamp,
    /// The work already completed at the time `since`.
    done_before: u64,
    done: u64,
}

impl RemainingTime {
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self { since: now, done_before: 0, done: 0 }
    }

    /// Starts a new estimate, with `done` already completed.
    pub const fn restart(&mut self, done: u64, now: Timestamp) {
        *self = Self { since: now, done_before: done, done };
    }

    /// Estimates the remaining seconds for `total`; `None` in the first three seconds, and before any work is
    /// completed.
    pub fn estimate_seconds(&mut self, done: u64, total: u64, now: Timestamp) -> Option<i64> {
        if done < self.done {
            self.restart(done, now);
        }
        self.done = done;
        let observed = now - self.since;
        let newly_done = u128::from(done - self.done_before);
        let left = u128::from(total.checked_sub(done)?);
        if observed < OBSERVED_MIN || newly_done == 0 {
            return None;
        }
        let milliseconds = u128::from(observed.num_milliseconds().unsigned_abs());
        i64::try_from((milliseconds * left).div_ceil(newly_done * 1000)).ok()
    }

    /// Formats the remaining time as a line suffix, `, about 3m left`; empty if it is unknown or zero.
    pub fn describe(&mut self, done: u64, total: u64, now: Timestamp) -> String {
        self.estimate_seconds(done, total, now)
            .filter(|seconds| *seconds > 0)
            .map_or_else(String::new, |seconds| format!(", about {} left", approximate_span(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use redeliver_testing::dead_letters::at_seconds;

    use super::*;

    #[test]
    fn the_remaining_time_is_proportional_to_the_work_done() {
        let mut remaining = RemainingTime::new(at_seconds(100));
        for (seconds, done, total, left) in [
            (103, 0, 1000, None),
            (102, 50, 1000, None),
            (103, 100, 1000, Some(27)),
            (110, 100, 1000, Some(90)),
            (110, 300, 1000, Some(24)),
            (120, 1000, 1000, Some(0)),
            (120, 1001, 1000, None),
        ] {
            assert_eq!(
                remaining.estimate_seconds(done, total, at_seconds(seconds)),
                left,
                "{done} at {seconds}"
            );
        }
    }

    #[test]
    fn a_second_pass_starts_a_new_estimate() {
        let mut remaining = RemainingTime::new(at_seconds(0));
        assert_eq!(remaining.estimate_seconds(100, 200, at_seconds(100)), Some(100));
        assert_eq!(remaining.estimate_seconds(10, 110, at_seconds(200)), None, "it has just begun");
        assert_eq!(remaining.estimate_seconds(60, 110, at_seconds(205)), Some(5));
    }

    #[test]
    fn the_remaining_time_is_described_once_it_is_known() {
        let mut remaining = RemainingTime::new(at_seconds(0));
        assert_eq!(remaining.describe(1, 1000, at_seconds(1)), "");
        assert_eq!(remaining.describe(10, 2010, at_seconds(10)), ", about 33m 20s left");
        assert_eq!(remaining.describe(10, 40_010, at_seconds(10)), ", about 11h 6m left");
    }
}
