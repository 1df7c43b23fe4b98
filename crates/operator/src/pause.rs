//! Stops and starts the functions of a deployment at its queues, for an outage that should not spend attempts.

mod switch;

use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_core::strategy::Role;
use serde::Serialize;

use crate::queues::event_sources::{EventSources, Mapping};
use crate::queues::{Connection, Counts, OpenQueue, Queues, account, name_in};
use crate::status::readers::Readers;
use crate::terminal::stderr;
use crate::{ExitCode, Failure, UsageError};
pub use switch::{Wanted, switch};

/// Queues by how they can be switched.
#[derive(Default)]
struct Found {
    readings: Vec<Reading>,
    without_mapping: Vec<WithoutMapping>,
}

/// A queue that no event source mapping reads, so there is nothing to switch.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct WithoutMapping {
    pub queue: String,
    pub readers: Readers,
}

/// A mapping, the queue that it reads, and where it can be changed.
struct Reading {
    queue: String,
    mapping: Mapping,
    sources: EventSources,
}

/// The change of a mapping, made or planned.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub queue: String,
    pub function: String,
    pub uuid: String,
    pub from: String,
    pub to: &'static str,
    pub error: Option<String>,
}

/// The changes of all mappings, made or planned.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Switched {
    pub applied: bool,
    pub mappings: Vec<Changed>,
    pub without_mapping: Vec<WithoutMapping>,
}

/// Enables or disables the event source mappings of the source queue, or with `all` those of every queue but the final
/// DLQ; unless `applied`, only reports what would change. All are switched at the same time, within 180 s each.
///
/// # Errors
/// If a queue or its mappings cannot be read: nothing is changed then. A mapping that cannot be switched is not an
/// error.
pub async fn switch_readers(
    queues: &Queues,
    connection: &Connection,
    all: bool,
    wanted: Wanted,
    applied: bool,
) -> Result<Switched, Failure> {
    // All mappings are read before any is changed: exit code 1 promises that nothing was.
    let Found { readings, without_mapping } = find(queues, connection, all).await?;
    let is_there = readings.iter().all(|reading| reading.mapping.state == wanted.state());
    let outcomes = if applied && !readings.is_empty() {
        let mut named: Vec<_> = readings.iter().map(|reading| reading.queue.as_str()).collect();
        named.dedup();
        let what = format!("{} {}", wanted.doing(), named.join(", "));
        account::announce(connection, named.first().copied().unwrap_or_default(), what).await;
        if !is_there {
            stderr::remark(format_args!("waiting for Lambda to report {}…", wanted.state()));
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
    Ok(Switched { applied, mappings: mappings.collect(), without_mapping })
}

/// Switches the mappings at the same time, since each needs up to a minute. A failure does not stop the
/// others.
async fn switch_all(readings: &[Reading], wanted: Wanted) -> Vec<Result<(), String>> {
    let outcomes = readings
        .iter()
        .map(|Reading { mapping, sources, .. }| switch(sources, &SystemClock, mapping, wanted));
    join_all(outcomes).await
}

/// Switches the readers of the source queue, or of all queues. Returns a line for each mapping and for each queue
/// without one, but not for the DLQ, which no function should read.
pub async fn bring_to(
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

/// True if the readers of a queue are to be switched: always those of the source queue and of named queues; with `all`
/// also the others, except the final DLQ's.
pub fn is_meant(role: Option<Role>, all: bool) -> bool {
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
        return Err(UsageError::new("could not find the source queue: name it with --queue").into());
    }
    Ok(found)
}

impl WithoutMapping {
    /// Explains it, and what to do instead.
    pub fn in_words(&self, wanted: Wanted) -> String {
        let (done, do_it, replicas) = match wanted {
            Wanted::Disabled => ("paused", "Stop", "0"),
            Wanted::Enabled => ("resumed", "Start", "N"),
        };
        let (queue, readers) = (&self.queue, self.readers.in_words());
        format!(
            "{queue}: nothing was {done}, since it has no event source mapping; {readers}. {do_it} containers where \
             they run, for example with `kubectl scale deployment NAME --replicas {replicas}` or `aws ecs \
             update-service --service NAME \
             --desired-count {replicas}`"
        )
    }
}

impl Switched {
    /// `NotThere` if no queue has a mapping, `NotAllDone` if a mapping failed or a queue has none, else `Done`.
    pub fn exit_code(&self) -> ExitCode {
        let is_done = self.mappings.iter().all(|changed| changed.error.is_none());
        match (self.mappings.is_empty(), is_done && self.without_mapping.is_empty()) {
            (true, _) => ExitCode::NotThere,
            (false, true) => ExitCode::Done,
            (false, false) => ExitCode::NotAllDone,
        }
    }

    /// A line for each mapping that was switched or would be. Those that failed have none: their errors are elsewhere.
    pub fn lines(&self) -> String {
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
