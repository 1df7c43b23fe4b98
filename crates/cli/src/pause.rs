//! `redeliver pause` and `redeliver resume`: stop and start the functions of a stack at its queues, for an outage that should
//! not spend attempts.

mod switch;

use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;

use crate::connection::{Connection, ConnectionError, Stack};
use crate::event_sources::{EventSources, Mapping};
pub use switch::{Outcome, Wanted, switch};

/// Stop calling the target: messages wait in the source queue and spend no attempts, as in an outage that is known of.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver pause --stack redeliver-prod
  redeliver pause --stack redeliver-prod --all --region eu-central-1

Disables the event source mapping of the source queue, and waits until it is Disabled, for three minutes at most. What is
being processed is brought to its end. Messages wait up to the queue's retention. Pausing what is paused changes nothing.
A deployment of the stack may enable it again.

Exit codes:
  0  paused
  1  a mapping is not Disabled; the others are
  2  bad usage, or the stack, its queues or its mappings cannot be read: nothing was changed")]
pub struct PauseArguments {
    #[command(flatten)]
    which: Which,
}

/// Start calling the target again, after `pause`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver resume --stack redeliver-prod
  redeliver resume --stack redeliver-prod --all --region eu-central-1

Enables the event source mapping of the source queue, and waits until it is Enabled, for three minutes at most. Resuming
what is not paused changes nothing.

Exit codes:
  0  resumed
  1  a mapping is not Enabled; the others are
  2  bad usage, or the stack, its queues or its mappings cannot be read: nothing was changed")]
pub struct ResumeArguments {
    #[command(flatten)]
    which: Which,
}

/// Which mappings.
#[derive(Debug, Args)]
struct Which {
    /// The name of a redeliver stack
    #[arg(long, value_name = "NAME")]
    stack: String,
    /// Also those of the intermediate DLQ (no retry is scheduled) and of the annotation queue
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Pauses and prints what changed.
#[must_use]
pub fn pause(arguments: &PauseArguments) -> ExitCode {
    bring(&arguments.which, Wanted::Disabled)
}

/// Resumes and prints what changed.
#[must_use]
pub fn resume(arguments: &ResumeArguments) -> ExitCode {
    bring(&arguments.which, Wanted::Enabled)
}

/// A mapping and the queue that it reads.
struct Reading {
    queue: String,
    mapping: Mapping,
}

fn bring(which: &Which, wanted: Wanted) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcomes = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(which, wanted)));
    match outcomes {
        Ok(outcomes) => print(&outcomes, wanted),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(which: &Which, wanted: Wanted) -> Result<Vec<(Reading, Outcome)>, Box<dyn std::error::Error>> {
    let stack = which.connection.stack(&which.stack).await?;
    let sources = EventSources::new(&which.connection.sdk_config().await?);
    let mut readings = Vec::new();
    for url in urls(&stack, which.all)? {
        let arn = which.connection.queue(url).await?.queue.arn().to_owned();
        let queue = arn.rsplit(':').next().unwrap_or(&arn).to_owned();
        let mappings = sources.of(&arn).await?;
        if mappings.is_empty() {
            return Err(format!("no event source mapping reads {queue}: is its function connected?").into());
        }
        readings.extend(mappings.into_iter().map(|mapping| Reading { queue: queue.clone(), mapping }));
    }
    if readings.iter().any(|reading| reading.mapping.state != wanted.state()) {
        eprintln!("waiting until Lambda says {}…", wanted.state());
    }
    let outcomes = readings.iter().map(|reading| switch(&sources, &SystemClock, &reading.mapping, wanted));
    let outcomes = join_all(outcomes).await;
    Ok(readings.into_iter().zip(outcomes).collect())
}

fn urls(stack: &Stack, all: bool) -> Result<Vec<&str>, ConnectionError> {
    let mut urls = vec![stack.source_queue_url()?];
    if all {
        urls.extend(stack.intermediate_dlq_url());
        urls.push(stack.annotation_queue_url()?);
    }
    Ok(urls)
}

#[expect(clippy::print_stdout, reason = "what changed is this command's output")]
fn print(outcomes: &[(Reading, Outcome)], wanted: Wanted) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (Reading { queue, mapping: Mapping { function, uuid, .. } }, outcome) in outcomes {
        let state = wanted.state();
        match outcome {
            Outcome::Already => println!("{function} at {queue}: was {state} already"),
            Outcome::Changed(from) => println!("{function} at {queue}: {from} → {state}"),
            Outcome::Failed(word) => {
                code = ExitCode::from(1);
                eprintln!(
                    "error: {function} at {queue}: {word}; run the same command again, or look at the mapping: \
                     aws lambda get-event-source-mapping --uuid {uuid}"
                );
            }
        }
    }
    code
}
