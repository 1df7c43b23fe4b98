//! What is known of a deployment: a table for people, one JSON object for programs.

use std::collections::BTreeMap;

use redeliver_core::strategy::Role;
use serde::Serialize;

use super::target::Target;
use crate::connection::{Counts, RedrivePolicy, name_in};
use crate::event_sources::Mapping;
use crate::people::{counted, grouped, span, table};

/// A deployment's queues, or others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The name of the stack, or prefix and stage; `None` if queues were named.
    pub deployment: Option<String>,
    /// `None` if there is no function that could tell.
    pub target: Option<Target>,
    /// In the order in which a message that fails goes through them.
    pub queues: Vec<QueueStatus>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// What it is in the deployment.
    pub role: &'static str,
    pub name: String,
    pub arn: String,
    #[serde(flatten)]
    pub counts: Counts,
    /// Where messages go that were received too often.
    pub redrive: Option<Redrive>,
    /// Who reads it; `None` if that could not be read.
    pub mappings: Option<Vec<Mapping>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redrive {
    /// Receives before the message is moved.
    pub max_receive_count: u64,
    /// The name of the queue it is moved to.
    pub target: String,
}

impl QueueStatus {
    pub fn new(role: &'static str, arn: &str, attributes: &BTreeMap<String, String>) -> Self {
        Self {
            role,
            name: name_in(arn).to_owned(),
            arn: arn.to_owned(),
            counts: Counts::of(attributes),
            redrive: RedrivePolicy::of(attributes).and_then(Redrive::of),
            mappings: None,
        }
    }
}

impl Redrive {
    /// `None` of a policy without a queue or a number.
    fn of(policy: RedrivePolicy) -> Option<Self> {
        Some(Self {
            max_receive_count: policy.max_receive_count()?,
            target: name_in(&policy.dead_letter_target_arn?).to_owned(),
        })
    }
}

impl Status {
    pub fn table(&self) -> String {
        let target = self.target.map(|target| format!("Target: {}\n\n", target.in_words()));
        format!("{}{}\n{}", target.unwrap_or_default(), self.queue_table(), self.mapping_table())
    }

    fn queue_table(&self) -> String {
        let rows = self.queues.iter().map(|queue| {
            let Counts { visible, in_flight, delayed, retention_seconds } = queue.counts;
            vec![
                queue.role.to_owned(),
                queue.name.clone(),
                shown(visible.map(grouped)),
                shown(in_flight.map(grouped)),
                shown(delayed.map(grouped)),
                shown(retention_seconds.map(span)),
                match &queue.redrive {
                    Some(Redrive { max_receive_count, target }) => {
                        format!("{} → {target}", counted(*max_receive_count, "receive"))
                    }
                    None => "-".to_owned(),
                },
            ]
        });
        table(&["", "queue", "visible", "in flight", "delayed", "kept", "redrive after"], rows, 2..=4)
    }

    fn mapping_table(&self) -> String {
        let rows = self.queues.iter().flat_map(|queue| {
            let role = queue.role.to_owned();
            match queue.mappings.as_deref() {
                None => vec![vec![role, "?".to_owned()]],
                // The final DLQ is for people.
                Some([]) if queue.role == Role::FinalDlq.in_words() => Vec::new(),
                Some([]) => vec![vec![role, "nobody".to_owned()]],
                Some(found) => found.iter().map(|mapping| reader(&role, mapping)).collect(),
            }
        });
        table(&["queue", "read by", "state", "batch", "concurrency", "event source mapping"], rows, [3])
    }
}

fn reader(role: &str, mapping: &Mapping) -> Vec<String> {
    let Mapping { uuid, function, state, batch_size, maximum_concurrency } = mapping.clone();
    let concurrency = maximum_concurrency.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    vec![role.to_owned(), function, state, shown(batch_size), concurrency, uuid]
}

fn shown(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests;
