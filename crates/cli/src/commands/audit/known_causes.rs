//! `--known-causes FILE`: prints a line about messages that SQS will soon delete, at most once per day, and one line
//! per new or returned cause, and nothing else.

use std::io::{self, Write};

use redeliver_dead_letters::groups::{DeadLetterGroup, format_timestamp};
use redeliver_dead_letters::{DeadLetterRecord, KnownCauses, Resolution};
use redeliver_operator::audit::{AuditReport, View};
use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::units::format_count;

/// Prints the new causes at the end.
pub(super) struct NewCauses {
    pub(super) known: KnownCauses,
}

impl View for NewCauses {
    fn write_record(&mut self, _record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn write_report(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        new_cause_lines(&self.known, report).iter().try_for_each(|line| writeln!(output, "{line}"))
    }
}

/// Returns a line about messages that SQS will soon delete, unless one was printed within the last day, and one line
/// per new or returned cause.
pub(super) fn new_cause_lines(known: &KnownCauses, report: &AuditReport) -> Vec<String> {
    let is_due = known.is_deletion_report_due(report.context.now);
    let deleted_soon = report.describe_expiring_messages().filter(|_| is_due);
    let new = known.groups_with_new_cause(&report.groups).into_iter().map(describe_new_cause);
    let came_back = known.groups_with_recurred_cause(&report.groups);
    let came_back = came_back.into_iter().map(|(group, resolved)| describe_returned_cause(group, resolved));
    deleted_soon.into_iter().chain(new).chain(came_back).collect()
}

fn describe_new_cause(group: &DeadLetterGroup) -> String {
    let DeadLetterGroup { fingerprint, error_type, count, first, error_details, .. } = group;
    let details = match error_details.as_str() {
        "" => String::new(),
        details => format!(": {}", escape_line(details)),
    };
    format!(
        "new cause: {}{details} ({}, the first sent {}; --group {fingerprint})",
        escape_line(error_type),
        format_count(*count, "message"),
        format_timestamp(*first)
    )
}

fn describe_returned_cause(group: &DeadLetterGroup, resolved: &Resolution) -> String {
    let DeadLetterGroup { fingerprint, headline, error_type, last, .. } = group;
    let last = resolved.came_back_at(group).unwrap_or(*last);
    let Resolution { at, by } = resolved;
    let by = by.as_ref().map(|by| format!(" by {}", escape_line(by)));
    format!(
        "came back: {}: {} (the last sent {}; resolved {}{}; --group {fingerprint})",
        escape_line(error_type),
        escape_line(headline),
        format_timestamp(last),
        format_timestamp(*at),
        by.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{
        at_seconds, record, report, report_with_retention, with_sent_time,
    };

    #[test]
    fn soon_expiring_messages_are_reported_first_and_once_per_day() {
        let mut report = report_with_retention(&[with_sent_time(record("NON_RETRYABLE_ERROR", "x", 1), 0)]);
        let mut known = KnownCauses::without_causes("arn");
        let reported = new_cause_lines(&known, &report);
        assert_eq!((reported.len(), reported.first()), (2, report.describe_expiring_messages().as_ref()));
        known.remember_groups(&report.groups, report.context.now);
        known.remember_deletion_report(report.context.now);
        assert!(new_cause_lines(&known, &report).is_empty());
        report.context.now = at_seconds(2 * 86_400 - 1);
        assert!(new_cause_lines(&known, &report).is_empty());
        report.context.now = at_seconds(2 * 86_400);
        assert_eq!(new_cause_lines(&known, &report), [report.describe_expiring_messages().unwrap()]);
    }

    #[test]
    fn each_new_cause_gets_a_line_and_known_causes_are_left_out() {
        let report = report(&[
            record("NON_RETRYABLE_ERROR", "no such\u{1b} user\nsorry", 1),
            record("RETRY_ATTEMPT_EXCEEDED", "", 2),
        ]);
        let mut known = KnownCauses::without_causes("arn");
        let printed = |known: &KnownCauses| {
            let mut output = Vec::new();
            NewCauses { known: known.clone() }.write_report(&report, &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        let lines = printed(&known);
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(
            lines.contains(
                "new cause: NON_RETRYABLE_ERROR: no such\u{fffd} user\\nsorry (1 message, the first sent "
            ),
            "{lines}"
        );
        known.remember_groups(&report.groups, report.context.now);
        assert_eq!(printed(&known), "");
    }

    #[test]
    fn a_returned_cause_gets_a_line_with_its_resolution() {
        let report = report(&[with_sent_time(record("NON_RETRYABLE_ERROR", "no order", 1), 60)]);
        let [group] = report.groups.as_slice() else { panic!("expected one cause") };
        assert_eq!(
            describe_returned_cause(
                group,
                &Resolution { at: at_seconds(30), by: Some("orders:42".to_owned()) }
            ),
            format!(
                "came back: NON_RETRYABLE_ERROR: {} (the last sent 1970-01-01T00:01:00.000Z; resolved \
                 1970-01-01T00:00:30.000Z by orders:42; --group {})",
                group.headline, group.fingerprint
            )
        );
    }
}
