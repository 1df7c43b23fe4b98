//! AWS responses as plain values. [`super::judge`] interprets them.

use std::collections::BTreeMap;

use redeliver_core::message::Timestamp;

use crate::queues::{QueueAddress, QueueCounts, RedrivePolicy};
use crate::status::Receives;

/// A queue in any account and region.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueId {
    pub(super) account: String,
    pub(super) region: String,
    pub(super) name: String,
}

/// Everything read in one region with one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) profile: Option<String>,
    pub(super) region: String,
    /// The account of the region's queues or functions; `None` if none were listed.
    pub(super) account: Option<String>,
    /// `None` if the queues could not be listed.
    pub(super) queues: Option<Vec<SurveyedQueue>>,
    /// Functions whose own DLQ is a queue.
    pub(super) functions: Vec<FailureSender>,
    /// Function timeouts in seconds, by function name. The timeouts of published versions are unknown.
    pub(super) timeouts: BTreeMap<String, u64>,
    /// Event source mappings whose on-failure destination is a queue.
    pub(super) mappings: Vec<FailureSender>,
    /// Subscribers of custom event buses whose failures are sent to a known queue.
    pub(super) subscribers: Vec<FailureSender>,
    /// Functions that read queues; `None` if they could not be listed.
    pub(super) readers: Option<Vec<FunctionReader>>,
    /// `None` if the alarms could not be read.
    pub(super) alarms: Option<Vec<Alarm>>,
    /// Errors about data that could not be read.
    pub(super) problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SurveyedQueue {
    pub(super) id: QueueId,
    pub(super) state: SurveyedState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SurveyedState {
    Read(QueueAttributes),
    /// Deleted since it was listed.
    Gone,
    /// The attributes could not be read, for this reason.
    Unread(String),
}

/// The attributes of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueAttributes {
    pub(super) counts: QueueCounts,
    pub(super) visibility_seconds: Option<u64>,
    /// The DLQ in its redrive policy.
    pub(super) redrives_to: Option<QueueId>,
}

/// A function, mapping or subscriber that sends its failures to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailureSender {
    /// The function's or subscriber's name.
    pub(super) name: String,
    pub(super) to: QueueId,
}

/// A function that reads a queue through an event source mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FunctionReader {
    pub(super) function: String,
    pub(super) queue: QueueId,
    pub(super) mapping_uuid: String,
    /// True if the mapping uses `ReportBatchItemFailures`.
    pub(super) reports_failures: bool,
    pub(super) batching_window_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    pub(super) name: String,
    /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
    pub(super) state: String,
    pub(super) watches: Vec<AlarmWatch>,
}

/// The queues whose SQS metric an alarm watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AlarmWatch {
    /// The queue's account, if it differs from the alarm's.
    pub(super) account: Option<String>,
    pub(super) queues: WatchedQueues,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchedQueues {
    /// The queue with this name.
    Named(String),
    /// All queues that a CloudWatch Metrics Insights query selects.
    SelectedBy(String),
}

/// The age of a queue's oldest message at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OldestMessageAge {
    pub(super) seconds: i64,
    pub(super) at: Timestamp,
}

/// Ages of the oldest messages in the non-empty DLQs.
pub(super) type OldestMessageAges = BTreeMap<QueueId, OldestMessageAge>;

/// Receive counts for the non-empty DLQs that no function reads.
pub(super) type ReceivesByQueue = BTreeMap<QueueId, Receives>;

impl QueueId {
    /// Parses a queue ARN; `None` for any other ARN, since a function's DLQ may be an SNS topic.
    pub(super) fn from_arn(arn: &str) -> Option<Self> {
        match arn.parse() {
            Ok(QueueAddress::Arn { region, account, name, .. }) => Some(Self { account, region, name }),
            _ => None,
        }
    }

    /// Parses `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`. The region is a parameter because an emulator's URL does
    /// not contain one.
    pub(super) fn from_url(url: &str, region: &str) -> Option<Self> {
        let mut last = url.rsplit('/');
        let (name, account) = (last.next()?.to_owned(), last.next()?.to_owned());
        Some(Self { account, region: region.to_owned(), name })
    }

    pub(super) fn is_fifo(&self) -> bool {
        redeliver_core::ports::is_fifo(&self.name)
    }
}

impl QueueAttributes {
    pub(super) fn new(attributes: &BTreeMap<String, String>) -> Self {
        Self {
            counts: QueueCounts::from_attributes(attributes),
            visibility_seconds: attributes.get("VisibilityTimeout").and_then(|text| text.parse().ok()),
            redrives_to: RedrivePolicy::from_attributes(attributes)
                .and_then(|policy| QueueId::from_arn(&policy.dead_letter_target_arn?)),
        }
    }
}

impl AlarmWatch {
    pub(super) fn includes_queue(&self, name: &str) -> bool {
        match &self.queues {
            WatchedQueues::Named(queue) => queue == name,
            WatchedQueues::SelectedBy(query) => selects_queue(query, name),
        }
    }
}

/// Returns true if a query on SQS metrics is certain to select this queue: it has no condition, or one that names the
/// queue. If in doubt, returns false: a wrong "no alarm" costs a check; a wrong "has an alarm" costs messages.
fn selects_queue(query: &str, name: &str) -> bool {
    match query.to_ascii_uppercase().find("WHERE") {
        None => true,
        Some(condition) => {
            let condition = &query[condition..];
            !condition.contains('!') && condition.contains(&format!("'{name}'"))
        }
    }
}

#[cfg(test)]
mod tests;
