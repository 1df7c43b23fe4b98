//! `redeliver status`: whether the target is down, and a deployment's queues and event source mappings at a glance.

mod metric;
mod report;
mod target;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::failure::Stage;
use redeliver_core::json::tolerant::Vocabulary as _;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_core::strategy::Role;

use crate::connection::{Connection, OpenQueue, Queues};
use crate::event_sources::{EventSources, Mapping};
use crate::output::Printing;
use crate::readers::Readers;
use crate::{Failure, tell};
#[cfg(test)]
pub(crate) use metric::tests::denied;
pub(crate) use metric::{Flow, Metrics};
use report::NAMED;
pub use report::{QueueStatus, Status};
use target::Outage;
pub(crate) use target::Target;

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
    print(arguments, &look(arguments, SystemClock.now()).await?)
}

async fn look(arguments: &Arguments, now: Timestamp) -> Result<Status, Failure> {
    arguments.printing.check()?;
    let open = arguments.queues.open(&arguments.connection).await?;
    look_at(&arguments.connection, &open, arguments.queues.name(), now).await
}

/// What is known of open queues.
pub(crate) async fn look_at(
    connection: &Connection,
    open: &[OpenQueue],
    deployment: Option<String>,
    now: Timestamp,
) -> Result<Status, Failure> {
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
    let seen = queues.iter().zip(open).map(async |(queue, open)| {
        // The final DLQ is for people.
        if open.role == Some(Role::FinalDlq) && queue.mappings.as_deref() == Some(&[]) {
            return None;
        }
        let (mappings, in_flight) = (queue.mappings.as_deref(), queue.counts.in_flight);
        Some(Readers::look(connection, &queue.arn, mappings, in_flight, now).await)
    });
    let seen = join_all(seen).await;
    for (queue, readers) in queues.iter_mut().zip(seen) {
        queue.readers = readers;
    }
    let target = target(connection, open, &queues, now, &mut problems).await;
    Ok(Status { deployment, target, queues, problems })
}

/// By the functions that read the source queue; any queue that is named may be one.
async fn target(
    connection: &Connection,
    open: &[OpenQueue],
    queues: &[QueueStatus],
    now: Timestamp,
    problems: &mut Vec<String>,
) -> Option<Target> {
    let sources = open.iter().zip(queues).filter(|(open, _)| matches!(open.role, None | Some(Role::Source)));
    let seen = sources.map(async |(_, queue)| {
        let Some(mappings) = &queue.mappings else { return Some(Ok(Target::Unknown)) };
        let functions = with_breaker(mappings);
        if functions.is_empty() {
            return None;
        }
        let seen = outages(connection, &queue.arn, &functions, now).await;
        Some(seen.map_err(|error| format!("the target of {}: {error}", functions.join(" and "))))
    });
    let seen = join_all(seen).await.into_iter().flatten().map(|seen| {
        seen.unwrap_or_else(|problem| {
            problems.push(problem);
            Target::Unknown
        })
    });
    seen.reduce(Target::or)
}

async fn outages(
    connection: &Connection,
    queue_arn: &str,
    functions: &[&str],
    now: Timestamp,
) -> Result<Target, Failure> {
    let points = Metrics::near(connection, queue_arn).await?.circuit_open(functions, now).await?;
    Ok(Target::of(points.iter().map(|points| Outage::of(points, now))))
}

/// The functions that may have a circuit breaker, each once and as its metrics name it: without version or alias. Our
/// others have none, by the names that the stack gives them (infra/lib/names.ts).
fn with_breaker(mappings: &[Mapping]) -> Vec<&str> {
    const WITHOUT: [Stage; 3] =
        [Stage::AsyncRetryHandler, Stage::FailedMessageProcessor, Stage::FinalDlqAnnotator];
    let names = mappings.iter().filter_map(|mapping| mapping.function.split(':').next());
    let with =
        names.filter(|name| !name.is_empty() && !WITHOUT.iter().any(|stage| name.ends_with(stage.word())));
    with.collect::<BTreeSet<_>>().into_iter().collect()
}

fn print(arguments: &Arguments, status: &Status) -> Result<ExitCode, Failure> {
    arguments.printing.print("status", status, || status.table())?;
    for problem in &status.problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!status.problems.is_empty())))
}

#[cfg(test)]
mod tests;
