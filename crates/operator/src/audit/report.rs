//! The audit report: a value of bounded size, built from records.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::sentences::{
    ELSEWHERE, count_invalid, describe_all_invalid, describe_expiring_messages, describe_full_groups,
};
use crate::terminal::output::json_document;
use crate::terminal::units::{format_count, group_digits};
use redeliver_core::message::Timestamp;
use redeliver_core::message::all_invalid::DEPLOYED_SETTING;
use redeliver_core::truncate::shorten_text;
use redeliver_dead_letters::groups::{DeadLetterGroup, GroupTable, OTHER, serialize_millis};
use redeliver_dead_letters::{Coverage, DeadLetterRecord, NotJudged, Retention};
use serde::Serialize;

use super::age::{AgeDistribution, serialize_optional_timestamp};
use super::attempts::{AttemptCounts, SkippedAttempts};
use super::comparison::{CauseComparison, CauseTally};
use super::copies::{CopyCounter, Duplicates};
use super::over_time::{ArrivalHistogram, ArrivalTimes};

/// Maximum number of tenants and functions counted separately.
const NAMES_MAX: usize = 1000;
/// Maximum length of a name, in characters, as in the console.
const NAME_CHARACTERS_MAX: usize = 128;

/// The result of an audit. Its size does not grow with the queue: 1,000 tenants and 1,000 functions are counted
/// separately, and the others share one count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Dead letters selected by the options.
    pub total: u64,
    /// The part of the queue that was read.
    pub coverage: Coverage,
    /// Messages that the filter could not evaluate. No other count includes them.
    pub not_judged: NotJudged,
    pub by_error_type: BTreeMap<String, u64>,
    /// Counts by tenant, for dead letters that name one.
    pub by_tenant: BTreeMap<String, u64>,
    /// Counts by the function that failed or gave up, for dead letters that name one.
    pub by_function: BTreeMap<String, u64>,
    /// Groups by fingerprint, largest first.
    pub groups: Vec<DeadLetterGroup>,
    /// The selected group compared with all others; `None` without a selected group, or if the queue was not read
    /// completely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<CauseComparison>,
    pub attempts: AttemptCounts,
    /// The ages of the dead letters.
    pub age: AgeDistribution,
    /// Counts by time of arrival.
    pub over_time: ArrivalHistogram,
    /// Copies of the same message.
    pub duplicates: Duplicates,
    /// Attempts missing from the history.
    pub skipped_attempts: SkippedAttempts,
    /// True if the whole queue was read.
    pub complete: bool,
    /// True if the audit was interrupted.
    pub interrupted: bool,
    /// True if `--max` ended the audit.
    pub max_reached: bool,
    #[serde(flatten)]
    pub context: AuditContext,
}

/// The queue or file, and the time of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditContext {
    pub queue: String,
    /// The queue's retention, if it is known.
    #[serde(skip)]
    pub retention: Option<Retention>,
    /// The time of the audit.
    #[serde(rename = "audited_at", serialize_with = "serialize_millis")]
    pub now: Timestamp,
    /// The end of the dead letters' virtual time, if they were created by `redeliver local`.
    #[serde(serialize_with = "serialize_optional_timestamp", skip_serializing_if = "Option::is_none")]
    pub virtual_now: Option<Timestamp>,
    /// The filter, if any.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

impl AuditReport {
    pub fn to_json(&self) -> String {
        json_document("audit", self)
    }

    /// Returns the number of messages per error type, most frequent first.
    pub fn counts_by_error_type(&self) -> Vec<(&str, u64)> {
        sort_by_count(&self.by_error_type)
    }

    /// Returns the tenants, those with the most dead letters first.
    pub fn counts_by_tenant(&self) -> Vec<(&str, u64)> {
        sort_by_count(&self.by_tenant)
    }

    /// Returns the functions, those with the most dead letters first.
    pub fn counts_by_function(&self) -> Vec<(&str, u64)> {
        sort_by_count(&self.by_function)
    }

    /// Names the setting to check; `None` unless at least ten dead letters were read, and all were selected and are
    /// invalid messages.
    pub fn describe_all_invalid(&self) -> Option<String> {
        describe_all_invalid(count_invalid(&self.by_error_type), self.coverage.seen, DEPLOYED_SETTING)
    }

    /// Warns about messages that SQS deletes soon; `None` if there are none.
    pub fn describe_expiring_messages(&self) -> Option<String> {
        let AgeDistribution { deleted_soon: count, first_expires_at, .. } = self.age;
        describe_expiring_messages(count, first_expires_at, self.context.retention, self.context.now)
    }

    /// Describes unread messages; `None` if all were read.
    pub fn describe_incompleteness(&self) -> Option<String> {
        let Coverage { seen, approximate, unreadable, .. } = self.coverage;
        if self.complete {
            return None;
        }
        let unreadable_too = match unreadable {
            0 => String::new(),
            _ => format!(
                ", and {} that could not be understood and stay in the queue",
                group_digits(unreadable)
            ),
        };
        let messages = format_count(approximate, "message");
        if self.max_reached && !self.interrupted {
            let found = format_count(self.total, "dead letter");
            return Some(format!(
                "--max ended the audit after {found}, of about {messages}{unreadable_too}."
            ));
        }
        let part =
            format!("Not everything was read: {} of about {messages}{unreadable_too}", group_digits(seen));
        Some(match self.interrupted {
            true => format!("{part}; the audit was interrupted."),
            false if unreadable > 0 && seen + unreadable >= approximate => format!("{part}."),
            false => match describe_full_groups(self.coverage.full_groups) {
                Some(behind) => format!("{part}. {behind}."),
                None => format!("{part}; the others are {ELSEWHERE}."),
            },
        })
    }
}

/// Counts an externally chosen name. Beyond [`NAMES_MAX`] names, all others are counted as one.
fn count_name(counts: &mut BTreeMap<String, u64>, name: Option<String>) {
    let Some(name) = name else { return };
    *named_entry(counts, &name) += 1;
}

/// Returns the entry for an externally chosen name. Beyond [`NAMES_MAX`] names, all others share one.
pub(super) fn named_entry<'m, T: Default>(entries: &'m mut BTreeMap<String, T>, name: &str) -> &'m mut T {
    let name = shorten_text(name, NAME_CHARACTERS_MAX);
    let is_full = entries.len() >= NAMES_MAX && !entries.contains_key(&name);
    entries.entry(if is_full { OTHER.to_owned() } else { name }).or_default()
}

/// Sorts the counts per name, largest first.
fn sort_by_count(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

/// A tally of records, counted one at a time. Its size does not grow with the queue beyond the limits of its tables.
#[derive(Debug, Default)]
pub struct AuditTally {
    report: AuditReport,
    groups: GroupTable,
    times: ArrivalTimes,
    copies: CopyCounter,
    comparison: Option<CauseTally>,
}

impl AuditTally {
    pub fn new(context: AuditContext) -> Self {
        Self { report: AuditReport { context, ..AuditReport::default() }, ..Self::default() }
    }

    /// Adds a comparison of a group with all others.
    #[must_use]
    pub fn with_comparison(self, group: Option<&str>) -> Self {
        Self { comparison: group.map(CauseTally::new), ..self }
    }

    /// Counts a record, selected or not, for the comparison only.
    pub(super) fn compare_record(&mut self, record: &DeadLetterRecord) {
        if let Some(comparison) = &mut self.comparison {
            comparison.add_record(record);
        }
    }

    /// Returns the count so far.
    pub(super) fn total(&self) -> u64 {
        self.report.total
    }

    pub fn add_record(&mut self, record: &DeadLetterRecord) {
        let Self { report, groups, times, copies, .. } = self;
        let sent_at = record.message.sent_at;
        report.total += 1;
        // Bounded: one of seven codes, or none.
        *report.by_error_type.entry(record.error_type.clone()).or_default() += 1;
        count_name(&mut report.by_tenant, record.tenant());
        count_name(&mut report.by_function, record.failed_function());
        report.attempts.add_record(record);
        report.age.add_message(
            sent_at,
            report.context.virtual_now.unwrap_or(report.context.now),
            report.context.retention,
        );
        report.skipped_attempts.add_record(record);
        groups.add_record(record);
        times.add_arrival(sent_at, &record.error_type);
        copies.add_record(record);
    }

    /// Counts a record that the filter could not evaluate.
    pub(super) fn add_not_judged(&mut self, record: &DeadLetterRecord, why: String) {
        self.report.not_judged.count_record(record, why);
    }

    pub fn into_report(self, coverage: Coverage, interrupted: bool) -> AuditReport {
        AuditReport {
            coverage,
            groups: self.groups.into_groups(),
            comparison: self.comparison.and_then(CauseTally::into_comparison),
            over_time: self.times.into_histogram(),
            duplicates: self.copies.into_duplicates(),
            complete: coverage.complete,
            interrupted,
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests;
