//! The status of a deployment, as a table or one JSON object.

use std::collections::BTreeMap;

use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::blocked::BlockedGroup;
use serde::Serialize;

use super::Problem;
use super::target::TargetStatus;
use crate::queues::event_sources::LambdaMapping;
use crate::queues::{QueueCounts, RedrivePolicy, queue_name_from_arn};
use crate::status::readers::Readers;
use crate::terminal::layout::TextLayout;
use crate::terminal::units::{approximate_span, format_count, format_span, group_digits};

/// The role shown for a queue given by name.
pub(super) const NAMED: &str = "queue";

/// A hint shown if there are dead letters: the counts do not show their ages.
const UNSEEN: &str = "`redeliver audit` shows when SQS deletes the dead letters. CloudWatch's age of the oldest leaves \
                      out messages that were received three times or more.";

/// A hint shown if groups are blocked.
const UNBLOCK: &str = "These groups wait for a decision: run `redeliver unblock`.";

/// The status of a deployment's queues, or of queues given by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The stack's name, or prefix and stage; `None` if queues were given by name.
    pub deployment: Option<String>,
    /// `None` if no function has a circuit breaker.
    pub target: Option<TargetStatus>,
    /// The longest total hold time of a message; `None` if no message was held in the last 15 minutes.
    pub longest_hold_seconds: Option<i64>,
    /// In the order in which a failing message passes through them.
    pub queues: Vec<QueueStatus>,
    /// The blocked groups of an ordered queue, the longest-waiting first.
    pub blocked: Vec<BlockedGroup>,
    /// Errors about data that could not be read.
    pub problems: Vec<Problem>,
}

/// The status of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// The queue's role in the deployment.
    pub role: &'static str,
    pub name: String,
    pub arn: String,
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// The queue to which SQS moves messages received too often.
    pub redrive: Option<QueueRedrive>,
    /// Its event source mappings; `None` if they could not be read.
    pub mappings: Option<Vec<LambdaMapping>>,
    /// Its readers; `None` for a final DLQ, which no program should read.
    pub readers: Option<Readers>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueRedrive {
    /// Maximum number of receives before a message is moved.
    pub max_receive_count: u64,
    /// The name of the destination queue.
    pub target: String,
}

impl QueueStatus {
    pub fn new(role: &'static str, arn: &str, attributes: &BTreeMap<String, String>) -> Self {
        Self {
            role,
            name: queue_name_from_arn(arn).to_owned(),
            arn: arn.to_owned(),
            counts: QueueCounts::from_attributes(attributes),
            redrive: RedrivePolicy::from_attributes(attributes).and_then(QueueRedrive::from_policy),
            mappings: None,
            readers: None,
        }
    }
}

impl QueueStatus {
    /// Returns the queue's role, or its name if it was given by name.
    fn label(&self) -> &str {
        if self.role == NAMED { &self.name } else { self.role }
    }
}

impl QueueRedrive {
    /// Converts a policy; `None` if its queue or its number of receives is missing.
    fn from_policy(policy: RedrivePolicy) -> Option<Self> {
        Some(Self {
            max_receive_count: policy.max_receive_count()?,
            target: queue_name_from_arn(&policy.dead_letter_target_arn?).to_owned(),
        })
    }
}

impl Status {
    /// Renders the report as text.
    pub fn render_table(&self, layout: &TextLayout) -> String {
        let hold = self
            .longest_hold_seconds
            .map_or_else(String::new, |seconds| format!("Longest hold: {}\n", approximate_span(seconds)));
        let target = self.target.map(|target| {
            let target = layout.wrap_paragraph(&format!("Target: {}", target.describe()), 2);
            format!("{target}\n{hold}\n")
        });
        let mappings = self.mapping_table(layout).map(|table| format!("\n{table}"));
        let others = self.other_readers(layout).map(|lines| format!("\n{lines}"));
        let blocked = (!self.blocked.is_empty()).then(|| {
            format!(
                "\n{}\n{}\n",
                blocked_group_table(&self.blocked, layout),
                layout.wrap_paragraph(UNBLOCK, 0)
            )
        });
        let unseen = self.dead_letter_queue().map(|_| format!("\n{}\n", layout.wrap_paragraph(UNSEEN, 0)));
        [target, Some(self.queue_table(layout)), blocked, mappings, others, unseen]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns true if every service responded. Unknown readers make the status incomplete only if CloudWatch did not
    /// respond.
    pub fn is_complete(&self) -> bool {
        let mut readers = self.queues.iter().filter_map(|queue| queue.readers.as_ref());
        self.problems.is_empty() && !readers.any(Readers::query_failed)
    }

    /// Returns the DLQ whose messages need attention: the final DLQ or, among queues given by name, a queue to which
    /// another one moves messages.
    pub fn dead_letter_queue(&self) -> Option<&QueueStatus> {
        let targets: Vec<_> =
            self.queues.iter().filter_map(|queue| Some(&queue.redrive.as_ref()?.target)).collect();
        let is_dlq = |queue: &&QueueStatus| match queue.role {
            NAMED => targets.contains(&&queue.name),
            role => role == Role::FinalDlq.display_name(),
        };
        self.queues.iter().filter(is_dlq).find(|queue| queue.counts.has_messages())
    }

    fn queue_table(&self, layout: &TextLayout) -> String {
        let rows = self.queues.iter().map(|queue| {
            let QueueCounts { visible, in_flight, delayed, retention_seconds } = queue.counts;
            vec![
                queue.role.to_owned(),
                queue.name.clone(),
                format_or_unknown(visible.map(group_digits)),
                format_or_unknown(in_flight.map(group_digits)),
                format_or_unknown(delayed.map(group_digits)),
                format_or_unknown(retention_seconds.map(format_span)),
                match &queue.redrive {
                    Some(QueueRedrive { max_receive_count, target }) => {
                        format!("{} → {target}", format_count(*max_receive_count, "receive"))
                    }
                    None => "-".to_owned(),
                },
            ]
        });
        let header = ["", "queue", "visible", "in flight", "delayed", "kept", "redrive after"];
        layout.format_table(&header, rows.collect(), &[2, 3, 4])
    }

    fn mapping_table(&self, layout: &TextLayout) -> Option<String> {
        let rows: Vec<_> = self
            .queues
            .iter()
            .flat_map(|queue| {
                queue.mappings.iter().flatten().map(|mapping| mapping_row(queue.label(), mapping))
            })
            .collect();
        let header = ["queue", "read by", "state", "batch", "concurrency", "event source mapping"];
        (!rows.is_empty()).then(|| layout.format_table(&header, rows, &[3]))
    }

    /// Describes the readers of queues without an enabled event source mapping.
    fn other_readers(&self, layout: &TextLayout) -> Option<String> {
        let lines: Vec<_> = self
            .queues
            .iter()
            .filter_map(|queue| match queue.readers.as_ref()? {
                Readers::EventSourceMapping => None,
                readers => {
                    let sentence = format!("{}: {}", queue.label(), readers.describe());
                    Some(layout.wrap_paragraph(&sentence, 2) + "\n")
                }
            })
            .collect();
        (!lines.is_empty()).then(|| lines.concat())
    }
}

/// Renders the blocked groups, with the reason and the time of the block.
pub fn blocked_group_table<'a>(
    groups: impl IntoIterator<Item = &'a BlockedGroup>,
    layout: &TextLayout,
) -> String {
    let row = |group: &BlockedGroup| {
        let attempts = format_or_unknown(group.attempts);
        let why = format!("{}: {}", group.error_type, group.error_details);
        let since =
            parse_rfc3339(&group.since).map_or_else(|| group.since.clone(), |at| layout.format_moment(at));
        vec![group.group.clone(), since, attempts, group.message_id.clone(), why]
    };
    let header = ["blocked group", "since", "retries", "first message", "reason"];
    layout.format_table(&header, groups.into_iter().map(row).collect(), &[2])
}

fn mapping_row(role: &str, mapping: &LambdaMapping) -> Vec<String> {
    let LambdaMapping { uuid, function, state, batch_size, maximum_concurrency, .. } = mapping.clone();
    let concurrency = maximum_concurrency.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    vec![role.to_owned(), function, state, format_or_unknown(batch_size), concurrency, uuid]
}

fn format_or_unknown(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests;
