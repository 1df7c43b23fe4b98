//! Validates message bodies, and reports all violations with their JSON Pointers.

mod data;
mod fast_path;
#[cfg(feature = "validator")]
mod named;
mod readable;

use std::borrow::Cow;
#[cfg(feature = "validator")]
use std::sync::LazyLock;

#[cfg(feature = "validator")]
use redeliver_json_schema::Schema;
use redeliver_json_schema::{Violation, join_violations};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thiserror::Error;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::json::forward_compatible::UnknownMembers;
use crate::json::members::{MalformedBody, Member, unchecked_members};
use crate::json::value;
use crate::message::Timestamp;
use crate::message::envelope::{Envelope, SkimmedBody, skim_body};
use crate::message::metadata::{Holds, LAST_ATTEMPT, Metadata, PastFailure, parse_rfc3339};
use crate::message::reason::DeadLetterReason;
use crate::span_context::SpanContext;
pub use data::{DataSchema, DataSchemaError};
pub use readable::read_message_metadata;

/// The schema for a message body, in JSON Schema 2020-12.
pub const MESSAGE_SCHEMA: &str = include_str!("../../schemas/message.schema.json");

/// Members of `metadata` that have a rule. The values of all other members are skipped.
const MEMBERS_WITH_RULES: [&str; 14] = [
    "message_id",
    "expires_at",
    "max_attempts",
    "retry_attempt",
    "next_retry_time",
    "first_sent_time",
    "retry_history",
    "snooze_count",
    "redrive_generation",
    "held_since",
    "outage_failures",
    "held_seconds",
    "redrive_count",
    "redrive_count_at_answer",
];

/// Members that must be written in digits, although JSON Schema counts 1.0 and 1e2 as integers.
const DIGITS_MEMBERS: [&str; 8] = [
    "max_attempts",
    "retry_attempt",
    "snooze_count",
    "redrive_generation",
    "outage_failures",
    "held_seconds",
    "redrive_count",
    "redrive_count_at_answer",
];

/// An alternative fix for an envelope whose id is not a UUID.
pub(crate) const ANY_ID: &str =
    ", or set ENVELOPE=optional and MESSAGE_ID_POINTER=/metadata/message_id, which accept any id";

/// The reason why a body is invalid: it is not a JSON object, or it violates a schema. Never contains a value from the
/// body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidMessage {
    #[error(transparent)]
    Format(#[from] MalformedBody),
    #[error("{}", join_violations(.0))]
    Schema(Vec<Violation>),
}

impl InvalidMessage {
    /// Returns the code for the final record.
    #[must_use]
    pub const fn reason(&self) -> DeadLetterReason {
        match self {
            Self::Format(_) => DeadLetterReason::InvalidMessageFormat,
            Self::Schema(_) => DeadLetterReason::InvalidMessageSchema,
        }
    }
}

/// The message schema. It is compiled only when the fast path cannot read a message: few processes receive such a
/// message, and compiling the schema would slow down every start.
#[cfg(feature = "validator")]
static MESSAGE: LazyLock<Schema> = LazyLock::new(|| {
    Schema::with_formats(MESSAGE_SCHEMA).expect("our own schema is valid: tests compile it")
});

/// Parses and validates an envelope. `data` is skipped unless it has a schema.
///
/// # Errors
/// Returns all violations, with their JSON Pointers.
pub(crate) fn parse_envelope<'a>(
    body: &'a str,
    data: Option<&DataSchema>,
) -> Result<Envelope<'a>, InvalidMessage> {
    let skimmed = skim_body(body)?;
    let data_violations = check_data(&skimmed, data);
    if data_violations.is_empty()
        && let Some(metadata) = fast_path::parse_metadata(&skimmed)
    {
        return Ok(Envelope::new(skimmed, metadata));
    }
    let metadata = validate_body(&skimmed, data_violations)?;
    Ok(Envelope::new(skimmed, metadata))
}

/// Returns the violations of the user's schema, or none if `data` is not an object.
fn check_data(skimmed: &SkimmedBody<'_>, data: Option<&DataSchema>) -> Vec<Violation> {
    match (data, skimmed.data_text.filter(|text| text.starts_with('{'))) {
        (Some(schema), Some(text)) => schema.violations(text, "/data"),
        _ => Vec::new(),
    }
}

/// Returns true if a body is meant to be an envelope: an object with `data`, and with a `metadata` whose `message_id`
/// is a hyphenated UUID. Such a body is never read as a plain message, even if it is invalid. A body with any other id
/// is in a producer's own envelope format: refusing it would dead-letter all of that producer's messages.
pub(crate) fn looks_like_envelope(body: &str) -> bool {
    // `serde_json` accepts control characters in names that are read as bytes, but they are not valid JSON.
    let top = parse_json_value(body).ok().and_then(|text| unchecked_members(text).ok()).unwrap_or_default();
    let values = |wanted: &'static [u8]| top.iter().filter(move |(name, _)| **name == *wanted);
    let has_id = |metadata: &RawValue| {
        let members = unchecked_members(metadata.get()).unwrap_or_default();
        members.iter().any(|(name, id)| **name == *b"message_id" && is_uuid(id))
    };
    values(b"data").next().is_some() && values(b"metadata").any(|(_, metadata)| has_id(metadata))
}

/// Returns true for a JSON string that is a hyphenated UUID: no other UUID format has that length.
fn is_uuid(id: &RawValue) -> bool {
    let text: Option<Cow<'_, str>> = serde_json::from_str(id.get()).ok();
    text.is_some_and(|text| text.len() == Hyphenated::LENGTH && Uuid::parse_str(&text).is_ok())
}

/// Returns the text of the body's single JSON value.
pub(crate) fn parse_json_value(body: &str) -> Result<&str, MalformedBody> {
    let value: &RawValue =
        serde_json::from_str(body).map_err(|error| MalformedBody::NotJson(error.to_string()))?;
    Ok(value.get())
}

/// Checks the body against the message schema, and then against the rules that a schema cannot express.
fn validate_body(
    skimmed: &SkimmedBody<'_>,
    data_violations: Vec<Violation>,
) -> Result<Metadata, InvalidMessage> {
    let (instance, mut violations) = build_instance(skimmed);
    violations.extend(check_schema(&instance));
    violations.extend(data_violations);
    if !violations.is_empty() {
        return Err(InvalidMessage::Schema(violations));
    }
    parse_metadata(&instance["metadata"], skimmed)
        .map_err(|violation| InvalidMessage::Schema(vec![violation]))
}

#[cfg(feature = "validator")]
fn check_schema(instance: &Value) -> Vec<Violation> {
    let violations = MESSAGE.violations(instance, "").into_iter();
    violations.map(|violation| named::describe_format(violation, instance)).collect()
}

/// Reports only that the schema is violated: without the validator, violations cannot be explained.
#[cfg(not(feature = "validator"))]
fn check_schema(instance: &Value) -> Vec<Violation> {
    let is_wrong = !readable::matches_message_schema(instance);
    is_wrong.then(|| Violation::new("", "violates the message schema")).into_iter().collect()
}

/// Returns the part of the body that has rules in the message schema, and the violations that can only be seen in its
/// text.
fn build_instance(skimmed: &SkimmedBody<'_>) -> (Value, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut body = Map::new();
    if let Some(text) = skimmed.metadata_text {
        let metadata = if text.starts_with('{') {
            let mut metadata = Map::new();
            for name in MEMBERS_WITH_RULES {
                let Some(member) = find_member(&skimmed.metadata, name) else {
                    continue;
                };
                let text = &skimmed.body[member.value.clone()];
                let pointer = format!("/metadata/{name}");
                match value::parse_value(text) {
                    Ok(value) => {
                        metadata.insert(name.to_owned(), value);
                    }
                    Err(_) => violations
                        .push(Violation::new(pointer.clone(), "is a string or number that cannot be parsed")),
                }
                if DIGITS_MEMBERS.contains(&name) && !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    violations.push(Violation::new(pointer, "is not an integer written in digits"));
                }
            }
            Value::Object(metadata)
        } else {
            empty_value(text)
        };
        body.insert("metadata".to_owned(), metadata);
    }
    if let Some(text) = skimmed.data_text {
        body.insert("data".to_owned(), empty_value(text));
    }
    (Value::Object(body), violations)
}

fn find_member<'b, 'a>(members: &'b [Member<'a>], name: &str) -> Option<&'b Member<'a>> {
    members.iter().find(|member| *member.name == *name.as_bytes())
}

/// Returns an empty value of the same type: the message schema checks only the type of `data`.
fn empty_value(text: &str) -> Value {
    match text.as_bytes().first() {
        Some(b'{') => Value::Object(Map::new()),
        Some(b'[') => Value::Array(Vec::new()),
        Some(b'"') => Value::String(String::new()),
        Some(b't' | b'f') => Value::Bool(true),
        Some(b'n') | None => Value::Null,
        Some(_) => Value::from(0),
    }
}

/// Reads metadata that is valid according to the schema. Fails only for values that are well-formed but meaningless.
fn parse_metadata(metadata: &Value, skimmed: &SkimmedBody<'_>) -> Result<Metadata, Violation> {
    let text =
        |name: &str| find_member(&skimmed.metadata, name).map(|member| &skimmed.body[member.value.clone()]);
    let number = |name: &str| metadata[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let time = |name: &str| {
        let text = metadata[name].as_str();
        text.map(|text| parse_time(text, || format!("/metadata/{name}"))).transpose()
    };
    let message_id_text = metadata["message_id"].as_str().unwrap_or_default().to_owned();
    let message_id = Uuid::parse_str(&message_id_text)
        .map_err(|_| Violation::new("/metadata/message_id", "is not a hyphenated UUID"))?;
    time("next_retry_time")?;
    let outage_failures = number("outage_failures").and_then(|count| u16::try_from(count).ok()).unwrap_or(0);
    Ok(Metadata {
        message_id,
        message_id_text,
        retry_attempt: number("retry_attempt").unwrap_or(0),
        first_sent_time: time("first_sent_time")?,
        retry_history: parse_history(&metadata["retry_history"], text("retry_history"))?,
        snooze_count: number("snooze_count").unwrap_or(0),
        redrive_generation: number("redrive_generation"),
        holds: Holds::from_members(time("held_since")?, outage_failures, number("held_seconds").unwrap_or(0)),
        redrive_count: number("redrive_count").unwrap_or(0),
        redrive_count_at_answer: number("redrive_count_at_answer").unwrap_or(0),
        last_attempt: text(LAST_ATTEMPT).and_then(SpanContext::from_json),
        expires_at: time("expires_at")?,
        max_attempts: number("max_attempts"),
    })
}

/// Parses the history's entries from their text, so that members from a later version are preserved.
fn parse_history(history: &Value, text: Option<&str>) -> Result<Vec<PastFailure>, Violation> {
    #[derive(Deserialize)]
    struct HistoryEntryMembers {
        attempt: u32,
        failed_at: String,
        error_type: String,
        error_details: String,
    }
    let texts: Vec<&RawValue> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let entries = history.as_array().into_iter().flatten().zip(texts).enumerate();
    entries
        .map(|(index, (entry, text))| {
            let pointer = |name: &str| format!("/metadata/retry_history/{index}/{name}");
            // The schema checks everything else, but accepts 1.0 as an integer.
            let HistoryEntryMembers { attempt, failed_at, error_type, error_details } =
                HistoryEntryMembers::deserialize(entry)
                    .map_err(|_| Violation::new(pointer("attempt"), "is not an integer written in digits"))?;
            parse_time(&failed_at, || pointer("failed_at"))?;
            let unknown = UnknownMembers::all_except(
                &["attempt", "failed_at", "error_type", "error_details"],
                text.get(),
            );
            Ok(PastFailure { attempt, failed_at, error_type, error_details, unknown }.with_clean_texts())
        })
        .collect()
}

/// Parses a time. The validator's `date-time` also accepts strings that are not times, such as `202--07-25T17:20:00Z`.
fn parse_time(text: &str, pointer: impl Fn() -> String) -> Result<Timestamp, Violation> {
    parse_rfc3339(text).ok_or_else(|| Violation::new(pointer(), "is not a time that exists"))
}

#[cfg(test)]
mod tests;
