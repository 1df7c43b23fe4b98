//! Messages as SQS delivers them, before their content is parsed.

pub mod all_invalid;
pub mod attempt_logs;
pub mod envelope;
pub mod folding;
mod form;
pub mod metadata;
pub mod origin;
pub mod outage;
mod outgoing;
pub mod packing;
pub mod plain;
pub mod reason;
mod receipt;
pub(crate) mod reserved;
pub mod schema;
mod sqs_rules;
mod validation;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

pub use form::BodyForm;
pub use outgoing::{Content, OutgoingMessage, UnsendableReason};
pub use receipt::{Confirmed, Receipt};
pub(crate) use sqs_rules::{check_name as check_attribute_name, is_certainly_accepted};

/// A point in time, UTC.
pub type Timestamp = DateTime<Utc>;

/// Message attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// A message attribute: String, Number, Binary or a custom type such as `Number.int`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// `String`, `Number` or `Binary`, each with an optional `.label`.
    pub data_type: String,
    pub value: AttributeValue,
}

/// The value of a message attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// For `String` and `Number` types.
    Text(String),
    /// For `Binary` types.
    Binary(Vec<u8>),
}

impl Attribute {
    /// Creates an attribute of type `String`.
    #[must_use]
    pub fn string(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), value: AttributeValue::Text(value.into()) }
    }

    /// Returns the text of a String or Number.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            AttributeValue::Text(text) => Some(text),
            AttributeValue::Binary(_) => None,
        }
    }

    /// Returns the number of bytes that count towards the message's size limit: name, type and value.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        name.len()
            + self.data_type.len()
            + match &self.value {
                AttributeValue::Text(text) => text.len(),
                AttributeValue::Binary(bytes) => bytes.len(),
            }
    }
}

/// Returns the attributes' total size in bytes, as counted towards the message's size limit.
#[must_use]
pub fn attributes_size(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, attribute)| attribute.size(name)).sum()
}

/// A received message, from a Lambda event or from `ReceiveMessage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The message's SQS id (not our `metadata.message_id`). A redrive keeps it; a re-send does not.
    pub sqs_message_id: String,
    /// The handle of this receive, with which to delete the message.
    pub receipt_handle: String,
    /// The body, unchanged.
    pub body: String,
    pub attributes: Attributes,
    /// `SentTimestamp`: the time at which the message was sent to its first queue. A redrive keeps it.
    pub sent_at: Timestamp,
    /// `ApproximateFirstReceiveTimestamp`. A redrive keeps it.
    pub first_received_at: Option<Timestamp>,
    /// `ApproximateReceiveCount`. A redrive does not reset it.
    pub receive_count: u32,
    /// `MessageGroupId`. On a standard queue, it identifies the tenant ("Amazon SQS fair queues").
    pub message_group_id: Option<String>,
    /// The system attribute `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// `SenderId`: the principal that sent the message to its first queue. A redrive keeps it.
    pub sender_id: Option<String>,
    /// `DeadLetterQueueSourceArn`: set only by a redrive.
    pub redriven_from: Option<String>,
    /// The ARN of the queue from which the message was received.
    pub queue_arn: String,
    /// JSON Pointers to the body values that an archive omitted; empty for a message from a queue.
    pub omitted: Vec<String>,
}

/// The times at which a message was sent and first received.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveTimes {
    pub sent_at: Timestamp,
    pub first_received_at: Timestamp,
}

impl ReceiveTimes {
    /// Creates the times, with `now` as the time of the first receive if it is unknown.
    #[must_use]
    pub fn new(record: &ReceivedMessage, now: Timestamp) -> Self {
        Self { sent_at: record.sent_at, first_received_at: record.first_received_at.unwrap_or(now) }
    }
}

impl ReceivedMessage {
    /// Returns the receive's ids, times and counts, without the message itself.
    #[must_use]
    pub fn without_content(&self) -> Self {
        Self {
            sqs_message_id: self.sqs_message_id.clone(),
            receipt_handle: self.receipt_handle.clone(),
            body: String::new(),
            attributes: Attributes::new(),
            sent_at: self.sent_at,
            first_received_at: self.first_received_at,
            receive_count: self.receive_count,
            message_group_id: None,
            trace_header: None,
            sender_id: None,
            redriven_from: self.redriven_from.clone(),
            queue_arn: self.queue_arn.clone(),
            omitted: Vec::new(),
        }
    }
}
