use clap::Parser;
use redeliver_dead_letters::Coverage;
use redeliver_testing::hostile::hostile_text;

use super::examples::{nth_message_id, record, report, report_with_retention, with_sent_time};
use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

fn parse(arguments: &[&str]) -> Result<Program, clap::Error> {
    Program::try_parse_from(["audit"].iter().chain(arguments))
}

#[test]
fn audit_exit_codes_distinguish_empty_found_and_incomplete() {
    let audited = |report: &AuditReport| AuditResult {
        report: report.clone(),
        missing: Vec::new(),
        output_closed: false,
        still_hidden: 0,
        remarks: Vec::new(),
        has_new_causes: false,
    };
    let code = |report: &AuditReport| exit_code(&audited(report));
    let (empty, found) = (report(&[]), report(&[record("NON_RETRYABLE_ERROR", "x", 1)]));
    assert_eq!((code(&empty), code(&found)), (ExitCode::Done, ExitCode::ProblemsFound));
    let incomplete = |report: AuditReport| AuditReport {
        coverage: Coverage { complete: false, ..report.coverage },
        complete: false,
        ..report
    };
    assert_eq!(
        (code(&incomplete(empty.clone())), code(&incomplete(found.clone()))),
        (ExitCode::Incomplete, ExitCode::Incomplete)
    );
    let new = AuditResult { has_new_causes: true, ..audited(&incomplete(found.clone())) };
    assert_eq!(exit_code(&new), ExitCode::NewCause, "it is reported once");
    let soon = report_with_retention(&[with_sent_time(record("NON_RETRYABLE_ERROR", "x", 1), 0)]);
    assert_eq!(code(&soon), ExitCode::ExpiringSoon, "SQS deletes it in ten seconds");
    assert_eq!(code(&incomplete(soon.clone())), ExitCode::ExpiringSoon, "whatever the others are");
    let new = AuditResult { has_new_causes: true, ..audited(&soon) };
    assert_eq!(exit_code(&new), ExitCode::NewCause, "the next run ends with 7");
    let missing = AuditResult { missing: vec!["no message …".to_owned()], ..audited(&empty) };
    assert_eq!(exit_code(&missing), ExitCode::NotFound);
    let interrupted = AuditReport { interrupted: true, ..incomplete(found.clone()) };
    assert_eq!(code(&interrupted), ExitCode::Interrupted);
    // The audit ended because its output was closed, for example by `head`, or because of --max.
    let closed = AuditResult { output_closed: true, ..audited(&incomplete(found.clone())) };
    assert_eq!(exit_code(&closed), ExitCode::ProblemsFound);
    let not_judged = |report: AuditReport| {
        let mut report = report;
        report.not_judged.messages = 1;
        report
    };
    assert_eq!(
        (code(&not_judged(empty)), code(&not_judged(found.clone()))),
        (ExitCode::Incomplete, ExitCode::Incomplete)
    );
    let mut ten = incomplete(found);
    ten.max_reached = true;
    assert_eq!(code(&ten), ExitCode::ProblemsFound);
}

#[test]
fn audit_accepts_one_queue_and_no_report_options_with_show() {
    let url = ["--queue", "http://127.0.0.1:1/q"];
    assert!(parse(&url).is_ok() && parse(&["--stack", "s"]).is_ok());
    assert!(parse(&[]).is_err() && parse(&[url[0], url[1], "--stack", "s"]).is_err());
    assert!(parse(&[url[0], url[1], "--show", "x", "--reveal"]).is_ok());
    for other in [["--format", "json"], ["--where", "."], ["--max", "1"], ["--save", "a"]] {
        assert!(parse(&[url[0], url[1], "--show", "x", other[0], other[1]]).is_err(), "{other:?}");
    }
}

#[test]
fn the_help_has_examples_and_exit_codes() {
    let help = <Program as clap::CommandFactory>::command().render_long_help().to_string();
    for expected in [
        "Examples:",
        "Exit codes:",
        "  0    done, and nothing needs attention: no dead letters match",
        "  4    not everything could be read",
        "  7    SQS will delete",
    ] {
        assert!(help.contains(expected), "{help}");
    }
}

#[test]
fn every_view_shows_hostile_text_the_same_way() {
    let (text, shown) = hostile_text();
    let record = record("NON_RETRYABLE_ERROR", &text, 1);
    let report = report(std::slice::from_ref(&record));
    let printed = |mut view: Box<dyn View>| {
        let mut output = Vec::new();
        view.begin_output(&mut output).unwrap();
        view.write_record(&record, &mut output).unwrap();
        view.write_report(&report, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    };
    let arn = "arn:aws:sqs:eu-central-1:1:q";
    let for_people: [Box<dyn View>; 5] = [
        Box::new(table::Table {
            colors: false,
            layout: redeliver_operator::terminal::layout::TextLayout::Whole,
        }),
        Box::new(show::ShowView::new(
            record.message_id(),
            ShowOptions { reveal: true, ..ShowOptions::default() },
            false,
            redeliver_operator::terminal::layout::TextLayout::Whole,
        )),
        Box::new(csv::Csv { reveal: true }),
        Box::new(html::HtmlReport::new(ShowOptions { reveal: true, ..ShowOptions::default() })),
        Box::new(known_causes::NewCauses { known: KnownCauses::without_causes(arn) }),
    ];
    for (index, view) in for_people.into_iter().enumerate() {
        let printed = printed(view);
        assert!(printed.contains(&shown), "view {index}: {printed}");
        let safe = printed.replace("\r\n", "\n");
        assert_eq!(
            redeliver_operator::terminal::escape::escape_lines(&safe),
            safe,
            "view {index}: and nothing else is hidden"
        );
    }
    let for_programs: [Box<dyn View>; 2] = [Box::new(JsonView), Box::new(JsonLinesView)];
    for view in for_programs {
        let printed = printed(view);
        assert_eq!(redeliver_operator::terminal::escape::escape_lines(&printed), printed);
        let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let details = value.get("error_details").unwrap_or_else(|| &value["groups"][0]["error_details"]);
        assert_eq!(details, &text, "the characters are the same");
    }
}

/// Returns the command that `redeliver audit ARGUMENTS` suggests; it must be a valid command line itself.
fn suggest_next(arguments: &str, report: &AuditReport) -> Option<NextStep> {
    let words = ["redeliver", "audit"].into_iter().chain(arguments.split(' '));
    let crate::CliCommand::Audit(arguments) = crate::Arguments::try_parse_from(words).unwrap().command else {
        panic!("expected audit")
    };
    let next = next_command(&arguments, report)?;
    let (NextStep::Command(command) | NextStep::Edit(command)) = &next;
    crate::Arguments::try_parse_from(command.words()).unwrap();
    Some(next)
}

#[test]
fn next_command_names_source_and_newest_message_of_largest_group() {
    let report = report(&[record("NON_RETRYABLE_ERROR", "x", 1)]);
    let group = &report.groups[0].fingerprint;
    let next = |arguments: &str| match suggest_next(arguments, &report) {
        None => None,
        Some(NextStep::Command(command)) => Some(command.to_string()),
        Some(NextStep::Edit(edit)) => panic!("nothing to edit: {edit}"),
    };
    let named = "--stack prod --profile ops";
    assert_eq!(next(named).unwrap(), format!("redeliver audit {named} --show {}", nth_message_id(1)));
    let selected = format!("{named} --group {group}");
    assert_eq!(next(&selected).unwrap(), format!("redeliver redrive {selected}"));
    assert_eq!(next(&format!("{selected} --max 1")), None, "the next command would send more");
    assert_eq!(
        next("--queue dlq --show 0191").unwrap(),
        format!("redeliver redrive --queue dlq --ids {}", nth_message_id(1))
    );
    assert_eq!(
        next("dead.jsonl").unwrap(),
        format!("redeliver audit dead.jsonl --show {}", nth_message_id(1))
    );
    assert_eq!((next("-"), next("dead.jsonl --show 1")), (None, None));
}

#[test]
fn the_next_command_for_invalid_messages_edits_their_group() {
    let report = report(&[record("INVALID_MESSAGE_SCHEMA", "/data/amount is not of type \"number\"", 1)]);
    let group = &report.groups[0].fingerprint;
    let next = |arguments: &str| {
        let next = suggest_next(arguments, &report)?;
        let (NextStep::Command(command) | NextStep::Edit(command)) = &next;
        Some((matches!(next, NextStep::Edit(_)), command.to_string()))
    };
    let edit = format!("redeliver redrive --stack prod --group {group} --edit '.body.data.amount |= .'");
    assert_eq!(next(&format!("--stack prod --group {group}")), Some((true, edit.clone())));
    assert_eq!(next("--stack prod --show 0191"), Some((true, edit)));
    let show = format!("redeliver audit --stack prod --show {}", nth_message_id(1));
    assert_eq!(next("--stack prod"), Some((false, show)), "one looks at it first");
    assert_eq!(next(&format!("dead.jsonl --group {group}")), None);
}
