//! The ages of messages in a queue, and the times at which SQS deletes them.

use redeliver_core::message::Timestamp;
use redeliver_dead_letters::Retention;
use redeliver_dead_letters::groups::format_timestamp;
use serde::{Serialize, Serializer};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// The upper limits of the age classes; the last class is unbounded.
const LIMITS: [i64; 6] = [HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY];
/// The names of the age classes.
pub const AGE_CLASSES: [&str; 7] =
    ["under 1 h", "1 – 6 h", "6 – 24 h", "1 – 3 d", "3 – 7 d", "7 – 14 d", "14 d or more"];

/// The ages of messages, measured from `SentTimestamp`, which is also the start of their retention. A redrive preserves
/// it, so the age of a moved message includes its time in the first queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgeDistribution {
    /// `SentTimestamp` of the oldest message.
    #[serde(serialize_with = "serialize_optional_timestamp")]
    pub oldest: Option<Timestamp>,
    /// `SentTimestamp` of the newest message.
    #[serde(serialize_with = "serialize_optional_timestamp")]
    pub newest: Option<Timestamp>,
    /// The age of the oldest message.
    pub oldest_seconds: i64,
    /// Message counts by age: under 1 hour, 6 hours, 1 day, 3 days, 7 days and 14 days, and older.
    pub classes: [u64; 7],
    /// The time at which SQS deletes the oldest message; `None` if the queue's retention is unknown.
    #[serde(serialize_with = "serialize_optional_timestamp")]
    pub first_expires_at: Option<Timestamp>,
    /// Messages in the last fifth of the queue's retention.
    pub deleted_soon: u64,
    /// The last fifth of the queue's retention; `None` if the retention is unknown.
    pub soon_seconds: Option<i64>,
}

impl AgeDistribution {
    pub(super) fn add_message(&mut self, sent_at: Timestamp, now: Timestamp, retention: Option<Retention>) {
        let seconds = (now - sent_at).num_seconds();
        self.oldest = Some(self.oldest.map_or(sent_at, |oldest| oldest.min(sent_at)));
        self.newest = Some(self.newest.map_or(sent_at, |newest| newest.max(sent_at)));
        self.oldest_seconds = self.oldest_seconds.max(seconds);
        let class = LIMITS.iter().position(|limit| seconds < *limit).unwrap_or(LIMITS.len());
        self.classes[class] += 1;
        self.soon_seconds = retention.map(|retention| retention.last_fifth().num_seconds());
        if let Some((retention, expires_at)) = retention.and_then(|kept| Some((kept, kept.ends_at(sent_at)?)))
        {
            self.first_expires_at =
                Some(self.first_expires_at.map_or(expires_at, |first| first.min(expires_at)));
            self.deleted_soon += u64::from(retention.ends_soon(expires_at, now));
        }
    }
}

pub(super) fn serialize_optional_timestamp<S: Serializer>(
    moment: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    moment.map(format_timestamp).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn each_message_is_in_one_class_and_the_oldest_expires_first() {
        let now = at(20 * DAY);
        let mut age = AgeDistribution::default();
        for old in [-1, 0, HOUR - 1, HOUR, 3 * DAY, 11 * DAY + 5 * HOUR, 13 * DAY + 1, 14 * DAY] {
            age.add_message(at(20 * DAY - old), now, Retention::from_seconds(14 * 86_400));
        }
        assert_eq!(age.classes, [3, 1, 0, 0, 1, 2, 1]);
        assert_eq!((age.oldest, age.newest), (Some(at(6 * DAY)), Some(at(20 * DAY + 1))));
        assert_eq!((age.oldest_seconds, age.first_expires_at), (14 * DAY, Some(now)));
        assert_eq!(
            (age.deleted_soon, age.soon_seconds),
            (3, Some(241_920)),
            "the last fifth of 14 days is 2.8 days"
        );
    }

    #[test]
    fn without_a_known_retention_nothing_expires() {
        let mut age = AgeDistribution::default();
        age.add_message(at(0), at(DAY), None);
        assert_eq!((age.first_expires_at, age.deleted_soon, age.soon_seconds), (None, 0, None));
    }
}
