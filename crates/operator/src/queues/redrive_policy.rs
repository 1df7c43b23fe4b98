//! A queue's redrive policy, as SQS shows it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Where SQS moves messages that were received too often (Amazon SQS API Reference, "SetQueueAttributes").
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePolicy {
    /// The ARN of the queue that they are moved to.
    pub dead_letter_target_arn: Option<String>,
    #[serde(default)]
    max_receive_count: Value,
}

impl RedrivePolicy {
    /// By a queue's attributes; `None` if it has none, or one that cannot be read.
    pub fn from_attributes(attributes: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(attributes.get("RedrivePolicy")?).ok()
    }

    /// Receives before a message is moved. SQS accepts a number or a string with one; `None` for anything else.
    pub fn max_receive_count(&self) -> Option<u64> {
        self.max_receive_count.as_u64().or_else(|| self.max_receive_count.as_str()?.parse().ok())
    }
}
