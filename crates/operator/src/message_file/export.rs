//! Documents that contain messages: the output of `aws sqs receive-message` or an SDK, a Lambda SQS event, or a JSON
//! array of messages.

use std::collections::BTreeMap;
use std::fmt;

use chrono::DateTime;
use redeliver_core::archive::{ArchivedAttribute, ArchivedMessage};
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::format_rfc3339;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Builder;

use crate::terminal::units::format_count;

/// The members of a message in the `ReceiveMessage` response (Amazon SQS API Reference, "Message").
const MESSAGE_MEMBERS: [&str; 7] = [
    "MessageId",
    "ReceiptHandle",
    "MD5OfBody",
    "Body",
    "Attributes",
    "MD5OfMessageAttributes",
    "MessageAttributes",
];
/// The members of a response as printed by the SDKs for Python, JavaScript and Go.
const RESPONSE_MEMBERS: [&str; 4] = ["Messages", "ResponseMetadata", "$metadata", "ResultMetadata"];
/// Every exported object contains at least one of these strings.
const MARKERS: [&str; 4] = [r#""Messages""#, r#""Records""#, r#""Body""#, r#""aws:sqs""#];
/// The first member of a Lambda event, and of a record in it.
const FIRST_EVENT_MEMBERS: [&str; 2] = ["Records", "messageId"];

/// The messages in a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageExport {
    pub(super) kind: ExportKind,
    pub(super) elements: Vec<Element>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExportKind {
    Received,
    LambdaEvent,
    /// A single message in one of these formats, as printed by `jq '.Messages[]'`.
    Message,
    Array,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// A message as JSON, with its id, attributes and body.
    Exported(String),
    /// The body of a message.
    Body(String),
}

/// The numbers of documents and messages read so far, by kind.
#[derive(Debug, Default)]
pub(super) struct ExportTally(BTreeMap<ExportKind, (u64, u64)>);

impl MessageExport {
    /// Parses a document. Returns `None` if it is not an export, for example because it is a body. An array of objects
    /// or strings is a list of bodies if it is the entire input, and a single body if it is one line among several.
    pub(super) fn read(document: &str, is_whole_input: bool) -> Option<Self> {
        match document.trim_ascii_start().as_bytes().first()? {
            b'{' if MARKERS.iter().any(|marker| document.contains(marker)) => read_object(document),
            b'[' => read_array(document, is_whole_input),
            _ => None,
        }
    }

    /// Returns true if an incomplete document could be the beginning of an export.
    pub(super) fn is_prefix(beginning: &[u8]) -> bool {
        let beginning = beginning.trim_ascii_start();
        if let Some(array) = beginning.strip_prefix(b"[") {
            return matches!(array.trim_ascii_start().first(), Some(b'{' | b'"'));
        }
        let Some(object) = beginning.strip_prefix(b"{") else { return false };
        let Some(name) = object.trim_ascii_start().strip_prefix(b"\"") else { return false };
        let name = name.split(|byte| *byte == b'"').next().unwrap_or_default();
        let known = MESSAGE_MEMBERS.iter().chain(&RESPONSE_MEMBERS).chain(&FIRST_EVENT_MEMBERS);
        known.into_iter().any(|known| known.as_bytes() == name)
    }
}

fn read_object(document: &str) -> Option<MessageExport> {
    let members = parse_members(document)?;
    if let Some(messages) = members.get("Messages") {
        let messages: Option<Vec<&RawValue>> = serde_json::from_str(messages.get()).ok()?;
        let messages = messages.unwrap_or_default();
        let is_received = if messages.is_empty() {
            members.keys().all(|name| RESPONSE_MEMBERS.contains(&name.as_str()))
        } else {
            messages.iter().all(|message| {
                self::parse_members(message.get()).is_some_and(|it| is_received_message(&it, 1))
            })
        };
        return is_received.then(|| MessageExport::new(ExportKind::Received, &messages));
    }
    if let Some(records) = members.get("Records") {
        let records: Vec<&RawValue> = serde_json::from_str(records.get()).ok()?;
        let is_record =
            |record: &&RawValue| self::parse_members(record.get()).is_some_and(|it| is_record(&it));
        let is_event = !records.is_empty() && records.iter().all(is_record);
        return is_event.then(|| MessageExport::new(ExportKind::LambdaEvent, &records));
    }
    (is_received_message(&members, 2) || is_record(&members)).then(|| MessageExport {
        kind: ExportKind::Message,
        elements: vec![Element::Exported(document.trim().to_owned())],
    })
}

fn read_array(document: &str, is_whole_input: bool) -> Option<MessageExport> {
    let array: Vec<&RawValue> = serde_json::from_str(document).ok()?;
    let all_start_with = |first| array.iter().all(|element| element.get().starts_with(first));
    let elements = if all_start_with('{') {
        let mut elements = Vec::new();
        let mut are_exports = !array.is_empty();
        for element in &array {
            match read_object(element.get()) {
                Some(export) => elements.extend(export.elements),
                None => {
                    are_exports = false;
                    elements.push(Element::Body(element.get().to_owned()));
                }
            }
        }
        (are_exports || is_whole_input).then_some(elements)?
    } else if all_start_with('"') && is_whole_input {
        let texts: Vec<String> = serde_json::from_str(document).ok()?;
        texts.into_iter().map(Element::Body).collect()
    } else {
        return None;
    };
    Some(MessageExport { kind: ExportKind::Array, elements })
}

impl MessageExport {
    fn new(kind: ExportKind, messages: &[&RawValue]) -> Self {
        let elements = messages.iter().map(|message| Element::Exported(message.get().to_owned())).collect();
        Self { kind, elements }
    }
}

type ExportMembers<'a> = BTreeMap<String, &'a RawValue>;

/// Parses the members of an object. Returns `None` for any other document.
fn parse_members(document: &str) -> Option<ExportMembers<'_>> {
    serde_json::from_str(document).ok()
}

/// Returns true for a message with a body and no unknown members.
fn is_received_message(members: &ExportMembers<'_>, members_min: usize) -> bool {
    members.len() >= members_min
        && members.get("Body").is_some_and(|body| body.get().starts_with('"'))
        && members.keys().all(|name| MESSAGE_MEMBERS.contains(&name.as_str()))
}

/// Returns true for an event record from SQS. Events from S3, SNS and other sources are read as bodies.
fn is_record(members: &ExportMembers<'_>) -> bool {
    members.get("eventSource").is_some_and(|source| source.get() == r#""aws:sqs""#)
        && members.get("body").is_some_and(|body| body.get().starts_with('"'))
}

/// A message as represented by the SQS API or in a Lambda event.
#[derive(Deserialize)]
struct ExportedMessage {
    #[serde(default, rename = "MessageId", alias = "messageId")]
    message_id: Option<String>,
    #[serde(rename = "Body", alias = "body")]
    body: String,
    #[serde(default, rename = "Attributes", alias = "attributes")]
    system: Option<ExportedSystemAttributes>,
    #[serde(default, rename = "MessageAttributes", alias = "messageAttributes")]
    attributes: Option<BTreeMap<String, ExportedAttribute>>,
    #[serde(default, rename = "eventSourceARN")]
    queue_arn: Option<String>,
}

/// The system attributes that are preserved for a message.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ExportedSystemAttributes {
    sent_timestamp: Option<String>,
    approximate_first_receive_timestamp: Option<String>,
    approximate_receive_count: Option<String>,
    message_group_id: Option<String>,
    #[serde(rename = "AWSTraceHeader")]
    trace_header: Option<String>,
    dead_letter_queue_source_arn: Option<String>,
}

#[derive(Deserialize)]
struct ExportedAttribute {
    #[serde(rename = "DataType", alias = "dataType")]
    data_type: String,
    #[serde(default, rename = "StringValue", alias = "stringValue")]
    text: Option<String>,
    #[serde(default, rename = "BinaryValue", alias = "binaryValue")]
    base64: Option<String>,
}

/// Converts an [`Element::Exported`] to the format of `audit --save`. A missing id is derived from the content
/// and from `number`, the message's position in the input. A missing send time is replaced with `default_sent_at`.
///
/// # Errors
/// The message is invalid. The error describes the problem without quoting any values.
pub(super) fn archived_message(
    exported: &str,
    number: usize,
    default_sent_at: Timestamp,
) -> Result<ArchivedMessage, String> {
    let ExportedMessage { message_id, body, system, attributes, queue_arn } = serde_json::from_str(exported)
        .map_err(|error| {
            // The library's error message would quote values.
            format!("not a message in the format of SQS, at line {} column {}", error.line(), error.column())
        })?;
    let system = system.unwrap_or_default();
    let parse_millis = |text: String, name: &str| {
        let time = text.parse().ok().and_then(DateTime::from_timestamp_millis);
        time.map(format_rfc3339).ok_or_else(|| format!("its {name} is not a number of milliseconds"))
    };
    let sent_at = system.sent_timestamp.map(|text| parse_millis(text, "SentTimestamp")).transpose()?;
    let first_received_at = system.approximate_first_receive_timestamp;
    let attributes = attributes.unwrap_or_default().into_iter().map(|(name, attribute)| {
        let ExportedAttribute { data_type, text, base64 } = attribute;
        // The prefix of the data type selects the value, as for received messages.
        let (string_value, binary_value) =
            if data_type.starts_with("Binary") { (None, base64) } else { (text, None) };
        (name, ArchivedAttribute { data_type, string_value, binary_value })
    });
    Ok(ArchivedMessage {
        sqs_message_id: message_id.unwrap_or_else(|| derived_id(exported, number)),
        queue_arn: queue_arn.unwrap_or_default(),
        sent_at: sent_at.unwrap_or_else(|| format_rfc3339(default_sent_at)),
        first_received_at: first_received_at
            .map(|text| parse_millis(text, "ApproximateFirstReceiveTimestamp"))
            .transpose()?,
        receive_count: system.approximate_receive_count.and_then(|text| text.parse().ok()).unwrap_or(1),
        redriven_from: system.dead_letter_queue_source_arn,
        message_group_id: system.message_group_id,
        trace_header: system.trace_header,
        attributes: attributes.collect(),
        omitted: Vec::new(),
        body,
    })
}

/// Derives a substitute for the SQS message id (a UUID of version 8, RFC 9562). It is the same in every run and unique
/// to each message, even among identical messages.
fn derived_id(exported: &str, number: usize) -> String {
    let digest = Sha256::new().chain_update(number.to_be_bytes()).chain_update(exported).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

impl ExportTally {
    pub(super) fn add(&mut self, export: &MessageExport) {
        let (documents, messages) = self.0.entry(export.kind).or_default();
        *documents += 1;
        *messages += export.elements.len() as u64;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ExportTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, (documents, messages))) in self.0.iter().enumerate() {
            let what = match (kind, documents) {
                (ExportKind::Received, 1) => "of a receive-message export",
                (ExportKind::Received, _) => "of receive-message exports",
                (ExportKind::LambdaEvent, 1) => "of a Lambda event",
                (ExportKind::LambdaEvent, _) => "of Lambda events",
                (ExportKind::Message, _) => "as SQS returns them",
                (ExportKind::Array, 1) => "of a JSON array",
                (ExportKind::Array, _) => "of JSON arrays",
            };
            let and = if index > 0 { " and " } else { "" };
            write!(f, "{and}{} {what}", format_count(*messages, "message"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
