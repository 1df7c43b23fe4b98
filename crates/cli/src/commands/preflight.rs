//! `redeliver preflight`: checks before a deployment.

use std::path::PathBuf;

use clap::Args;
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::preflight::run_preflight;
use redeliver_operator::queues::{AwsConnection, NamedDeployment};
use redeliver_operator::terminal::help::{HelpFooter, VALIDATE};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};

/// The closing text of the help for `preflight`.
const CLOSING: HelpFooter = HelpFooter {
    command: "preflight",
    page: "operate/pause",
    examples: &[
        "redeliver preflight --stack redeliver-prod",
        "redeliver preflight --stack orders --template cdk.out/orders.template.json",
        "redeliver preflight --prefix orders --stage test",
    ],
    notes: &[
        "A stack that is not deployed yet cannot be paused; instead, queues in its template that already exist are \
         listed. Among the event source mappings of the stack and of the function that reads its source queue, the \
         command reports two readers of the same queue and mappings without ReportBatchItemFailures. The concurrency \
         that a template requires is the sum of its event source mappings' limits (10 for each provisioned poller), or \
         the sum of their functions' reservations plus the 100 that Lambda keeps unreserved; parameters count with \
         their defaults. It is compared with the account's quota in the region.",
        "JSON: {schema, deployed, paused: [{queue, function, state}], event_sources: [{queue, function, uuid, \
         advice}], taken_queues: [name], concurrency: {wanted, quota, advice}, problems} (null: unknown)",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Nothing was found."),
        (ExitCode::Failed, "", "The template cannot be read."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::ProblemsFound,
            "",
            "An update could resume a function, a mapping is wrong, a name is taken, or concurrency is too low.",
        ),
        (ExitCode::Incomplete, "", ""),
    ],
};

/// Check a deployment before you update it. Finds functions that the update could resume, other readers of the queues,
/// names that are taken, and insufficient concurrency.
///
/// An update can resume functions that `redeliver pause` stopped, another event source mapping can make messages bypass
/// redeliver, and a new account might not have the concurrency that the stack requires. The command changes nothing.
/// `cargo xtask cdk deploy` runs it automatically; run it yourself before any other update of a stack.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    #[command(flatten)]
    deployment: NamedDeployment,
    /// The CloudFormation template that will be deployed, in JSON
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    template: Option<PathBuf>,
    #[command(flatten)]
    printing: PrintArgs,
    #[command(flatten)]
    connection: AwsConnection,
}

/// Runs the checks and prints the findings.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let queues = arguments.deployment.all_queues();
    let found = run_preflight(&arguments.connection, &queues, arguments.template.as_deref()).await?;
    arguments.printing.print_report("preflight", &found, || found.describe_findings())?;
    for problem in &found.problems {
        stderr::warning(problem);
    }
    if arguments.printing.is_for_people() && found.deployed != Some(false) {
        let (command, page) = next_command(arguments, found.paused.iter().flatten().next().is_some());
        stderr::print_next_command(&command, page);
    }
    Ok(found.exit_code())
}

/// Suggests resuming a paused deployment, or otherwise checking the status after the update.
fn next_command(arguments: &Arguments, is_paused: bool) -> (NextCommand, &'static str) {
    let (command, page) = if is_paused { ("resume", "operate/pause") } else { ("status", "operate/status") };
    let words = arguments.deployment.all_queues().deployment_arguments();
    (NextCommand::new(command).with_words(words).with_words(arguments.connection.to_arguments()), page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::parse_command_line;

    #[test]
    fn the_next_command_after_preflight_resumes_or_shows_the_status() {
        let next = |words: &str, is_paused| {
            let crate::CliCommand::Preflight(arguments) = parse_command_line(words.split(' ')) else {
                panic!("expected preflight")
            };
            let (command, page) = next_command(&arguments, is_paused);
            parse_command_line(command.words());
            (command.to_string(), page)
        };
        let with_stack = "redeliver preflight --stack prod --template t.json --region eu-central-1";
        let resume = "redeliver resume --stack prod --region eu-central-1".to_owned();
        assert_eq!(next(with_stack, true), (resume, "operate/pause"));
        let status = "redeliver status --stack prod --region eu-central-1".to_owned();
        assert_eq!(next(with_stack, false), (status, "operate/status"));
        let status = "redeliver status --prefix orders --stage test".to_owned();
        assert_eq!(
            next("redeliver preflight --prefix orders --stage test", false),
            (status, "operate/status")
        );
    }
}
