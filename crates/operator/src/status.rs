//! The status of a deployment: the state of the target, the message counts of its queues, and their readers.

pub mod consumer;
pub mod containers;
pub mod day;
mod metrics;
mod problem;
pub mod readers;
mod report;
mod target;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use redeliver_aws::SystemClock;
use redeliver_core::failure::Stage;
use redeliver_core::json::forward_compatible::OpenVariants as _;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::blocked::{BlockedGroup, BlockedGroups, list_blocked_groups};

use crate::CommandFailure;
use crate::queues::event_sources::{EventSources, LambdaMapping};
use crate::queues::{AwsConnection, OpenQueue};
use crate::status::readers::Readers;
#[cfg(test)]
pub use metrics::tests::access_denied;
pub use metrics::{MetricsClient, QueueFlow, RECEIVE_METRICS, RECEIVES_LOOK_BACK, Receives};
pub use problem::{Problem, QueriedService};
use report::NAMED;
pub use report::{QueueStatus, Status, blocked_group_table};
pub use target::{OngoingOutage, TargetStatus};

/// Reads the mappings, readers, blocked groups and outages of open queues, from Lambda, SQS and CloudWatch. If a
/// service rejects a request, the information is missing from the status and listed as a problem, not returned as an
/// error.
pub async fn query_status(
    connection: &AwsConnection,
    open: &[OpenQueue],
    deployment: Option<String>,
    now: Timestamp,
) -> Result<Status, CommandFailure> {
    let mut queues: Vec<_> = open
        .iter()
        .map(|OpenQueue { role, known }| {
            QueueStatus::new(role.map_or(NAMED, Role::display_name), known.queue.arn(), &known.attributes)
        })
        .collect();
    let mappings = open.iter().map(async |queue| {
        let arn = queue.known.queue.arn();
        Ok::<_, CommandFailure>(
            EventSources::for_queue_region(connection, arn).await?.list_for_queue(arn).await?,
        )
    });
    let mut problems = Vec::new();
    for (queue, found) in queues.iter_mut().zip(join_all(mappings).await) {
        match found {
            Ok(found) => queue.mappings = Some(found),
            Err(error) => {
                let about = vec![queue.name.clone()];
                let missing = "event source mappings";
                let why = error.to_string();
                Problem::record_problem(
                    &mut problems,
                    Problem { service: QueriedService::Lambda, missing, about, why },
                );
            }
        }
    }
    let readers = queues.iter().zip(open).map(async |(queue, open)| {
        // No program should read these queues, so their readers are not queried.
        if matches!(open.role, Some(Role::FinalDlq | Role::Blocked)) && queue.mappings.as_deref() == Some(&[])
        {
            return None;
        }
        let (mappings, in_flight) = (queue.mappings.as_deref(), queue.counts.in_flight);
        Some(Readers::query_readers(connection, &queue.arn, mappings, in_flight, now).await)
    });
    let readers = join_all(readers).await;
    for (queue, readers) in queues.iter_mut().zip(readers) {
        queue.readers = readers;
    }
    let findings = query_targets(connection, open, &queues, now, &mut problems).await;
    let blocked = read_blocked_groups(open, &queues, &mut problems).await;
    Ok(Status {
        deployment,
        target: findings.map(|findings| findings.target),
        longest_hold_seconds: findings.and_then(|findings| findings.longest_hold_seconds),
        queues,
        blocked,
        problems,
    })
}

/// Reads the notices of blocked groups, if any.
async fn read_blocked_groups(
    open: &[OpenQueue],
    queues: &[QueueStatus],
    problems: &mut Vec<Problem>,
) -> Vec<BlockedGroup> {
    let notices = open.iter().zip(queues).find(|(open, _)| open.role == Some(Role::Blocked));
    let Some((open, queue)) = notices.filter(|(_, queue)| queue.counts.has_messages()) else {
        return Vec::new();
    };
    let (groups, why) = match list_blocked_groups(&open.known.queue, &SystemClock).await {
        Ok(BlockedGroups { groups, coverage }) if coverage.complete => return groups,
        Ok(BlockedGroups { groups, .. }) => (
            groups,
            "not all were seen: a notice becomes visible after a minute, and is hidden while another program reads it"
                .to_owned(),
        ),
        Err(error) => (Vec::new(), error.to_string()),
    };
    let about = vec![queue.name.clone()];
    Problem::record_problem(
        problems,
        Problem { service: QueriedService::Sqs, missing: "blocked groups", about, why },
    );
    groups
}

/// The findings about the target, from the metrics of the functions that call it.
#[derive(Clone, Copy, Debug)]
struct TargetFindings {
    target: TargetStatus,
    longest_hold_seconds: Option<i64>,
}

impl TargetFindings {
    const UNKNOWN: Self = Self { target: TargetStatus::Unknown, longest_hold_seconds: None };

    /// Combines the findings of two queues.
    fn combine_with(self, other: Self) -> Self {
        Self {
            target: self.target.combine_with(other.target),
            longest_hold_seconds: self.longest_hold_seconds.max(other.longest_hold_seconds),
        }
    }
}

/// Reads the outages recorded by the functions that read the source queue. Any queue given by name may be the source.
async fn query_targets(
    connection: &AwsConnection,
    open: &[OpenQueue],
    queues: &[QueueStatus],
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Option<TargetFindings> {
    let sources = open.iter().zip(queues).filter(|(open, _)| matches!(open.role, None | Some(Role::Source)));
    let findings = sources.map(async |(_, queue)| {
        let Some(mappings) = &queue.mappings else { return Some(Ok(TargetFindings::UNKNOWN)) };
        let functions = breaker_functions(mappings);
        if functions.is_empty() {
            return None;
        }
        let findings = query_target(connection, &queue.arn, &functions, now).await;
        Some(findings.map_err(|error| Problem {
            service: QueriedService::CloudWatch,
            missing: "outages",
            about: functions.iter().map(|name| (*name).to_owned()).collect(),
            why: error.to_string(),
        }))
    });
    let findings = join_all(findings).await.into_iter().flatten().map(|findings| {
        findings.unwrap_or_else(|problem| {
            Problem::record_problem(problems, problem);
            TargetFindings::UNKNOWN
        })
    });
    findings.reduce(TargetFindings::combine_with)
}

async fn query_target(
    connection: &AwsConnection,
    queue_arn: &str,
    functions: &[&str],
    now: Timestamp,
) -> Result<TargetFindings, CommandFailure> {
    let points = MetricsClient::for_queue_region(connection, queue_arn)
        .await?
        .query_target_points(functions, now)
        .await?;
    Ok(TargetFindings {
        target: TargetStatus::from_outages(
            points.circuit_open.iter().map(|points| OngoingOutage::from_points(points, now)),
        ),
        longest_hold_seconds: target::longest_hold_seconds(&points.longest_hold_seconds, now),
    })
}

/// Returns the functions that may have a circuit breaker, without duplicates and named as in their metrics: without
/// version or alias. redeliver's other functions have no circuit breaker; they are recognized by the names that the
/// stack gives them (infra/lib/names.ts).
pub(crate) fn breaker_functions(mappings: &[LambdaMapping]) -> Vec<&str> {
    const STAGES_WITHOUT_BREAKER: [Stage; 3] =
        [Stage::AsyncRetryHandler, Stage::FailedMessageProcessor, Stage::FinalDlqAnnotator];
    let names = mappings.iter().filter_map(|mapping| mapping.function.split(':').next());
    let with = names.filter(|name| {
        !name.is_empty() && !STAGES_WITHOUT_BREAKER.iter().any(|stage| name.ends_with(stage.wire_name()))
    });
    with.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
