//! `redeliver status`: a deployment's queues and event source mappings at a glance.

mod report;
mod target;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;

use crate::connection::{Connection, OpenQueue, Queues, region_in};
use crate::event_sources::EventSources;
use crate::output::Printing;
use crate::{Failure, tell};
pub use report::{QueueStatus, Status};
use target::Target;

/// What a queue is that was named, and of which nobody says what it is for.
const NAMED: &str = "queue";

/// Show how many messages wait in each queue of a deployment, and whether its functions read them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver status --stack redeliver-prod
  redeliver status --prefix orders --stage test
  redeliver status --queue orders --queue orders-dlq
  redeliver status --stack redeliver-prod --format json --profile operations

The counts are SQS's own, which it calls approximate. The age of the oldest message is a CloudWatch metric \
(ApproximateAgeOfOldestMessage) and not shown: the stack's dashboard has it. Whether the target is down is the metric \
CircuitOpen of the functions that read the source queue, which needs the right cloudwatch:GetMetricData.

Exit codes:
  0  all of it is shown
  1  event source mappings or metrics could not be read; the queues are shown
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
            QueueStatus::new(role.map_or(NAMED, Role::in_words), known.queue.arn(), &known.attributes)
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
    let target = match look_at_target(connection, &queues).await? {
        Some(Ok(target)) => Some(target),
        Some(Err(error)) => {
            problems.push(format!("whether the target is down: {error}"));
            None
        }
        None => None,
    };
    Ok(Status { deployment: arguments.queues.name(), queues, target, problems })
}

/// Those that read the source queue know, or whoever reads a queue that was named. `None` if nobody does.
async fn look_at_target(
    connection: &Connection,
    queues: &[QueueStatus],
) -> Result<Option<Result<Target, String>>, Failure> {
    let calls = |queue: &&QueueStatus| queue.role == Role::Source.in_words() || queue.role == NAMED;
    let mappings = queues.iter().filter(calls).flat_map(|queue| queue.mappings.iter().flatten());
    let functions: BTreeSet<_> = mappings.map(|mapping| mapping.function.as_str()).collect();
    let (Some(queue), false) = (queues.first(), functions.is_empty()) else { return Ok(None) };
    let config = connection.sdk_config(region_in(&queue.arn)).await?;
    Ok(Some(Target::look(&config, functions).await))
}

fn print(arguments: &Arguments, status: &Status) -> Result<ExitCode, Failure> {
    arguments.printing.print("status", status, || status.table())?;
    for problem in &status.problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!status.problems.is_empty())))
}
