//! `redeliver status`: a deployment's queues and event source mappings at a glance.

mod report;

use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_core::ports::Queue as _;

use crate::connection::{Connection, Queues, Role};
use crate::event_sources::mappings_of;
use crate::format::Format;
use crate::output::{Output, document};
use crate::tell;
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
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Looks and prints what is seen.
pub fn main(arguments: &Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let looked = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(look(arguments)));
    looked.and_then(|status| print(arguments, &status)).unwrap_or_else(|error| {
        tell::error(error);
        ExitCode::from(2)
    })
}

async fn look(arguments: &Arguments) -> Result<Status, Box<dyn std::error::Error>> {
    arguments.output.check()?;
    let connection = &arguments.connection;
    let roles = arguments.queues.open(connection).await?;
    let mut queues: Vec<_> = roles
        .iter()
        .map(|Role { role, known }| QueueStatus::new(role, known.queue.arn(), &known.attributes))
        .collect();
    let mappings = join_all(roles.iter().map(|role| mappings_of(connection, role))).await;
    let mut problems = Vec::new();
    for (queue, found) in queues.iter_mut().zip(mappings) {
        match found {
            Ok(found) => queue.mappings = Some(found),
            Err(error) => problems.push(format!("event source mappings of {}: {error}", queue.name)),
        }
    }
    Ok(Status { deployment: arguments.queues.name(), queues, problems })
}

fn print(arguments: &Arguments, status: &Status) -> Result<ExitCode, Box<dyn std::error::Error>> {
    arguments.output.write(&match arguments.format {
        Format::Table => status.table(),
        Format::Json => document("status", status),
    })?;
    for problem in &status.problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!status.problems.is_empty())))
}
