//! What is known of a deployment: a table for people, one JSON object for programs.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use redeliver_core::strategy::Role;
use serde::Serialize;
use serde_json::Value;

use crate::event_sources::Mapping;
use crate::people::{counted, grouped, span};

/// A deployment's queues, or others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The name of the stack, or prefix and stage; `None` where queues were named.
    pub deployment: Option<String>,
    /// In the order in which a message that fails goes through them.
    pub queues: Vec<QueueStatus>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// One queue. What SQS does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// What it is in the deployment.
    pub role: &'static str,
    pub name: String,
    pub arn: String,
    /// Messages that wait to be received.
    pub visible: Option<u64>,
    /// Messages that were received and not deleted.
    pub in_flight: Option<u64>,
    /// Messages whose delay is not over.
    pub delayed: Option<u64>,
    /// How long a message is kept.
    pub retention_seconds: Option<u64>,
    /// Where messages go that were received too often.
    pub redrive: Option<Redrive>,
    /// Who reads it; `None` where that could not be read.
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
    /// From the queue's attributes.
    pub fn new(role: &'static str, arn: &str, attributes: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| attributes.get(name)?.parse().ok();
        Self {
            role,
            name: last_part(arn).to_owned(),
            arn: arn.to_owned(),
            visible: number("ApproximateNumberOfMessages"),
            in_flight: number("ApproximateNumberOfMessagesNotVisible"),
            delayed: number("ApproximateNumberOfMessagesDelayed"),
            retention_seconds: number("MessageRetentionPeriod"),
            redrive: attributes.get("RedrivePolicy").and_then(|policy| redrive(policy)),
            mappings: None,
        }
    }
}

/// `maxReceiveCount` is written as a number or as text.
fn redrive(policy: &str) -> Option<Redrive> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    Some(Redrive {
        max_receive_count: count.as_u64().or_else(|| count.as_str()?.parse().ok())?,
        target: last_part(policy["deadLetterTargetArn"].as_str()?).to_owned(),
    })
}

fn last_part(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

impl Status {
    pub fn table(&self) -> String {
        format!("{}\n\n{}\n", self.queue_table().trim_fmt(), self.mapping_table().trim_fmt())
    }

    fn queue_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(NOTHING);
        let header = ["", "queue", "visible", "in flight", "delayed", "kept", "redrive after"];
        table.set_header(header);
        for queue in &self.queues {
            table.add_row([
                queue.role.to_owned(),
                queue.name.clone(),
                shown(queue.visible.map(grouped)),
                shown(queue.in_flight.map(grouped)),
                shown(queue.delayed.map(grouped)),
                shown(queue.retention_seconds.map(span)),
                match &queue.redrive {
                    Some(Redrive { max_receive_count, target }) => {
                        format!("{} → {target}", counted(*max_receive_count, "receive"))
                    }
                    None => "-".to_owned(),
                },
            ]);
        }
        for column in 2..=4 {
            align_right(&mut table, column);
        }
        table
    }

    fn mapping_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["queue", "read by", "state", "batch", "concurrency", "event source mapping"]);
        for queue in &self.queues {
            for mapping in queue.mappings.iter().flatten() {
                table.add_row([
                    queue.role.to_owned(),
                    mapping.function.clone(),
                    mapping.state.clone(),
                    shown(mapping.batch_size),
                    mapping.maximum_concurrency.map_or_else(|| "no limit".to_owned(), |n| n.to_string()),
                    mapping.uuid.clone(),
                ]);
            }
            let unread = match &queue.mappings {
                None => "?",
                // The final DLQ is for people.
                Some(found) if found.is_empty() && queue.role != Role::FinalDlq.in_words() => "nobody",
                Some(_) => continue,
            };
            table.add_row([queue.role, unread]);
        }
        align_right(&mut table, 3);
        table
    }
}

fn align_right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn shown(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests;
