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
    /// Parses the policy in a queue's attributes; `None` if it is missing or invalid.
    pub fn from_attributes(attributes: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(attributes.get("RedrivePolicy")?).ok()
    }

    /// Returns the maximum number of receives before a message is moved; `None` for anything but a number or a numeric
    /// string, both of which SQS accepts.
    pub fn max_receive_count(&self) -> Option<u64> {
        self.max_receive_count.as_u64().or_else(|| self.max_receive_count.as_str()?.parse().ok())
    }
}
