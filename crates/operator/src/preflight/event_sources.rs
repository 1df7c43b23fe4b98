//! Event source mappings that let messages bypass redeliver or get lost.

use redeliver_core::strategy::Role;
use serde::Serialize;

use super::MappedQueue;
use crate::queues::event_sources::{LambdaMapping, report_failures_command};
use crate::queues::{queue_name_from_arn, region_from_arn};

/// A problem with a mapping, and advice on fixing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventSourceProblem {
    pub queue: String,
    pub function: String,
    pub uuid: String,
    pub advice: String,
}

/// Finds the problems with a deployment's mappings, queue by queue.
pub(super) fn find_problems(queues: &[MappedQueue]) -> Vec<EventSourceProblem> {
    // Any function may read the final DLQ.
    let read = queues.iter().filter(|queue| queue.role != Some(Role::FinalDlq));
    read.flat_map(|queue| {
        let on: Vec<_> = queue.mappings.iter().filter(|mapping| mapping.is_on()).collect();
        if queue.role.is_some() && on.len() > 1 {
            // All but one of these mappings have to be removed, so their settings do not matter yet.
            let shared = on
                .iter()
                .map(|mapping| mapping_problem(queue, mapping, shared_queue_advice(queue, mapping, &on)));
            return shared.collect::<Vec<_>>();
        }
        let unreported = queue.mappings.iter().filter(|mapping| !mapping.reports_failures);
        unreported
            .map(|mapping| mapping_problem(queue, mapping, unreported_failures_advice(queue, mapping)))
            .collect()
    })
    .collect()
}

fn mapping_problem(queue: &MappedQueue, mapping: &LambdaMapping, advice: String) -> EventSourceProblem {
    let LambdaMapping { uuid, function, .. } = mapping;
    EventSourceProblem {
        queue: queue_name_from_arn(&queue.arn).to_owned(),
        function: function.clone(),
        uuid: uuid.clone(),
        advice,
    }
}

fn unreported_failures_advice(
    queue: &MappedQueue,
    LambdaMapping { function, uuid, .. }: &LambdaMapping,
) -> String {
    let (name, region) = (queue_name_from_arn(&queue.arn), region_from_arn(&queue.arn).unwrap_or_default());
    let command = report_failures_command(uuid, region);
    match queue.role {
        Some(_) => format!(
            "{function} reads {name} without ReportBatchItemFailures, so Lambda deletes messages that redeliver could not \
             pass on; run {command}"
        ),
        None => format!(
            "{function} also reads {name}, without ReportBatchItemFailures: its batches bypass redeliver, and Lambda \
             deletes messages that the handler names in batchItemFailures; give {name} a function of its own, or run {command}"
        ),
    }
}

fn shared_queue_advice(queue: &MappedQueue, mapping: &LambdaMapping, all: &[&LambdaMapping]) -> String {
    let (name, region) = (queue_name_from_arn(&queue.arn), region_from_arn(&queue.arn).unwrap_or_default());
    let LambdaMapping { function, uuid, .. } = mapping;
    let others = all.iter().filter(|other| other.uuid != mapping.uuid).map(|other| other.function.as_str());
    let others = others.collect::<Vec<_>>().join(" and ");
    format!(
        "{function} shares {name} with {others}, and only one of them gets each message; if this mapping is not the \
         deployment's, run `aws lambda delete-event-source-mapping --uuid {uuid} --region {region}`"
    )
}
