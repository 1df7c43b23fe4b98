//! Spreads messages evenly over each second.

use std::num::NonZeroU32;
use std::time::Duration;

use chrono::TimeDelta;
use redeliver_core::deliver::time_until;
use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::message::Timestamp;

/// A rate limiter for batches. Unused capacity is not saved for later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendPace {
    rate: Option<NonZeroU32>,
    free_at: Option<Timestamp>,
}

impl SendPace {
    /// Creates a limiter for a rate in messages per second; `None` means unlimited.
    pub(super) fn new(rate: Option<NonZeroU32>) -> Self {
        Self { rate, free_at: None }
    }

    /// Returns the maximum size of a batch: ten messages, or one second's worth if the rate is lower.
    pub(super) fn batch_size(&self) -> usize {
        let rate = self.rate.and_then(|rate| usize::try_from(rate.get()).ok());
        rate.map_or(BATCH_ENTRIES_MAX, |rate| rate.min(BATCH_ENTRIES_MAX))
    }

    /// Reserves capacity for `count` messages and returns the delay before they may be sent. The delay is zero without
    /// a rate, and after an idle period. Idle time does not earn a burst.
    pub(super) fn reserve(&mut self, now: Timestamp, count: usize) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let duration = TimeDelta::microseconds(count.saturating_mul(1_000_000) / i64::from(rate.get()));
        self.free_at = start.checked_add_signed(duration);
        time_until(now, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(millis)
    }

    #[test]
    fn batches_keep_to_the_rate_and_idle_time_earns_no_burst() {
        let mut pace = SendPace::new(NonZeroU32::new(20));
        assert_eq!(pace.batch_size(), 10);
        assert_eq!(pace.reserve(at(0), 10), Duration::ZERO);
        assert_eq!(pace.reserve(at(100), 10), Duration::from_millis(400));
        assert_eq!(pace.reserve(at(500), 5), Duration::from_millis(500));
        assert_eq!(pace.reserve(at(60_000), 10), Duration::ZERO);
        assert_eq!(pace.reserve(at(60_000), 10), Duration::from_millis(500));
    }

    #[test]
    fn a_batch_has_at_most_one_second_of_messages_and_no_rate_means_no_delay() {
        assert_eq!(SendPace::new(NonZeroU32::new(3)).batch_size(), 3);
        let mut pace = SendPace::new(None);
        assert_eq!(pace.batch_size(), 10);
        assert_eq!((pace.reserve(at(0), 10), pace.reserve(at(0), 10)), (Duration::ZERO, Duration::ZERO));
    }
}
