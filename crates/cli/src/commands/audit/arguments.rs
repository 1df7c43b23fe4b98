//! The arguments of `redeliver audit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use redeliver_operator::ExitCode;
use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::dead_letter_source::DeadLetterSource;
use redeliver_operator::terminal::help::{HelpFooter, SHOW};
use redeliver_operator::terminal::output::OutputArgs;
use redeliver_operator::trace_url::TraceUrlArgs;

use crate::commands::selection_args::SelectionArgs;

const KNOWN_CAUSES: &str = "Known causes";

/// The closing text of the help for `audit`.
const CLOSING: HelpFooter = HelpFooter {
    command: "audit",
    page: "operate/audit",
    examples: &[
        "redeliver audit --stack redeliver-prod",
        "redeliver audit --prefix orders --where '.error_type == \"MESSAGE_EXPIRED\"'",
        "redeliver audit s3://my-archive/redeliver --since 2026-11-27",
        "redeliver audit dead.jsonl",
        "redeliver audit --queue orders-dlq --format json",
        "redeliver audit --stack redeliver-prod --format html -o dead-letters.html",
        "redeliver audit --stack redeliver-prod --reveal \\\n--show 0191f3a2-7b1c-7d3e-8f00-0123456789ab",
        "redeliver audit --stack redeliver-prod --save dead-letters.jsonl",
        "redeliver audit --stack redeliver-prod --known-causes causes.jsonl",
        "redeliver audit s3://my-archive/redeliver --until 2026-11-13 --save old.jsonl",
    ],
    notes: &[
        "A filter is a jq expression on one object per message: {message_id, sent_at, error_type, error_details, \
         attempts, fingerprint, attributes, body}. Attributes are plain values. A body that is not JSON is a string: \
         write `.body.data?.amount? > 100` if there are both kinds. A message on which the filter fails is skipped and \
         counted.",
        "JSON: {schema, total, coverage: {seen, approximate, unreadable}, not_judged: {messages, example, reason}, \
         by_error_type: {CODE: n}, by_tenant, by_function: {NAME: n}, groups: [{fingerprint, headline, error_type, \
         count, first, last, error_details, example}], comparison (with --group), attempts, age: {oldest, \
         first_expires_at, deleted_soon, soon_seconds, ...}, over_time, duplicates, skipped_attempts, complete, ...}",
        "SQS counts a queue's retention from a message's first send, even if SQS moved the message there later. A dead \
         letter in the last fifth of the retention (2d 19h of 14 days) is deleted soon: the report starts with the \
         number of these, which is also `age.deleted_soon`. CloudWatch's ApproximateAgeOfOldestMessage, and therefore \
         the alarm on it, leaves out messages that were received three times (three audits are enough).",
        "Duplicates are dead letters with the same message_id and generation, regardless of their attempts. Skipped \
         attempts are counted by retry_attempt but missing from retry_history; counting starts at its oldest failure \
         if it has five, otherwise at the first attempt.",
    ],
    exit_codes: &[
        (ExitCode::Done, "no dead letters match", ""),
        (ExitCode::Failed, "", "A filter fails on all messages, or a file or a queue cannot be used."),
        (ExitCode::Usage, "", "Also if a filter is not valid jq."),
        (ExitCode::ProblemsFound, "dead letters", ""),
        (
            ExitCode::Incomplete,
            "",
            "Not all of the queue was seen, unless --max ended the audit; a line of the file is not a dead letter; or \
             the filter failed on a message.",
        ),
        (
            ExitCode::NewCause,
            "",
            "With --known-causes: a cause is new or came back. Takes precedence over the other codes: a cause is \
             reported only once, while the next run returns 7 again.",
        ),
        (ExitCode::ExpiringSoon, "", "Takes precedence over 3, 4 and 8."),
        (ExitCode::NotFound, "a message or a group", "Also if several ids start with the given prefix."),
        (ExitCode::Interrupted, "", "The report covers what was read."),
    ],
};

/// Show what died, why and when. Reads a DLQ without consuming it, a file of dead letters, or an archive in S3.
///
/// Works on the final DLQ of a redeliver stack, on any other standard queue, and on files written by `audit --save`,
/// `purge --backup` and `local --final-dlq`. Messages are hidden from other readers while they are read, and visible
/// again at the end, even after an error or Ctrl-C (within two minutes if the program is killed). As with any reader,
/// reading a message counts as a receive.
#[derive(Debug, Args)]
#[command(next_help_heading = SHOW)]
#[command(override_usage = "redeliver audit [OPTIONS] <FILE|--queue|--stack|--prefix|--stage>")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    #[command(flatten)]
    pub(super) source: DeadLetterSource,
    #[command(flatten)]
    pub(super) period: PeriodArgs,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// The output format
    ///
    /// A report (table, json, html), or one line per message (jsonl with the complete body, csv).
    #[arg(long, value_enum, default_value_t = AuditFormat::Table)]
    pub(super) format: AuditFormat,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Print one complete message, by its id or the id's first 8 characters
    ///
    /// The id is the `message_id` or the SQS message id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["format", "SelectionArgs", "save"])]
    pub(super) show: Option<String>,
    /// Do not mask values in bodies and attributes
    ///
    /// Works with --show and with --format html; with --format csv, it adds the bodies.
    #[arg(long)]
    pub(super) reveal: bool,
    #[command(flatten)]
    pub(super) traces: TraceUrlArgs,
    /// Print only new and returned causes; this file remembers them
    ///
    /// Each cause is printed once, on its own line. If SQS deletes dead letters soon, a line says so once a day. With
    /// --format or --output the report is printed, too; otherwise, a cron job stays silent until there is something
    /// new.
    #[arg(long, help_heading = KNOWN_CAUSES, value_name = "FILE", conflicts_with = "show")]
    pub(super) known_causes: Option<PathBuf>,
    /// Only record that the cause of this group is resolved
    ///
    /// If newer messages have the cause, it is reported as having come back.
    #[arg(long, help_heading = KNOWN_CAUSES, value_name = "FINGERPRINT", requires = "known_causes", conflicts_with_all = ["SelectionArgs", "save", "format", "output", "reveal"])]
    pub(super) resolved: Option<String>,
    /// The fix, such as a version of the function
    ///
    /// If the fix is a version, NAME:VERSION, messages from earlier versions do not mean that the cause is back.
    #[arg(long, help_heading = KNOWN_CAUSES, value_name = "NAME", requires = "resolved")]
    pub(super) resolved_by: Option<String>,
    /// Also write the selected dead letters to this new file
    ///
    /// `redrive FILE` and `send --backup FILE` send them. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
}

impl Arguments {
    /// True if the report (with `--known-causes`, the new causes) is printed as text on standard output.
    pub(super) fn is_table_on_stdout(&self) -> bool {
        self.format == AuditFormat::Table && self.output.file().is_none()
    }
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// A human-readable report.
    Table,
    /// The report as one JSON object.
    Json,
    /// One JSON object per message, as filters see it.
    Jsonl,
    /// One line per message, for spreadsheets.
    Csv,
    /// The report as one self-contained web page.
    Html,
}
