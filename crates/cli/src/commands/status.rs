//! `redeliver status`: the state of the target, the queues and the event source mappings of a deployment.

use clap::Args;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::queues::{AwsConnection, QueueSelection};
use redeliver_operator::status::{Status, query_status};
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};

/// The closing text of the help for `status`.
const CLOSING: HelpFooter = HelpFooter {
    command: "status",
    page: "operate/status",
    examples: &[
        "redeliver status --stack redeliver-prod",
        "redeliver status --queue orders --queue orders-dlq",
        "redeliver status --stack redeliver-prod --format json --profile operations",
        "redeliver status --prefix orders --stage test",
    ],
    notes: &[
        "The circuit breaker of the function that reads the source queue detects that the target is down. Its \
         CloudWatch metric CircuitOpen shows an outage to within five minutes, a minute or two late, and for up to 22 \
         minutes after the last sign of it; LongestHoldSeconds is the longest hold. Reading them requires the \
         permission cloudwatch:GetMetricData. Without a circuit breaker, outages are not detected.",
        "AWS does not list the containers or programs that read a queue. They are inferred from the receives of the \
         last 15 minutes, including empty ones, which CloudWatch counts a few minutes late. Without data from \
         CloudWatch, messages in flight show that something reads the queue. Other readers cannot be distinguished \
         from an enabled event source mapping.",
        "With on_give_up: block, the command also lists the blocked groups of an ordered queue; `redeliver unblock` \
         can unblock them.",
        "The counts are SQS's own and approximate. The age of the oldest message (the CloudWatch metric \
         ApproximateAgeOfOldestMessage) is on the stack's dashboard. It leaves out messages that were received three \
         times or more (three audits are enough), so it does not show when SQS deletes dead letters; `redeliver audit` \
         does.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "The status is complete."),
        (ExitCode::Failed, "", "The deployment or its queues cannot be read."),
        (ExitCode::Usage, "", ""),
        (ExitCode::Incomplete, "", "Event source mappings or a metric could not be read."),
    ],
};

/// Show whether the target is down, and the messages in each queue. Also shows what reads the queues, and the blocked
/// groups of an ordered queue.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    #[command(flatten)]
    queues: QueueSelection,
    #[command(flatten)]
    printing: PrintArgs,
    #[command(flatten)]
    connection: AwsConnection,
}

/// Reads the state and prints it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let open = arguments.queues.open_queues(&arguments.connection).await?;
    let name = arguments.queues.deployment_name();
    print_status(arguments, &query_status(&arguments.connection, &open, name, SystemClock.now()).await?)
}

fn print_status(arguments: &Arguments, status: &Status) -> Result<ExitCode, CommandFailure> {
    arguments.printing.print_report("status", status, || {
        status.render_table(&arguments.printing.layout(SystemClock.now()))
    })?;
    for problem in &status.problems {
        stderr::error(problem);
    }
    let dead_letters = status.dead_letter_queue().map(|queue| queue.arn.as_str());
    let next = next_command(arguments, dead_letters, !status.blocked.is_empty());
    if let Some((command, page)) = next.filter(|_| arguments.printing.is_for_people()) {
        stderr::print_next_command(&command, page);
    }
    Ok(if status.is_complete() { ExitCode::Done } else { ExitCode::Incomplete })
}

/// Returns the command and the page for the worst problem. `dead_letters` is the ARN of a non-empty DLQ.
fn next_command(
    arguments: &Arguments,
    dead_letters: Option<&str>,
    has_blocked_groups: bool,
) -> Option<(NextCommand, &'static str)> {
    let (command, page) = match has_blocked_groups {
        true => ("unblock", "operate/unblock"),
        false => ("audit", "operate/audit"),
    };
    let deployment_words = arguments.queues.deployment_arguments();
    let words = match (deployment_words.is_empty(), dead_letters) {
        (false, dlq) if dlq.is_some() || has_blocked_groups => deployment_words,
        (true, Some(dlq)) => vec!["--queue".to_owned(), dlq.to_owned()],
        _ => return None,
    };
    Some((NextCommand::new(command).with_words(words).with_words(arguments.connection.to_arguments()), page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::parse_command_line;

    #[test]
    fn status_suggests_audit_or_unblock_as_the_next_command() {
        let next = |words: &str, dead_letters, has_blocked_groups| {
            let crate::CliCommand::Status(arguments) = parse_command_line(words.split(' ')) else {
                panic!("expected status")
            };
            let (command, page) = next_command(&arguments, dead_letters, has_blocked_groups)?;
            parse_command_line(command.words());
            Some((command.to_string(), page))
        };
        let arn = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
        let dlq = Some(arn);
        let with_stack = "redeliver status --stack prod --profile ops";
        let audit = "redeliver audit --stack prod --profile ops".to_owned();
        assert_eq!(next(with_stack, dlq, false), Some((audit, "operate/audit")));
        let unblock = "redeliver unblock --stack prod --profile ops".to_owned();
        for dead_letters in [dlq, None] {
            assert_eq!(next(with_stack, dead_letters, true), Some((unblock.clone(), "operate/unblock")));
        }
        assert_eq!(next(with_stack, None, false), None);
        let with_prefix = "redeliver status --prefix orders --stage test";
        let audit = "redeliver audit --prefix orders --stage test".to_owned();
        assert_eq!(next(with_prefix, dlq, false), Some((audit, "operate/audit")));
        let with_queues = "redeliver status --queue orders --queue orders-dlq --region eu-central-1";
        let audit = format!("redeliver audit --queue {arn} --region eu-central-1");
        assert_eq!(next(with_queues, dlq, false), Some((audit, "operate/audit")));
        assert_eq!(next(with_queues, None, false), None);
    }
}
