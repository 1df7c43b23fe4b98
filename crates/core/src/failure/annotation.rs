//! The annotation, which turns a message that was given up on into a final record. A failure to annotate never prevents
//! dead-lettering.

mod fingerprint;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::failure::{DlqReturn, Stage};
use crate::json::forward_compatible::OpenEnum;
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::attempt_logs::AttemptLogs;
use crate::message::folding::{FoldedAttributes, Folding, fold_attributes};
use crate::message::reason::ReasonCode;
use crate::message::{Attribute, Attributes, attributes_size};
use crate::span_context::SpanContext;
use crate::truncate;
pub use fingerprint::compute_fingerprint;

pub use crate::message::reserved::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE};

/// Size limit of `ErrorDetails`.
pub const ERROR_DETAILS_BYTES_MAX: usize = 1024;
/// Size limit of `DeadLetter` before folding, without the location of the log lines.
pub const DEAD_LETTER_BYTES_MAX: usize = 4096;

/// The schema of the document, JSON Schema 2020-12.
pub const DEAD_LETTER_SCHEMA: &str = include_str!("../../schemas/dead-letter.schema.json");

/// The complete annotation of a message that was given up on.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// `ErrorType`.
    pub reason: ReasonCode,
    /// `ErrorDetails`, not yet truncated.
    pub details: String,
    /// `DeadLetter`, not yet truncated.
    pub record: DeadLetter,
}

/// The document in the attribute `DeadLetter`. A document with the required members is ours; it may have members from
/// later versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The function that gave up on the message.
    pub stage: OpenEnum<Stage>,
    pub cause: Cause,
    /// Number of retries made, if the body could be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Number of times the message was redriven from the final DLQ, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrive_generation: Option<u32>,
    /// Number of seconds for which the message was held because its target was down, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<u32>,
    /// Number of times that SQS moved the message after unanswered receives, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrive_count: Option<u32>,
    /// Time of the first send, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sent_time: Option<String>,
    /// Time of the final record, RFC 3339.
    pub dead_lettered_at: String,
    /// Time of the last failure, RFC 3339. It identifies the death, together with `fingerprint` and `sqs_message_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_at: Option<String>,
    /// The queue of the last delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_queue_arn: Option<String>,
    /// The SQS message id of the last delivery.
    pub sqs_message_id: String,
    /// The span of the last attempt as a W3C `traceparent`, if spans are recorded.
    #[serde(default, deserialize_with = "parse_traceparent", skip_serializing_if = "Option::is_none")]
    pub last_attempt_traceparent: Option<String>,
    /// The log lines of the last attempt, if the location is known.
    #[serde(default, deserialize_with = "parse_attempt_logs", skip_serializing_if = "Option::is_none")]
    pub last_attempt_logs: Option<AttemptLogs>,
    /// See [`compute_fingerprint()`].
    pub fingerprint: String,
    /// The producer's attributes for which the message had no room.
    #[serde(default, skip_serializing_if = "FoldedAttributes::is_empty")]
    pub folded_attributes: FoldedAttributes,
}

fn parse_traceparent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Box<RawValue> = Deserialize::deserialize(deserializer)?;
    Ok(SpanContext::from_json(text.get()).map(|span| span.traceparent()))
}

fn parse_attempt_logs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AttemptLogs>, D::Error> {
    let text: Box<RawValue> = Deserialize::deserialize(deserializer)?;
    Ok(AttemptLogs::from_json(text.get()))
}

/// The error that made redeliver give up on the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
    /// The version of the user's function that failed, `NAME:VERSION`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// True if the cause may be forged, because none of redeliver's functions sent it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

impl DeadLetter {
    /// Parses the document; `None` if it is not one of ours.
    #[must_use]
    pub fn from_attribute(attribute: &Attribute) -> Option<Self> {
        // Serde would also accept an array for a struct.
        let text = attribute.text().filter(|text| text.starts_with('{'))?;
        serde_json::from_str(text).ok()
    }

    /// Returns the span of the last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Option<SpanContext> {
        self.last_attempt_traceparent.as_deref().and_then(SpanContext::from_traceparent)
    }

    /// Returns the generation and the last attempt, which a message keeps when it is redriven from the final DLQ.
    #[must_use]
    pub fn dlq_return(&self) -> DlqReturn {
        DlqReturn { generation_before: self.redrive_generation, last_attempt: self.last_attempt() }
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and maps with string keys always serialize")
    }

    /// Returns the number of bytes that folded attributes add to the document.
    fn folding_bytes(&self) -> usize {
        let bare = Self { folded_attributes: FoldedAttributes::new(), ..self.clone() };
        self.with_short_cause(0).to_json().len() - bare.with_short_cause(0).to_json().len()
    }

    fn with_short_cause(&self, bytes: usize) -> Self {
        let cause = Cause {
            // An unverified cause may be forged, so its type can have any length.
            error_type: truncate::clean_text(&self.cause.error_type, truncate::ERROR_TYPE_BYTES_MAX),
            message: truncate::clean_and_cut_middle(&self.cause.message, bytes),
            function: self
                .cause
                .function
                .as_deref()
                .map(|name| truncate::clean_text(name, truncate::FUNCTION_BYTES_MAX)),
            ..self.cause
        };
        Self { cause, ..self.clone() }
    }
}

/// Builds the attributes of a final record: the producer's, and as much of the annotation as fits next to them and a
/// body of `body_bytes`. The producer's attributes are never truncated or lost: if there are more than ten attributes
/// in total, some of the producer's are folded into `DeadLetter`. If that does not fit, the annotation is shortened, if
/// necessary to nothing. Without the document, our attributes are recognized only by name. If the producer already uses
/// one of these names, the record is then not annotated, so that the producer's attribute is not mistaken for ours.
#[must_use]
pub fn annotate_attributes(producer: &Attributes, body_bytes: usize, annotation: &Annotation) -> Attributes {
    full_annotation(producer, body_bytes, annotation)
        .or_else(|| annotate_type_and_details(producer, body_bytes, annotation))
        .or_else(|| annotate_type_only(producer, body_bytes, annotation))
        .unwrap_or_else(|| producer.clone())
}

fn full_annotation(producer: &Attributes, body_bytes: usize, annotation: &Annotation) -> Option<Attributes> {
    let Folding { kept, folded: folded_attributes } =
        fold_attributes(producer, &[ERROR_TYPE, ERROR_DETAILS, DEAD_LETTER], ATTRIBUTES_MAX - 3)?;
    let logs = &annotation.record.last_attempt_logs;
    let record = DeadLetter { folded_attributes, last_attempt_logs: None, ..annotation.record.clone() };
    // Folded attributes belong to the producer, so they do not count towards our limit.
    let folding = if record.folded_attributes.is_empty() { 0 } else { record.folding_bytes() };
    let written = |bytes: usize| {
        let record = record.with_short_cause(bytes);
        let details = truncate::clean_and_cut_middle(&annotation.details, bytes.min(ERROR_DETAILS_BYTES_MAX));
        let mut attributes = kept.clone();
        attributes.insert(DEAD_LETTER.to_owned(), Attribute::string(record.to_json()));
        attributes.insert(ERROR_TYPE.to_owned(), Attribute::string(annotation.reason.as_str()));
        attributes.insert(ERROR_DETAILS.to_owned(), Attribute::string(dash_if_empty(details)));
        attributes
    };
    let fits = |attributes: &Attributes| {
        let document = attributes[DEAD_LETTER].text().map_or(0, str::len);
        document <= DEAD_LETTER_BYTES_MAX + folding
            && body_bytes + attributes_size(attributes) <= MESSAGE_BYTES_MAX
    };
    let attributes = truncate::largest_fitting(DEAD_LETTER_BYTES_MAX, written, fits)?;
    Some(match logs {
        Some(logs) => with_logs(attributes, body_bytes, logs),
        None => attributes,
    })
}

/// Adds the location of the log lines to `DeadLetter`, if enough bytes remain.
fn with_logs(mut attributes: Attributes, body_bytes: usize, logs: &AttemptLogs) -> Attributes {
    let left = MESSAGE_BYTES_MAX.saturating_sub(body_bytes + attributes_size(&attributes));
    let Some(document) = attributes.get(DEAD_LETTER).and_then(Attribute::text) else { return attributes };
    let most = document.len() + left;
    let document = logs.append_to(document.to_owned(), |bytes| bytes <= most);
    attributes.insert(DEAD_LETTER.to_owned(), Attribute::string(document));
    attributes
}

fn annotate_type_and_details(
    producer: &Attributes,
    body_bytes: usize,
    annotation: &Annotation,
) -> Option<Attributes> {
    let attributes = annotate_type_only(producer, body_bytes, annotation)?;
    let written = |bytes: usize| {
        let mut attributes = attributes.clone();
        let details = truncate::clean_and_cut_middle(&annotation.details, bytes);
        attributes.insert(ERROR_DETAILS.to_owned(), Attribute::string(dash_if_empty(details)));
        attributes
    };
    let fits = |attributes: &Attributes| {
        attributes.len() <= ATTRIBUTES_MAX && body_bytes + attributes_size(attributes) <= MESSAGE_BYTES_MAX
    };
    truncate::largest_fitting(ERROR_DETAILS_BYTES_MAX, written, fits)
}

fn annotate_type_only(
    producer: &Attributes,
    body_bytes: usize,
    annotation: &Annotation,
) -> Option<Attributes> {
    let is_free = [ERROR_TYPE, ERROR_DETAILS].iter().all(|name| !producer.contains_key(*name));
    let mut attributes = producer.clone();
    attributes.insert(ERROR_TYPE.to_owned(), Attribute::string(annotation.reason.as_str()));
    let fits =
        attributes.len() <= ATTRIBUTES_MAX && body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX;
    (is_free && fits).then_some(attributes)
}

/// Replaces an empty string with a dash, since SQS refuses empty attributes.
fn dash_if_empty(details: String) -> String {
    if details.is_empty() { "-".to_owned() } else { details }
}

#[cfg(test)]
mod tests;
