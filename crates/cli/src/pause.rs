//! `redeliver pause` and `redeliver resume`: stop and start the functions of a deployment at its queues, for an outage
//! that should not spend attempts.

mod switch;

use std::process::ExitCode;

use clap::Args;
use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_core::strategy::Role;
use serde::Serialize;

use crate::applying::Applying;
use crate::connection::{Connection, Counts, OpenQueue, Queues, name_in};
use crate::event_sources::{EventSources, Mapping};
use crate::output::Printing;
use crate::readers::Readers;
use crate::{Failure, account, tell};
pub use switch::{Wanted, switch};

/// Stop calling the target: messages wait in the source queue and spend no attempts, as in an outage that is known of.
///
/// Shows which event source mappings would be disabled, and does it only with --apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver pause --stack redeliver-prod --apply
  redeliver pause --prefix orders --stage prod --apply
  redeliver pause --queue orders --apply
  redeliver pause --stack redeliver-prod --all --region eu-central-1 --apply

Disables the event source mapping of the source queue, and waits until it is Disabled, for three minutes at most. What is \
being processed is brought to its end. Messages wait up to the queue's retention. Pausing what is paused changes nothing. \
`redeliver resume` starts all of it again. A deployment of the stack may do so, too. Containers (`redeliver work`) have no \
event source mapping: stop them where they run.

Exit codes:
  0  paused, or would be
  1  a mapping is not Disabled, or a queue has none; the others are
  2  bad usage, or queues or mappings cannot be read: nothing was changed
  3  no event source mapping reads the queues: there is nothing that could be paused")]
pub struct PauseArguments {
    /// Also the mappings of the intermediate DLQ (no retry is scheduled) and of the annotation queue
    #[arg(long, conflicts_with = "queues")]
    all: bool,
    #[command(flatten)]
    which: Which,
}

/// Start again what `pause` has stopped: all functions of a deployment.
///
/// Shows which event source mappings would be enabled, and does it only with --apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver resume --stack redeliver-prod --apply
  redeliver resume --prefix orders --stage prod --apply
  redeliver resume --queue orders --region eu-central-1 --apply

Enables each event source mapping that is not enabled, of the source queue and of those that `pause --all` stops, and waits \
until they are Enabled, for three minutes at most. Resuming what is not paused changes nothing.

Exit codes:
  0  resumed, or would be
  1  a mapping is not Enabled, or a queue has none; the others are
  2  bad usage, or queues or mappings cannot be read: nothing was changed
  3  no event source mapping reads the queues: there is nothing that could be resumed")]
pub struct ResumeArguments {
    #[command(flatten)]
    which: Which,
}

/// Which mappings, and how the result is printed.
#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    queues: Queues,
    #[command(flatten)]
    applying: Applying,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    connection: Connection,
}

/// Pauses and prints what changed.
pub async fn pause(arguments: &PauseArguments) -> Result<ExitCode, Failure> {
    bring(&arguments.which, arguments.all, Wanted::Disabled).await
}

/// Resumes and prints what changed: all, since nobody knows how much was paused.
pub async fn resume(arguments: &ResumeArguments) -> Result<ExitCode, Failure> {
    bring(&arguments.which, true, Wanted::Enabled).await
}

/// Queues by how they can be switched.
#[derive(Default)]
struct Found {
    readings: Vec<Reading>,
    without_mapping: Vec<WithoutMapping>,
}

/// A queue that no event source mapping reads, so that nothing of it can be switched from here.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct WithoutMapping {
    queue: String,
    readers: Readers,
}

/// A mapping, the queue that it reads, and where it can be changed.
struct Reading {
    queue: String,
    mapping: Mapping,
    sources: EventSources,
}

/// What became of a mapping, or would.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Changed {
    queue: String,
    function: String,
    uuid: String,
    from: String,
    to: &'static str,
    error: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Report {
    applied: bool,
    mappings: Vec<Changed>,
    without_mapping: Vec<WithoutMapping>,
}

async fn bring(which: &Which, all: bool, wanted: Wanted) -> Result<ExitCode, Failure> {
    print(which, &run(which, all, wanted).await?, wanted)
}

async fn run(which: &Which, all: bool, wanted: Wanted) -> Result<Report, Failure> {
    which.printing.check()?;
    // All mappings are read before any is changed: exit code 2 promises that nothing was.
    let Found { readings, without_mapping } = find(&which.queues, &which.connection, all).await?;
    let applied = which.applying.is_wanted();
    let is_there = readings.iter().all(|reading| reading.mapping.state == wanted.state());
    let outcomes = if applied && !readings.is_empty() {
        let mut queues: Vec<_> = readings.iter().map(|reading| reading.queue.as_str()).collect();
        queues.dedup();
        let what = format!("{} {}", wanted.doing(), queues.join(", "));
        account::announce(&which.connection, queues.first().copied().unwrap_or_default(), what).await;
        if !is_there {
            tell::remark(format_args!("waiting until Lambda says {}…", wanted.state()));
        }
        switch_all(&readings, wanted).await
    } else {
        vec![Ok(()); readings.len()]
    };
    let mappings = readings.into_iter().zip(outcomes).map(|(Reading { queue, mapping, .. }, outcome)| {
        let Mapping { function, uuid, state: from, .. } = mapping;
        Changed {
            queue: name_in(&queue).to_owned(),
            function,
            uuid,
            from,
            to: wanted.state(),
            error: outcome.err(),
        }
    });
    Ok(Report { applied, mappings: mappings.collect(), without_mapping })
}

/// Side by side, since Lambda takes up to a minute for each; and each to its own end, since one that fails says nothing
/// of the others.
async fn switch_all(readings: &[Reading], wanted: Wanted) -> Vec<Result<(), String>> {
    let outcomes = readings
        .iter()
        .map(|Reading { mapping, sources, .. }| switch(sources, &SystemClock, mapping, wanted));
    join_all(outcomes).await
}

/// Brings the source queue's readers there, or all; what became of each, in a line. That people read the DLQ is no news.
pub(crate) async fn bring_to(
    queues: &Queues,
    dlq_arn: &str,
    connection: &Connection,
    all: bool,
    wanted: Wanted,
) -> Result<String, Failure> {
    let Found { readings, without_mapping } = find(queues, connection, all).await?;
    let outcomes = switch_all(&readings, wanted).await;
    let lines = readings.iter().zip(outcomes).map(|(Reading { queue, mapping, .. }, outcome)| {
        let what = format!("{} at {}", mapping.function, name_in(queue));
        match outcome {
            Ok(()) => format!("{what}: {}\n", wanted.state()),
            Err(why) => format!("{what}: {why}\n"),
        }
    });
    let others = without_mapping.iter().filter(|queue| queue.queue != name_in(dlq_arn));
    let others = others.map(|queue| format!("{}\n", queue.in_words(wanted)));
    Ok(lines.chain(others).collect())
}

/// Whether a queue is one of those that are switched. Queues that were named are all meant; people read the final DLQ.
pub(crate) fn is_meant(role: Option<Role>, all: bool) -> bool {
    matches!(role, Some(Role::Source) | None) || (all && role != Some(Role::FinalDlq))
}

async fn find(queues: &Queues, connection: &Connection, all: bool) -> Result<Found, Failure> {
    let mut found = Found::default();
    for OpenQueue { role, known } in queues.open(connection).await? {
        if !is_meant(role, all) {
            continue;
        }
        let queue = known.queue.arn().to_owned();
        let sources = EventSources::near(connection, &queue).await?;
        let mappings = sources.of(&queue).await?;
        if mappings.is_empty() {
            let in_flight = Counts::of(&known.attributes).in_flight;
            let readers = Readers::look(connection, &queue, Some(&[]), in_flight, SystemClock.now()).await;
            found.without_mapping.push(WithoutMapping { queue: name_in(&queue).to_owned(), readers });
        }
        found.readings.extend(mappings.into_iter().map(|mapping| Reading {
            queue: queue.clone(),
            mapping,
            sources: sources.clone(),
        }));
    }
    if found.readings.is_empty() && found.without_mapping.is_empty() {
        return Err("the source queue is not known: name it with --queue".into());
    }
    Ok(found)
}

impl WithoutMapping {
    /// What it means, and what to do instead.
    fn in_words(&self, wanted: Wanted) -> String {
        let (done, do_it, replicas) = match wanted {
            Wanted::Disabled => ("paused", "Stop", "0"),
            Wanted::Enabled => ("resumed", "Start", "N"),
        };
        let (queue, readers) = (&self.queue, self.readers.in_words());
        format!(
            "{queue}: nothing was {done}, since it has no event source mapping; {readers}. {do_it} containers where they run, such \
             as by `kubectl scale deployment NAME --replicas {replicas}` or `aws ecs update-service --service NAME \
             --desired-count {replicas}`"
        )
    }
}

fn print(which: &Which, report: &Report, wanted: Wanted) -> Result<ExitCode, Failure> {
    let command = if wanted == Wanted::Disabled { "pause" } else { "resume" };
    which.printing.print(command, report, || report.lines())?;
    let failed: Vec<_> = report.mappings.iter().filter(|changed| changed.error.is_some()).collect();
    for Changed { queue, function, uuid, error, .. } in &failed {
        tell::error(format_args!(
            "{function} at {queue}: {}; run the same command again, or look at the mapping: aws lambda \
             get-event-source-mapping --uuid {uuid}",
            error.as_deref().unwrap_or_default()
        ));
    }
    which
        .applying
        .remark_that_nothing_was_done(report.mappings.iter().any(|changed| changed.from != changed.to));
    for queue in &report.without_mapping {
        tell::warning(queue.in_words(wanted));
    }
    Ok(ExitCode::from(report.exit_code()))
}

impl Report {
    /// As documented in `--help`.
    fn exit_code(&self) -> u8 {
        let is_done = self.mappings.iter().all(|changed| changed.error.is_none());
        match (self.mappings.is_empty(), is_done && self.without_mapping.is_empty()) {
            (true, _) => 3,
            (false, is_all) => u8::from(!is_all),
        }
    }

    fn lines(&self) -> String {
        let lines = self.mappings.iter().filter(|changed| changed.error.is_none()).map(
            |Changed { queue, function, from, to, .. }| match (from == to, self.applied) {
                (true, _) => format!("{function} at {queue}: is {to} already\n"),
                (false, true) => format!("{function} at {queue}: {from} → {to}\n"),
                (false, false) => format!("{function} at {queue}: would be {to}, is {from}\n"),
            },
        );
        lines.collect()
    }
}

#[cfg(test)]
mod tests;
