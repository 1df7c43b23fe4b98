//! A document as it is read: what it does not say is filled in from the record that brought it.

use std::borrow::Cow;

use super::wire::{Time, Wire};
use super::{Answer, CameBack, Case, Delivery, Document, Failure, HandOff, Hop, Kind, LastError, Verdict};
use crate::message::folding::FoldedAttributes;
use crate::message::origin::Origin;
use crate::message::{Attribute, ReceivedMessage, Timestamp};

/// One of our documents, not yet a [`Document`].
pub(crate) struct RawFailure(Wire<'static>);

impl RawFailure {
    /// `None` if it is none of ours.
    pub(crate) fn attribute(attribute: &Attribute) -> Option<Self> {
        Self::text(attribute.text()?)
    }

    pub(super) fn text(text: &str) -> Option<Self> {
        Wire::read(text).map(Self)
    }

    /// The producer's attributes that found no place. What neither a verdict nor a due time stands beside somebody has
    /// made up.
    pub(crate) fn take_folded(&mut self) -> FoldedAttributes {
        let Self(wire) = self;
        let folds = wire.verdict.is_some() || wire.due_at.is_some();
        let folded = wire.folded_attributes.take().filter(|_| folds);
        folded.map(Cow::into_owned).unwrap_or_default()
    }

    pub(crate) fn document(self, record: &ReceivedMessage, now: Timestamp) -> Document {
        let Self(mut wire) = self;
        match (wire.verdict.take(), moment(wire.due_at)) {
            (Some(code), _) => Document::Verdict(Verdict { code, case: wire.case(record, now) }),
            (None, Some(due_at)) => Document::Hop(Hop { hand_off: wire.hand_off(record, now), due_at }),
            (None, None) => Document::HandOff(wire.hand_off(record, now)),
        }
    }
}

impl Wire<'static> {
    fn hand_off(self, record: &ReceivedMessage, now: Timestamp) -> HandOff {
        let Failure { error, answer, delivery, unknown, .. } = self.failure(record, now);
        HandOff { error, answer: answer.unwrap_or_else(|| Answer::just(Kind::Transient)), delivery, unknown }
    }

    /// `None` if only the code had room. A later version may leave out any member, so one that is there is enough.
    fn case(mut self, record: &ReceivedMessage, now: Timestamp) -> Option<Case> {
        let unknown = self.unknown.clone();
        if self == (Wire { unknown, ..Wire::default() }) {
            return None;
        }
        let stage = self.stage.take();
        let explanation = owned(self.explanation.take());
        Some(Case { stage, explanation, failure: self.failure(record, now) })
    }

    fn failure(self, record: &ReceivedMessage, now: Timestamp) -> Failure {
        let retry_after_seconds = self.retry_after_seconds;
        Failure {
            error: LastError { error_type: owned(self.error_type), details: owned(self.details) },
            answer: self.kind.map(|kind| Answer { kind, retry_after_seconds }),
            delivery: Delivery {
                // All copies and all receives of it must say the same, since delays are counted from it.
                failed_at: moment(self.failed_at).or(record.first_received_at).unwrap_or(now),
                source_message_id: text_or(self.source_message_id, &record.sqs_message_id),
                source_queue_arn: text_or(self.source_queue_arn, &record.queue_arn),
                sent_at: moment(self.first_sent_time).unwrap_or(record.sent_at),
                came_back: (self.new_generation == Some(true))
                    .then_some(CameBack { generation_before: self.generation_before }),
                // What does not say so is of an older version, or its origin was not known.
                origin: if self.from_producer == Some(true) { Origin::Producer } else { Origin::Unknown },
            },
            attempts: self.attempts,
            unknown: self.unknown.into_owned(),
        }
    }
}

fn owned(text: Option<Cow<'static, str>>) -> String {
    text.map(Cow::into_owned).unwrap_or_default()
}

fn text_or(text: Option<Cow<'static, str>>, unsaid: &str) -> String {
    text.map_or_else(|| unsaid.to_owned(), Cow::into_owned)
}

fn moment(time: Option<Time>) -> Option<Timestamp> {
    match time? {
        Time::At(moment) => Some(moment),
        Time::Unreadable => None,
    }
}
