//! `redeliver status`: the state of the target, the queues and the event source mappings of a deployment.

use std::process::ExitCode;

use clap::Args;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_operator::Failure;
use redeliver_operator::queues::{Connection, Queues};
use redeliver_operator::status::{Status, look_at};
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::stderr;

/// Show whether a deployment's target is down and since when, how many messages wait in each of its queues, and what
/// reads them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver status --stack redeliver-prod
  redeliver status --prefix orders --stage test
  redeliver status --queue orders --queue orders-dlq
  redeliver status --stack redeliver-prod --format json --profile operations

That the target is down is found by the circuit breaker of the function that reads the source queue, and told by its \
CloudWatch metric CircuitOpen: to five minutes, a minute or two late, and up to 22 minutes after the last sign of it. \
That needs the permission cloudwatch:GetMetricData. Without a circuit breaker no outage is seen.

A container or a program that reads a queue is in no list. It is seen by the receives that CloudWatch has counted in the \
last 15 minutes, a few minutes late, also by those that got nothing. Where CloudWatch has no figures, messages in flight \
tell that something reads; without them it is not known. Beside an event source mapping that is on, nothing else is seen.

The counts are SQS's own, which it calls approximate. The age of the oldest message is a CloudWatch metric \
(ApproximateAgeOfOldestMessage) and not shown: the stack's dashboard has it.

Exit codes:
  0  all of it is shown
  1  event source mappings or the target's metric could not be read; the rest is shown
  2  bad usage, or the deployment or its queues cannot be read")]
pub struct Arguments {
    #[command(flatten)]
    queues: Queues,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    connection: Connection,
}

/// Looks and prints what is seen.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let open = arguments.queues.open(&arguments.connection).await?;
    let name = arguments.queues.name();
    print(arguments, &look_at(&arguments.connection, &open, name, SystemClock.now()).await?)
}

fn print(arguments: &Arguments, status: &Status) -> Result<ExitCode, Failure> {
    arguments.printing.print("status", status, || status.table())?;
    for problem in &status.problems {
        stderr::error(problem);
    }
    Ok(ExitCode::from(u8::from(!status.problems.is_empty())))
}
