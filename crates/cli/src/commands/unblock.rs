//! `redeliver unblock`: lists the blocked groups of an ordered queue and unblocks them.

use std::path::PathBuf;

use clap::Args;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::blocked::{BlockedGroup, GroupOutcome, UnblockReport};
use redeliver_operator::archive::BucketOwnerArgs;
use redeliver_operator::queues::{AwsConnection, OneQueue, QueueAddress, account};
use redeliver_operator::sentences::describe_still_hidden_messages;
use redeliver_operator::status::blocked_group_table;
use redeliver_operator::terminal::help::{CONNECT, HelpFooter};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::format_count;
use redeliver_operator::unblock::UnblockRequest;
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

use super::apply_args::ApplyArgs;

/// The closing text of the help for `unblock`.
const CLOSING: HelpFooter = HelpFooter {
    command: "unblock",
    page: "operate/unblock",
    examples: &[
        "redeliver unblock --stack redeliver-prod",
        "redeliver unblock account-7 --retry --stack redeliver-prod --apply",
        "redeliver unblock account-7 --backup account-7.jsonl --prefix orders --apply",
        "redeliver unblock --retry --queue orders-blocked --source orders.fifo --apply",
    ],
    notes: &[
        "--retry processes the message again immediately, in its original position: fix the target or the data first. \
              If the message fails again, its group is blocked again. With --backup the group continues without the \
              message; `redeliver send --backup account-7.jsonl` can send it to the end of its group later.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "The groups are listed, or no longer blocked."),
        (ExitCode::Failed, "", "A queue or a file cannot be used."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::Incomplete,
            "",
            "Not all groups were seen: a notice becomes visible after a minute. Run the command again.",
        ),
        (ExitCode::PartlyDone, "", "A decision was not carried out, or a notice could not be deleted."),
        (ExitCode::NotFound, "a group without a notice", ""),
    ],
};

/// List the blocked groups of an ordered queue, or unblock them. With --retry or --backup, shows a plan, and carries it
/// out only with --apply.
///
/// With `on_give_up: block`, a message that is given up on stays in its queue, and the rest of its group waits behind
/// it. Without --retry or --backup, the groups are only listed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decide")]
#[command(override_usage = "redeliver unblock [OPTIONS] <--queue|--stack|--prefix|--stage> [GROUP]...")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// Only these groups (MessageGroupId) [default: all]
    #[arg(help_heading = None::<&str>, value_name = "GROUP")]
    groups: Vec<String>,
    /// Process the first message of each group again immediately
    #[arg(long, conflicts_with = "backup")]
    retry: bool,
    /// Delete the first message of each group after saving it in this file
    ///
    /// The file must not exist. Instead of a file, an archive can be named: s3://BUCKET[/PREFIX].
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    bucket_owner: BucketOwnerArgs,
    #[command(flatten)]
    queue: OneQueue,
    /// The ordered queue, if --queue names its notice queue
    ///
    /// Its URL, name or ARN.
    #[arg(long, help_heading = CONNECT, value_name = "QUEUE", requires = "queue")]
    source: Option<QueueAddress>,
    #[command(flatten)]
    apply: ApplyArgs,
    #[command(flatten)]
    printing: PrintArgs,
    #[command(flatten)]
    connection: AwsConnection,
}

/// Lists the groups, or applies the decision.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let has_decision = arguments.retry || arguments.backup.is_some();
    if arguments.apply.is_wanted() && !has_decision {
        return Err(UsageError::new("choose a decision for the groups: --retry, or --backup FILE").into());
    }
    if arguments.source.is_none() && arguments.queue.named_queue().is_some() {
        return Err(UsageError::new(
            "--queue names the queue with the notices: name the ordered queue with --source",
        )
        .into());
    }
    let request = UnblockRequest {
        connection: &arguments.connection,
        queue: &arguments.queue,
        source: arguments.source.as_ref(),
        groups: &arguments.groups,
        backup: arguments.backup.as_deref(),
        bucket_owner: arguments.bucket_owner,
        applied: arguments.apply.is_wanted(),
    };
    let open = request.open().await?;
    if has_decision {
        let verb = arguments.apply.choose_verb("unblocking", "would unblock");
        let what = format!("{verb} groups of {}", open.source_arn());
        account::announce_change(&arguments.connection, open.source_arn(), what).await;
    }
    let unblocked = open.run().await?;
    print_outcome(arguments, &unblocked, has_decision)
}

fn print_outcome(
    arguments: &Arguments,
    unblocked: &UnblockReport,
    has_decision: bool,
) -> Result<ExitCode, CommandFailure> {
    arguments.printing.print_report("unblock", unblocked, || describe_outcome(arguments, unblocked))?;
    if has_decision {
        arguments.apply.remind_to_apply(!unblocked.groups.is_empty());
    }
    for GroupOutcome { group: BlockedGroup { group, .. }, unblocked, error } in &unblocked.groups {
        if let Some(error) = error {
            let is = if *unblocked { "is unblocked, but" } else { "is still blocked:" };
            stderr::error(format_args!("{group} {is} {error}"));
        }
    }
    for group in &unblocked.not_found {
        stderr::error(format_args!("no notice found for the group {group}"));
    }
    if let Some(error) = &unblocked.failed {
        stderr::error(format_args!("{error}; the other groups stay as they are"));
    }
    describe_still_hidden_messages(unblocked.coverage.still_hidden).iter().for_each(stderr::warning);
    let is_complete = unblocked.coverage.complete;
    if !is_complete {
        stderr::warning(
            "not all groups were seen: a notice becomes visible after a minute, and is hidden while another program \
             reads it; run the command again",
        );
    }
    let is_done = unblocked.groups.iter().all(|group| group.error.is_none());
    Ok(match (&unblocked.failed, is_done, is_complete) {
        (Some(_), ..) => ExitCode::Failed,
        (None, false, _) => ExitCode::PartlyDone,
        (None, true, false) => ExitCode::Incomplete,
        (None, true, true) if !unblocked.not_found.is_empty() => ExitCode::NotFound,
        (None, true, true) => ExitCode::Done,
    })
}

fn describe_outcome(arguments: &Arguments, unblocked: &UnblockReport) -> String {
    let groups = unblocked.groups.iter().map(|outcome| &outcome.group);
    let count = format_count(unblocked.groups.len() as u64, "group");
    let done = unblocked.groups.iter().filter(|outcome| outcome.unblocked).count();
    match (arguments.apply.is_wanted(), &arguments.backup) {
        _ if unblocked.groups.is_empty() && arguments.groups.is_empty() => "no group is blocked\n".to_owned(),
        _ if unblocked.groups.is_empty() => "none of these groups is blocked\n".to_owned(),
        (false, _) => blocked_group_table(groups, &arguments.printing.layout(SystemClock.now())),
        (true, None) => format!("called again: {done} of {count}\n"),
        (true, Some(backup)) => {
            format!(
                "{done} of {count}: the first message is in {}, and the group continues\n",
                backup.display()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use redeliver_dead_letters::Coverage;
    use redeliver_testing::dead_letters::blocked_notice;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn exit_code_distinguishes_blocked_unseen_and_missing_groups() {
        let Program { arguments } = Program::parse_from(["unblock", "--stack", "prod", "--retry", "--apply"]);
        let code = |error: Option<&str>, not_found: &[&str], complete, failed: Option<&str>| {
            let group = BlockedGroup::from_notices(vec![blocked_notice("account-7", 1)]).unwrap();
            let groups =
                vec![GroupOutcome { group, unblocked: error.is_none(), error: error.map(str::to_owned) }];
            let not_found = not_found.iter().map(|name| (*name).to_owned()).collect();
            let coverage = Coverage { complete, ..Coverage::default() };
            let failed = failed.map(str::to_owned);
            print_outcome(&arguments, &UnblockReport { groups, not_found, coverage, failed }, true).unwrap()
        };
        assert_eq!(code(None, &[], true, None), ExitCode::Done);
        assert_eq!(code(Some("refused"), &[], true, None), ExitCode::PartlyDone);
        assert_eq!(code(Some("refused"), &[], false, None), ExitCode::PartlyDone);
        assert_eq!(code(None, &["b"], true, None), ExitCode::NotFound);
        assert_eq!(code(None, &[], false, None), ExitCode::Incomplete);
        assert_eq!(
            code(None, &["b"], false, None),
            ExitCode::Incomplete,
            "it may have a notice that was not seen"
        );
        assert_eq!(code(None, &[], true, Some("the disk is full")), ExitCode::Failed);
    }
}
