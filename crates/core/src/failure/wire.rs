//! The JSON members of all three `Failure` documents. Their names appear only in this module.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    Classification, Delivery, DlqReturn, Failure, FailureClass, FailureDocument, HandOff, Hop, LastError,
    Outage, Stage, Verdict, VerdictDetails,
};
use crate::json::forward_compatible::{BorrowedText, OpenEnum, UnknownMembers};
use crate::limits::find_illegal_character;
use crate::message::attempt_logs::{AttemptLogs, LAST_ATTEMPT_LOGS};
use crate::message::folding::FoldedAttributes;
use crate::message::metadata::{LAST_ATTEMPT, format_rfc3339, parse_rfc3339};
use crate::message::origin::Origin;
use crate::message::reason::ReasonCode;
use crate::message::{Attribute, ReceivedMessage, Timestamp};
use crate::span_context::SpanContext;
use crate::truncate;

/// Size limit of the document before folding, without the location of the log lines.
pub const FAILURE_BYTES_MAX: usize = 1024;
/// Size limit for texts that we read: four times the limit for documents that we write, in case later versions write
/// longer ones.
const DETAILS_BYTES_MAX: usize = 4 * FAILURE_BYTES_MAX;

/// The members of a document; absent ones are not serialized.
#[derive(Clone, Default, PartialEq, Serialize)]
pub(super) struct Wire<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) error_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<OpenEnum<FailureClass>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_since: Option<WireTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outage_failures: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed_at: Option<WireTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_message_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_queue_arn: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_sent_time: Option<WireTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new_generation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation_before: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from_producer: Option<bool>,
    #[serde(rename = "last_attempt_traceparent", skip_serializing_if = "Option::is_none")]
    pub(super) last_attempt: Option<SpanContext>,
    /// Added by [`Self::largest_fitting`], if it fits.
    #[serde(skip_serializing)]
    pub(super) last_attempt_logs: Option<Cow<'a, AttemptLogs>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due_at: Option<WireTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<ReasonCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stage: Option<OpenEnum<Stage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explanation: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) folded_attributes: Option<Cow<'a, FoldedAttributes>>,
    // Flattened only for writing: when serde reads a flattened field, `serde_json` misreads raw text.
    #[serde(flatten)]
    pub(super) unknown: Cow<'a, UnknownMembers>,
}

/// A time member that is present.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WireTime {
    At(Timestamp),
    /// Invalid, or in a later version's format.
    Unreadable,
}

impl Wire<'_> {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and maps with string keys always serialize")
    }
}

impl Wire<'static> {
    /// Parses a document; `None` if it is not one of ours. Illegal characters in texts are replaced when the texts are
    /// truncated. A document with an illegal character in one of its two ids is refused, since every version writes
    /// only legal ids.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let wire: Self = serde_json::from_str(text).ok()?;
        let ids = [&wire.source_message_id, &wire.source_queue_arn];
        let is_legal = ids.into_iter().flatten().all(|id| find_illegal_character(id).is_none());
        is_legal.then_some(wire)
    }
}

impl Serialize for WireTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(moment) => format_rfc3339(*moment).serialize(serializer),
            Self::Unreadable => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for WireTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BorrowedText(text) = BorrowedText::deserialize(deserializer)?;
        match find_illegal_character(&text) {
            None => Ok(parse_rfc3339(&text).map_or(Self::Unreadable, Self::At)),
            Some(_) => Err(D::Error::custom("a character that SQS refuses")),
        }
    }
}

impl<'de> Deserialize<'de> for Wire<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WireVisitor)
    }
}

struct WireVisitor;

impl<'de> Visitor<'de> for WireVisitor {
    type Value = Wire<'static>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut wire = Wire::default();
        while let Some(BorrowedText(name)) = map.next_key()? {
            match &*name {
                "type" => read_once(&mut wire.error_type, &mut map)?,
                "details" => read_once(&mut wire.details, &mut map)?,
                "function" => read_once(&mut wire.function, &mut map)?,
                "kind" => read_once(&mut wire.kind, &mut map)?,
                "retry_after_seconds" => read_once(&mut wire.retry_after_seconds, &mut map)?,
                "held_since" => read_once(&mut wire.held_since, &mut map)?,
                "outage_failures" => read_once(&mut wire.outage_failures, &mut map)?,
                "failed_at" => read_once(&mut wire.failed_at, &mut map)?,
                "source_message_id" => read_once(&mut wire.source_message_id, &mut map)?,
                "source_queue_arn" => read_once(&mut wire.source_queue_arn, &mut map)?,
                "first_sent_time" => read_once(&mut wire.first_sent_time, &mut map)?,
                "new_generation" => read_once(&mut wire.new_generation, &mut map)?,
                "generation_before" => read_once(&mut wire.generation_before, &mut map)?,
                "from_producer" => read_once(&mut wire.from_producer, &mut map)?,
                LAST_ATTEMPT => {
                    let text: Box<RawValue> = map.next_value()?;
                    wire.last_attempt = SpanContext::from_json(text.get());
                }
                LAST_ATTEMPT_LOGS => {
                    let text: Box<RawValue> = map.next_value()?;
                    wire.last_attempt_logs = AttemptLogs::from_json(text.get()).map(Cow::Owned);
                }
                "due_at" => read_once(&mut wire.due_at, &mut map)?,
                "attempts" => read_once(&mut wire.attempts, &mut map)?,
                "verdict" => read_once(&mut wire.verdict, &mut map)?,
                "stage" => read_once(&mut wire.stage, &mut map)?,
                "explanation" => read_once(&mut wire.explanation, &mut map)?,
                "folded_attributes" => read_once(&mut wire.folded_attributes, &mut map)?,
                _ => wire.unknown.to_mut().push_member(&name, map.next_value()?),
            }
        }
        Ok(wire)
    }
}

/// Reads a member, and refuses a duplicate, since either of the two might be the intended one.
fn read_once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    member: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if member.is_some() {
        return Err(A::Error::custom("a duplicate member"));
    }
    *member = map.next_value()?;
    Ok(())
}

/// One of our documents, not yet converted into a [`FailureDocument`].
pub(crate) struct RawFailure(Wire<'static>);

impl RawFailure {
    /// Parses an attribute; `None` if it does not contain one of our documents.
    pub(crate) fn from_attribute(attribute: &Attribute) -> Option<Self> {
        Self::from_text(attribute.text()?)
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        Wire::from_json(text).map(Self)
    }

    /// Takes the producer's folded attributes. In a document with neither a verdict nor a due time they are forged, and
    /// therefore dropped.
    pub(crate) fn take_folded(&mut self) -> FoldedAttributes {
        let Self(wire) = self;
        let folds = wire.verdict.is_some() || wire.due_at.is_some();
        let folded = wire.folded_attributes.take().filter(|_| folds);
        folded.map(Cow::into_owned).unwrap_or_default()
    }

    /// True if the document has a verdict, or a kind that this version knows: every function writes one of the two. Any
    /// other JSON object is read as a document without members.
    pub(crate) fn has_function_members(&self) -> bool {
        let Self(wire) = self;
        wire.verdict.is_some() || wire.kind.as_ref().is_some_and(|kind| kind.known().is_some())
    }

    pub(crate) fn into_document(self, record: &ReceivedMessage, now: Timestamp) -> FailureDocument {
        let Self(mut wire) = self;
        match (wire.verdict.take(), readable_time(wire.due_at)) {
            (Some(code), _) => {
                FailureDocument::Verdict(Verdict { code, case: wire.into_details(record, now) })
            }
            (None, Some(due_at)) => {
                FailureDocument::Hop(Hop { hand_off: wire.into_hand_off(record, now), due_at })
            }
            (None, None) => FailureDocument::HandOff(wire.into_hand_off(record, now)),
        }
    }
}

impl Wire<'static> {
    fn into_hand_off(self, record: &ReceivedMessage, now: Timestamp) -> HandOff {
        let first_failures = self.outage_failures.unwrap_or(0);
        let outage =
            readable_time(self.held_since).map(|since| Outage { since: since.min(now), first_failures });
        let Failure { error, classification, delivery, unknown, .. } = self.into_failure(record, now);
        let classification =
            classification.unwrap_or_else(|| Classification::without_delay(FailureClass::Transient));
        HandOff { error, classification, delivery, outage, unknown }
    }

    /// Returns the details; `None` if the document has only the code. A later version may omit any member, so a single
    /// other member is enough.
    fn into_details(mut self, record: &ReceivedMessage, now: Timestamp) -> Option<VerdictDetails> {
        let unknown = self.unknown.clone();
        if self == (Wire { unknown, ..Wire::default() }) {
            return None;
        }
        let stage = self.stage.take();
        let explanation = cut_text(self.explanation.take(), DETAILS_BYTES_MAX);
        Some(VerdictDetails { stage, explanation, failure: self.into_failure(record, now) })
    }

    /// Cuts the texts first: a forged document can be as large as a message, and a final record would then cut the
    /// texts repeatedly until they fit.
    fn into_failure(self, record: &ReceivedMessage, now: Timestamp) -> Failure {
        let retry_after_seconds = self.retry_after_seconds;
        Failure {
            error: LastError {
                error_type: cut_text(self.error_type, truncate::ERROR_TYPE_BYTES_MAX),
                details: cut_text(self.details, DETAILS_BYTES_MAX),
                function: self.function.map(|name| cut_text(Some(name), truncate::FUNCTION_BYTES_MAX)),
            },
            classification: self.kind.map(|kind| Classification { kind, retry_after_seconds }),
            delivery: Delivery {
                // Delays are counted from this time, so it must be the same for every copy and every receive.
                failed_at: readable_time(self.failed_at).or(record.first_received_at).unwrap_or(now),
                source_message_id: text_or_fallback(self.source_message_id, &record.sqs_message_id),
                source_queue_arn: text_or_fallback(self.source_queue_arn, &record.queue_arn),
                sent_at: readable_time(self.first_sent_time).unwrap_or(record.sent_at),
                came_back: (self.new_generation == Some(true))
                    .then_some(DlqReturn { generation_before: self.generation_before, last_attempt: None }),
                // The member is absent if the origin is unknown.
                origin: if self.from_producer == Some(true) { Origin::Producer } else { Origin::Unknown },
                last_attempt: self.last_attempt,
                last_attempt_logs: self.last_attempt_logs.map(Cow::into_owned),
            },
            attempts: self.attempts,
            unknown: self.unknown.into_owned(),
        }
    }
}

fn cut_text(text: Option<Cow<'static, str>>, bytes_max: usize) -> String {
    let cut = |text: Cow<'static, str>| match text.len() {
        bytes if bytes <= bytes_max => text.into_owned(),
        _ => truncate::clean_text(&text, bytes_max),
    };
    text.map(cut).unwrap_or_default()
}

fn text_or_fallback(text: Option<Cow<'static, str>>, fallback: &str) -> String {
    text.map_or_else(|| fallback.to_owned(), Cow::into_owned)
}

fn readable_time(time: Option<WireTime>) -> Option<Timestamp> {
    match time? {
        WireTime::At(moment) => Some(moment),
        WireTime::Unreadable => None,
    }
}
