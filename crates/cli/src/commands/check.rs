//! `redeliver check`: finds errors in a message file, a policy file or a data schema before anything is deployed.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use redeliver_operator::check::{FileCheck, MessageCounts, check_data_schema, check_messages, check_policy};
use redeliver_operator::files::{FileError, read_schema, read_text};
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::sentences::describe_all_invalid;
use redeliver_operator::terminal::escape::{escape_line, escape_lines};
use redeliver_operator::terminal::help::{HelpFooter, VALIDATE};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::format_count;
use redeliver_operator::{CommandFailure, ExitCode};
use serde::Serialize;

/// The closing text of the help for `check`.
const CLOSING: HelpFooter = HelpFooter {
    command: "check",
    page: "send",
    examples: &[
        "redeliver check orders.jsonl --data-schema order.schema.json",
        "redeliver check events.jsonl --plain --message-id-pointer /detail/id",
        "redeliver check --policy policy.json --format json",
        "redeliver check examples/messages.jsonl",
    ],
    notes: &[
        "JSON: {schema, valid, files: [{name, messages: {all, invalid, plain, without_id} (null: not a file of \
              messages), findings}]}",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Everything is valid."),
        (ExitCode::Failed, "", "A file cannot be read."),
        (ExitCode::Usage, "", ""),
        (ExitCode::ProblemsFound, "violations", ""),
    ],
};

/// Check messages, a retry policy or a data schema. Reports the JSON Pointer and the rule of each violation.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
#[command(group = ArgGroup::new("checked").required(true).multiple(true).args(["messages", "policy", "data_schema"]))]
pub struct Arguments {
    /// A file with one message per line, or `-` for standard input
    ///
    /// JSON Lines, one body per line, or one JSON document over several lines; the output of `aws sqs
    /// receive-message`, a Lambda SQS event, or a JSON array of messages.
    #[arg(value_name = "FILE")]
    messages: Option<PathBuf>,
    /// A retry policy
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// JSON Schema for the `data` of each message
    ///
    /// The schema itself is checked, and messages are checked against it.
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    data_schema: Option<PathBuf>,
    #[command(flatten)]
    plain: PlainArguments,
    #[command(flatten)]
    printing: PrintArgs,
}

/// The result for `--format json`.
#[derive(Serialize)]
struct CheckReport<'a> {
    valid: bool,
    files: &'a [FileCheck],
}

/// Checks the files and prints the findings.
pub fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let checked = check_files(arguments)?;
    let is_valid = checked.iter().all(|file| file.findings.is_empty());
    // File names and message fields are untrusted, so they are escaped.
    let table = || escape_lines(&checked.iter().map(describe_file_check).collect::<String>());
    arguments.printing.print_report("check", &CheckReport { valid: is_valid, files: &checked }, table)?;
    let counts = checked.iter().filter_map(|file| file.messages).filter(|_| !arguments.plain.plain);
    let hints = counts.filter_map(|counts| {
        describe_all_invalid(counts.invalid - counts.dead_letters, counts.all, "--plain (ENVELOPE=optional)")
    });
    hints.for_each(stderr::warning);
    Ok(if is_valid { ExitCode::Done } else { ExitCode::ProblemsFound })
}

fn check_files(arguments: &Arguments) -> Result<Vec<FileCheck>, FileError> {
    let mut checked = Vec::new();
    if let Some(path) = &arguments.policy {
        checked.push(check_policy(path, &read_text(path)?));
    }
    let mut schema_is_valid = true;
    if let Some(path) = &arguments.data_schema {
        let schema = check_data_schema(path, &read_text(path)?);
        schema_is_valid = schema.findings.is_empty();
        checked.push(schema);
    }
    if let Some(path) = arguments.messages.as_deref().filter(|_| schema_is_valid) {
        let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
        checked.push(check_messages(path, schema)?);
    }
    Ok(checked)
}

/// Returns one line per finding, or one line about a valid file.
fn describe_file_check(checked: &FileCheck) -> String {
    let name = checked.name.display();
    match checked.messages {
        _ if !checked.findings.is_empty() => {
            checked.findings.iter().map(|finding| escape_line(finding) + "\n").collect()
        }
        None => format!("{name}: valid\n"),
        Some(MessageCounts { all: 0, .. }) => format!("{name}: 0 messages\n"),
        Some(counts) => {
            format!(
                "{name}: {}, valid{}\n",
                format_count(counts.all, "message"),
                describe_plain_counts(counts)
            )
        }
    }
}

/// Counts plain messages and those without an id, so that a wrong `--message-id-pointer` is noticed.
fn describe_plain_counts(counts: MessageCounts) -> String {
    match counts {
        MessageCounts { plain: 0, .. } => String::new(),
        MessageCounts { plain, without_id: 0, .. } => format!(" ({plain} plain)"),
        MessageCounts { plain, without_id, .. } => {
            format!(" ({plain} plain, {without_id} of them without their own id: SQS's is used)")
        }
    }
}
