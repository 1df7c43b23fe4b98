//! `redeliver purge`: deletes dead letters, each after it is in a backup file.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::purge::{Purge, Purged};
use redeliver_operator::archive::BucketOwnerArgs;
use redeliver_operator::backup_place::BackupPlace;
use redeliver_operator::queues::{DeadLetterQueue, account};
use redeliver_operator::sentences::{
    incompleteness, not_judged_in_words, picked_without_members, still_hidden,
};
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::signals::interrupted;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::{counted, grouped};
use redeliver_operator::{ExitCode, Failure, UsageError};

use crate::commands::apply_args::ApplyArgs;
use crate::commands::audit::groups_for_people;
use crate::commands::selection_args::SelectionArgs;

/// Delete selected dead letters, each after it is written to a backup file.
///
/// Shows them in groups with an example of each, and deletes them only with --apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver purge --stack redeliver-prod --backup one.jsonl \\
    --ids 0191f3a2-7b1c-7d3e-8f00-000000000001
  redeliver purge --stack redeliver-prod --backup expired.jsonl --apply \\
    --where '.error_type == \"MESSAGE_EXPIRED\"'
  redeliver purge --stack redeliver-prod --backup s3://my-archive/redeliver \\
    --group 21d708b3fca00092

`redeliver send --backup expired.jsonl` sends the messages of a backup again. Select messages with --group, --ids or \
--where; `--where true` selects all messages.

Exit codes:
  0    everything picked was deleted, or would be
  1    a queue or a file cannot be used
  2    bad usage, or a filter that is not jq
  4    not all of the queue was seen: run it again, with another backup file
  5    something picked could not be deleted, or the filter could not judge a message,
       which stays
  8    a message or a group that was named is not in the queue
  130  interrupted: what was deleted is in the backup")]
pub struct Arguments {
    #[command(flatten)]
    queue: DeadLetterQueue,
    #[command(flatten)]
    selection: SelectionArgs,
    /// The file for deleted messages; it must not exist yet. Or an archive, s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "FILE")]
    backup: PathBuf,
    #[command(flatten)]
    bucket_owner: BucketOwnerArgs,
    #[command(flatten)]
    apply: ApplyArgs,
    #[command(flatten)]
    printing: Printing,
}

impl Arguments {
    /// The backup of deleted messages; `None` without `--apply`.
    fn written(&self) -> Option<&Path> {
        self.apply.is_wanted().then_some(self.backup.as_path())
    }
}

/// Prints what would be deleted, or with `--apply` deletes it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    print(arguments, &run(arguments).await?)
}

/// A plan, or what was done.
struct Run {
    purged: Purged,
    /// Sentences about ids and groups that were named and not found.
    missing: Vec<String>,
}

async fn run(arguments: &Arguments) -> Result<Run, Failure> {
    if arguments.selection.is_everything() {
        return Err(UsageError::new(
            "select messages with --group, --ids or --where; `--where true` selects all of them",
        )
        .into());
    }
    arguments.printing.check()?;
    let pick = arguments.selection.pick()?;
    // Also before a plan: the same command with --apply must not be refused for its file.
    let backup = BackupPlace::of(&arguments.backup)?;
    let queue = arguments.queue.open().await?.queue;
    let mut backup = backup.open(&arguments.queue.connection, &queue, arguments.bucket_owner).await?;
    let stop = interrupted("interrupted: finishing what is under way; Ctrl-C again does not wait")?;
    let verb = arguments.apply.verb("deleting", "would delete");
    let what = format_args!("{verb} from {}", queue.arn());
    account::announce(&arguments.queue.connection, queue.arn(), what).await;
    let bar = stderr::progress(ProgressBar::new_spinner(), "{spinner} {human_pos} deleted, {elapsed}");
    let (interrupted, progress) = (|| stop.is_requested(), |deleted| bar.set_position(deleted));
    let purge = Purge {
        max: arguments.selection.max(),
        interrupted: &interrupted,
        progress: &progress,
        ..Purge::new(&queue, &SystemClock, &pick)
    };
    let purged =
        if arguments.apply.is_wanted() { purge.apply(&mut backup).await } else { purge.dry_run().await };
    bar.finish_and_clear();
    let purged = purged?;
    picked_without_members(&pick)
        .into_iter()
        .chain(not_judged_in_words(&purged.not_judged))
        .for_each(stderr::warning);
    let is_covered = purged.coverage.is_some_and(|coverage| coverage.complete);
    Ok(Run { purged, missing: if is_covered { pick.missing() } else { Vec::new() } })
}

fn print(arguments: &Arguments, Run { purged, missing }: &Run) -> Result<ExitCode, Failure> {
    let applied = arguments.apply.is_wanted();
    arguments
        .printing
        .print("purge", purged, || words(purged, arguments.written(), console::colors_enabled()))?;
    arguments.apply.remark_that_nothing_was_done(purged.picked > 0);
    if let Some(error) = &purged.failed {
        stderr::error(format_args!("{error}; run it again for the rest, with another backup file"));
    }
    if let Some(why) = purged.why_not_deleted.as_ref().filter(|_| purged.deleted < purged.picked) {
        let stay = counted(purged.picked - purged.deleted, "message");
        stderr::error(format_args!(
            "not deleted: {stay}, the last one with {why}; they are in the queue and in the backup: do not send them from the \
             backup. {}, then run it again with another backup file",
            why.remedy()
        ));
    }
    let hidden = purged.coverage.and_then(|coverage| still_hidden(coverage.still_hidden));
    hidden.iter().for_each(stderr::warning);
    for sentence in missing {
        stderr::error(sentence);
    }
    Ok(match exit_code(purged, applied) {
        ExitCode::Done if !missing.is_empty() => ExitCode::NotThere,
        code => code,
    })
}

/// Says what was deleted and which backup has it. Without a backup, lists the messages in groups with an example of
/// each: a number alone does not show that a filter picks too much.
fn words(purged: &Purged, backup: Option<&Path>, colours: bool) -> String {
    let mut text = match backup {
        Some(_) if purged.picked == 0 => {
            "nothing was picked: nothing was deleted, and no backup was written\n".to_owned()
        }
        Some(backup) => {
            let (picked, deleted) = (grouped(purged.picked), grouped(purged.deleted));
            format!("{deleted} of {picked} deleted; all of them are in {}\n", backup.display())
        }
        None => {
            let would = format!("{} would be deleted\n", counted(purged.picked, "dead letter"));
            if purged.groups.is_empty() { would } else { would + &groups_for_people(&purged.groups, colours) }
        }
    };
    if purged.max_reached {
        text += "--max ended the purge: there may be more\n";
    }
    text
}

fn exit_code(purged: &Purged, apply: bool) -> ExitCode {
    match purged {
        Purged { failed: Some(_), .. } => ExitCode::Failed,
        Purged { interrupted: true, .. } => ExitCode::Interrupted,
        Purged { why_not_deleted: Some(_), picked, deleted, .. } if deleted < picked => ExitCode::NotAllDone,
        Purged { coverage: Some(coverage), max_reached: false, .. } if !coverage.complete => {
            stderr::warning(incompleteness(coverage));
            ExitCode::Incomplete
        }
        Purged { picked, deleted, not_judged, .. }
            if apply && deleted < picked || not_judged.messages > 0 =>
        {
            ExitCode::NotAllDone
        }
        _ => ExitCode::Done,
    }
}

#[cfg(test)]
mod tests;
