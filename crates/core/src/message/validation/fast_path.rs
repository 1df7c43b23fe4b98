//! The fast path for `metadata` as programs usually write it: serde reads it without building a tree.
//!
//! Everything accepted here is also valid according to the message schema, with the same meaning; a test compares the
//! two on arbitrary bodies. Anything unusual is left to the schema.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::json::forward_compatible::UnknownMembers;
use crate::json::value::parse_non_null;
use crate::message::Timestamp;
use crate::message::envelope::SkimmedBody;
use crate::message::metadata::{
    GENERATION_MAX, HELD_SECONDS_MAX, HISTORY_MAX, Holds, Metadata, OUTAGE_FAILURES_MAX, PastFailure,
    REDRIVES_MAX, SNOOZES_MAX, parse_rfc3339,
};
use crate::span_context::SpanContext;

/// The schema's limit on attempts.
pub(super) const ATTEMPTS_MAX: u32 = 1000;
/// The schema's limits on a past failure's texts, in characters.
pub(super) const ERROR_TYPE_CHARACTERS_MAX: usize = 128;
pub(super) const ERROR_DETAILS_CHARACTERS_MAX: usize = 256;

/// The members that have a rule. The values of all other members are skipped.
#[derive(serde::Deserialize)]
struct TypedMetadata<'a> {
    message_id: &'a str,
    #[serde(default, deserialize_with = "parse_non_null")]
    expires_at: Option<UtcTime>,
    #[serde(default, deserialize_with = "parse_non_null")]
    max_attempts: Option<BoundedCount<ATTEMPTS_MAX>>,
    #[serde(default)]
    retry_attempt: BoundedCount<ATTEMPTS_MAX>,
    #[serde(default, rename = "next_retry_time", deserialize_with = "parse_non_null")]
    _next_retry_time: Option<UtcTime>,
    #[serde(default, deserialize_with = "parse_non_null")]
    first_sent_time: Option<UtcTime>,
    #[serde(default, borrow)]
    retry_history: Vec<&'a RawValue>,
    #[serde(default)]
    snooze_count: BoundedCount<SNOOZES_MAX>,
    #[serde(default, deserialize_with = "parse_non_null")]
    redrive_generation: Option<BoundedCount<GENERATION_MAX>>,
    #[serde(default, deserialize_with = "parse_non_null")]
    held_since: Option<UtcTime>,
    #[serde(default)]
    outage_failures: BoundedCount<OUTAGE_FAILURES_MAX>,
    #[serde(default)]
    held_seconds: BoundedCount<HELD_SECONDS_MAX>,
    #[serde(default)]
    redrive_count: BoundedCount<REDRIVES_MAX>,
    #[serde(default)]
    redrive_count_at_answer: BoundedCount<REDRIVES_MAX>,
    #[serde(default, rename = "last_attempt_traceparent", borrow)]
    last_attempt: Option<&'a RawValue>,
}

/// Parses the metadata. Returns `None` if the schema must decide.
pub(super) fn parse_metadata(skimmed: &SkimmedBody<'_>) -> Option<Metadata> {
    skimmed.data_text.filter(|text| text.starts_with('{'))?;
    let typed: TypedMetadata<'_> = parse_object(skimmed.metadata_text?)?;
    // The hyphenated form is the only one of this length that the parser accepts.
    let is_hyphenated = typed.message_id.len() == uuid::fmt::Hyphenated::LENGTH;
    let message_id = Uuid::parse_str(typed.message_id).ok().filter(|_| is_hyphenated)?;
    if typed.retry_history.len() > HISTORY_MAX {
        return None;
    }
    Some(Metadata {
        message_id,
        message_id_text: typed.message_id.to_owned(),
        retry_attempt: typed.retry_attempt.0,
        first_sent_time: typed.first_sent_time.map(|time| time.0),
        retry_history: typed.retry_history.into_iter().map(parse_past_failure).collect::<Option<_>>()?,
        snooze_count: typed.snooze_count.0,
        redrive_generation: typed.redrive_generation.map(|count| count.0),
        holds: Holds::from_members(
            typed.held_since.map(|time| time.0),
            u16::try_from(typed.outage_failures.0).unwrap_or(u16::MAX),
            typed.held_seconds.0,
        ),
        redrive_count: typed.redrive_count.0,
        redrive_count_at_answer: typed.redrive_count_at_answer.0,
        last_attempt: typed.last_attempt.and_then(|text| SpanContext::from_json(text.get())),
        expires_at: typed.expires_at.map(|time| time.0),
        max_attempts: typed.max_attempts.map(|count| count.0),
    })
}

/// Parses an object. Refuses an array, although serde would read a struct from one.
fn parse_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

/// An integer written in digits: serde does not read 1.0 or 1e2 as an integer.
#[derive(Default)]
struct BoundedCount<const MAX: u32>(u32);

impl<'de, const MAX: u32> Deserialize<'de> for BoundedCount<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let count = u32::deserialize(from)?;
        if count <= MAX { Ok(Self(count)) } else { Err(D::Error::custom("too many")) }
    }
}

struct UtcTime(Timestamp);

impl<'de> Deserialize<'de> for UtcTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_time(<&str>::deserialize(from)?).map(Self).ok_or_else(|| D::Error::custom("an unusual time"))
    }
}

/// Parses a time. Refuses offsets and leap seconds, which the schema and the parser treat differently.
fn parse_time(text: &str) -> Option<Timestamp> {
    let has_form = text.ends_with('Z')
        && text.get(10..11) == Some("T")
        && text.get(17..18).is_some_and(|tens_of_seconds| tens_of_seconds < "6");
    has_form.then(|| parse_rfc3339(text)).flatten()
}

fn parse_past_failure(text: &RawValue) -> Option<PastFailure> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TypedHistoryEntry<'a> {
        attempt: BoundedCount<ATTEMPTS_MAX>,
        failed_at: &'a str,
        #[serde(borrow)]
        error_type: Cow<'a, str>,
        #[serde(borrow)]
        error_details: Cow<'a, str>,
    }
    let TypedHistoryEntry { attempt, failed_at, error_type, error_details } = parse_object(text.get())?;
    let is_short = |text: &str, max: usize| text.len() <= max || text.chars().count() <= max;
    let are_short = is_short(&error_type, ERROR_TYPE_CHARACTERS_MAX)
        && is_short(&error_details, ERROR_DETAILS_CHARACTERS_MAX);
    parse_time(failed_at).filter(|_| are_short)?;
    let past = PastFailure {
        attempt: attempt.0,
        failed_at: failed_at.to_owned(),
        error_type: error_type.into_owned(),
        error_details: error_details.into_owned(),
        unknown: UnknownMembers::default(),
    };
    Some(past.with_clean_texts())
}

#[cfg(test)]
mod tests;
