//! The arguments of `redeliver redrive`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use redeliver_dead_letters::redrive::{BodyEdit, RedrivePlan};
use redeliver_operator::dead_letter_source::DeadLetterSource;
use redeliver_operator::files::read_schema;
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::queues::QueueAddress;
use redeliver_operator::redrive::{RATE_MAX, RedrivePace, RedriveRequest, WATCH_SECONDS_MAX};
use redeliver_operator::terminal::help::{EDIT, HelpFooter, VALIDATE};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::units::{number, seconds};
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

use crate::commands::apply_args::ApplyArgs;
use crate::commands::selection_args::SelectionArgs;

/// The closing text of the help for `redrive`.
const CLOSING: HelpFooter = HelpFooter {
    command: "redrive",
    page: "operate/redrive",
    examples: &[
        "redeliver redrive --stack redeliver-prod",
        "redeliver redrive --stack redeliver-prod --apply \\\n--group 21d708b3fca00092 --rate 20",
        "redeliver redrive --prefix orders --ids 0191f3a2-7b1c-7d3e-8f00-000000000001 \\\n\
         --edit '.body.data.currency = \"EUR\"' --apply",
        "redeliver redrive --queue shared-dlq --plain",
        "redeliver redrive --queue orders-dlq --to orders --max 10",
        "redeliver redrive --stack redeliver-prod --apply \\\n--where '.error_type == \"RETRY_ATTEMPT_EXCEEDED\"'",
        "redeliver redrive --stack redeliver-prod --group 21d708b3fca00092 \\\n\
         --edit '.body.data.currency = \"EUR\"' --new-id --apply",
        "redeliver redrive dead.jsonl --where '.error_type | startswith(\"INVALID\")' \\\n\
         --edit '.body = .body + \"}\"' -o fixed.jsonl --apply",
        "redeliver redrive expired.jsonl --to orders --apply",
    ],
    notes: &[
        "A message that is sent back keeps its message_id, which is its idempotency key. An API that remembers \
         idempotency keys might ignore or reject an edited body. Use --new-id in that case, but only if the API did \
         nothing under the old id.",
        "With FILE nothing is deleted or watched. Its messages are sent to the --to queue, each once: the journal, \
         FILE.redriven, records everything sent from the file, regardless of the selection. Without --to they are \
         written to the new --output file, one body per line, in the form that `check`, `local` and `send` read, \
         except for messages that the journal already has; the report then goes to standard output. Messages that are \
         still in the DLQ, as after `audit --save`, would exist twice: redrive them from the DLQ instead.",
        "If a message was found invalid, an edit can change all of it, including its id; the result must be a valid \
         message. A body that is not JSON is a string.",
        "A filter is a jq expression on {message_id, sent_at, error_type, error_details, attempts, fingerprint, \
         attributes, body}.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Everything selected was sent back and deleted, or would be."),
        (ExitCode::Failed, "", "A queue or a journal cannot be used, or the stack is paused."),
        (ExitCode::Usage, "", "Also if a filter or an edit is not valid jq."),
        (
            ExitCode::Incomplete,
            "",
            "Not all of the DLQ was seen: run the command again; messages held by a killed run are visible again \
             within two minutes. Or a line of FILE is not a dead letter.",
        ),
        (
            ExitCode::PartlyDone,
            "",
            "A selected message stays (refused, parked, not sent, or it came back immediately), the filter failed on a \
             message, or too many of the messages sent failed again.",
        ),
        (ExitCode::NotFound, "a message or a group", ""),
        (ExitCode::InBothQueues, "", "Run it in the same directory."),
        (ExitCode::Interrupted, "", "Run the command again to finish."),
    ],
};

/// Send dead letters back to the source queue. Shows the plan, and sends only with --apply; each message gets all its
/// attempts again.
///
/// A message is deleted from the DLQ after its send is confirmed and written to the journal; a second run with the same
/// options finishes an interrupted one.
///
/// The first 50 messages, the pilot, are sent and watched before the rest, to detect whether they come back to the DLQ
/// or whether more messages than before are waiting for a retry. With fewer than 50 messages, nothing is watched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Send")]
#[command(override_usage = "redeliver redrive [OPTIONS] <FILE|--queue|--stack|--prefix|--stage>")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    #[command(flatten)]
    pub(super) from: DeadLetterSource,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// Change messages with this jq filter, such as '.body.data.n = 1'
    ///
    /// Only members of .body that the filter changes are replaced; all other bytes stay the same. message_id and
    /// redeliver's own metadata can be changed only if the message was found invalid. The journal keeps the original.
    #[arg(long, help_heading = EDIT, value_name = "JQ")]
    edit: Option<String>,
    /// Give a new message_id to each message that --edit changes
    ///
    /// The new id is derived from the old one. Use it for an API that remembers ids and would ignore or reject a
    /// different body under the same id. The journal has both ids.
    #[arg(long, help_heading = EDIT, requires = "edit")]
    new_id: bool,
    /// JSON Schema for the `data` of each message
    ///
    /// A message that does not match is not sent back.
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    data_schema: Option<PathBuf>,
    #[command(flatten)]
    plain: PlainArguments,
    /// Send to this queue: its URL, name or ARN
    ///
    /// By default, messages are sent to the deployment's source queue; with --queue, to the queue that each came from;
    /// with FILE, they are written to the --output file.
    #[arg(long, value_name = "QUEUE")]
    pub(super) to: Option<QueueAddress>,
    /// Maximum number of messages per second
    #[arg(long, value_name = "N", value_parser = number(1..=RATE_MAX))]
    rate: Option<u32>,
    /// Skip messages already sent back N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(0..=100_u32))]
    max_generation: u32,
    /// Stop if more than this percentage failed again
    ///
    /// A message failed again if it is back in the DLQ or, in the pilot, waiting for a retry. 100 disables the check.
    #[arg(long, value_name = "PERCENT", default_value_t = RedrivePace::default().stop_after_failures_percent, value_parser = number(0..=100_u8))]
    stop_after_failures: u8,
    /// Watch the first 50 messages for this long
    ///
    /// The rest are sent after that. 0s disables the watch. SQS's counts are up to a minute old, so a shorter time
    /// shows only messages that came back immediately.
    #[arg(long, value_name = "SPAN", default_value = "90s", value_parser = seconds(0..=WATCH_SECONDS_MAX))]
    watch: Duration,
    /// Send even if nothing reads the source queue
    ///
    /// For example, after `redeliver pause`: the messages wait there and are not watched.
    #[arg(long)]
    pub(super) allow_paused: bool,
    #[command(flatten)]
    pub(super) apply: ApplyArgs,
    /// The journal [default: redeliver-redrive-PLAN.jsonl]
    ///
    /// The default is in the current directory; with FILE it is FILE.redriven.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    pub(super) printing: PrintArgs,
}

impl Arguments {
    fn pace(&self) -> RedrivePace {
        RedrivePace {
            rate: self.rate,
            watch_seconds: self.watch.as_secs(),
            stop_after_failures_percent: self.stop_after_failures,
            allow_paused: self.allow_paused,
        }
    }

    /// Builds the requested redrive.
    pub(super) fn request(&self) -> Result<RedriveRequest<'_>, CommandFailure> {
        Ok(RedriveRequest {
            from: &self.from,
            to: self.to.as_ref(),
            plan: self.plan()?,
            pace: self.pace(),
            max: self.selection.max(),
            journal: self.journal.as_deref(),
            applied: self.apply.is_wanted(),
        })
    }

    fn plan(&self) -> Result<RedrivePlan, CommandFailure> {
        Ok(RedrivePlan {
            pick: self.selection.build_pick()?,
            edit: self.edit.as_deref().map(BodyEdit::new).transpose()?,
            new_id: self.new_id,
            into_lines: self.output_file()?.is_some(),
            max_generation: self.max_generation,
            schema: read_schema(self.data_schema.as_deref(), &self.plain)?,
            ..RedrivePlan::default()
        })
    }

    /// True if each message is sent to its original source queue.
    pub(super) fn sends_to_sources(&self) -> bool {
        self.to.is_none() && self.from.file.is_none() && !self.from.queue.belongs_to_deployment()
    }

    /// Returns the output file, if the messages come from a file and are not sent to a queue.
    pub(super) fn output_file(&self) -> Result<Option<&Path>, UsageError> {
        match (&self.from.file, &self.to) {
            (Some(_), None) => self.printing.file().map(Some).ok_or_else(|| {
                UsageError::new("name the destination: --to QUEUE, or -o FILE for a file of messages")
            }),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn default_pace_matches_the_console() {
        let given = ["redrive", "--stack", "redeliver-prod"];
        let Program { arguments } = clap::Parser::try_parse_from(given).unwrap();
        assert_eq!(arguments.pace(), RedrivePace::default());
    }
}
