//! The `Failure` document: the one attribute that a message carries between the functions.

use serde::{Deserialize, Serialize};

use crate::attributes::{FoldedAttributes, fold};
use crate::handler::{FailureKind, HandlerError};
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX, first_illegal};
use crate::message::{Attribute, Attributes, ReceivedMessage, Timestamp, attributes_size};
use crate::metadata::{parse_rfc3339, rfc3339};
use crate::reason::DeadLetterReason;
use crate::text;

/// The reserved attribute's name.
pub const FAILURE: &str = "Failure";
/// Bytes of the document before folding.
pub const FAILURE_BYTES_MAX: usize = 1024;
/// The error's name where a message came by redrive and nobody could say why.
pub const REDRIVE: &str = "Redrive";

/// The schema of the document, JSON Schema 2020-12.
pub const FAILURE_SCHEMA: &str = include_str!("../../../schemas/failure.schema.json");

/// Why a message was handed off, and on the annotation queue why it was given up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Failure {
    /// The error's name.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub error_type: String,
    /// The error's text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// What is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The target's own delay: of `Retry-After`, or of a snooze.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    /// SQS's id of the message on the source queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_message_id: Option<String>,
    /// Where it was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_queue_arn: Option<String>,
    /// `SentTimestamp` of that delivery, RFC 3339: a hand-off is a new SQS message with a clock of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_sent_time: Option<String>,
    /// It came back from the final DLQ.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_generation: bool,
    /// Where it came back: the generation that its final record told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_before: Option<u32>,
    /// On the intermediate DLQ, of a message that waits there in hops: when its retry is due, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// On the annotation queue: the retries made, where the body does not say them (strategy `visibility`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// On the annotation queue: why it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<DeadLetterReason>,
    /// On the annotation queue: who gave it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// On the annotation queue: why it is given up, beside its last error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub explanation: String,
    /// The producer's attributes that found no place.
    #[serde(skip_serializing_if = "FoldedAttributes::is_empty")]
    pub folded_attributes: FoldedAttributes,
}

/// What is to be done with a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Retry.
    Transient,
    /// Do not retry.
    Permanent,
    /// Later, without spending an attempt.
    Snooze,
    /// The deadline came before its turn: again, without spending an attempt.
    NotStarted,
}

impl Kind {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Snooze => "snooze",
            Self::NotStarted => "not_started",
        }
    }
}

/// The function that gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It found the message invalid.
    MessageProcessor,
    /// It decided against another retry.
    FailedMessageProcessor,
    /// The message came by redrive; nobody else had a say.
    FinalDlqAnnotator,
    /// It decided against another invocation, or Lambda will never take one.
    AsyncRetryHandler,
}

impl Failure {
    /// What a handler answered.
    #[must_use]
    pub fn of_handler(error: &HandlerError, delivery: &Delivery) -> Self {
        let Self { error_type, details, kind, retry_after_seconds, .. } = Self::of_error(error);
        Self { error_type, details, kind, retry_after_seconds, ..Self::of_delivery(delivery) }
    }

    /// The error alone.
    pub(crate) fn of_error(error: &HandlerError) -> Self {
        let (kind, after) = match error.kind {
            FailureKind::Transient => (Kind::Transient, None),
            FailureKind::TransientAfter(after) => (Kind::Transient, Some(after)),
            FailureKind::Permanent => (Kind::Permanent, None),
            FailureKind::Snooze(after) => (Kind::Snooze, Some(after)),
        };
        let error_type = text::clean(&error.error_type.name(), text::ERROR_TYPE_BYTES_MAX);
        Self {
            error_type,
            details: error.details.clone(),
            kind: Some(kind),
            // Rounded up: a floor must not be undercut.
            retry_after_seconds: after
                .map(|after| after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0))),
            ..Self::default()
        }
    }

    /// The deadline came before its turn.
    #[must_use]
    pub fn not_started(delivery: &Delivery) -> Self {
        Self {
            error_type: "NotStarted".to_owned(),
            kind: Some(Kind::NotStarted),
            ..Self::of_delivery(delivery)
        }
    }

    /// Nobody answered for the delivery before this one.
    #[must_use]
    pub fn unanswered(delivery: &Delivery) -> Self {
        let details = "SQS gave the message once more: the function crashed, timed out, ran out of memory or was throttled, and nobody knows what became of the call";
        Self {
            error_type: REDRIVE.to_owned(),
            details: details.to_owned(),
            kind: Some(Kind::Transient),
            ..Self::of_delivery(delivery)
        }
    }

    /// What is known of a delivery whatever happened to it.
    #[must_use]
    pub fn of_delivery(delivery: &Delivery) -> Self {
        Self {
            failed_at: Some(rfc3339(delivery.failed_at)),
            source_message_id: Some(delivery.source_message_id.clone()),
            source_queue_arn: Some(delivery.source_queue_arn.clone()),
            first_sent_time: Some(rfc3339(delivery.sent_at)),
            new_generation: delivery.came_back,
            ..Self::default()
        }
    }

    /// The same, where it came back also with the generation that its final record told.
    #[must_use]
    pub fn after_generation(self, told: Option<u32>) -> Self {
        let told = told.filter(|_| self.new_generation);
        Self { generation_before: self.generation_before.max(told), ..self }
    }

    /// Reads the document; `None` where it is not one of ours.
    #[must_use]
    pub fn from_attribute(attribute: &Attribute) -> Option<Self> {
        // Serde would read a struct from an array too.
        let text = attribute.text().filter(|text| text.starts_with('{'))?;
        serde_json::from_str(text).ok().filter(Self::can_travel_on)
    }

    /// An escape can hide a character from SQS. The texts that are cut to their limits are cleaned then; these are kept.
    fn can_travel_on(&self) -> bool {
        let kept = [
            &self.failed_at,
            &self.source_message_id,
            &self.source_queue_arn,
            &self.first_sent_time,
            &self.due_at,
        ];
        kept.into_iter().flatten().all(|text| first_illegal(text).is_none())
    }

    /// When the message failed; never later than `now`, since clocks differ.
    #[must_use]
    pub fn failed_at(&self, now: Timestamp) -> Timestamp {
        self.failed_at.as_deref().and_then(parse_rfc3339).map_or(now, |failed_at| failed_at.min(now))
    }

    /// When this delivery was sent to the source queue.
    #[must_use]
    pub fn sent_at(&self) -> Option<Timestamp> {
        parse_rfc3339(self.first_sent_time.as_deref()?)
    }

    /// The producer's attributes with this document beside them, its texts cut to what fits; `None` where it has no place:
    /// ten attributes, or not even its bare bones within the size limit. For a hand-off.
    #[must_use]
    pub fn beside(&self, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
        if producer.len() >= ATTRIBUTES_MAX {
            return None;
        }
        self.cut_to_fit(producer, body_bytes)
    }

    /// The same with attributes folded where there are ten; `None` where even that is too large, or none of the ten can be
    /// folded. For a hop.
    #[must_use]
    pub fn beside_folded(&self, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
        let (kept, folded_attributes) = fold(producer, &[], ATTRIBUTES_MAX - 1)?;
        Self { folded_attributes, ..self.clone() }.cut_to_fit(&kept, body_bytes)
    }

    /// The same for a verdict, which must not fail: where nothing fits only the verdict's code is kept, and at last nothing.
    #[must_use]
    pub fn beside_folding(&self, producer: &Attributes, body_bytes: usize) -> Attributes {
        let bare = Self { verdict: self.verdict, ..Self::default() };
        [self, &bare]
            .into_iter()
            .find_map(|failure| failure.beside_folded(producer, body_bytes))
            .unwrap_or_else(|| producer.clone())
    }

    fn cut_to_fit(&self, kept: &Attributes, body_bytes: usize) -> Option<Attributes> {
        let left = MESSAGE_BYTES_MAX.checked_sub(body_bytes + attributes_size(kept))?;
        let folded =
            Self { folded_attributes: self.folded_attributes.clone(), ..Self::default() }.json().len() - 2;
        let with_details = |bytes: usize| {
            let details = text::clean(&self.details, bytes);
            // JSON may double each of their bytes: where that is too much, both give way.
            let explanation = text::clean(&self.explanation, bytes.min(FAILURE_BYTES_MAX / 4));
            let error_type = text::clean(&self.error_type, text::ERROR_TYPE_BYTES_MAX);
            Attribute::string(Self { error_type, details, explanation, ..self.clone() }.json())
        };
        let fits = |bytes: usize| {
            let attribute = with_details(bytes);
            let size = attribute.size(FAILURE);
            size <= left && size - FAILURE.len() - attribute.data_type.len() <= FAILURE_BYTES_MAX + folded
        };
        let bytes = text::largest_fitting(FAILURE_BYTES_MAX, fits)?;
        let mut attributes = kept.clone();
        attributes.insert(FAILURE.to_owned(), with_details(bytes));
        Some(attributes)
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and maps with string keys always serialise")
    }
}

/// A delivery that failed, as far as it is known whatever happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it failed.
    pub failed_at: Timestamp,
    /// SQS's id on the source queue.
    pub source_message_id: String,
    /// The source queue.
    pub source_queue_arn: String,
    /// `SentTimestamp`.
    pub sent_at: Timestamp,
    /// It came back from the final DLQ.
    pub came_back: bool,
}

/// The failure of a message received from the intermediate DLQ.
///
/// A `Failure` counts only on a message that did not come by redrive: one that did still has the attributes that its
/// producer gave it, and so a forged one.
#[must_use]
pub fn of_received(
    record: &ReceivedMessage,
    failure: Option<Failure>,
    came_back: bool,
    now: Timestamp,
) -> Failure {
    match (&record.redriven_from, failure) {
        (None, Some(failure)) => Failure { new_generation: failure.new_generation || came_back, ..failure },
        (redriven_from, _) => {
            let details = if redriven_from.is_some() {
                "SQS moved the message: the function crashed, timed out, ran out of memory, was throttled, or could not hand it off"
            } else {
                "the message has no readable Failure attribute"
            };
            Failure {
                error_type: REDRIVE.to_owned(),
                details: details.to_owned(),
                kind: Some(Kind::Transient),
                ..Failure::of_delivery(&Delivery {
                    // All copies and all receives of it must say the same, since delays are counted from it.
                    failed_at: record.first_received_at.filter(|_| redriven_from.is_some()).unwrap_or(now),
                    source_message_id: record.sqs_message_id.clone(),
                    source_queue_arn: redriven_from.clone().unwrap_or_else(|| record.queue_arn.clone()),
                    sent_at: record.sent_at,
                    came_back,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
