//! The arguments of `redeliver send`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use redeliver_operator::archive::ArchiveUri;
use redeliver_operator::file_journals::{
    check_not_started, redrive_journal_path, send_journal_path, with_journal_hint,
};
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::queues::{AwsConnection, OneQueue};
use redeliver_operator::terminal::help::{HelpFooter, VALIDATE};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::units::number;
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

use crate::commands::apply_args::ApplyArgs;

/// The closing text of the help for `send`.
const CLOSING: HelpFooter = HelpFooter {
    command: "send",
    page: "send",
    examples: &[
        "redeliver send orders.jsonl --stack redeliver-prod",
        "redeliver send orders.jsonl --queue orders --rate 100 --apply",
        "redeliver send --backup expired.jsonl --stack redeliver-prod --apply",
        "redeliver send orders.jsonl --stack redeliver-prod --apply",
        "redeliver send orders.jsonl --prefix orders --data-schema order.schema.json",
        "make-orders | redeliver send - --stack redeliver-prod --apply",
    ],
    notes: &[
        "Each batch that SQS confirms is recorded immediately in the journal, FILE.sent. Running the same command \
         again skips the recorded lines, however the first run ended. Before that, you can correct unsent lines in \
         place and add lines at the end. If sent lines have changed, or the queue is a different one, nothing is \
         sent.",
        "Delivery is at least once. A crash between a send and its record, or a lost response from SQS, causes a copy \
         with the same message_id. Standard input has no journal.",
        "With --backup the file is one that `audit --save` or `purge --backup` wrote. Each message is sent as \
         `redeliver redrive` would send it: with the producer's attributes and their types, without redeliver's own \
         attributes, with all its attempts again, in a new generation. A message that is in the file twice is sent \
         once. Messages that are still in the DLQ, as after `audit --save`, would exist twice: redrive them instead.",
        "After Ctrl-C the command waits for the batches in flight and records them; a second Ctrl-C stops it \
         immediately.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "All lines were sent, now or earlier, or would be."),
        (
            ExitCode::Failed,
            "",
            "The file cannot be read, the queue cannot be used, the journal belongs to another file or queue, or the \
             send stopped early.",
        ),
        (ExitCode::Usage, "", ""),
        (ExitCode::PartlyDone, "", "A line is invalid or was not confirmed; the others were sent."),
        (ExitCode::Interrupted, "", "The journal is complete."),
    ],
};

/// Send the messages in a file to the source queue. Checks each line, and sends only with --apply; a second run sends
/// only the rest.
#[derive(Debug, Args)]
#[command(next_help_heading = "Send")]
#[command(override_usage = "redeliver send [OPTIONS] <--queue|--stack|--prefix|--stage> <FILE>")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// A file with one message per line, or `-` for standard input
    ///
    /// JSON Lines, one message body per line, or one JSON document over several lines; the output of `aws sqs
    /// receive-message`, a Lambda SQS event, or a JSON array of messages; with --backup, one dead letter per line.
    #[arg(help_heading = None::<&str>, value_name = "FILE")]
    pub file: PathBuf,
    /// Send back the dead letters saved by `audit --save` or `purge --backup`
    #[arg(long)]
    pub backup: bool,
    /// The target
    #[command(flatten)]
    pub queue: OneQueue,
    /// Apply or show
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// JSON Schema for the `data` of each message
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    pub data_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: PlainArguments,
    /// Maximum number of messages per second [default: no limit]
    #[arg(long, value_name = "N", value_parser = number(NonZeroU32::MIN..))]
    pub rate: Option<NonZeroU32>,
    /// The journal of sent lines [default: FILE.sent]
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    #[command(flatten)]
    pub printing: PrintArgs,
    /// The AWS connection
    #[command(flatten)]
    pub connection: AwsConnection,
}

impl Arguments {
    /// Rejects an archive in S3.
    pub(super) fn check_file(&self) -> Result<(), CommandFailure> {
        match ArchiveUri::from_path(&self.file).transpose()? {
            Some(archive) => Err(UsageError::new(archive.send_hint()).into()),
            None => Ok(()),
        }
    }

    /// Returns the journal's path, or `None` for standard input and pipes, which cannot be read a second time.
    pub(super) fn journal_path(&self) -> Result<Option<PathBuf>, CommandFailure> {
        if is_standard_input(&self.file) || !self.file.is_file() {
            if self.journal.is_some() {
                let sentence = "--journal needs a regular file: write the lines to one first";
                return Err(UsageError::new(sentence).into());
            }
            return Ok(None);
        }
        if self.backup && self.journal.is_none() {
            check_not_started(&redrive_journal_path(&self.file), "redeliver redrive")
                .map_err(with_journal_hint)?;
        }
        let journal = self.journal.clone().unwrap_or_else(|| send_journal_path(&self.file));
        if journal == self.file {
            return Err(UsageError::new("--journal is the input file: name another one").into());
        }
        Ok(Some(journal))
    }
}
