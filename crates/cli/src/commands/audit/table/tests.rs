use jiff::tz::TimeZone;
use redeliver_dead_letters::Coverage;

use super::*;
use crate::commands::audit::examples::{
    context, foreign_dead_letter, record, report, report_with_retention, with_sent_time,
};
use redeliver_operator::audit::{AuditTally, CauseTally};

fn print_report(report: &AuditReport, colors: bool) -> String {
    print_with_layout(report, colors, TextLayout::Whole)
}

fn print_with_layout(report: &AuditReport, colors: bool, layout: TextLayout) -> String {
    let mut output = Vec::new();
    Table { colors, layout }.write_report(report, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

fn terminal(columns: usize) -> TextLayout {
    TextLayout::Fitted { columns, now: context().now, zone: TimeZone::UTC }
}

#[test]
fn a_pipe_shows_the_whole_cause_and_a_terminal_its_last_error() {
    let details = format!(
        "Max retry attempts 5 exceeded; last error HttpStatus.500: {} order 17",
        "the warehouse is closed ".repeat(20)
    );
    let report = report(&[record("RETRY_ATTEMPT_EXCEEDED", &details, 1)]);
    assert!(print_report(&report, false).contains(&format!("\n             {details}\n")));
    for columns in [60, 80, 200] {
        let shown = print_with_layout(&report, false, terminal(columns));
        assert!(shown.lines().all(|line| line.chars().count() <= columns), "{columns}: {shown}");
        let headline = shown.lines().skip_while(|line| !line.starts_with("Groups")).nth(1).unwrap();
        assert!(headline.contains("last error HttpStatus.500: the"), "{shown}");
    }
}

#[test]
fn times_are_relative_and_local_on_a_terminal() {
    let report = report(&[with_sent_time(record("NON_RETRYABLE_ERROR", "no order", 1), 75_600)]);
    let shown = print_with_layout(&report, false, terminal(60));
    assert!(shown.starts_with("1 dead letter in final-dlq (00:00 UTC)"), "{shown}");
    let times = "             first 3h ago, Jan 1 21:00 UTC\n             last 3h ago, Jan 1 21:00 UTC\n";
    assert!(shown.contains(times), "{shown}");
}

#[test]
fn error_types_are_sorted_by_count() {
    let record = |code: &str, number| record(code, "x", number);
    let report = report(&[
        record("INVALID_MESSAGE_FORMAT", 1),
        record("NON_RETRYABLE_ERROR", 2),
        record("NON_RETRYABLE_ERROR", 3),
    ]);
    let text = print_report(&report, false);
    let lines: Vec<_> = text.lines().skip_while(|line| *line != "By error type").skip(1).take(2).collect();
    assert!(
        lines[0].starts_with("  NON_RETRYABLE_ERROR") && lines[1].starts_with("  INVALID_MESSAGE_FORMAT"),
        "{text}"
    );
}

#[test]
fn the_audit_table_matches_its_sample() {
    let report = report(&[
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 1 failed", 1), 0),
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 2 failed", 2), 60),
        with_sent_time(foreign_dead_letter("plain", 3), 80_000),
    ]);
    let expected = format!(
        "\
3 dead letters in final-dlq (1970-01-02T00:00:00.000Z): start with group {0}, 2 of them

By error type
  RETRY_ATTEMPT_EXCEEDED         2 ██████████████████████████████
  UNANNOTATED                    1 ███████████████

Groups (2)
          2  order 2 failed
             RETRY_ATTEMPT_EXCEEDED, group {0}
             first 1970-01-01T00:00:00.000Z; last 1970-01-01T00:01:00.000Z
             e.g. 00000000-0000-4000-8000-000000000002
          1  No error is recorded
             UNANNOTATED, group {1}
             first 1970-01-01T22:13:20.000Z; last 1970-01-01T22:13:20.000Z
             e.g. sqs-3

By retries made
  2               2 ██████████████████████████████
  unknown         1 ███████████████

By age
  under 1 h         0
  1 – 6 h           1 ██████████████████████████████
  6 – 24 h          1 ██████████████████████████████
  1 – 3 d           1 ██████████████████████████████

The oldest has been here for 1d.
",
        report.groups[0].fingerprint, report.groups[1].fingerprint
    );
    assert_eq!(print_report(&report, false), expected);
}

#[test]
fn a_group_is_compared_with_all_others() {
    let [cause, same, other] = [("slow", 1), ("slow", 2), ("no order", 3)]
        .map(|(details, number)| record("NON_RETRYABLE_ERROR", details, number));
    let seconds = [(&cause, 7200), (&same, 7200), (&other, 0)];
    let shown = |compared: &[&redeliver_dead_letters::DeadLetterRecord], layout| {
        let mut tally = CauseTally::new(&cause.fingerprint);
        for (record, seconds) in
            seconds.iter().filter(|(record, _)| compared.iter().any(|other| std::ptr::eq(*other, *record)))
        {
            tally.add_record(&with_sent_time((*record).clone(), *seconds));
        }
        let report =
            AuditReport { comparison: tally.into_comparison(), ..report(std::slice::from_ref(&cause)) };
        let text = print_with_layout(&report, false, layout);
        let sentence = text.lines().skip_while(|line| !line.starts_with("By retries made")).count();
        let lines: Vec<_> = text.lines().collect();
        lines[..lines.len() - sentence - 1].rsplit(|line| line.is_empty()).next().unwrap().join(" ")
    };
    assert_eq!(
        shown(&[&cause, &same, &other], TextLayout::Whole),
        "Compared with 1 dead letter of other causes: since 1970-01-01T02:00:00.000Z."
    );
    assert_eq!(
        shown(&[&cause, &same, &other], terminal(80)),
        "Compared with 1 dead letter of other causes: since Jan 1 02:00 UTC."
    );
    assert_eq!(
        shown(&[&cause, &other], TextLayout::Whole),
        "Neither tenant, version nor time sets it apart from 1 dead letter of other causes."
    );
    assert_eq!(shown(&[&cause], TextLayout::Whole), "There is no other cause to compare it with.");
}

#[test]
fn tenants_are_sorted_by_count_with_unnamed_ones_last() {
    let sent_by = |tenant: Option<&str>, number| {
        let mut record = record("NON_RETRYABLE_ERROR", "x", number);
        if let Some(tenant) = tenant {
            let attribute = redeliver_core::message::Attribute::string(tenant);
            record.message.attributes.insert("tenant".to_owned(), attribute);
        }
        record
    };
    let report = report(&[
        sent_by(Some("acme"), 1),
        sent_by(Some("zeta\u{1b}"), 2),
        sent_by(Some("zeta\u{1b}"), 3),
        sent_by(None, 4),
    ]);
    let text = print_report(&report, false);
    let lines: Vec<_> = text.lines().skip_while(|line| *line != "By tenant").skip(1).take(3).collect();
    for (line, name) in lines.iter().zip(["  zeta\\u{1b}", "  acme", "  none named"]) {
        assert!(line.starts_with(name), "{text}");
    }
    assert!(!text.contains("By function"), "a single function is not shown: {text}");
}

#[test]
fn the_audit_table_starts_with_soon_expiring_messages() {
    let sent = |number, seconds| with_sent_time(record("NON_RETRYABLE_ERROR", "x", number), seconds);
    // With a retention of a day and ten seconds, the last fifth is 4 hours, 48 minutes and 2 seconds.
    let soon = print_report(&report_with_retention(&[sent(1, 0), sent(2, 17_271), sent(3, 17_272)]), false);
    let mut lines = soon.lines();
    assert_eq!(
        lines.next(),
        Some(
            "SQS deletes 2 dead letters within 4h 48m, the first in 10s (1970-01-02T00:00:10.000Z): send them back \
             (`redeliver redrive`), or keep them (`redeliver audit --save`)."
        )
    );
    let letters = "3 dead letters in final-dlq (1970-01-02T00:00:00.000Z): start with group ";
    assert!(lines.next().unwrap().starts_with(letters), "{soon}");
    let one = print_report(&report_with_retention(&[sent(1, -20)]), false);
    assert!(
        one.starts_with("SQS deletes 1 dead letter within 4h 48m, at any moment: send it back (`redeliver"),
        "{one}"
    );
    assert!(!print_report(&report_with_retention(&[sent(1, 80_000)]), false).contains("SQS deletes"));
}

#[test]
fn an_empty_queue_prints_one_line_and_incomplete_coverage_adds_another() {
    assert_eq!(print_report(&report(&[]), false), "0 dead letters in final-dlq (1970-01-02T00:00:00.000Z)\n");
    let coverage = Coverage {
        seen: 0,
        approximate: 5,
        unreadable: 0,
        complete: false,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    let unseen = print_report(&AuditTally::new(context()).into_report(coverage, false), false);
    assert!(
        unseen.lines().nth(1).unwrap().starts_with("Not everything was read: 0 of about 5 messages"),
        "{unseen}"
    );
}

#[test]
fn only_the_programs_own_escapes_reach_the_terminal_and_only_with_colors() {
    let mut hostile = record("NON_RETRYABLE_ERROR", "x", 1);
    hostile.error_details = "\u{1b}]0;owned\u{7} \u{9b}31m\u{202e}".to_owned();
    let report = report(&[hostile]);
    let plain = print_report(&report, false);
    assert!(!plain.chars().any(|character| character.is_control() && character != '\n'), "{plain:?}");
    assert!(plain.contains(r" \u{9b}31m\u{202e}"), "{plain}");
    assert!(print_report(&report, true).contains("\u{1b}[1m"));
}
