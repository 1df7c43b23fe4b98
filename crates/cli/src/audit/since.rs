//! `--since FILE`: new causes, a line each, and nothing else.

use std::io::{self, Write};

use redeliver_dead_letters::groups::{GROUPS_MAX, Group, written};
use redeliver_dead_letters::{DeadLetterRecord, Known};

use super::report::Report;
use super::view::View;
use crate::people::{counted, grouped};
use crate::text::escaped;

/// Prints the new causes at the end.
pub(super) struct NewCauses {
    pub(super) known: Known,
}

impl View for NewCauses {
    fn add(&mut self, _record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, report: &Report, output: &mut dyn Write) -> io::Result<()> {
        lines(&self.known, &report.groups).iter().try_for_each(|line| writeln!(output, "{line}"))
    }
}

/// A line for each group whose cause was never told.
pub(super) fn lines(known: &Known, groups: &[Group]) -> Vec<String> {
    known.new_among(groups).into_iter().map(line).collect()
}

/// A sentence about messages whose causes had no room in the table of groups.
pub(crate) fn remark(groups: &[Group]) -> Option<String> {
    let (messages, causes) = match Known::unknown_among(groups) {
        0 => return None,
        messages => (counted(messages, "message"), grouped(GROUPS_MAX as u64)),
    };
    Some(format!("{messages} died of causes beyond the first {causes}: whether those are new is not known"))
}

fn line(group: &Group) -> String {
    let Group { fingerprint, error_type, count, first, error_details, .. } = group;
    let details = match error_details.as_str() {
        "" => String::new(),
        details => format!(": {}", escaped(details)),
    };
    format!(
        "new cause: {}{details} ({}, the first sent {}; --group {fingerprint})",
        escaped(error_type),
        counted(*count, "message"),
        written(*first)
    )
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::groups::OTHER;

    use super::*;
    use crate::audit::examples::{record, report};

    #[test]
    fn causes_that_find_no_place_are_told_as_not_known() {
        let mut report = report(&[record("NON_RETRYABLE_ERROR", "x", 1)]);
        assert_eq!(remark(&report.groups), None);
        let other = Group { fingerprint: OTHER.to_owned(), count: 1_234, ..report.groups[0].clone() };
        report.groups.push(other);
        assert_eq!(
            remark(&report.groups).unwrap(),
            "1,234 messages died of causes beyond the first 10,000: whether those are new is not known"
        );
        assert_eq!(lines(&Known::nothing("arn"), &report.groups).len(), 1);
    }

    #[test]
    fn each_new_cause_is_a_line_and_what_is_known_is_none() {
        let report = report(&[
            record("NON_RETRYABLE_ERROR", "no such\u{1b} user\nsorry", 1),
            record("RETRY_ATTEMPT_EXCEEDED", "", 2),
        ]);
        let mut known = Known::nothing("arn");
        let printed = |known: &Known| {
            let mut output = Vec::new();
            NewCauses { known: known.clone() }.end(&report, &mut output).unwrap();
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
        known.remember(&report.groups, report.context.now);
        assert_eq!(printed(&known), "");
    }
}
