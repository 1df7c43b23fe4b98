//! Groups dead letters by cause, in a table of bounded size.

use std::collections::{BTreeMap, HashMap};

use redeliver_core::message::Timestamp;
use redeliver_core::truncate::{clean_and_cut_middle, clean_text};
use serde::{Serialize, Serializer};

use crate::DeadLetterRecord;

/// The maximum number of groups that are counted separately. Dead letters in further groups are counted as [`OTHER`].
pub const GROUPS_MAX: usize = 10_000;
/// The shared fingerprint of all dead letters that do not fit into the full table.
pub const OTHER: &str = "other";
/// The maximum length of an example's text, in bytes; the text can come from other programs.
const DETAILS_BYTES_MAX: usize = 1024;
/// The maximum length of an example's id, in bytes; SQS message ids and our own are shorter.
const ID_BYTES_MAX: usize = 128;

/// Dead letters with the same fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterGroup {
    /// The fingerprint for `--group`; [`OTHER`] if the table was full.
    pub fingerprint: String,
    /// The error of the newest dead letter, on one line.
    pub headline: String,
    /// The `ErrorType` of the newest dead letter.
    pub error_type: String,
    pub count: u64,
    /// The timestamp at which the first dead letter was sent to this queue.
    #[serde(serialize_with = "serialize_millis")]
    pub first: Timestamp,
    /// The timestamp at which the last dead letter was sent to this queue.
    #[serde(serialize_with = "serialize_millis")]
    pub last: Timestamp,
    /// The `ErrorDetails` of the newest dead letter.
    pub error_details: String,
    /// The id of the newest dead letter.
    pub example: String,
    /// The timestamp of each function's last dead letter. The empty name is used for dead letters without a function,
    /// and for functions beyond the limit.
    #[serde(skip)]
    pub last_by_function: BTreeMap<String, Timestamp>,
}

/// The maximum number of functions per group that are tracked separately; each version counts as a function.
const FUNCTIONS_MAX: usize = 32;
/// The maximum length of a stored function name, in bytes.
const FUNCTION_BYTES_MAX: usize = 128;

impl DeadLetterGroup {
    fn from_record(record: &DeadLetterRecord, fingerprint: &str) -> Self {
        let sent_at = record.message.sent_at;
        Self {
            fingerprint: fingerprint.to_owned(),
            headline: record.headline(),
            error_type: record.error_type.clone(),
            count: 0,
            first: sent_at,
            last: sent_at,
            error_details: clean_and_cut_middle(&record.error_details, DETAILS_BYTES_MAX),
            example: clean_text(record.message_id(), ID_BYTES_MAX),
            last_by_function: BTreeMap::new(),
        }
    }

    fn count_record(&mut self, record: &DeadLetterRecord) {
        let sent_at = record.message.sent_at;
        // Equal timestamps are ordered by id, so that the order of reading does not matter.
        if (sent_at, record.message_id()) > (self.last, &self.example) {
            let last_by_function = std::mem::take(&mut self.last_by_function);
            *self = Self {
                count: self.count,
                first: self.first,
                last_by_function,
                ..Self::from_record(record, &self.fingerprint)
            };
        }
        self.add_function(record.failed_function().unwrap_or_default(), sent_at);
        self.first = self.first.min(sent_at);
        self.count += 1;
    }
}

impl DeadLetterGroup {
    fn add_function(&mut self, function: String, sent_at: Timestamp) {
        let all = &mut self.last_by_function;
        let is_kept = function.len() <= FUNCTION_BYTES_MAX
            && (all.len() < FUNCTIONS_MAX || all.contains_key(&function));
        let last = all.entry(if is_kept { function } else { String::new() }).or_insert(sent_at);
        *last = sent_at.max(*last);
    }
}

/// The groups of the added dead letters: at most [`GROUPS_MAX`], plus [`OTHER`].
#[derive(Clone, Debug, Default)]
pub struct GroupTable {
    groups: HashMap<String, DeadLetterGroup>,
}

impl GroupTable {
    /// Counts a dead letter in the group with its fingerprint. The newest one is the group's example.
    pub fn add_record(&mut self, record: &DeadLetterRecord) {
        let is_full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&record.fingerprint);
        let fingerprint = if is_full { OTHER } else { &record.fingerprint };
        if let Some(group) = self.groups.get_mut(fingerprint) {
            group.count_record(record);
            return;
        }
        let mut group = DeadLetterGroup::from_record(record, fingerprint);
        group.count_record(record);
        self.groups.insert(fingerprint.to_owned(), group);
    }

    /// Returns the groups, largest first and [`OTHER`] last.
    #[must_use]
    pub fn into_groups(self) -> Vec<DeadLetterGroup> {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by(|one, other| {
            let key = |group: &DeadLetterGroup| (group.fingerprint == OTHER, std::cmp::Reverse(group.count));
            key(one).cmp(&key(other)).then_with(|| one.fingerprint.cmp(&other.fingerprint))
        });
        groups
    }
}

/// Serializes a timestamp in RFC 3339 with milliseconds, as in the documents for `--where`.
///
/// # Errors
/// Any error from the serializer.
pub fn serialize_millis<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_timestamp(*moment))
}

/// Formats a timestamp in RFC 3339 with milliseconds, the precision of SQS's timestamps.
#[must_use]
pub fn format_timestamp(moment: Timestamp) -> String {
    moment.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(code: &str, details: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(redeliver_testing::dead_letters::retried_record(code, details, number))
    }

    fn record_sent_at(mut record: DeadLetterRecord, seconds: i64) -> DeadLetterRecord {
        record.message.sent_at = redeliver_testing::dead_letters::at_seconds(seconds);
        record
    }

    fn build_groups(records: &[DeadLetterRecord]) -> Vec<DeadLetterGroup> {
        let mut table = GroupTable::default();
        records.iter().for_each(|record| table.add_record(record));
        table.into_groups()
    }

    #[test]
    fn a_group_does_not_depend_on_the_order_of_its_messages() {
        let sent_at = |seconds, number: u32| {
            let error = format!("user {number} unknown");
            record_sent_at(record("NON_RETRYABLE_ERROR", &error, number), seconds)
        };
        let records = [sent_at(30, 1), sent_at(10, 2), sent_at(20, 3)];
        let groups = build_groups(&records);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].count, groups[0].error_details.as_str()), (3, "user 1 unknown"));
        assert_eq!((groups[0].first.timestamp(), groups[0].last.timestamp()), (10, 30));
        assert_eq!(groups[0].example, "00000000-0000-4000-8000-000000000001");
        let mut reversed = records;
        reversed.reverse();
        assert_eq!(build_groups(&reversed), groups);
    }

    #[test]
    fn a_group_has_the_last_message_time_for_each_function_version() {
        let sent_at = |seconds, function: Option<&str>| {
            let mut record = record_sent_at(record("NON_RETRYABLE_ERROR", "x", 1), seconds);
            let cause = &mut record.dead_letter.as_mut().unwrap().cause;
            cause.function = Some(function.unwrap_or_default().to_owned());
            record
        };
        let long = "n".repeat(FUNCTION_BYTES_MAX + 1);
        let groups = build_groups(&[
            sent_at(30, Some("orders:41")),
            sent_at(10, Some("orders:42")),
            sent_at(20, Some("orders:41")),
            sent_at(40, None),
            sent_at(50, Some(&long)),
        ]);
        let at = redeliver_testing::dead_letters::at_seconds;
        let expected = [("", at(50)), ("orders:41", at(30)), ("orders:42", at(10))];
        assert_eq!(groups[0].last_by_function, expected.map(|(name, at)| (name.to_owned(), at)).into());
    }

    #[test]
    fn the_largest_group_is_first_and_the_overflow_group_last() {
        let mut records: Vec<_> = (0..GROUPS_MAX + 3)
            .map(|number| {
                let mut record = record("NON_RETRYABLE_ERROR", "x", 1);
                record.fingerprint = format!("{number:016x}");
                record
            })
            .collect();
        records.push(records[7].clone());
        let groups = build_groups(&records);
        assert_eq!(groups.len(), GROUPS_MAX + 1);
        assert_eq!((groups[0].fingerprint.as_str(), groups[0].count), ("0000000000000007", 2));
        let last = groups.last().unwrap();
        assert_eq!((last.fingerprint.as_str(), last.count), (OTHER, 3));
    }
}
