//! The arguments of `redeliver send`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use redeliver_operator::archive::ArchiveUri;
use redeliver_operator::file_journals::{
    check_not_begun, journal_of_redrive, journal_of_send, or_all_once_more,
};
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::queues::{Connection, OneQueue};
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::units::number;
use redeliver_operator::{Failure, UsageError};

use crate::commands::apply_args::ApplyArgs;

/// Send the messages of a file to the source queue: each line is validated first, and a second run sends only the rest.
///
/// Checks the lines and shows how many would be sent, and sends them only with --apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver send orders.jsonl --stack redeliver-prod
  redeliver send orders.jsonl --stack redeliver-prod --apply
  redeliver send orders.jsonl --queue orders --rate 100 --apply
  redeliver send orders.jsonl --prefix orders --data-schema order.schema.json
  make-orders | redeliver send - --stack redeliver-prod --apply
  redeliver send --backup expired.jsonl --stack redeliver-prod --apply

Each batch that SQS confirms is recorded at once in the journal, FILE.sent. The same command again skips the recorded \
lines, however the first run ended. Until then, lines that were not sent may be corrected in place, and lines may be \
added at the end. If lines that were sent have changed, or the queue is another one, nothing is sent.

Delivery is at least once. A crash between the send and its record, or a lost answer of SQS, makes a copy with the \
same message_id. Standard input has no journal.

With --backup the file is one of `audit --save` or `purge --backup`. Each message is sent as by `redeliver \
redrive`: with the producer's attributes and their types, without redeliver's own, with all its attempts again, in a \
new generation. A message that is there twice is sent once. \
Messages that are still in the DLQ, as after `audit --save`, would exist twice: redrive them instead.

Ctrl-C waits for the batches under way and records them; a second Ctrl-C does not wait.

Exit codes:
  0    all lines are sent, now or before, or would be
  1    an unreadable file, a queue that cannot be used, a journal of something else, or
       the send stopped early
  2    bad usage
  5    a line is invalid or was not confirmed; the others were sent
  130  interrupted by Ctrl-C, the journal complete")]
pub struct Arguments {
    /// JSON Lines, one message body a line, or one JSON document over several lines; what `aws sqs receive-message` prints, an SQS event of Lambda, or a JSON array of messages; with --backup one dead letter a line. `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file has dead letters, as `audit --save` or `purge --backup` wrote them: send them back
    #[arg(long)]
    pub backup: bool,
    /// The target
    #[command(flatten)]
    pub queue: OneQueue,
    /// Apply or show
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// A JSON Schema for `data`
    #[arg(long, value_name = "FILE")]
    pub data_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: PlainArguments,
    /// Maximum number of messages a second; by default as fast as SQS takes them
    #[arg(long, value_name = "N", value_parser = number(NonZeroU32::MIN..))]
    pub rate: Option<NonZeroU32>,
    /// The journal of sent lines, instead of FILE.sent
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    #[command(flatten)]
    pub printing: Printing,
    /// The AWS connection
    #[command(flatten)]
    pub connection: Connection,
}

impl Arguments {
    /// Refuses an archive in S3.
    pub(super) fn check_file(&self) -> Result<(), Failure> {
        match ArchiveUri::of(&self.file).transpose()? {
            Some(archive) => Err(UsageError::new(archive.how_to_send()).into()),
            None => Ok(()),
        }
    }

    /// The journal's name; standard input and pipes have none, since they cannot be read a second time.
    pub(super) fn journal(&self) -> Result<Option<PathBuf>, Failure> {
        if is_standard_input(&self.file) || !self.file.is_file() {
            if self.journal.is_some() {
                let sentence = "--journal needs a regular file: write the lines to one first";
                return Err(UsageError::new(sentence).into());
            }
            return Ok(None);
        }
        if self.backup && self.journal.is_none() {
            check_not_begun(&journal_of_redrive(&self.file), "redeliver redrive")
                .map_err(or_all_once_more)?;
        }
        let journal = self.journal.clone().unwrap_or_else(|| journal_of_send(&self.file));
        if journal == self.file {
            return Err(UsageError::new("--journal names the input file").into());
        }
        Ok(Some(journal))
    }
}
