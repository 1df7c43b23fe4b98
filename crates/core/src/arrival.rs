//! A record as it arrives, and the ways on: the producer's attributes taken from ours, and the message sent on in one
//! piece.

use crate::deliver::Outgoing;
use crate::events::Event;
use crate::failure::annotation::{Annotation, DeadLetter, annotate};
use crate::failure::reason::GiveUp;
use crate::failure::{
    CameBack, Case, Delivery, Document, Failure, HandOff, Hop, LastError, Placed, RawFailure, Stage, Verdict,
    taken_from_trace_header,
};
use crate::limits::DelaySeconds;
use crate::message::folding::unfold;
use crate::message::origin::{Origin, Resenders};
use crate::message::reserved::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE, FAILURE};
use crate::message::schema::Rewritten;
use crate::message::{Attributes, Content, Receipt, ReceivedMessage, Timestamp};

/// A message that was received, without our attributes and our field of the trace header, and what they say.
///
/// On an inner queue, where only the functions send, a `Failure` counts on a message that did not come by redrive. One
/// that did still has the attributes that its producer gave it, and so a forged one. On the source queue none counts.
#[derive(Debug, PartialEq)]
#[must_use = "its record is received again unless it is confirmed or sent on"]
pub struct Arrival {
    /// As it came, except that its attributes are the producer's, whole again, and its trace header.
    pub record: ReceivedMessage,
    /// It came back from the final DLQ: it still had a `DeadLetter`.
    pub came_back: Option<CameBack>,
    /// Who sent it to the source queue, as far as SQS says so.
    pub origin: Origin,
    document: Option<Document>,
}

impl Arrival {
    /// Takes our attributes from the producer's, and reads what they say.
    pub fn open(record: ReceivedMessage, now: Timestamp) -> Self {
        let (attributes, came_back, attached) = taken_apart(record.attributes);
        let (trace_header, in_trace_header) = taken_from_trace_header(record.trace_header);
        let record = ReceivedMessage { attributes, trace_header, ..record };
        let document = attached.or(in_trace_header).map(|failure| failure.document(&record, now));
        Self { record, came_back, origin: Origin::default(), document }
    }

    /// Sets who sent the message to the source queue.
    pub fn sent_by_one_of(self, resenders: &Resenders) -> Self {
        let origin = resenders.origin_of(self.record.sender_id.as_deref());
        Self { origin, ..self }
    }

    /// What its `Failure` says, believed or not.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.document.as_ref()
    }

    /// The delivery that it came with, should it fail.
    #[must_use]
    pub fn delivery(&self, failed_at: Timestamp) -> Delivery {
        Delivery::of(&self.record, self.came_back, self.origin, failed_at)
    }

    /// Takes the failure of a message received from the intermediate DLQ, and when its retry is due if it has hopped.
    #[must_use]
    pub fn take_hand_off(&mut self, now: Timestamp) -> (HandOff, Option<Timestamp>) {
        let document = self.document.take();
        let (record, came_back, origin) = (&self.record, self.came_back, self.origin);
        let Some(queue) = &record.redriven_from else {
            let (mut hand_off, due_at) = document.and_then(Document::into_hand_off).unwrap_or_else(|| {
                let details = "the message has no readable Failure attribute";
                (HandOff::unexplained(details, Delivery::of(record, came_back, origin, now)), None)
            });
            hand_off.delivery.came_back = hand_off.delivery.came_back.max(came_back);
            return (hand_off, due_at);
        };
        let details = "SQS moved the message: the function crashed, timed out, ran out of memory, was throttled, or could not send it on";
        // All copies and all receives of it must say the same, since delays are counted from it.
        let failed_at = record.first_received_at.unwrap_or(now);
        let delivery = Delivery {
            source_queue_arn: queue.clone(),
            ..Delivery::of(record, came_back, origin, failed_at)
        };
        (HandOff::unanswered(details, delivery), None)
    }

    /// Takes the verdict on a message received from the annotation queue.
    ///
    /// # Errors
    /// It has none that is believed. The last error of what it has may be right all the same.
    pub fn take_verdict(&mut self) -> Result<Verdict, Option<LastError>> {
        let is_believed = self.believed().is_some();
        match self.document.take() {
            Some(Document::Verdict(verdict)) if is_believed => Ok(verdict),
            document => Err(document.and_then(Document::into_error)),
        }
    }

    /// Whether the message came back from the final DLQ before it failed, by what it says itself or by its `Failure`:
    /// for who receives it from an inner queue.
    #[must_use]
    pub fn came_back_before_it_failed(&self) -> Option<CameBack> {
        let delivery = self.believed().and_then(Document::delivery);
        self.came_back.max(delivery.and_then(|delivery| delivery.came_back))
    }

    fn believed(&self) -> Option<&Document> {
        self.document.as_ref().filter(|_| self.record.redriven_from.is_none())
    }

    /// The message with its new metadata.
    pub fn rewritten(self, rewritten: Rewritten) -> Self {
        match rewritten {
            Rewritten::Body(body) => Self { record: ReceivedMessage { body, ..self.record }, ..self },
            Rewritten::Attributes(attributes) => self.named(Some(attributes)),
        }
    }

    /// The message with its id beside it, if there is such a form of its attributes.
    pub fn named(self, named: Option<Attributes>) -> Self {
        match named {
            Some(attributes) => Self { record: ReceivedMessage { attributes, ..self.record }, ..self },
            None => self,
        }
    }

    /// The message with the reason why it failed.
    pub fn handed_off(self, hand_off: &HandOff) -> Self {
        self.carrying(|producer, body_bytes, trace_header| {
            hand_off.placed(producer, body_bytes, trace_header)
        })
    }

    /// The message with the time when its retry is due.
    pub fn hopping(self, hop: &Hop) -> Self {
        self.carrying(|producer, body_bytes, trace_header| hop.placed(producer, body_bytes, trace_header))
    }

    fn carrying(self, placed: impl FnOnce(&Attributes, usize, Option<&str>) -> Placed) -> Self {
        let ReceivedMessage { attributes, body, trace_header, .. } = &self.record;
        let Placed { attributes, trace_header } = placed(attributes, body.len(), trace_header.as_deref());
        Self { record: ReceivedMessage { attributes, trace_header, ..self.record }, ..self }
    }

    /// The message once more, to another queue or its own; the record is done once that is confirmed, and `confirmed`
    /// says what has happened then.
    pub fn pass_on(self, delay: DelaySeconds, confirmed: impl Into<Option<Event>>) -> Outgoing {
        let ReceivedMessage {
            sqs_message_id,
            receipt_handle,
            body,
            attributes,
            message_group_id,
            trace_header,
            ..
        } = self.record;
        let content = Content { body, attributes, message_group_id, trace_header, delay };
        Outgoing::new(Receipt::new(sqs_message_id, receipt_handle), content, confirmed)
    }

    /// The message, to the annotation queue. `message_id` is for the log.
    pub fn give_up(
        self,
        message_id: Option<String>,
        stage: Stage,
        failure: Failure,
        GiveUp { reason, explanation }: GiveUp,
    ) -> Outgoing {
        let given_up = Event::GivenUp {
            message_id,
            sqs_message_id: self.record.sqs_message_id.clone(),
            error_type: reason.as_str(),
        };
        let case = Some(Case { stage: Some(stage.into()), explanation, failure });
        let verdict = Verdict { code: reason.into(), case };
        self.carrying(|producer, body_bytes, trace_header| verdict.placed(producer, body_bytes, trace_header))
            .pass_on(DelaySeconds::ZERO, given_up)
    }

    /// The message, to the final DLQ, with as much of its annotation as fits. If that is less than `DeadLetter`, the
    /// verdict stays in the trace header.
    pub fn annotated(self, annotation: &Annotation, verdict: &Verdict, dead_lettered: Event) -> Outgoing {
        self.carrying(|producer, body_bytes, trace_header| {
            let attributes = annotate(producer, body_bytes, annotation);
            // A producer's own attribute of that name stays as it was.
            let is_told = attributes.get(DEAD_LETTER) != producer.get(DEAD_LETTER);
            let with_verdict = || Some(verdict.in_trace_header(trace_header));
            let trace_header = if is_told { trace_header.map(str::to_owned) } else { with_verdict() };
            Placed { attributes, trace_header }
        })
        .pass_on(DelaySeconds::ZERO, dead_lettered)
    }
}

/// The producer's trace header of a message, and the verdict that a final record without room for its annotation has
/// there. In a message that SQS moved it is not believed: its producer may have written it.
#[must_use]
pub fn trace_header_and_verdict(record: &ReceivedMessage) -> (Option<String>, Option<Verdict>) {
    let (producers, document) = taken_from_trace_header(record.trace_header.clone());
    let document = document.filter(|_| record.redriven_from.is_none());
    match document.map(|document| document.document(record, record.sent_at)) {
        Some(Document::Verdict(verdict)) => (producers, Some(verdict)),
        _ => (producers, None),
    }
}

/// The producer's attributes of a message, and whether it came back: for who is none of the functions.
#[must_use]
pub fn producers_attributes(attributes: Attributes) -> (Attributes, Option<CameBack>) {
    let (producer, came_back, _) = taken_apart(attributes);
    (producer, came_back)
}

/// `Failure` is reserved, so it is never the producer's. `DeadLetter`, `ErrorType` and `ErrorDetails` are ours only if
/// `DeadLetter` is a document that we can have written.
fn taken_apart(mut attributes: Attributes) -> (Attributes, Option<CameBack>, Option<RawFailure>) {
    let mut failure = attributes.remove(FAILURE).as_ref().and_then(RawFailure::attribute);
    // On every queue: if the annotator could not handle a verdict, SQS took it to the final DLQ as it was.
    let folded = failure.as_mut().map(RawFailure::take_folded).unwrap_or_default();
    // A document that folds what cannot be put back is forged or broken; what stands next to it is the producer's all
    // the same.
    let whole = if folded.is_empty() { None } else { unfold(attributes.clone(), &folded) };
    // Only now that it is whole: so a document of the producer's own is judged with the same attributes on every queue.
    let whole = whole.unwrap_or(attributes);
    match unannotated(&whole) {
        Some((producer, came_back)) => (producer, Some(came_back), failure),
        None => (whole, None, failure),
    }
}

/// The attributes that the annotator found; `None` if it did not write the `DeadLetter`.
fn unannotated(attributes: &Attributes) -> Option<(Attributes, CameBack)> {
    let record = attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute)?;
    let mut others = attributes.clone();
    // Only together with our document: a producer may have its own `ErrorType`, and the annotator folds that into
    // `DeadLetter`.
    others.retain(|name, _| ![DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&name.as_str()));
    let whole = unfold(others, &record.folded_attributes)?;
    // It annotates nothing that has an annotation still.
    let came_back = CameBack { generation_before: record.redrive_generation };
    unannotated(&whole).is_none().then_some((whole, came_back))
}

#[cfg(test)]
mod tests;
