//! The format of the archive's lines, for both writing and reading.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::message::metadata::{format_rfc3339, parse_rfc3339};
use crate::message::{Attribute, AttributeValue, Content, ReceivedMessage, Timestamp};

/// A message as a line of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedMessage {
    pub sqs_message_id: String,
    /// The queue from which the message was received.
    pub queue_arn: String,
    /// `SentTimestamp`, RFC 3339.
    pub sent_at: String,
    /// `ApproximateFirstReceiveTimestamp`, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_received_at: Option<String>,
    /// `ApproximateReceiveCount`.
    pub receive_count: u32,
    /// `DeadLetterQueueSourceArn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redriven_from: Option<String>,
    /// `MessageGroupId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_group_id: Option<String>,
    /// `AWSTraceHeader`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_header: Option<String>,
    pub attributes: BTreeMap<String, ArchivedAttribute>,
    /// JSON Pointers to the body values that were replaced by `"omitted"`; an empty pointer means the entire body. A
    /// message with omitted values cannot be sent again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// The original body, byte for byte, except for omitted values.
    pub body: String,
}

/// An attribute in the format of `aws sqs send-message --message-attributes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ArchivedAttribute {
    /// `String`, `Number` or `Binary`, with an optional `.label`.
    pub data_type: String,
    /// The value if the type is `String` or `Number`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    /// The value if the type is `Binary`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_value: Option<String>,
}

impl ArchivedMessage {
    /// Creates the line for a message, without its receipt handle and sender.
    #[must_use]
    pub fn new(message: &ReceivedMessage) -> Self {
        let attributes = message.attributes.iter();
        Self {
            sqs_message_id: message.sqs_message_id.clone(),
            queue_arn: message.queue_arn.clone(),
            sent_at: format_rfc3339(message.sent_at),
            first_received_at: message.first_received_at.map(format_rfc3339),
            receive_count: message.receive_count,
            redriven_from: message.redriven_from.clone(),
            message_group_id: message.message_group_id.clone(),
            trace_header: message.trace_header.clone(),
            attributes: attributes
                .map(|(name, attribute)| (name.clone(), ArchivedAttribute::new(attribute)))
                .collect(),
            omitted: message.omitted.clone(),
            body: message.body.clone(),
        }
    }

    /// Creates the line for a final record that has not been sent yet: its content, with the timestamps and counts of
    /// the received record.
    #[must_use]
    pub fn from_final_record(received: ReceivedMessage, content: &Content, died_at: Timestamp) -> Self {
        let Content { body, attributes, message_group_id, trace_header, .. } = content.clone();
        let sent = ReceivedMessage {
            body,
            attributes,
            message_group_id,
            trace_header,
            sent_at: died_at,
            ..received
        };
        Self::new(&sent)
    }

    /// Restores the message as it was received, without its receipt handle; `None` if a time or an attribute cannot be
    /// parsed, because the line was edited.
    #[must_use]
    pub fn into_message(self) -> Option<ReceivedMessage> {
        let first_received_at = match &self.first_received_at {
            Some(text) => Some(parse_rfc3339(text)?),
            None => None,
        };
        let attributes = self.attributes.iter();
        let attributes: Option<_> =
            attributes.map(|(name, archived)| Some((name.clone(), archived.to_attribute()?))).collect();
        Some(ReceivedMessage {
            attributes: attributes?,
            sent_at: parse_rfc3339(&self.sent_at)?,
            first_received_at,
            sqs_message_id: self.sqs_message_id,
            receipt_handle: String::new(),
            body: self.body,
            receive_count: self.receive_count,
            message_group_id: self.message_group_id,
            trace_header: self.trace_header,
            sender_id: None,
            redriven_from: self.redriven_from,
            queue_arn: self.queue_arn,
            omitted: self.omitted,
        })
    }
}

impl ArchivedAttribute {
    fn new(attribute: &Attribute) -> Self {
        let (string_value, binary_value) = match &attribute.value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { data_type: attribute.data_type.clone(), string_value, binary_value }
    }

    fn to_attribute(&self) -> Option<Attribute> {
        let value = match (&self.string_value, &self.binary_value) {
            (Some(text), None) => AttributeValue::Text(text.clone()),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
            _ => return None,
        };
        Some(Attribute { data_type: self.data_type.clone(), value })
    }
}
