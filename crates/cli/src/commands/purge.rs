//! `redeliver purge`: deletes dead letters after writing each to a backup file.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::purge::PurgeReport;
use redeliver_operator::archive::BucketOwnerArgs;
use redeliver_operator::purge::{PurgeOutcome, PurgeRequest};
use redeliver_operator::queues::{DeadLetterQueue, account};
use redeliver_operator::sentences::{describe_incompleteness, describe_still_hidden_messages};
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::layout::TextLayout;
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::signals::stop_on_signal;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::{format_count, group_digits};
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

use crate::commands::apply_args::ApplyArgs;
use crate::commands::audit::format_groups;
use crate::commands::selection_args::SelectionArgs;

/// The closing text of the help for `purge`.
const CLOSING: HelpFooter = HelpFooter {
    command: "purge",
    page: "operate/purge",
    examples: &[
        "redeliver purge --stack redeliver-prod --backup one.jsonl \\\n--ids 0191f3a2-7b1c-7d3e-8f00-000000000001",
        "redeliver purge --stack redeliver-prod --backup expired.jsonl --apply \\\n\
         --where '.error_type == \"MESSAGE_EXPIRED\"'",
        "redeliver purge --stack redeliver-prod --backup s3://my-archive/redeliver \\\n--group 21d708b3fca00092",
    ],
    notes: &[
        "`redeliver send --backup expired.jsonl` sends the messages of a backup again. Select messages with --group, \
              --ids or --where; `--where true` selects all messages.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Everything selected was deleted, or would be."),
        (ExitCode::Failed, "", "A queue or a file cannot be used."),
        (ExitCode::Usage, "", "Also if a filter is not valid jq."),
        (
            ExitCode::Incomplete,
            "",
            "Not all of the queue was seen: run the command again with another backup file.",
        ),
        (ExitCode::PartlyDone, "", "A message could not be deleted, or the filter failed on it."),
        (ExitCode::NotFound, "a message or a group", ""),
        (ExitCode::Interrupted, "", "The deleted messages are in the backup."),
    ],
};

/// Delete dead letters after backing up each one. Shows them in groups, and deletes only with --apply.
///
/// Each group is shown with an example.
#[derive(Debug, Args)]
#[command(next_help_heading = "Delete")]
#[command(override_usage = "redeliver purge [OPTIONS] --backup <FILE> <--queue|--stack|--prefix|--stage>")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    #[command(flatten)]
    queue: DeadLetterQueue,
    #[command(flatten)]
    selection: SelectionArgs,
    /// The new file for deleted messages, or an archive, s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "FILE")]
    backup: PathBuf,
    #[command(flatten)]
    bucket_owner: BucketOwnerArgs,
    #[command(flatten)]
    apply: ApplyArgs,
    #[command(flatten)]
    printing: PrintArgs,
}

impl Arguments {
    /// Returns the backup for deleted messages, or `None` without `--apply`.
    fn applied_backup(&self) -> Option<&Path> {
        self.apply.is_wanted().then_some(self.backup.as_path())
    }
}

/// Prints what would be deleted, or with `--apply` deletes it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    let outcome = run_purge(arguments).await?;
    outcome.remarks.iter().for_each(stderr::warning);
    print_outcome(arguments, &outcome)
}

async fn run_purge(arguments: &Arguments) -> Result<PurgeOutcome, CommandFailure> {
    if arguments.selection.selects_all() {
        return Err(UsageError::new(
            "select messages with --group, --ids or --where; `--where true` selects all of them",
        )
        .into());
    }
    arguments.printing.check_destination()?;
    let request = PurgeRequest {
        queue: &arguments.queue,
        pick: arguments.selection.build_pick()?,
        max: arguments.selection.max(),
        backup: &arguments.backup,
        bucket_owner: arguments.bucket_owner,
        applied: arguments.apply.is_wanted(),
    };
    let purge = request.open().await?;
    let stop = stop_on_signal("interrupted: finishing the work in progress; Ctrl-C again stops immediately")?;
    let verb = arguments.apply.choose_verb("deleting", "would delete");
    let what = format!("{verb} from {}", purge.dlq_arn());
    account::announce_change(&arguments.queue.connection, purge.dlq_arn(), what).await;
    let bar = stderr::show_progress(ProgressBar::new_spinner(), "{spinner} {human_pos} deleted, {elapsed}");
    let outcome = purge.run(&|| stop.is_requested(), &|deleted| bar.set_position(deleted)).await;
    bar.finish_and_clear();
    outcome
}

fn print_outcome(
    arguments: &Arguments,
    PurgeOutcome { purged, missing, .. }: &PurgeOutcome,
) -> Result<ExitCode, CommandFailure> {
    let applied = arguments.apply.is_wanted();
    arguments.printing.print_report("purge", purged, || {
        let layout = arguments.printing.layout(SystemClock.now());
        describe_outcome(purged, arguments.applied_backup(), console::colors_enabled(), layout)
    })?;
    arguments.apply.remind_to_apply(purged.picked > 0);
    if let Some(error) = &purged.failed {
        stderr::error(format_args!("{error}; run the command again for the rest, with another backup file"));
    }
    if let Some(why) = purged.why_not_deleted.as_ref().filter(|_| purged.deleted < purged.picked) {
        let stay = format_count(purged.picked - purged.deleted, "message");
        stderr::error(format_args!(
            "not deleted: {stay}, the last one with {why}; they are in both the queue and the backup: do not send them \
             from the backup. {}, then run the command again with another backup file",
            why.remedy()
        ));
    }
    let hidden = purged.coverage.and_then(|coverage| describe_still_hidden_messages(coverage.still_hidden));
    hidden.iter().for_each(stderr::warning);
    for sentence in missing {
        stderr::error(sentence);
    }
    Ok(match exit_code(purged, applied) {
        ExitCode::Done if !missing.is_empty() => ExitCode::NotFound,
        code => code,
    })
}

/// Reports the deletions and the backup file. Without a backup, lists the messages by group with an
/// example of each: a count alone does not show that a filter matches too much.
fn describe_outcome(purged: &PurgeReport, backup: Option<&Path>, colors: bool, layout: TextLayout) -> String {
    let mut text = match backup {
        Some(_) if purged.picked == 0 => {
            "no messages selected: nothing was deleted, and no backup was written\n".to_owned()
        }
        Some(backup) => {
            let (picked, deleted) = (group_digits(purged.picked), group_digits(purged.deleted));
            format!("{deleted} of {picked} deleted; all of them are in {}\n", backup.display())
        }
        None => {
            let would = format!("{} would be deleted\n", format_count(purged.picked, "dead letter"));
            if purged.groups.is_empty() {
                would
            } else {
                would + &format_groups(&purged.groups, colors, layout)
            }
        }
    };
    if purged.max_reached {
        text += "--max ended the purge: there may be more\n";
    }
    text
}

fn exit_code(purged: &PurgeReport, apply: bool) -> ExitCode {
    match purged {
        PurgeReport { failed: Some(_), .. } => ExitCode::Failed,
        PurgeReport { interrupted: true, .. } => ExitCode::Interrupted,
        PurgeReport { why_not_deleted: Some(_), picked, deleted, .. } if deleted < picked => {
            ExitCode::PartlyDone
        }
        PurgeReport { coverage: Some(coverage), max_reached: false, .. } if !coverage.complete => {
            stderr::warning(describe_incompleteness(coverage));
            ExitCode::Incomplete
        }
        PurgeReport { picked, deleted, not_judged, .. }
            if apply && deleted < picked || not_judged.messages > 0 =>
        {
            ExitCode::PartlyDone
        }
        _ => ExitCode::Done,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use redeliver_core::ports::{EntryError, Fault};
    use redeliver_dead_letters::groups::GroupTable;
    use redeliver_dead_letters::{Coverage, DeadLetterRecord, DeletionError};
    use redeliver_testing::dead_letters::retried_record;

    use super::*;

    fn purge_report(picked: u64, deleted: u64) -> PurgeReport {
        let coverage = Some(Coverage { complete: true, ..Coverage::default() });
        PurgeReport { picked, deleted, coverage, ..PurgeReport::default() }
    }

    #[test]
    fn purge_exit_code_distinguishes_complete_from_partial() {
        let done = purge_report(7, 7);
        let max = PurgeReport { max_reached: true, coverage: Some(Coverage::default()), ..done.clone() };
        let refused = DeletionError::Failed(EntryError::new(Fault::Sender, "AccessDenied"));
        let left = PurgeReport { why_not_deleted: Some(refused), ..purge_report(7, 6) };
        let mut not_judged = done.clone();
        not_judged.not_judged.messages = 1;
        let unseen = PurgeReport { coverage: Some(Coverage::default()), ..done.clone() };
        let interrupted = PurgeReport { interrupted: true, ..unseen.clone() };
        let failed = PurgeReport { failed: Some("the disk is full".to_owned()), ..interrupted.clone() };
        for (purged, applied, expected) in [
            (done, true, ExitCode::Done),
            (max, true, ExitCode::Done),
            (purge_report(7, 0), false, ExitCode::Done),
            (purge_report(7, 0), true, ExitCode::PartlyDone),
            (left, true, ExitCode::PartlyDone),
            (not_judged, true, ExitCode::PartlyDone),
            (unseen, true, ExitCode::Incomplete),
            (interrupted, true, ExitCode::Interrupted),
            (failed, true, ExitCode::Failed),
        ] {
            assert_eq!(exit_code(&purged, applied), expected, "{applied} {purged:?}");
        }
    }

    #[test]
    fn purge_text_includes_the_count_backup_path_and_max_note() {
        let backup = Some(Path::new("backup.jsonl"));
        let max = PurgeReport { max_reached: true, ..purge_report(7, 7) };
        let deleted = "7 of 7 deleted; all of them are in backup.jsonl";
        let expected = format!("{deleted}\n--max ended the purge: there may be more\n");
        assert_eq!(describe_outcome(&max, backup, false, TextLayout::Whole), expected);
        let nothing = "no messages selected: nothing was deleted, and no backup was written\n";
        assert_eq!(describe_outcome(&purge_report(0, 0), backup, false, TextLayout::Whole), nothing);
        assert_eq!(
            describe_outcome(&purge_report(0, 0), None, false, TextLayout::Whole),
            "0 dead letters would be deleted\n"
        );
        let plan = PurgeReport { max_reached: true, ..purge_report(7, 0) };
        let expected = "7 dead letters would be deleted\n--max ended the purge: there may be more\n";
        assert_eq!(describe_outcome(&plan, None, false, TextLayout::Whole), expected);
    }

    #[test]
    fn plan_lists_groups_with_an_example_of_each() {
        let mut groups = GroupTable::default();
        for number in [1, 2] {
            groups.add_record(&DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", number)));
        }
        let plan = PurgeReport { groups: groups.into_groups(), ..purge_report(2, 0) };
        let [group] = plan.groups.as_slice() else { panic!("{plan:?}") };
        let text = describe_outcome(&plan, None, false, TextLayout::Whole);
        assert!(text.starts_with("2 dead letters would be deleted\n\nGroups (1)\n"), "{text}");
        assert!(
            text.contains(&format!(
                "          2  x\n             NON_RETRYABLE_ERROR, group {}",
                group.fingerprint
            )),
            "{text}"
        );
        assert!(text.contains(&format!("             e.g. {}\n", group.example)), "{text}");
    }

    #[test]
    fn only_an_applied_purge_reports_deletions() {
        for (more, expected) in [(&[][..], None), (&["--apply"], Some(Path::new("b.jsonl")))] {
            let words = ["redeliver", "purge", "--queue", "q", "--backup", "b.jsonl", "--where", "true"];
            let parsed = crate::Arguments::try_parse_from(words.iter().chain(more)).unwrap();
            let crate::CliCommand::Purge(arguments) = parsed.command else { panic!("expected purge") };
            assert_eq!(arguments.applied_backup(), expected, "{more:?}");
        }
    }
}
