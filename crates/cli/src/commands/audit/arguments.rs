//! The arguments of `redeliver audit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::dead_letter_source::DeadLetterSource;
use redeliver_operator::terminal::output::Output;
use redeliver_operator::trace_url::TraceUrlArgs;

use crate::commands::selection_args::SelectionArgs;

/// Show what died, why and when, by reading a DLQ without consuming it, a file of dead letters, or an archive in S3.
///
/// Works on the final DLQ of a redeliver stack, on any other standard queue, and on files of `audit --save`, `purge
/// --backup` and `local --final-dlq`. Messages are hidden from other readers
/// while they are read, and visible again at the end, also after an error or Ctrl-C (within two minutes if the program
/// is killed). Reading counts as a receive, as with any reader.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver audit --stack redeliver-prod
  redeliver audit dead.jsonl
  redeliver audit --queue orders-dlq --format json
  redeliver audit --prefix orders --where '.error_type == \"MESSAGE_EXPIRED\"'
  redeliver audit --stack redeliver-prod --format html -o dead-letters.html
  redeliver audit --stack redeliver-prod --reveal \\
    --show 0191f3a2-7b1c-7d3e-8f00-0123456789ab
  redeliver audit --stack redeliver-prod --save dead-letters.jsonl
  redeliver audit --stack redeliver-prod --known-causes causes.jsonl
  redeliver audit s3://my-archive/redeliver --since 2026-11-27
  redeliver audit s3://my-archive/redeliver --until 2026-11-13 --save old.jsonl

A filter is jq, on one object a message: {message_id, sent_at, error_type, error_details, attempts, fingerprint, attributes, \
body}. Attributes are plain values. A body that is not JSON is text: write `.body.data?.amount? > 100` if there are \
both. A message on which the filter fails is left alone and counted.

JSON: {schema, total, coverage: {seen, approximate, unreadable}, not_judged: {messages, example, reason}, by_error_type: {CODE: n}, by_tenant, by_function: {NAME: n}, groups: [{fingerprint, headline, error_type, \
count, first, last, error_details, example}], comparison (with --group), attempts, age: {oldest, first_expires_at, deleted_soon, soon_seconds, ...}, over_time, duplicates, skipped_attempts, complete, ...}

SQS counts a queue's retention from a message's first send, also if it was moved there. A dead letter in the last fifth \
of it (2d 19h of 14 days) is deleted soon: the report begins with that, and `age.deleted_soon` counts them. CloudWatch's \
ApproximateAgeOfOldestMessage, and so the alarm on it, leaves out messages that were received three times, as three audits do.

Duplicates are dead letters with the same message_id and generation, whatever their attempts. Skipped \
attempts are those that retry_attempt counts and retry_history does not have, from its oldest failure on if it has five, \
else from the first.

Exit codes:
  0    no matching dead letters
  1    a filter fails on all messages, or a file or a queue cannot be used
  2    bad usage, or a filter that is not jq
  3    dead letters were found
  4    not all of the queue was seen, unless --max ended it; a line of the file is not a
       dead letter; or the filter could not judge a message
  6    with --known-causes: a cause is new or came back; also if another code is true, since it
       is reported only once, and 7 again by the next run
  7    SQS deletes at least one of them soon; also if 3, 4 or 8 is true
  8    a message or a group that was named is not in the queue, or several ids begin with it
  130  interrupted; the report has what was read")]
pub struct Arguments {
    #[command(flatten)]
    pub(super) source: DeadLetterSource,
    #[command(flatten)]
    pub(super) period: PeriodArgs,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// The output: a report (table, json, html), or one line a message (jsonl with the whole body, csv)
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) output: Output,
    /// Print one whole message, by its `message_id` or SQS's id, or by the first eight characters or more
    #[arg(long, value_name = "ID", conflicts_with_all = ["format", "SelectionArgs", "save"])]
    pub(super) show: Option<String>,
    /// Do not mask the values of bodies and attributes (--show, html); with csv: add the bodies
    #[arg(long)]
    pub(super) reveal: bool,
    #[command(flatten)]
    pub(super) traces: TraceUrlArgs,
    /// Print each cause once that is new or came back, on a line of its own, and once a day that SQS deletes dead letters soon; this file
    /// remembers both. Without --format or --output nothing else is printed, so a cron job is silent until there is
    /// something new
    #[arg(long, value_name = "FILE", conflicts_with = "show")]
    pub(super) known_causes: Option<PathBuf>,
    /// Only record in the file that the cause of this group is gone: it is reported again, as come back, if newer messages
    /// have it
    #[arg(long, value_name = "FINGERPRINT", requires = "known_causes", conflicts_with_all = ["SelectionArgs", "save"])]
    pub(super) resolved: Option<String>,
    /// The fix. If it is a version of the function, NAME:VERSION, messages of earlier versions do not bring the cause back
    #[arg(long, value_name = "NAME", requires = "resolved")]
    pub(super) resolved_by: Option<String>,
    /// Write the selected dead letters to this new file, which `redrive FILE` and `send --backup FILE` send; an existing
    /// file is not overwritten
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
}

impl Arguments {
    /// True if the report, or with `--known-causes` the new causes, are printed for people on standard output.
    pub(super) fn is_table_on_stdout(&self) -> bool {
        self.format == Format::Table && self.output.file().is_none()
    }
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A report for people.
    Table,
    /// The report as one JSON object.
    Json,
    /// One JSON object a message, as filters see it.
    Jsonl,
    /// One line a message, for spreadsheets.
    Csv,
    /// The report as one web page that needs nothing else.
    Html,
}
