//! Reads metadata without the JSON Schema validator: the final-dlq-annotator does not need to explain violations.

use std::borrow::Cow;

use serde_json::Value;

use super::fast_path::{self, ATTEMPTS_MAX, ERROR_DETAILS_CHARACTERS_MAX, ERROR_TYPE_CHARACTERS_MAX};
use super::{build_instance, looks_like_envelope, parse_json_value, parse_metadata};
use crate::message::Attributes;
use crate::message::envelope::{SkimmedBody, skim_body};
use crate::message::metadata::{
    GENERATION_MAX, HELD_SECONDS_MAX, HISTORY_MAX, Metadata, OUTAGE_FAILURES_MAX, REDRIVES_MAX, SNOOZES_MAX,
};
use crate::message::reserved::REDELIVER;

/// Returns the metadata of a message, from its body or its `Redeliver`. For a valid message, the result is the same as
/// from [`MessageSchema::read_either_form`](crate::message::schema::MessageSchema::read_either_form).
#[must_use]
pub fn read_message_metadata(body: &str, attributes: &Attributes) -> Option<Metadata> {
    let body = match attributes.get(REDELIVER).filter(|_| !looks_like_envelope(body)) {
        Some(redeliver) => {
            let document = parse_json_value(redeliver.text()?).ok()?;
            Cow::Owned(format!("{{\"metadata\":{document},\"data\":{{}}}}"))
        }
        None => Cow::Borrowed(body),
    };
    read_metadata(&skim_body(&body).ok()?)
}

fn read_metadata(skimmed: &SkimmedBody<'_>) -> Option<Metadata> {
    fast_path::parse_metadata(skimmed).or_else(|| {
        let (instance, wrong) = build_instance(skimmed);
        let is_readable = wrong.is_empty() && matches_message_schema(&instance);
        is_readable.then(|| parse_metadata(&instance["metadata"], skimmed).ok()).flatten()
    })
}

/// Checks everything that the message schema checks, except time formats: the parser is stricter about them.
pub(super) fn matches_message_schema(instance: &Value) -> bool {
    let metadata = &instance["metadata"];
    let id = metadata["message_id"].as_str().unwrap_or_default();
    let counts = [
        ("max_attempts", ATTEMPTS_MAX),
        ("retry_attempt", ATTEMPTS_MAX),
        ("snooze_count", SNOOZES_MAX),
        ("redrive_generation", GENERATION_MAX),
        ("outage_failures", OUTAGE_FAILURES_MAX),
        ("held_seconds", HELD_SECONDS_MAX),
        ("redrive_count", REDRIVES_MAX),
        ("redrive_count_at_answer", REDRIVES_MAX),
    ];
    let times = ["expires_at", "next_retry_time", "first_sent_time", "held_since"];
    let history =
        metadata.get("retry_history").map_or(Some(&[][..]), |history| history.as_array().map(Vec::as_slice));
    instance["data"].is_object()
        && id.len() == uuid::fmt::Hyphenated::LENGTH
        && counts.iter().all(|(name, max)| metadata.get(name).is_none_or(|count| is_count(count, *max)))
        && times.iter().all(|name| metadata.get(name).is_none_or(Value::is_string))
        && history.is_some_and(|entries| entries.len() <= HISTORY_MAX && entries.iter().all(is_past_failure))
}

fn is_past_failure(entry: &Value) -> bool {
    is_count(&entry["attempt"], ATTEMPTS_MAX)
        && entry["failed_at"].is_string()
        && is_text(&entry["error_type"], ERROR_TYPE_CHARACTERS_MAX)
        && is_text(&entry["error_details"], ERROR_DETAILS_CHARACTERS_MAX)
}

fn is_count(value: &Value, max: u32) -> bool {
    value.as_i64().is_some_and(|count| (0..=i64::from(max)).contains(&count))
}

fn is_text(value: &Value, characters_max: usize) -> bool {
    value.as_str().is_some_and(|text| text.chars().count() <= characters_max)
}
