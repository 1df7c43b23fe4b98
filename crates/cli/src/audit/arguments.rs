//! The arguments of `redeliver audit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::connection::DeadLetterQueue;

/// Tell what died, why and when, by reading a DLQ without consuming it.
///
/// Works on the final DLQ of a redeliver stack and on any other standard queue. Messages are hidden from other readers while
/// they are read, and visible again at the end, also after an error or Ctrl-C (within two minutes if the program is killed).
/// Reading counts as a receive, as with any reader.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver audit --stack Redeliver
  redeliver audit --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/final-dlq --format json
  redeliver audit --stack Redeliver --where '.error_type == \"NON_RETRYABLE_ERROR\" and .body.data.amount > 100'
  redeliver audit --stack Redeliver --format html --output dead-letters.html
  redeliver audit --stack Redeliver --show 0191f3a2-7b1c-7d3e-8f00-0123456789ab --reveal
  redeliver audit --stack Redeliver --archive dead-letters.jsonl

A filter works on one object a message:
  {message_id, sent_at, error_type, error_details, attempts, fingerprint, attributes, body}
Attributes are plain values. A body that is no JSON is text: write `.body.data?.amount > 100` where there are both.

JSON: {total, coverage: {seen, approximate, unreadable}, by_error_type: {CODE: n}, groups: [{fingerprint, error_type, count, first, last,
error_details, example}], attempts, age, over_time, duplicates, skipped_attempts, complete, ...}

Duplicates are dead letters with the same message_id and generation: copies, however many attempts each has spent. Skipped attempts are those that retry_attempt counts
and retry_history does not tell of, from its oldest failure on where it has five, else from the first.

Exit codes:
  0  no dead letters (that the filter lets through)
  2  bad usage, a wrong filter, a file that cannot be written, a queue that cannot be read
  3  dead letters were found
  4  not all of the queue was seen, whatever was found")]
pub struct Arguments {
    #[command(flatten)]
    pub(super) queue: DeadLetterQueue,
    /// Only messages for which this jq filter is true; it must give true, false or null
    #[arg(long = "where", value_name = "JQ")]
    pub(super) filter: Option<String>,
    /// What is printed: a report (table, json, html), or one line a message (jsonl with the whole body, csv)
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Write there instead of standard output; it must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print one message whole, by its `message_id` or by SQS's id
    #[arg(long, value_name = "ID", conflicts_with_all = ["format", "filter", "archive"])]
    pub(super) show: Option<String>,
    /// Do not mask the values of bodies (--show, html), nor those of attributes (html); with csv: add the bodies
    #[arg(long)]
    pub(super) reveal: bool,
    /// Keep all that is needed to restore each message in this new file, as JSON Lines; it is not overwritten
    #[arg(long, value_name = "FILE")]
    pub(super) archive: Option<PathBuf>,
}

/// What is printed.
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
