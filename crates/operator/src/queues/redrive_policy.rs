//! A queue's redrive policy, in the SQS format.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The queue to which SQS moves messages received too often (Amazon SQS API Reference, "SetQueueAttributes").
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePolicy {
    /// The ARN of the destination queue.
    pub dead_letter_target_arn: Option<String>,
    #[serde(default)]
    max_receive_count: Value,
}

impl RedrivePolicy {
    /// Parses a queue's attributes; `None` if it has no policy, or an invalid one.
    pub fn from_attributes(attributes: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(attributes.get("RedrivePolicy")?).ok()
    }

    /// Maximum number of receives before a message is moved. SQS accepts a number or a numeric string; `None` for
    /// anything else.
    pub fn max_receive_count(&self) -> Option<u64> {
        self.max_receive_count.as_u64().or_else(|| self.max_receive_count.as_str()?.parse().ok())
    }
}
