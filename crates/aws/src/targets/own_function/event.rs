//! The SQS event for an invocation, with records in the format that SQS and Lambda use.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use redeliver_core::handler::{BodyForm, Invocation};
use redeliver_core::message::plain::REDELIVER;
use redeliver_core::message::{Attribute, AttributeValue, Timestamp};
use serde::Serialize;

/// Encodes one record ("Using Lambda with Amazon SQS", example event).
///
/// A message without an envelope keeps the attribute `Redeliver`, which contains the attempt number.
pub(super) fn encode_record(invocation: &Invocation<'_>) -> String {
    let Invocation { message, record, .. } = invocation;
    let redeliver = record.attributes.get_key_value(REDELIVER);
    let redeliver = redeliver.filter(|_| matches!(message.form, BodyForm::Plain { .. }));
    let milliseconds = |time: Timestamp| time.timestamp_millis().to_string();
    let system = [
        ("ApproximateReceiveCount", Some(record.receive_count.to_string())),
        ("AWSTraceHeader", record.trace_header.clone()),
        ("SentTimestamp", Some(milliseconds(record.sent_at))),
        ("SenderId", record.sender_id.clone()),
        ("ApproximateFirstReceiveTimestamp", record.first_received_at.map(milliseconds)),
        ("MessageGroupId", record.message_group_id.clone()),
        ("DeadLetterQueueSourceArn", record.redriven_from.clone()),
    ];
    let record = EventRecord {
        message_id: &record.sqs_message_id,
        receipt_handle: &record.receipt_handle,
        body: message.body,
        attributes: system.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        message_attributes: message
            .attributes
            .iter()
            .chain(redeliver)
            .map(|(name, attribute)| (name.as_str(), MessageAttribute::from_attribute(attribute)))
            .collect(),
        md5_of_body: encode_hex(&Md5::digest(message.body)),
        event_source: "aws:sqs",
        event_source_arn: &record.queue_arn,
        aws_region: record.queue_arn.split(':').nth(3).unwrap_or_default(),
    };
    serde_json::to_string(&record).expect("strings and maps with string keys are valid JSON")
}

/// Encodes an event with these records.
pub(super) fn encode_event<'a>(records: impl IntoIterator<Item = &'a str>) -> String {
    let mut event = r#"{"Records":["#.to_owned();
    for (index, record) in records.into_iter().enumerate() {
        if index > 0 {
            event.push(',');
        }
        event.push_str(record);
    }
    event.push_str("]}");
    event
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventRecord<'a> {
    message_id: &'a str,
    receipt_handle: &'a str,
    body: &'a str,
    attributes: BTreeMap<&'static str, String>,
    message_attributes: BTreeMap<&'a str, MessageAttribute<'a>>,
    md5_of_body: String,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    aws_region: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageAttribute<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    string_list_values: [(); 0],
    binary_list_values: [(); 0],
    data_type: &'a str,
}

impl<'a> MessageAttribute<'a> {
    fn from_attribute(Attribute { data_type, value }: &'a Attribute) -> Self {
        let (string_value, binary_value) = match value {
            AttributeValue::Text(text) => (Some(text.as_str()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { string_value, binary_value, string_list_values: [], binary_list_values: [], data_type }
    }
}

fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves.map(|half| DIGITS[usize::from(half)]).collect()
}
