//! The time at which SQS deletes a message, and the threshold for "soon".

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

/// A queue's `MessageRetentionPeriod`. It runs from the message's first send (`SentTimestamp`), which a redrive
/// preserves
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention(TimeDelta);

impl Retention {
    /// Creates a retention from seconds, or returns `None` if it exceeds the range of `TimeDelta`.
    #[must_use]
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        TimeDelta::try_seconds(seconds.try_into().ok()?).map(Self)
    }

    /// Returns the time at which SQS deletes a message that was sent at `sent_at`; `None` if that time is outside the
    /// range of `Timestamp`.
    #[must_use]
    pub fn ends_at(self, sent_at: Timestamp) -> Option<Timestamp> {
        sent_at.checked_add_signed(self.0)
    }

    /// Returns the last fifth of the retention: 2 days and 19 hours for a retention of 14 days, which is longer than a
    /// weekend. The alarm `final-dlq-about-to-expire` has the same threshold (infra/lib/alarm.ts).
    #[must_use]
    pub fn last_fifth(self) -> TimeDelta {
        self.0 / 5
    }

    /// Returns the age at which the last fifth of the retention begins.
    #[must_use]
    pub fn age_at_last_fifth(self) -> TimeDelta {
        self.0 - self.last_fifth()
    }

    /// Returns true if a message that SQS deletes at `ends_at` is in the last fifth of its retention.
    #[must_use]
    pub fn ends_soon(self, ends_at: Timestamp, now: Timestamp) -> bool {
        ends_at - now < self.last_fifth()
    }

    /// Returns true if a message of this age is in the last fifth of its retention.
    #[must_use]
    pub fn ends_soon_at_age(self, age: TimeDelta) -> bool {
        self.0 - age < self.last_fifth()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_ends_soon_in_its_last_fifth() {
        let sent_at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
        for (days, seconds_soon) in [(14, 241_920), (4, 69_120), (1, 17_280)] {
            let retention = Retention::from_seconds(days * 86_400).unwrap();
            assert_eq!(retention.last_fifth(), TimeDelta::seconds(seconds_soon));
            let ends_at = retention.ends_at(sent_at).unwrap();
            assert_eq!((ends_at - sent_at).num_days(), i64::try_from(days).unwrap());
            let seconds_before_end = |seconds| ends_at - TimeDelta::seconds(seconds);
            assert!(!retention.ends_soon(ends_at, seconds_before_end(seconds_soon)));
            assert!(retention.ends_soon(ends_at, seconds_before_end(seconds_soon - 1)));
            assert!(retention.ends_soon(ends_at, seconds_before_end(-1)), "SQS is late");
            assert!(!retention.ends_soon_at_age(seconds_before_end(seconds_soon) - sent_at));
            assert!(retention.ends_soon_at_age(seconds_before_end(seconds_soon - 1) - sent_at));
        }
    }

    #[test]
    fn a_retention_beyond_the_calendar_never_ends() {
        assert_eq!(Retention::from_seconds(u64::MAX), None);
        let longest = Retention::from_seconds(u64::try_from(i64::MAX / 1000).unwrap()).unwrap();
        assert_eq!(longest.ends_at(Timestamp::MAX_UTC), None);
    }
}
