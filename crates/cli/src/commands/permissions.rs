//! `redeliver permissions`: the least-privilege IAM policy for a command.

use clap::Args;
use redeliver_operator::permissions::{PolicyCommand, PolicyNames, build_policy};
use redeliver_operator::queues::{AwsConnection, DeploymentArgs};
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::output::OutputArgs;
use redeliver_operator::{CommandFailure, ExitCode};

/// The closing text of the help for `permissions`.
const CLOSING: HelpFooter = HelpFooter {
    command: "permissions",
    page: "deploy/permissions",
    examples: &[
        "redeliver permissions audit",
        "redeliver permissions redrive --stack redeliver-prod -o redrive-policy.json",
        "redeliver permissions pause --prefix orders --stage prod",
    ],
    notes: &[
        "A queue's own KMS key also requires permissions; they are included for a deployment whose queues have such a \
              key. The key policy must allow access through its account's IAM policies. `--queue NAME` also requires \
              sqs:GetQueueUrl on that queue. An archive, s3://BUCKET/PREFIX, also requires s3:ListBucket on the bucket \
              and s3:GetObject on its objects; `redrive --to` and `purge --backup`, which write to it, require \
              s3:PutObject.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "The policy is printed."),
        (ExitCode::Failed, "", "The deployment cannot be read."),
        (ExitCode::Usage, "", ""),
    ],
};

/// Print the least-privilege IAM policy for a command, as JSON. Names the queues of a deployment, or contains
/// placeholders.
///
/// With --stack, or --prefix and --stage, the policy's resources are the deployment's, including the keys of its
/// queues. Otherwise they are placeholders in capitals: replace REGION, ACCOUNT, STACK, SOURCE, FINAL_DLQ and the like.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// The command
    #[arg(value_enum)]
    command: PolicyCommand,
    #[command(flatten)]
    deployment: DeploymentArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: AwsConnection,
}

/// Prints the policy.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.output.check_destination()?;
    let names = match arguments.deployment.all_queues() {
        Some(queues) => {
            PolicyNames::for_deployment(arguments.command, &queues, &arguments.connection).await?
        }
        None => PolicyNames::with_placeholders(arguments.command),
    };
    let policy = serde_json::to_string_pretty(&build_policy(arguments.command, &names))?;
    arguments.output.write_text(&format!("{policy}\n"))?;
    Ok(ExitCode::Done)
}
