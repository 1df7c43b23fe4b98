//! Counts of the selected messages: by cause, tenant, error type, function and time.

use std::collections::{BTreeMap, HashMap};

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use crate::dead_letters::snapshot::LetterEntry;

/// The longest span that is counted by hour; longer spans are counted by day.
const BY_HOUR_MAX: TimeDelta = TimeDelta::hours(48);

/// The number of selected messages with a cause, and when the first and last of them were sent to the DLQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CauseCount {
    pub(crate) count: u64,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

/// Counts messages by fingerprint.
pub(crate) fn count_by_cause<'l>(letters: &[&'l LetterEntry]) -> HashMap<&'l str, CauseCount> {
    let mut causes: HashMap<&str, CauseCount> = HashMap::new();
    for letter in letters {
        let at = letter.sent_at;
        let cause = causes.entry(&letter.fingerprint).or_insert(CauseCount { count: 0, first: at, last: at });
        cause.count += 1;
        cause.first = cause.first.min(at);
        cause.last = cause.last.max(at);
    }
    causes
}

/// Counts messages by a value, largest count first. Messages without the value are not counted.
pub(crate) fn count_by_value<'l>(
    letters: &[&'l LetterEntry],
    value: impl Fn(&'l LetterEntry) -> Option<&'l str>,
) -> Vec<(&'l str, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for value in letters.iter().filter_map(|letter| value(letter)) {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Counts per time span.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TimeCounts {
    /// The start of each span with messages, newest first.
    pub(crate) counts: Vec<(Timestamp, u64)>,
    /// The length of a span: an hour or a day.
    pub(crate) span: TimeDelta,
}

/// Counts messages by hour, or by day if they span more than two days.
pub(crate) fn count_by_time(letters: &[&LetterEntry]) -> TimeCounts {
    let times = || letters.iter().map(|letter| letter.sent_at);
    let span = times().max().zip(times().min()).map(|(last, first)| last - first).unwrap_or_default();
    let length = if span <= BY_HOUR_MAX { TimeDelta::hours(1) } else { TimeDelta::days(1) };
    let seconds = length.num_seconds();
    let mut counts: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for at in times() {
        let start = at.timestamp() - at.timestamp().rem_euclid(seconds);
        *counts.entry(Timestamp::from_timestamp(start, 0).unwrap_or(at)).or_default() += 1;
    }
    TimeCounts { counts: counts.into_iter().rev().collect(), span: length }
}

/// Counts in columns of equal duration.
pub(crate) struct ColumnCounts<const COLUMNS: usize> {
    pub(crate) counts: [u64; COLUMNS],
    /// The duration of a column.
    pub(crate) seconds: i64,
}

/// Counts letters by send time, in columns between two timestamps.
pub(crate) fn count_by_column<'l, const COLUMNS: usize>(
    letters: impl Iterator<Item = &'l LetterEntry>,
    [first, last]: [Timestamp; 2],
) -> ColumnCounts<COLUMNS> {
    let seconds = (last - first).num_seconds() / i64::try_from(COLUMNS).unwrap_or(i64::MAX) + 1;
    let mut counts = [0; COLUMNS];
    for letter in letters {
        let column = usize::try_from((letter.sent_at - first).num_seconds() / seconds).unwrap_or(0);
        counts[column.min(COLUMNS - 1)] += 1;
    }
    ColumnCounts { counts, seconds }
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::{Coverage, DeadLetterRecord};
    use redeliver_testing::dead_letters::{at_seconds, retried_record};

    use super::*;
    use crate::dead_letters::snapshot::{Snapshot, SnapshotBuilder};
    use crate::dead_letters::spool::Spool;

    /// Returns dead letters sent at these times, in seconds. The first has one error, and the rest have another.
    fn snapshot(sent: &[i64]) -> Snapshot {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = SnapshotBuilder::new(Spool::new(folder.path()).unwrap());
        for (seconds, number) in sent.iter().zip(1..) {
            let code = if number == 1 { "MESSAGE_EXPIRED" } else { "NON_RETRYABLE_ERROR" };
            let mut message = retried_record(code, "x", number);
            message.sent_at = at_seconds(*seconds);
            message.message_group_id = (number > 1).then(|| "acme".to_owned());
            builder.add_record(&DeadLetterRecord::new(message)).unwrap();
        }
        builder.into_snapshot(Coverage::default(), at_seconds(0), None)
    }

    #[test]
    fn a_selection_is_counted_by_cause_value_and_hour() {
        let snapshot = snapshot(&[10, 3599, 3600]);
        let letters: Vec<_> = snapshot.letters.iter().collect();
        let causes = count_by_cause(&letters);
        let twice = &snapshot.groups[0].fingerprint;
        assert_eq!(
            causes[twice.as_str()],
            CauseCount { count: 2, first: at_seconds(3599), last: at_seconds(3600) }
        );
        let types = count_by_value(&letters, |letter| Some(&letter.error_type));
        assert_eq!(types, [("NON_RETRYABLE_ERROR", 2), ("MESSAGE_EXPIRED", 1)]);
        assert_eq!(count_by_value(&letters, |letter| letter.tenant.as_deref()), [("acme", 2)]);
        assert_eq!(
            count_by_time(&letters),
            TimeCounts { counts: vec![(at_seconds(3600), 1), (at_seconds(0), 2)], span: TimeDelta::hours(1) }
        );
    }

    #[test]
    fn more_than_two_days_are_counted_by_day() {
        let snapshot = snapshot(&[0, 172_801]);
        let letters: Vec<_> = snapshot.letters.iter().collect();
        assert_eq!(
            count_by_time(&letters),
            TimeCounts {
                counts: vec![(at_seconds(172_800), 1), (at_seconds(0), 1)],
                span: TimeDelta::days(1)
            }
        );
    }
}
