//! `metadata` as programs write it, read and checked without building a tree.
//!
//! What is read here is valid by the message schema and means the same: a test compares the two on anything. Of what looks
//! unusual nothing is read, and nothing is said: then the schema decides.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::envelope::Skimmed;
use crate::message::Timestamp;
use crate::metadata::{GENERATION_MAX, HISTORY_MAX, Metadata, PastFailure, SNOOZES_MAX, parse_rfc3339};
use crate::tolerant::Unknown;

/// The schema's limit of attempts.
const ATTEMPTS_MAX: u32 = 1000;
/// The schema's limits of a past failure's texts, in characters.
const ERROR_TYPE_CHARACTERS_MAX: usize = 128;
const ERROR_DETAILS_CHARACTERS_MAX: usize = 256;

/// `None` where it is for the schema to say.
pub(super) fn metadata_of(skimmed: &Skimmed<'_>) -> Option<Metadata> {
    let is_object = |text: Option<&str>| text.is_some_and(|text| text.starts_with('{'));
    if !is_object(skimmed.metadata_text) || !is_object(skimmed.data_text) {
        return None;
    }
    let mut message_id = None;
    let mut metadata = Metadata {
        message_id: Uuid::nil(),
        message_id_text: String::new(),
        retry_attempt: 0,
        first_sent_time: None,
        retry_history: Vec::new(),
        snooze_count: 0,
        redrive_generation: None,
        expires_at: None,
        max_attempts: None,
    };
    for member in &skimmed.metadata {
        let text = &skimmed.body[member.value.clone()];
        match &*member.name {
            b"message_id" => message_id = Some(id(text)?),
            b"expires_at" => metadata.expires_at = Some(time(string(text)?)?),
            b"max_attempts" => metadata.max_attempts = Some(number(text, ATTEMPTS_MAX)?),
            b"retry_attempt" => metadata.retry_attempt = number(text, ATTEMPTS_MAX)?,
            b"next_retry_time" => _ = time(string(text)?)?,
            b"first_sent_time" => metadata.first_sent_time = Some(time(string(text)?)?),
            b"retry_history" => metadata.retry_history = history(text)?,
            b"snooze_count" => metadata.snooze_count = number(text, SNOOZES_MAX)?,
            b"redrive_generation" => metadata.redrive_generation = Some(number(text, GENERATION_MAX)?),
            _ => {}
        }
    }
    let (message_id, text) = message_id?;
    Some(Metadata { message_id, message_id_text: text.to_owned(), ..metadata })
}

/// The inside of a string without escapes.
fn string(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"').filter(|inside| !inside.contains('\\'))
}

fn id(text: &str) -> Option<(Uuid, &str)> {
    let text = string(text)?;
    // Of the forms that the parser knows only the hyphenated one is so long.
    (text.len() == uuid::fmt::Hyphenated::LENGTH)
        .then(|| Uuid::parse_str(text).ok())
        .flatten()
        .map(|id| (id, text))
}

/// Of one to four digits.
fn number(text: &str, max: u32) -> Option<u32> {
    let is_plain = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && *number <= max)
}

/// `2026-07-25T17:20:00Z`, perhaps with a fraction of 1 to 9 digits: neither offsets nor leap seconds.
fn time(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let (moment, fraction) = bytes.strip_suffix(b"Z")?.split_at_checked(19)?;
    let is_form = moment.iter().zip(b"dddd-dd-ddTdd:dd:dd").all(|(byte, form)| match form {
        b'd' => byte.is_ascii_digit(),
        _ => byte == form,
    });
    let is_fraction = match fraction {
        [] => true,
        [b'.', digits @ ..] => (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (is_form && is_fraction && moment[17] < b'6').then(|| parse_rfc3339(text)).flatten()
}

fn history(text: &str) -> Option<Vec<PastFailure>> {
    let entries: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    if entries.len() > HISTORY_MAX {
        return None;
    }
    entries.into_iter().map(|entry| past_failure(entry.get())).collect()
}

fn past_failure(text: &str) -> Option<PastFailure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry<'a> {
        #[serde(borrow)]
        attempt: &'a RawValue,
        #[serde(borrow)]
        failed_at: Cow<'a, str>,
        #[serde(borrow)]
        error_type: Cow<'a, str>,
        #[serde(borrow)]
        error_details: Cow<'a, str>,
    }
    // Serde would read a struct from an array too.
    let text = Some(text).filter(|text| text.starts_with('{'))?;
    let Entry { attempt, failed_at, error_type, error_details } = serde_json::from_str(text).ok()?;
    let is_short = |text: &str, max: usize| text.len() <= max || text.chars().count() <= max;
    let are_short = is_short(&error_type, ERROR_TYPE_CHARACTERS_MAX)
        && is_short(&error_details, ERROR_DETAILS_CHARACTERS_MAX);
    time(&failed_at).filter(|_| are_short)?;
    let past = PastFailure {
        attempt: number(attempt.get(), ATTEMPTS_MAX)?,
        failed_at: failed_at.into_owned(),
        error_type: error_type.into_owned(),
        error_details: error_details.into_owned(),
        unknown: Unknown::default(),
    };
    Some(past.cleaned())
}

#[cfg(test)]
mod tests;
