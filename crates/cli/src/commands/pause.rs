//! `redeliver pause` and `redeliver resume`: pause and resume the functions that consume a deployment's queues, so that
//! an outage does not use up attempts.

use clap::Args;
use redeliver_operator::pause::{MappingChange, MappingState, SwitchReport, switch_readers};
use redeliver_operator::queues::{AwsConnection, QueueSelection};
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};

use super::apply_args::ApplyArgs;

const SWITCH: &str = "Switch";

/// The closing text of the help for `pause`.
const PAUSE: HelpFooter = HelpFooter {
    command: "pause",
    page: "operate/pause",
    examples: &[
        "redeliver pause --stack redeliver-prod --apply",
        "redeliver pause --prefix orders --stage prod --apply",
        "redeliver pause --queue orders --apply",
        "redeliver pause --stack redeliver-prod --all --region eu-central-1 --apply",
    ],
    notes: &[
        "Disables the event source mapping of the source queue, and waits up to three minutes until it is Disabled. \
              Messages being processed are finished; the others wait, at most for the queue's retention. Pausing twice \
              has no further effect. `redeliver resume` starts everything again; a deployment of the stack can do so, \
              too (see `redeliver preflight`). Containers (`redeliver work`) have no event source mapping: stop them \
              where they run.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "It is paused, or would be."),
        (ExitCode::Failed, "", "Queues or mappings cannot be read: nothing was changed."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::PartlyDone,
            "",
            "A mapping is not Disabled, or a queue has no mapping; all other mappings are Disabled.",
        ),
        (
            ExitCode::NotFound,
            "an event source mapping",
            "No mapping reads the queues, so there is nothing to pause.",
        ),
    ],
};

/// The closing text of the help for `resume`.
const RESUME: HelpFooter = HelpFooter {
    command: "resume",
    page: "operate/pause",
    examples: &[
        "redeliver resume --stack redeliver-prod --apply",
        "redeliver resume --prefix orders --stage prod --apply",
        "redeliver resume --queue orders --region eu-central-1 --apply",
    ],
    notes: &[
        "Enables each disabled event source mapping of the source queue and of the queues that `pause --all` stops, \
              and waits up to three minutes until they are Enabled. Has no effect if nothing is paused.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "It is resumed, or would be."),
        (ExitCode::Failed, "", "Queues or mappings cannot be read: nothing was changed."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::PartlyDone,
            "",
            "A mapping is not Enabled, or a queue has no mapping; all other mappings are Enabled.",
        ),
        (
            ExitCode::NotFound,
            "an event source mapping",
            "No mapping reads the queues, so there is nothing to resume.",
        ),
    ],
};

/// Stop calling the target: messages wait, and use no attempts. Shows which event source mappings would be disabled,
/// and disables them only with --apply.
///
/// The messages wait in the source queue.
#[derive(Debug, Args)]
#[command(after_help = PAUSE.short_text(), after_long_help = PAUSE.long_text())]
pub struct PauseArguments {
    /// Also stop the functions that schedule retries and write final records
    ///
    /// That is, the mappings of the intermediate DLQ and of the annotation queue. Retries then wait, too.
    #[arg(long, help_heading = SWITCH, conflicts_with = "queues")]
    all: bool,
    #[command(flatten)]
    which: SwitchArguments,
}

/// Start all functions of a deployment again after `pause`. Shows which event source mappings would be enabled, and
/// enables them only with --apply.
#[derive(Debug, Args)]
#[command(after_help = RESUME.short_text(), after_long_help = RESUME.long_text())]
pub struct ResumeArguments {
    #[command(flatten)]
    which: SwitchArguments,
}

/// The mappings to switch, and the output options.
#[derive(Debug, Args)]
struct SwitchArguments {
    #[command(flatten)]
    queues: QueueSelection,
    #[command(flatten, next_help_heading = SWITCH)]
    apply: ApplyArgs,
    #[command(flatten)]
    printing: PrintArgs,
    #[command(flatten)]
    connection: AwsConnection,
}

/// Pauses the readers and prints the changes.
pub async fn pause_readers(arguments: &PauseArguments) -> Result<ExitCode, CommandFailure> {
    apply_switch(&arguments.which, arguments.all, MappingState::Disabled).await
}

/// Resumes the readers of every queue, since the extent of the pause is unknown, and prints the changes.
pub async fn resume_readers(arguments: &ResumeArguments) -> Result<ExitCode, CommandFailure> {
    apply_switch(&arguments.which, true, MappingState::Enabled).await
}

async fn apply_switch(
    which: &SwitchArguments,
    all: bool,
    wanted: MappingState,
) -> Result<ExitCode, CommandFailure> {
    which.printing.check_destination()?;
    let applied = which.apply.is_wanted();
    let switched = switch_readers(&which.queues, &which.connection, all, wanted, applied).await?;
    print_switch_report(which, &switched, wanted)
}

fn print_switch_report(
    which: &SwitchArguments,
    report: &SwitchReport,
    wanted: MappingState,
) -> Result<ExitCode, CommandFailure> {
    let command = if wanted == MappingState::Disabled { "pause" } else { "resume" };
    which.printing.print_report(command, report, || report.describe_changes())?;
    let failed: Vec<_> = report.mappings.iter().filter(|changed| changed.error.is_some()).collect();
    for MappingChange { queue, function, uuid, error, .. } in &failed {
        stderr::error(format_args!(
            "{function} at {queue}: {}; run the same command again, or inspect the mapping: aws lambda \
             get-event-source-mapping --uuid {uuid}",
            error.as_deref().unwrap_or_default()
        ));
    }
    which.apply.remind_to_apply(report.mappings.iter().any(|changed| changed.from != changed.to));
    for queue in &report.without_mapping {
        stderr::warning(queue.explain_remedy(wanted));
    }
    Ok(report.exit_code())
}
