//! `--since FILE`: new causes, a line each, and nothing else.

use std::io::{self, Write};

use redeliver_dead_letters::groups::{Group, written};
use redeliver_dead_letters::{DeadLetterRecord, KnownCauses};
use redeliver_operator::terminal::escape::escaped;
use redeliver_operator::terminal::units::counted;

use super::report::AuditReport;
use super::view::View;

/// Prints the new causes at the end.
pub(super) struct NewCauses {
    pub(super) known: KnownCauses,
}

impl View for NewCauses {
    fn add(&mut self, _record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        lines(&self.known, &report.groups).iter().try_for_each(|line| writeln!(output, "{line}"))
    }
}

/// A line for each group with a new cause.
pub(super) fn lines(known: &KnownCauses, groups: &[Group]) -> Vec<String> {
    known.new_among(groups).into_iter().map(line).collect()
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
    use super::*;
    use crate::commands::audit::examples::{record, report};

    #[test]
    fn each_new_cause_is_a_line_and_what_is_known_is_none() {
        let report = report(&[
            record("NON_RETRYABLE_ERROR", "no such\u{1b} user\nsorry", 1),
            record("RETRY_ATTEMPT_EXCEEDED", "", 2),
        ]);
        let mut known = KnownCauses::nothing("arn");
        let printed = |known: &KnownCauses| {
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
