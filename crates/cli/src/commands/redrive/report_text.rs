//! The report of a redrive as text.

use std::fmt::Write as _;

use redeliver_dead_letters::redrive::{EditExample, RedriveOutcome, RedriveReport};
use redeliver_operator::dead_letter::{EditLine, masked_edit_diff};
use redeliver_operator::queues::queue_name_from_arn;
use redeliver_operator::redrive::{ContinuationWording, describe_remaining_messages, next_step};
use redeliver_operator::sentences::{describe_incompleteness, describe_pilot_result, describe_seen_messages};
use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::layout::TextLayout;
use redeliver_operator::terminal::units::{format_count, group_digits};

use super::Arguments;

/// Maximum number of lines shown of an edit's example.
const EXAMPLE_LINES_MAX: usize = 40;

/// The kinds of source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedriveRoute {
    QueueToQueue,
    QueueToSources,
    FileToQueue,
    FileToFile,
}

impl RedriveRoute {
    pub(super) fn for_arguments(arguments: &Arguments) -> Self {
        match (&arguments.from.file, &arguments.to) {
            _ if arguments.sends_to_sources() => Self::QueueToSources,
            (None, _) => Self::QueueToQueue,
            (Some(_), Some(_)) => Self::FileToQueue,
            (Some(_), None) => Self::FileToFile,
        }
    }

    const fn is_from_queue(self) -> bool {
        matches!(self, Self::QueueToQueue | Self::QueueToSources)
    }

    /// Returns the label for messages that an earlier run sent.
    const fn already_sent_label(self) -> &'static str {
        match self {
            Self::QueueToQueue | Self::QueueToSources => "sent before, now deleted",
            Self::FileToQueue | Self::FileToFile => "sent before",
        }
    }

    const fn done_label(self, applied: bool) -> &'static str {
        match (self, applied) {
            (Self::FileToFile, true) => "written",
            (Self::FileToFile, false) => "would be written",
            (_, true) => "sent back",
            (_, false) => "would be sent back",
        }
    }
}

pub(super) fn render_report_table(
    report: &RedriveReport,
    route: RedriveRoute,
    applied: bool,
    max: u64,
) -> String {
    let is_queue = route.is_from_queue();
    let mut text = String::new();
    let mut line = |name: &str, count: u64| {
        let _infallible = writeln!(text, " {name:<38} {:>10}", group_digits(count));
    };
    line(route.done_label(applied), if applied { report.sent } else { report.planned });
    for (error_type, count) in &report.by_error_type {
        line(&format!("  {error_type}"), *count);
    }
    if route == RedriveRoute::QueueToSources {
        for (arn, count) in &report.by_source {
            line(&format!("  to {}", queue_name_from_arn(arn)), *count);
        }
    }
    for (name, count) in [
        ("  edited", report.edited),
        ("  under a new message_id", report.new_ids),
        ("  copies of them, at most", report.possible_copies),
        (route.already_sent_label(), report.deleted_only),
        ("sent, NOT deleted from the DLQ", report.not_deleted),
        ("came straight back", report.returned_count()),
    ] {
        if count > 0 {
            line(name, count);
        }
    }
    // Totals are known only after a complete pass through the queue or the file. Lines in a file that are not dead
    // letters do not make the pass incomplete.
    let has_totals = report.is_complete() || !is_queue && report.early_end.is_none();
    let [stay, not_selected] = if has_totals {
        ["stay", "not selected"]
    } else {
        ["stay, as far as seen", "not selected, as far as seen"]
    };
    line(stay, report.staying_count());
    line(not_selected, report.not_selected);
    if let Some(left) = describe_messages_left_by_max(report, applied, max) {
        let _infallible = writeln!(text, " {:<38} {left:>10}", "left by --max");
    }
    if let Some(watched) = &report.pilot_result {
        let _infallible = writeln!(text, "{}", describe_pilot_result(watched));
    }
    for (old, new) in &report.new_id_examples {
        let _infallible = writeln!(text, "e.g. {new} was {old}");
    }
    for reason in describe_remaining_messages(report, is_queue) {
        let _infallible = writeln!(text, "{reason}");
    }
    if let Some(coverage) = report.coverage.filter(|coverage| is_queue && !coverage.complete) {
        let seen = match report.early_end {
            // The early end explains the gap, so the other messages are not reported as in flight elsewhere.
            Some(_) => describe_seen_messages(&coverage),
            None => describe_incompleteness(&coverage),
        };
        let _infallible = writeln!(text, "{seen}");
    }
    text
}

/// Shows the edit applied to one message, as a diff.
pub(super) fn render_edit_example(example: &EditExample, layout: &TextLayout) -> String {
    let id = escape_line(&example.message_id);
    let heading = format!("e.g. {id}, edited (values that the edit leaves alone are masked):");
    let mut text = layout.wrap_paragraph(&heading, 2) + "\n";
    let lines = masked_edit_diff(example);
    let (shown, more) = lines.split_at(lines.len().min(EXAMPLE_LINES_MAX));
    for line in shown {
        let (sign, line) = match line {
            EditLine::Same(line) => (' ', layout.fit_rest_of_line(2, line)),
            EditLine::Old(line) => ('-', layout.fit_rest_of_line(2, line)),
            EditLine::New(line) => ('+', layout.fit_rest_of_line(2, line)),
            EditLine::Hidden(count) => (' ', format!("… {}", format_count(*count as u64, "line"))),
        };
        let _infallible = writeln!(text, "{sign} {line}");
    }
    if !more.is_empty() {
        let _infallible = writeln!(text, "  … and {} more", group_digits(more.len() as u64));
    }
    text
}

/// Returns the number of messages left in the DLQ because of `--max`. A plan counts all of them; a run counts only
/// those it saw before it ended.
fn describe_messages_left_by_max(report: &RedriveReport, applied: bool, max: u64) -> Option<String> {
    match (applied, report.left_by_max) {
        (true, 0) if report.sent >= max && !report.covers_whole_dlq() => Some("not counted".to_owned()),
        (_, 0) => None,
        (true, left) => Some(format!("{} or more", group_digits(left))),
        (false, left) => Some(group_digits(left)),
    }
}

/// Suggests running the same command again.
const AGAIN: ContinuationWording =
    ContinuationWording { again: "run the same command here again", anyway: "--stop-after-failures 100" };

/// Suggests what to do next, unless the report already does.
pub(super) fn closing_sentence(
    ending: RedriveOutcome,
    route: RedriveRoute,
    report: &RedriveReport,
) -> Option<String> {
    match ending {
        RedriveOutcome::NotSeen if !route.is_from_queue() => None, // each damaged line was reported
        RedriveOutcome::Interrupted if route == RedriveRoute::FileToFile => {
            Some("interrupted: nothing was written".to_owned())
        }
        _ => next_step(report, ending, AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::Coverage;
    use redeliver_dead_letters::redrive::{EarlyEnd, PilotResult};

    use super::*;

    #[test]
    fn the_redrive_table_shows_the_pilot_skipped_messages_and_new_ids() {
        let watched = PilotResult { seconds: 90, sent: 50, came_back: 1, waiting: Some(3) };
        let report = RedriveReport {
            sent: 100,
            pilot_result: Some(watched),
            new_id_examples: vec![("old".to_owned(), "new".to_owned())],
            staying: [("parked".to_owned(), (1, vec!["sqs-7".to_owned()]))].into(),
            ..RedriveReport::default()
        };
        let table = render_report_table(&report, RedriveRoute::QueueToQueue, true, u64::MAX);
        for line in [
            "the first 50 were watched for 1m 30s: 1 came straight back, about 3 more messages wait for a retry than before",
            "e.g. new was old",
            "1 left in the DLQ: parked (e.g. sqs-7)",
        ] {
            assert!(table.lines().any(|found| found == line), "{line} in {table}");
        }
    }

    #[test]
    fn the_edit_example_fits_the_terminal() {
        let body = |currency: &str| {
            let note = "long ".repeat(40);
            format!(r#"{{"data":{{"card":"secret","currency":"{currency}","note":"{note}"}}}}"#)
        };
        let example = EditExample {
            message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001".to_owned(),
            before: body("eur"),
            after: body("EUR"),
            can_show_metadata: true,
        };
        assert_eq!(
            render_edit_example(&example, &TextLayout::Whole),
            "\
e.g. 0191f3a2-7b1c-7d3e-8f00-000000000001, edited (values that the edit leaves alone are masked):
  {
    \"data\": {
      \"card\": \"<masked string>\"
-     \"currency\": \"eur\"
+     \"currency\": \"EUR\"
      \"note\": \"<masked string>\"
    }
  }
"
        );
        let many = EditExample { after: format!("[{}]", vec!["1"; 100].join(",")), ..example };
        let now = redeliver_core::message::Timestamp::UNIX_EPOCH;
        let narrow = TextLayout::Fitted { columns: 40, now, zone: jiff::tz::TimeZone::UTC };
        let shown = render_edit_example(&many, &narrow);
        assert_eq!(shown.lines().count(), EXAMPLE_LINES_MAX + 5, "the heading has four lines: {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    }

    #[test]
    fn an_interrupted_run_does_not_claim_messages_in_flight_elsewhere() {
        let coverage = Coverage { seen: 20, approximate: 200, ..Coverage::default() };
        let text = |early_end| {
            let report = RedriveReport { coverage: Some(coverage), early_end, ..RedriveReport::default() };
            render_report_table(&report, RedriveRoute::QueueToQueue, true, u64::MAX)
        };
        assert!(text(None).contains("in flight elsewhere"));
        let interrupted = text(Some(EarlyEnd::Interrupted));
        assert!(interrupted.ends_with("20 of about 200 messages were seen\n"), "{interrupted}");
    }

    #[test]
    fn messages_left_by_max_are_counted_exactly_only_in_a_plan() {
        let left = |report: &RedriveReport, applied| {
            let table = render_report_table(report, RedriveRoute::QueueToQueue, applied, 1);
            table.lines().find(|line| line.contains("--max")).map(str::to_owned)
        };
        let line = |count: &str| Some(format!(" left by --max                          {count:>10}"));
        let report = RedriveReport { planned: 1, sent: 1, left_by_max: 1, ..RedriveReport::default() };
        assert_eq!((left(&report, false), left(&report, true)), (line("1"), line("1 or more")));
        let not_seen = RedriveReport { left_by_max: 0, ..report };
        assert_eq!((left(&not_seen, false), left(&not_seen, true)), (None, line("not counted")));
        assert_eq!(left(&RedriveReport::default(), true), None);
    }
}
