//! Pauses and resumes the functions that consume a deployment's queues, so that an outage does not use up attempts.

mod switch;

use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_core::strategy::Role;
use serde::Serialize;

use crate::queues::event_sources::{EventSources, LambdaMapping};
use crate::queues::{AwsConnection, OpenQueue, QueueCounts, QueueSelection, account, queue_name_from_arn};
use crate::status::readers::Readers;
use crate::terminal::stderr;
use crate::{CommandFailure, ExitCode, UsageError};
pub use switch::{MappingState, switch_mapping};

/// The mappings that can be switched, and the queues without a mapping.
#[derive(Default)]
struct SwitchableQueues {
    switchable: Vec<SwitchableMapping>,
    without_mapping: Vec<UnmappedQueue>,
}

/// A queue without an event source mapping: there is nothing to switch.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct UnmappedQueue {
    pub queue: String,
    pub readers: Readers,
}

/// A mapping, the queue it reads, and the client that can change it.
struct SwitchableMapping {
    queue: String,
    mapping: LambdaMapping,
    sources: EventSources,
}

/// An applied or planned change to a mapping.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct MappingChange {
    pub queue: String,
    pub function: String,
    pub uuid: String,
    pub from: String,
    pub to: &'static str,
    pub error: Option<String>,
}

/// The applied or planned changes to all mappings.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SwitchReport {
    pub applied: bool,
    pub mappings: Vec<MappingChange>,
    pub without_mapping: Vec<UnmappedQueue>,
}

/// Enables or disables the event source mappings of the source queue or, with `all`, of every queue except the final
/// DLQ. Unless `applied` is true, only reports what would change. All mappings are switched concurrently, each within
/// 180 s.
///
/// # Errors
/// If a queue or its mappings cannot be read; in that case, nothing is changed. A mapping that cannot be switched is
/// not an error.
pub async fn switch_readers(
    queues: &QueueSelection,
    connection: &AwsConnection,
    all: bool,
    wanted: MappingState,
    applied: bool,
) -> Result<SwitchReport, CommandFailure> {
    // All mappings are read before any is changed: exit code 1 guarantees that nothing was changed.
    let SwitchableQueues { switchable, without_mapping } = find_mappings(queues, connection, all).await?;
    let is_switched = switchable.iter().all(|entry| entry.mapping.state == wanted.state_name());
    let outcomes = if applied && !switchable.is_empty() {
        let mut named: Vec<_> = switchable.iter().map(|entry| entry.queue.as_str()).collect();
        named.dedup();
        let what = format!("{} {}", wanted.progress_phrase(), named.join(", "));
        account::announce_change(connection, named.first().copied().unwrap_or_default(), what).await;
        if !is_switched {
            stderr::remark(format_args!("waiting for Lambda to report {}…", wanted.state_name()));
        }
        switch_all(&switchable, wanted).await
    } else {
        vec![Ok(()); switchable.len()]
    };
    let mappings =
        switchable.into_iter().zip(outcomes).map(|(SwitchableMapping { queue, mapping, .. }, outcome)| {
            let LambdaMapping { function, uuid, state: from, .. } = mapping;
            MappingChange {
                queue: queue_name_from_arn(&queue).to_owned(),
                function,
                uuid,
                from,
                to: wanted.state_name(),
                error: outcome.err(),
            }
        });
    Ok(SwitchReport { applied, mappings: mappings.collect(), without_mapping })
}

/// Switches the mappings concurrently, since each usually takes up to a minute. A failure does not stop the others.
async fn switch_all(switchable: &[SwitchableMapping], wanted: MappingState) -> Vec<Result<(), String>> {
    let outcomes = switchable.iter().map(|SwitchableMapping { mapping, sources, .. }| {
        switch_mapping(sources, &SystemClock, mapping, wanted)
    });
    join_all(outcomes).await
}

/// Switches the readers of the source queue, or of all queues. Returns one line per mapping and per queue without a
/// mapping, except for the DLQ, which no function should read.
pub async fn switch_and_describe(
    queues: &QueueSelection,
    dlq_arn: &str,
    connection: &AwsConnection,
    all: bool,
    wanted: MappingState,
) -> Result<String, CommandFailure> {
    let SwitchableQueues { switchable, without_mapping } = find_mappings(queues, connection, all).await?;
    let outcomes = switch_all(&switchable, wanted).await;
    let lines = switchable.iter().zip(outcomes).map(|(SwitchableMapping { queue, mapping, .. }, outcome)| {
        let what = format!("{} at {}", mapping.function, queue_name_from_arn(queue));
        match outcome {
            Ok(()) => format!("{what}: {}\n", wanted.state_name()),
            Err(why) => format!("{what}: {why}\n"),
        }
    });
    let others = without_mapping.iter().filter(|queue| queue.queue != queue_name_from_arn(dlq_arn));
    let others = others.map(|queue| format!("{}\n", queue.explain_remedy(wanted)));
    Ok(lines.chain(others).collect())
}

/// Returns true if the readers of a queue are to be switched: always for the source queue and queues given by name;
/// with `all`, also for the others, except the final DLQ.
pub fn is_selected(role: Option<Role>, all: bool) -> bool {
    matches!(role, Some(Role::Source) | None) || (all && role != Some(Role::FinalDlq))
}

async fn find_mappings(
    queues: &QueueSelection,
    connection: &AwsConnection,
    all: bool,
) -> Result<SwitchableQueues, CommandFailure> {
    let mut found = SwitchableQueues::default();
    for OpenQueue { role, known } in queues.open_queues(connection).await? {
        if !is_selected(role, all) {
            continue;
        }
        let queue = known.queue.arn().to_owned();
        let sources = EventSources::for_queue_region(connection, &queue).await?;
        let mappings = sources.list_for_queue(&queue).await?;
        if mappings.is_empty() {
            let in_flight = QueueCounts::from_attributes(&known.attributes).in_flight;
            let readers =
                Readers::query_readers(connection, &queue, Some(&[]), in_flight, SystemClock.now()).await;
            found
                .without_mapping
                .push(UnmappedQueue { queue: queue_name_from_arn(&queue).to_owned(), readers });
        }
        found.switchable.extend(mappings.into_iter().map(|mapping| SwitchableMapping {
            queue: queue.clone(),
            mapping,
            sources: sources.clone(),
        }));
    }
    if found.switchable.is_empty() && found.without_mapping.is_empty() {
        return Err(UsageError::new("could not find the source queue: name it with --queue").into());
    }
    Ok(found)
}

impl UnmappedQueue {
    /// Explains the problem and suggests an alternative.
    pub fn explain_remedy(&self, wanted: MappingState) -> String {
        let (done, do_it, replicas) = match wanted {
            MappingState::Disabled => ("paused", "Stop", "0"),
            MappingState::Enabled => ("resumed", "Start", "N"),
        };
        let (queue, readers) = (&self.queue, self.readers.describe());
        format!(
            "{queue}: nothing was {done}, since it has no event source mapping; {readers}. {do_it} containers where \
             they run, for example with `kubectl scale deployment NAME --replicas {replicas}` or `aws ecs \
             update-service --service NAME \
             --desired-count {replicas}`"
        )
    }
}

impl SwitchReport {
    /// Returns `NotFound` if no queue has a mapping, `PartlyDone` if a mapping failed or a queue has none, otherwise
    /// `Done`.
    pub fn exit_code(&self) -> ExitCode {
        let is_done = self.mappings.iter().all(|changed| changed.error.is_none());
        match (self.mappings.is_empty(), is_done && self.without_mapping.is_empty()) {
            (true, _) => ExitCode::NotFound,
            (false, true) => ExitCode::Done,
            (false, false) => ExitCode::PartlyDone,
        }
    }

    /// Describes each mapping that was or would be switched, one per line. Failed mappings are omitted: their errors
    /// are reported separately.
    pub fn describe_changes(&self) -> String {
        let lines = self.mappings.iter().filter(|changed| changed.error.is_none()).map(
            |MappingChange { queue, function, from, to, .. }| match (from == to, self.applied) {
                (true, _) => format!("{function} at {queue}: is already {to}\n"),
                (false, true) => format!("{function} at {queue}: {from} → {to}\n"),
                (false, false) => format!("{function} at {queue}: would be {to}, is {from}\n"),
            },
        );
        lines.collect()
    }
}

#[cfg(test)]
mod tests;
