//! Reads dead letters from messaging and job frameworks, driven by a table: one file per framework lists the locations
//! of the error in its messages. If a framework records no error, the failed task is still identified.

mod active_job;
mod celery;
mod dramatiq;
mod faktory;
mod laravel;
mod mass_transit;
mod nservice_bus;
mod rebus;
mod resque;
mod sidekiq;

use std::cell::RefCell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use redeliver_core::message::ReceivedMessage;
use serde_json::Value;

use super::record::parse_time;
use super::{ForeignDeadLetter, ForeignWriter, MOVED_BY_SQS};

/// The locations of the displayed fields in a framework's messages. The first location with a value is used.
struct FrameworkShape {
    writer: ForeignWriter,
    /// Locations that exist in every message from the framework.
    marks: &'static [FieldLocation],
    /// The queue, the consumer or the task that failed.
    source: &'static [FieldLocation],
    error_type: &'static [FieldLocation],
    message: &'static [FieldLocation],
    /// The number of retries.
    attempts: &'static [FieldLocation],
    failed_at: &'static [FieldLocation],
}

/// The location of a field in a message.
#[derive(Clone, Copy)]
enum FieldLocation {
    /// A message attribute.
    Attribute(&'static str),
    /// A member of the JSON object in a message attribute.
    InAttribute(&'static str, &'static str),
    /// A path of members in the body, outermost first.
    Body(&'static [&'static str]),
    /// The first line of a member of the body.
    FirstLine(&'static [&'static str]),
    /// The last line of a member of the body.
    LastLine(&'static [&'static str]),
}

const SHAPES: [&FrameworkShape; 12] = [
    &mass_transit::SHAPE,
    &mass_transit::IN_ENVELOPE,
    &nservice_bus::SHAPE,
    &nservice_bus::UNWRAPPED,
    &rebus::SHAPE,
    &celery::SHAPE,
    &dramatiq::SHAPE,
    &active_job::SHAPE,
    &sidekiq::SHAPE,
    &faktory::SHAPE,
    &resque::SHAPE,
    &laravel::SHAPE,
];

const UNKNOWN_REASON: &str = "the message records no reason for its failure";

/// Reads a dead letter, or returns `None` if the message matches no known framework.
pub(super) fn read_framework(message: &ReceivedMessage) -> Option<ForeignDeadLetter> {
    // Most bodies are something else; a substring check avoids parsing them.
    let text = decode_base64(&message.body);
    let text = text.as_deref().unwrap_or(&message.body);
    let may_match =
        |shape: &&&FrameworkShape| shape.marks.iter().all(|mark| mark.may_be_present(message, text));
    let shapes: Vec<_> = SHAPES.iter().filter(may_match).collect();
    if shapes.is_empty() {
        return None;
    }
    let body = serde_json::from_str(text).ok().filter(Value::is_object).unwrap_or_default();
    let known = FrameworkMessage { message, body, in_attributes: RefCell::default() };
    shapes.into_iter().find_map(|shape| shape.read_fields(&known))
}

/// Decodes the base64 JSON objects that Celery and Dramatiq send.
fn decode_base64(body: &str) -> Option<String> {
    // `{"` in base64.
    let encoded = body.trim_ascii().starts_with("eyJ").then(|| body.trim_ascii())?;
    String::from_utf8(BASE64.decode(encoded).ok()?).ok()
}

struct FrameworkMessage<'m> {
    message: &'m ReceivedMessage,
    body: Value,
    /// JSON parsed from attributes, by name: each attribute is parsed once, no matter how many locations refer to it.
    in_attributes: RefCell<BTreeMap<&'static str, Value>>,
}

impl FrameworkShape {
    fn read_fields(&self, known: &FrameworkMessage<'_>) -> Option<ForeignDeadLetter> {
        let first_text = |places: &[FieldLocation]| {
            places.iter().find_map(|place| known.text_at(*place).filter(|text| !text.is_empty()))
        };
        if !self.marks.iter().all(|mark| known.text_at(*mark).is_some()) {
            return None;
        }
        let error_type = first_text(self.error_type).unwrap_or_default();
        let default_reason =
            if known.message.redriven_from.is_some() { MOVED_BY_SQS } else { UNKNOWN_REASON };
        let message =
            first_text(self.message).or_else(|| error_type.is_empty().then(|| default_reason.to_owned()));
        Some(ForeignDeadLetter {
            error_type,
            message: message.unwrap_or_default(),
            attempts: first_text(self.attempts).and_then(|count| count.parse().ok()),
            failed_at: first_text(self.failed_at).as_deref().and_then(parse_time),
            ..ForeignDeadLetter::new(self.writer, first_text(self.source).unwrap_or_default())
        })
    }
}

impl FieldLocation {
    /// Returns false if the field is certain to be missing.
    fn may_be_present(self, message: &ReceivedMessage, body: &str) -> bool {
        match self {
            Self::Attribute(name) | Self::InAttribute(name, _) => message.attributes.contains_key(name),
            Self::Body(names) | Self::FirstLine(names) | Self::LastLine(names) => {
                names.iter().all(|name| body.contains(name))
            }
        }
    }
}

impl FrameworkMessage<'_> {
    /// Returns the text at a location. An object or an array counts as empty text.
    fn text_at(&self, place: FieldLocation) -> Option<String> {
        match place {
            FieldLocation::Attribute(name) => self.message.attributes.get(name)?.text().map(str::to_owned),
            FieldLocation::InAttribute(attribute, name) => {
                let text = self.message.attributes.get(attribute)?.text()?;
                let mut read = self.in_attributes.borrow_mut();
                let object =
                    read.entry(attribute).or_insert_with(|| serde_json::from_str(text).unwrap_or_default());
                format_scalar(object.get(name)?)
            }
            FieldLocation::Body(names) => format_scalar(self.body_member(names)?),
            FieldLocation::FirstLine(names) => {
                Some(self.body_member(names)?.as_str()?.lines().next()?.to_owned())
            }
            FieldLocation::LastLine(names) => {
                Some(self.body_member(names)?.as_str()?.trim_end().lines().next_back()?.to_owned())
            }
        }
    }

    fn body_member(&self, names: &[&str]) -> Option<&Value> {
        names.iter().try_fold(&self.body, |value, name| value.get(name))
    }
}

fn format_scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(_) | Value::Array(_) => Some(String::new()),
        Value::Bool(_) | Value::Null => None,
    }
}

#[cfg(test)]
mod tests;
