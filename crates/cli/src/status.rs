//! `redeliver status`: a deployment's queues and event source mappings at a glance.

mod report;

use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;

use crate::connection::{Connection, OpenQueue, Queues};
use crate::event_sources::EventSources;
use crate::output::Printing;
use crate::{Failure, tell};
pub use report::{QueueStatus, Status};

/// Show how many messages wait in each queue of a deployment, and whether its functions read them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver status --stack redeliver-prod
  redeliver status --prefix orders --stage test
  redeliver status --queue orders --queue orders-dlq
  redeliver status --stack redeliver-prod --format json --profile operations

The counts are SQS's own, which it calls approximate. The age of the oldest message is a CloudWatch metric \
(ApproximateAgeOfOldestMessage) and not shown: the stack's dashboard has it.

Exit codes:
  0  all of it is shown
  1  event source mappings could not be read; the queues are shown
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
    print(arguments, &look(arguments).await?)
}

async fn look(arguments: &Arguments) -> Result<Status, Failure> {
    arguments.printing.check()?;
    let connection = &arguments.connection;
    let open = arguments.queues.open(connection).await?;
    let mut queues: Vec<_> = open
        .iter()
        .map(|OpenQueue { role, known }| {
            QueueStatus::new(role.map_or("queue", Role::in_words), known.queue.arn(), &known.attributes)
        })
        .collect();
    let mappings = open.iter().map(async |queue| {
        let arn = queue.known.queue.arn();
        Ok::<_, Failure>(EventSources::near(connection, arn).await?.of(arn).await?)
    });
    let mut problems = Vec::new();
    for (queue, found) in queues.iter_mut().zip(join_all(mappings).await) {
        match found {
            Ok(found) => queue.mappings = Some(found),
            Err(error) => problems.push(format!("event source mappings of {}: {error}", queue.name)),
        }
    }
    Ok(Status { deployment: arguments.queues.name(), queues, problems })
}

fn print(arguments: &Arguments, status: &Status) -> Result<ExitCode, Failure> {
    arguments.printing.print("status", status, || status.table())?;
    for problem in &status.problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!status.problems.is_empty())))
}
