//! Attaches a document to a message. It becomes an attribute: its texts are cut to fit, and other attributes are folded
//! if there are already ten. As a last resort, it is put in the trace header.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use super::wire::RawFailure;
use super::wire::{FAILURE_BYTES_MAX, Wire, WireTime};
use super::{Classification, Delivery, DlqReturn, Failure, HandOff, Hop, LastError, Verdict, VerdictDetails};
use crate::json::forward_compatible::UnknownMembers;
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::folding::{FoldedAttributes, Folding, fold_attributes};
use crate::message::metadata::NEVER;
use crate::message::origin::Origin;
use crate::message::reserved::FAILURE;
use crate::message::{Attribute, Attributes, attributes_size};
use crate::truncate;

/// The attributes and the trace header of a message that carries a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedDocument {
    pub attributes: Attributes,
    pub trace_header: Option<String>,
}

impl HandOff {
    /// Attaches this document as an attribute next to the producer's, or as a last resort in the trace header.
    #[must_use]
    pub fn attach_to(
        &self,
        producer: &Attributes,
        body_bytes: usize,
        trace_header: Option<&str>,
    ) -> AttachedDocument {
        attach_document(&self.to_wire(), producer, body_bytes, trace_header)
    }

    fn to_wire(&self) -> Wire<'_> {
        let Self { error, classification, delivery, outage, unknown } = self;
        Wire {
            held_since: outage.map(|outage| WireTime::At(outage.since)),
            outage_failures: outage.map(|outage| outage.first_failures),
            ..build_wire(error, Some(classification), delivery, unknown)
        }
    }
}

impl Hop {
    /// Same as [`HandOff::attach_to`].
    #[must_use]
    pub fn attach_to(
        &self,
        producer: &Attributes,
        body_bytes: usize,
        trace_header: Option<&str>,
    ) -> AttachedDocument {
        let wire = Wire { due_at: Some(WireTime::At(self.due_at)), ..self.hand_off.to_wire() };
        attach_document(&wire, producer, body_bytes, trace_header)
    }
}

impl Verdict {
    /// Same as [`HandOff::attach_to`].
    #[must_use]
    pub fn attach_to(
        &self,
        producer: &Attributes,
        body_bytes: usize,
        trace_header: Option<&str>,
    ) -> AttachedDocument {
        attach_document(&self.to_wire(), producer, body_bytes, trace_header)
    }

    /// Adds this document to the trace header, for a final record whose annotation does not fit.
    #[must_use]
    pub fn add_to_trace_header(&self, trace_header: Option<&str>) -> String {
        trace_header_with_document(&self.to_wire(), trace_header)
    }

    fn to_wire(&self) -> Wire<'_> {
        let verdict = Some(self.code.clone());
        let Some(VerdictDetails { stage, explanation, failure }) = &self.case else {
            return Wire { verdict, ..Wire::default() };
        };
        let Failure { error, classification, delivery, attempts, unknown } = failure;
        Wire {
            verdict,
            stage: stage.clone(),
            explanation: non_empty(explanation),
            attempts: *attempts,
            ..build_wire(error, classification.as_ref(), delivery, unknown)
        }
    }
}

fn build_wire<'a>(
    LastError { error_type, details, function }: &'a LastError,
    classification: Option<&'a Classification>,
    delivery: &'a Delivery,
    unknown: &'a UnknownMembers,
) -> Wire<'a> {
    let Delivery {
        failed_at,
        source_message_id,
        source_queue_arn,
        sent_at,
        came_back,
        origin,
        last_attempt,
        last_attempt_logs,
    } = delivery;
    Wire {
        error_type: non_empty(error_type),
        details: non_empty(details),
        function: function.as_deref().map(Cow::Borrowed),
        kind: classification.map(|classification| classification.kind.clone()),
        retry_after_seconds: classification.and_then(|classification| classification.retry_after_seconds),
        failed_at: Some(WireTime::At(*failed_at)),
        source_message_id: Some(source_message_id.into()),
        source_queue_arn: Some(source_queue_arn.into()),
        first_sent_time: Some(WireTime::At(*sent_at)),
        new_generation: came_back.map(|_| true),
        generation_before: came_back.and_then(|DlqReturn { generation_before, .. }| generation_before),
        from_producer: (*origin == Origin::Producer).then_some(true),
        last_attempt: *last_attempt,
        last_attempt_logs: last_attempt_logs.as_ref().map(Cow::Borrowed),
        unknown: Cow::Borrowed(unknown),
        ..Wire::default()
    }
}

/// Groups of members that can be dropped after the texts. The receiver restores some of the members from the message
/// itself.
#[derive(Clone, Copy, Debug)]
enum DroppableMembers {
    /// Members from later versions, and members that only people or other messages use.
    UnknownFunctionAndLastAttempt,
    StageAndSourceQueue,
    /// Unnecessary in a verdict, since the decision has been made.
    VerdictClassification,
    FailedAt,
    /// A plain message's id may be derived from this id.
    SourceMessageId,
    /// A message's age may be derived from this time.
    FirstSentTime,
}

/// The order in which members are dropped: the least important come first.
const DROP_ORDER: [DroppableMembers; 6] = [
    DroppableMembers::UnknownFunctionAndLastAttempt,
    DroppableMembers::StageAndSourceQueue,
    DroppableMembers::VerdictClassification,
    DroppableMembers::FailedAt,
    DroppableMembers::SourceMessageId,
    DroppableMembers::FirstSentTime,
];

fn non_empty(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(text.into())
}

/// Always attaches the document: without it, the receiver would repeat the call.
fn attach_document(
    wire: &Wire<'_>,
    producer: &Attributes,
    body_bytes: usize,
    trace_header: Option<&str>,
) -> AttachedDocument {
    let Some(attributes) = add_as_attribute(wire, producer, body_bytes) else {
        let trace_header = Some(trace_header_with_document(wire, trace_header));
        return AttachedDocument { attributes: producer.clone(), trace_header };
    };
    AttachedDocument { attributes, trace_header: trace_header.map(str::to_owned) }
}

/// Adds the document to the attributes; `None` if not even [`Wire::to_minimal`] fits, or if there are ten attributes
/// and none can be folded.
fn add_as_attribute(wire: &Wire<'_>, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
    let Folding { kept: mut attributes, folded } = fold_attributes(producer, &[], ATTRIBUTES_MAX - 1)?;
    let folding = if folded.is_empty() { 0 } else { folding_bytes(&folded) };
    let wire = if folded.is_empty() { wire.clone() } else { wire.with_folded(&folded) };
    let left = MESSAGE_BYTES_MAX.checked_sub(body_bytes + attributes_size(&attributes))?;
    let has_room = |bytes: usize| FAILURE.len() + "String".len() + bytes <= left;
    let document = wire.largest_fitting(FAILURE_BYTES_MAX + folding, has_room)?;
    attributes.insert(FAILURE.to_owned(), Attribute::string(document));
    Some(attributes)
}

/// Returns the number of bytes that folded attributes add to a document.
fn folding_bytes(folded: &FoldedAttributes) -> usize {
    let only = Wire { folded_attributes: Some(Cow::Borrowed(folded)), ..Wire::default() };
    only.to_json().len() - "{}".len()
}

impl<'a> Wire<'a> {
    /// Adds folded attributes. Receivers unfold only hops and verdicts, so a hand-off with folded attributes gets a due
    /// time that every receiver ignores.
    fn with_folded(&self, folded: &'a FoldedAttributes) -> Self {
        let is_hand_off = self.verdict.is_none() && self.due_at.is_none();
        let due_at = if is_hand_off { Some(WireTime::At(NEVER)) } else { self.due_at };
        Self { due_at, folded_attributes: Some(Cow::Borrowed(folded)), ..self.clone() }
    }

    /// Builds the largest document that fits. Texts are for people and are dropped first, since a member from a later
    /// version may be part of the message's state, such as the start of an outage. The log lines get the remaining
    /// bytes, even beyond `bytes_max`. `None` if not even [`Wire::to_minimal`] fits.
    pub(super) fn largest_fitting(
        &self,
        bytes_max: usize,
        has_room: impl Fn(usize) -> bool,
    ) -> Option<String> {
        let fits = |json: &str| json.len() <= bytes_max && has_room(json.len());
        let document = self.largest_without_logs(fits)?;
        Some(match &self.last_attempt_logs {
            Some(logs) => logs.append_to(document, has_room),
            None => document,
        })
    }

    fn largest_without_logs(&self, fits: impl Fn(&str) -> bool) -> Option<String> {
        let cut = |wire: &Self| {
            let written = |bytes| wire.with_short_texts(bytes).to_json();
            truncate::largest_fitting(FAILURE_BYTES_MAX, written, |json: &String| fits(json))
        };
        let mut wire = self.clone();
        for members in DROP_ORDER {
            if let Some(document) = cut(&wire) {
                return Some(document);
            }
            wire.drop_members(members);
        }
        cut(&wire)
    }

    /// Returns the document without any members that can be dropped. It keeps the code, or the classification with its
    /// delay, and the error type, the generation, the attempts and the folded attributes.
    pub(super) fn to_minimal(&self) -> Self {
        let mut wire = self.with_short_texts(0);
        DROP_ORDER.into_iter().for_each(|members| wire.drop_members(members));
        wire
    }

    fn drop_members(&mut self, members: DroppableMembers) {
        match members {
            DroppableMembers::UnknownFunctionAndLastAttempt => {
                self.unknown = Cow::default();
                self.function = None;
                self.last_attempt = None;
                self.held_since = None;
                self.outage_failures = None;
            }
            DroppableMembers::StageAndSourceQueue => {
                self.stage = None;
                self.source_queue_arn = None;
            }
            DroppableMembers::VerdictClassification if self.verdict.is_some() => {
                self.kind = None;
                self.retry_after_seconds = None;
            }
            DroppableMembers::VerdictClassification => {}
            DroppableMembers::FailedAt => self.failed_at = None,
            DroppableMembers::SourceMessageId => self.source_message_id = None,
            DroppableMembers::FirstSentTime => self.first_sent_time = None,
        }
    }

    /// Cuts `details` and `explanation` to `bytes` each. Escaping in JSON may double each byte.
    fn with_short_texts(&self, bytes: usize) -> Self {
        let cut = |text: &Option<Cow<'a, str>>, bytes| {
            let cut = truncate::clean_text(text.as_deref()?, bytes);
            (!cut.is_empty()).then_some(Cow::Owned(cut))
        };
        Self {
            error_type: cut(&self.error_type, truncate::ERROR_TYPE_BYTES_MAX),
            function: cut(&self.function, truncate::FUNCTION_BYTES_MAX),
            details: cut(&self.details, bytes),
            explanation: cut(&self.explanation, bytes.min(FAILURE_BYTES_MAX / 4)),
            ..self.clone()
        }
    }
}

/// Our field, always the last one. Its value is base64-encoded, since JSON contains characters that end a field.
const FIELD: &str = ";Redeliver=";
/// The header before our field if the producer set no header: a null trace id, which tracers ignore.
const UNTRACED_HEADER: &str = "Root=1-00000000-000000000000000000000000;Sampled=0";
/// The lowest limit that AWS documents for this header ("StartExecution", AWS Step Functions API Reference). SQS
/// documents no limit.
const HEADER_BYTES_MAX: usize = 256;

/// Appends as much of the document as fits, at least [`Wire::to_minimal`], to the producer's trace header.
pub(super) fn trace_header_with_document(wire: &Wire<'_>, producer_part: Option<&str>) -> String {
    let producer_part = producer_part.unwrap_or(UNTRACED_HEADER);
    let left = HEADER_BYTES_MAX.saturating_sub(producer_part.len() + FIELD.len());
    let has_room = |bytes: usize| bytes.div_ceil(3) * 4 <= left;
    let document =
        wire.largest_fitting(FAILURE_BYTES_MAX, has_room).unwrap_or_else(|| wire.to_minimal().to_json());
    format!("{producer_part}{FIELD}{}", BASE64.encode(document))
}

/// A trace header, split into the producer's part and our field.
pub(crate) struct SplitTraceHeader {
    /// The producer's trace header.
    pub(crate) producer_part: Option<String>,
    pub(crate) failure: Option<RawFailure>,
}

pub(crate) fn split_trace_header(header: Option<String>) -> SplitTraceHeader {
    let Some((before, failure)) = header.as_deref().and_then(split_field) else {
        return SplitTraceHeader { producer_part: header, failure: None };
    };
    // The producer may have written the same field. Only the last one is ours, and the others are dropped.
    let mut producer_part = before;
    while let Some((before, _)) = split_field(producer_part) {
        producer_part = before;
    }
    let producer_part = (producer_part != UNTRACED_HEADER).then(|| producer_part.to_owned());
    SplitTraceHeader { producer_part, failure: Some(failure) }
}

/// Returns the part before our field, and the document in the field.
fn split_field(header: &str) -> Option<(&str, RawFailure)> {
    let (before, value) = header.rsplit_once(FIELD).filter(|(before, _)| !before.is_empty())?;
    let text = String::from_utf8(BASE64.decode(value).ok()?).ok()?;
    Some((before, RawFailure::from_text(&text)?))
}
