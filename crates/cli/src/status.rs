//! `redeliver status`: a stack's queues and event source mappings at a glance.

mod report;

use std::process::ExitCode;

use clap::Args;
use futures_util::future::{join_all, try_join_all};
use redeliver_core::ports::Queue as _;

use crate::connection::{Connection, ConnectionError};
use crate::event_sources::EventSources;
use crate::format::Format;
pub use report::{QueueStatus, Redrive, StackStatus};

/// Show how many messages wait in each queue of a stack, and whether its functions read them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver status --stack redeliver-prod
  redeliver status --stack redeliver-prod --format json --profile operations

The counts are SQS's own, which it calls approximate. The age of the oldest message is a CloudWatch metric
(ApproximateAgeOfOldestMessage) and not shown: the stack's dashboard has it.

Exit codes:
  0  all of it is shown
  1  event source mappings could not be read; the queues are shown
  2  bad usage, or the stack or its queues cannot be read")]
pub struct Arguments {
    /// The name of a redeliver stack
    #[arg(long, value_name = "NAME")]
    stack: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    connection: Connection,
}

/// Looks and prints what is seen.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(look(arguments))) {
        Ok(status) => print(arguments.format, &status),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn look(arguments: &Arguments) -> Result<StackStatus, Box<dyn std::error::Error>> {
    let connection = &arguments.connection;
    let stack = connection.stack(&arguments.stack).await?;
    let mut urls = vec![("source", stack.source_queue_url()?)];
    urls.extend(stack.intermediate_dlq_url().map(|url| ("intermediate DLQ", url)));
    urls.extend([("annotation", stack.annotation_queue_url()?), ("final DLQ", stack.final_dlq_url()?)]);
    let queues = try_join_all(urls.into_iter().map(async |(role, url)| {
        let known = connection.queue(url).await?;
        Ok::<_, ConnectionError>(QueueStatus::new(role, known.queue.arn(), &known.attributes))
    }));
    let mut queues = queues.await?;
    let sources = EventSources::new(&connection.sdk_config().await?);
    let mappings = join_all(queues.iter().map(|queue| sources.of(&queue.arn))).await;
    let mut problems = Vec::new();
    for (queue, found) in queues.iter_mut().zip(mappings) {
        match found {
            Ok(found) => queue.mappings = Some(found),
            Err(error) => problems.push(format!("event source mappings of {}: {error}", queue.name)),
        }
    }
    Ok(StackStatus { stack: arguments.stack.clone(), queues, problems })
}

#[expect(clippy::print_stdout, reason = "the status is this command's output")]
fn print(format: Format, status: &StackStatus) -> ExitCode {
    match format {
        Format::Table => print!("{}", status.table()),
        Format::Json => println!("{}", status.json()),
    }
    for problem in &status.problems {
        eprintln!("error: {problem}");
    }
    ExitCode::from(u8::from(!status.problems.is_empty()))
}
