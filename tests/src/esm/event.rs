//! The JSON of an SQS event, with the members that Lambda writes.

use std::collections::HashMap;

use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::sqs::REGION;

/// Returns the event that delivers these messages from the queue `arn`.
#[must_use]
pub fn from_messages(messages: &[Message], arn: &str) -> Value {
    json!({ "Records": messages.iter().map(|message| event_record(message, arn)).collect::<Vec<_>>() })
}

fn event_record(message: &Message, arn: &str) -> Value {
    let mut record = json!({
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body().unwrap_or_default(),
        "attributes": message.attributes().map_or_else(Map::new, system_attributes),
        "messageAttributes": message.message_attributes().map_or_else(Map::new, event_attributes),
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    });
    if let Some(md5) = message.md5_of_message_attributes() {
        record["md5OfMessageAttributes"] = json!(md5);
    }
    record
}

fn system_attributes(attributes: &HashMap<MessageSystemAttributeName, String>) -> Map<String, Value> {
    attributes.iter().map(|(name, value)| (name.as_str().to_owned(), json!(value))).collect()
}

fn event_attributes(attributes: &HashMap<String, MessageAttributeValue>) -> Map<String, Value> {
    attributes.iter().map(|(name, value)| (name.clone(), event_attribute(value))).collect()
}

fn event_attribute(attribute: &MessageAttributeValue) -> Value {
    let mut members =
        json!({ "stringListValues": [], "binaryListValues": [], "dataType": attribute.data_type() });
    if let Some(text) = attribute.string_value() {
        members["stringValue"] = json!(text);
    }
    if let Some(bytes) = attribute.binary_value() {
        members["binaryValue"] = json!(STANDARD.encode(bytes));
    }
    members
}
