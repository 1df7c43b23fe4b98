//! `redeliver purge`: deletes dead letters, each after it is in a backup file.

mod preview;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock, Queue};
use thiserror::Error;

use crate::audit::{Group, GroupTable};
use crate::connection::DeadLetterQueue;
use crate::dead_letters::{
    Archive, ArchiveError, Coverage, DeadLetterRecord, Filter, FilterError, Reader, ReaderError,
};
use crate::interrupt::Interrupt;
use crate::text::escaped_lines;
use preview::preview;

/// Delete dead letters that a filter picks, each after it is written to a backup file.
///
/// Shows which they are, in groups with an example of each, and deletes them only with --apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver purge --stack redeliver-prod --where '.error_type == \"MESSAGE_EXPIRED\"' --backup expired.jsonl
  redeliver purge --stack redeliver-prod --where '.error_type == \"MESSAGE_EXPIRED\"' --backup expired.jsonl --apply

With the filter `true` all messages are picked. A line of the backup holds all that is needed to send its message again:
  redeliver send --backup expired.jsonl --stack redeliver-prod

Exit codes:
  0    everything picked was deleted, or would be
  1    something picked could not be deleted
  2    bad usage, a wrong filter, or a queue or file that cannot be used
  4    not all of the queue was seen: run it again, with another backup file
  130  interrupted: what was deleted is in the backup")]
pub struct Arguments {
    #[command(flatten)]
    queue: DeadLetterQueue,
    /// Only messages for which this filter is true; it must give true, false or null
    #[arg(long = "where", value_name = "JQ")]
    filter: String,
    /// Where deleted messages are kept; must not exist yet
    #[arg(long, value_name = "FILE")]
    backup: PathBuf,
    /// Do it
    #[arg(long)]
    apply: bool,
}

/// What was deleted, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Messages that the filter picked.
    pub picked: u64,
    /// What they died of, largest group first.
    pub groups: Vec<Group>,
    /// Messages that are gone.
    pub deleted: u64,
    /// How much of the queue was seen.
    pub coverage: Option<Coverage>,
    /// Ctrl-C.
    pub interrupted: bool,
}

/// Why a purge ends early. What was deleted is in the backup.
#[derive(Debug, Error)]
pub enum PurgeError {
    /// The queue.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The backup.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

type Failure = Box<dyn std::error::Error>;

/// Counts, and with `--apply` deletes.
#[must_use]
#[expect(clippy::print_stdout, reason = "the result is this command's output")]
pub fn main(arguments: &Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(run(arguments)));
    match outcome {
        Ok(purged) => {
            if arguments.apply {
                let Purged { picked, deleted, .. } = purged;
                println!("{deleted} of {picked} deleted; they are in {}", arguments.backup.display());
            } else {
                print!("{}", preview(&purged, console::colors_enabled()));
                if purged.picked > 0 {
                    eprintln!("nothing was done: add --apply");
                }
            }
            ExitCode::from(exit_code(&purged, arguments.apply))
        }
        Err(error) => {
            eprintln!("error: {}", escaped_lines(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Purged, Failure> {
    let filter = Filter::new(&arguments.filter)?;
    let queue = arguments.queue.open().await?.queue;
    let interrupt = Interrupt::listen();
    let mut backup = if arguments.apply { Some(Archive::create(&arguments.backup)?) } else { None };
    let purged = purge(&queue, &SystemClock, &filter, backup.as_mut(), &|| interrupt.came()).await?;
    if let Some(remark) = filter.remark() {
        eprintln!("warning: {remark}");
    }
    Ok(purged)
}

/// Deletes what the filter picks, after it is in the backup; without a backup, nothing.
///
/// # Errors
/// If the queue, the backup or the filter fails.
pub async fn purge<Q: Queue, C: Clock>(
    queue: &Q,
    clock: &C,
    filter: &Filter,
    mut backup: Option<&mut Archive>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Purged, PurgeError> {
    let mut purged = Purged::default();
    let mut groups = GroupTable::default();
    let mut reader = Reader::new(queue, clock).await?;
    let outcome = async {
        while let Some(messages) = reader.next().await? {
            let mut picked = Vec::new();
            for message in messages {
                let record = DeadLetterRecord::new(message);
                if filter.matches(&record.message.sqs_message_id, record.document())? {
                    groups.add(&record);
                    picked.push(record.message);
                }
            }
            purged.picked += picked.len() as u64;
            if let Some(backup) = &mut backup {
                backup.write(&picked)?;
                let deleted = reader.delete(&picked.iter().collect::<Vec<_>>()).await;
                purged.deleted += deleted.into_iter().filter(Result::is_ok).count() as u64;
            }
            if interrupted() {
                purged.interrupted = true;
                break;
            }
        }
        Ok(())
    };
    let outcome: Result<(), PurgeError> = outcome.await;
    purged.coverage = Some(reader.finish().await);
    purged.groups = groups.into_groups();
    outcome.map(|()| purged)
}

fn exit_code(purged: &Purged, apply: bool) -> u8 {
    match purged {
        Purged { interrupted: true, .. } => 130,
        Purged { coverage: Some(coverage), .. } if !coverage.complete => {
            eprintln!("{}: run it again", coverage.incompleteness());
            4
        }
        Purged { picked, deleted, .. } => u8::from(apply && deleted < picked),
    }
}

#[cfg(test)]
mod tests;
