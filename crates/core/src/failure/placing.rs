//! A document among a producer's attributes: its texts cut to the room that is left, and attributes folded if there are
//! ten.

use std::borrow::Cow;

use super::wire::{Time, Wire};
use super::{Answer, CameBack, Case, Delivery, Failure, HandOff, Hop, LastError, Verdict};
use crate::folding::{FoldedAttributes, fold};
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::{Attribute, Attributes, attributes_size};
use crate::origin::Origin;
use crate::reserved::FAILURE;
use crate::text;
use crate::tolerant::Unknown;

/// Bytes of the document before folding.
pub const FAILURE_BYTES_MAX: usize = 1024;

impl HandOff {
    /// The producer's attributes and this document; `None` if it has no place: ten attributes, or not even its bare
    /// bones within the size limit.
    #[must_use]
    pub fn attached(&self, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
        if producer.len() >= ATTRIBUTES_MAX {
            return None;
        }
        fitted(&self.wire(), producer.clone(), body_bytes)
    }

    fn wire(&self) -> Wire<'_> {
        let Self { error, answer, delivery, unknown } = self;
        wire(error, Some(answer), delivery, unknown)
    }
}

impl Hop {
    /// The producer's attributes and this document, with some of them folded if there are ten; `None` if even that is
    /// too large, or none of the ten can be folded.
    #[must_use]
    pub fn attached_or_folded(&self, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
        let wire = Wire { due_at: Some(Time::At(self.due_at)), ..self.hand_off.wire() };
        folded(wire, producer, body_bytes)
    }
}

impl Verdict {
    /// The producer's attributes and this document, with some of them folded if there are ten. It must not fail: if
    /// that has no room only the code is kept, and at last only the producer's attributes.
    #[must_use]
    pub fn attached_at_any_price(&self, producer: &Attributes, body_bytes: usize) -> Attributes {
        let bare = || Wire { verdict: Some(self.code.clone()), ..Wire::default() };
        folded(self.wire(), producer, body_bytes)
            .or_else(|| folded(bare(), producer, body_bytes))
            .unwrap_or_else(|| producer.clone())
    }

    fn wire(&self) -> Wire<'_> {
        let verdict = Some(self.code.clone());
        let Some(Case { stage, explanation, failure }) = &self.case else {
            return Wire { verdict, ..Wire::default() };
        };
        let Failure { error, answer, delivery, attempts, unknown } = failure;
        Wire {
            verdict,
            stage: stage.clone(),
            explanation: said(explanation),
            attempts: *attempts,
            ..wire(error, answer.as_ref(), delivery, unknown)
        }
    }
}

fn wire<'a>(
    LastError { error_type, details }: &'a LastError,
    answer: Option<&'a Answer>,
    delivery: &'a Delivery,
    unknown: &'a Unknown,
) -> Wire<'a> {
    let Delivery { failed_at, source_message_id, source_queue_arn, sent_at, came_back, origin } = delivery;
    Wire {
        error_type: said(error_type),
        details: said(details),
        kind: answer.map(|answer| answer.kind.clone()),
        retry_after_seconds: answer.and_then(|answer| answer.retry_after_seconds),
        failed_at: Some(Time::At(*failed_at)),
        source_message_id: Some(source_message_id.into()),
        source_queue_arn: Some(source_queue_arn.into()),
        first_sent_time: Some(Time::At(*sent_at)),
        new_generation: came_back.map(|_| true),
        generation_before: came_back.and_then(|CameBack { generation_before }| generation_before),
        from_producer: (*origin == Origin::Producer).then_some(true),
        unknown: Cow::Borrowed(unknown),
        ..Wire::default()
    }
}

fn said(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(text.into())
}

fn folded(wire: Wire<'_>, producer: &Attributes, body_bytes: usize) -> Option<Attributes> {
    let (kept, folded) = fold(producer, &[], ATTRIBUTES_MAX - 1)?;
    let folded_attributes = (!folded.is_empty()).then_some(Cow::Borrowed(&folded));
    fitted(&Wire { folded_attributes, ..wire }, kept, body_bytes)
}

/// What stays whole is the delivery, the code and what is folded.
fn fitted(wire: &Wire<'_>, mut attributes: Attributes, body_bytes: usize) -> Option<Attributes> {
    let left = MESSAGE_BYTES_MAX.checked_sub(body_bytes + attributes_size(&attributes))?;
    let folding = wire.folded_attributes.as_deref().map_or(0, folding_bytes);
    let fits = |document: &Attribute| {
        document.size(FAILURE) <= left
            && document.text().is_some_and(|json| json.len() <= FAILURE_BYTES_MAX + folding)
    };
    let written = |wire: &Wire<'_>| {
        let cut = |bytes| Attribute::string(wire.cut(bytes).json());
        text::largest_fitting(FAILURE_BYTES_MAX, cut, fits)
    };
    // The texts are for people and give way first, down to nothing: what a later version wrote may be the message's
    // state, such as since when its target is down.
    let document = written(wire).or_else(|| written(&Wire { unknown: Cow::default(), ..wire.clone() }))?;
    attributes.insert(FAILURE.to_owned(), document);
    Some(attributes)
}

/// What folded attributes add to a document.
fn folding_bytes(folded: &FoldedAttributes) -> usize {
    let only = Wire { folded_attributes: Some(Cow::Borrowed(folded)), ..Wire::default() };
    only.json().len() - "{}".len()
}

impl<'a> Wire<'a> {
    /// With its texts in so many bytes at most. JSON may double each byte of `details` and `explanation`, so both give
    /// way.
    fn cut(&self, bytes: usize) -> Self {
        let cut = |text: &Option<Cow<'a, str>>, bytes| {
            let cut = text::clean(text.as_deref()?, bytes);
            (!cut.is_empty()).then_some(Cow::Owned(cut))
        };
        Self {
            error_type: cut(&self.error_type, text::ERROR_TYPE_BYTES_MAX),
            details: cut(&self.details, bytes),
            explanation: cut(&self.explanation, bytes.min(FAILURE_BYTES_MAX / 4)),
            ..self.clone()
        }
    }
}
