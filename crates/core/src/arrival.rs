//! Opens a received record: separates redeliver's attributes from the producer's, and builds the messages to send.

use crate::deliver::PendingSend;
use crate::events::Event;
use crate::failure::annotation::{Annotation, DeadLetter, annotate_attributes};
use crate::failure::{
    AttachedDocument, Delivery, DlqReturn, Failure, FailureDocument, HandOff, HandedOffFailure, Hop,
    LastError, RawFailure, SplitTraceHeader, Stage, Verdict, VerdictDetails, split_trace_header,
};
use crate::limits::DelaySeconds;
use crate::message::folding::unfold_attributes;
use crate::message::origin::{Origin, Resenders};
use crate::message::reason::GiveUp;
use crate::message::reserved::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE, FAILURE};
use crate::message::schema::RewrittenPart;
use crate::message::{Attributes, Content, Receipt, ReceivedMessage, Timestamp};

/// A received message, stripped of redeliver's attributes and trace-header field, plus their parsed contents.
///
/// On an inner queue, where only the functions send, a `Failure` is trusted, unless SQS moved the message there by
/// redrive: such a message still has its producer's attributes, and these may include a forged `Failure`. On the source
/// queue, a `Failure` is never trusted.
#[derive(Debug, PartialEq)]
#[must_use = "the record is received again unless it is confirmed or sent on"]
pub struct Arrival {
    /// The record as received, but with only the producer's attributes (unfolded) and trace header.
    pub record: ReceivedMessage,
    /// Set if the message was sent back from the final DLQ with a `DeadLetter`.
    pub came_back: Option<DlqReturn>,
    /// The sender of the message to the source queue, as reported by SQS.
    pub origin: Origin,
    document: Option<FailureDocument>,
}

impl Arrival {
    /// Separates redeliver's attributes from the producer's, and parses them.
    pub fn from_record(record: ReceivedMessage, now: Timestamp) -> Self {
        let attributes = separate_attributes(record.attributes);
        let trace_header = split_trace_header(record.trace_header);
        let failure = attributes.failure.or(trace_header.failure);
        let ProducerAttributes { attributes, came_back } = attributes.producers;
        let record = ReceivedMessage { attributes, trace_header: trace_header.producer_part, ..record };
        let document = failure.map(|failure| failure.into_document(&record, now));
        Self { record, came_back, origin: Origin::default(), document }
    }

    /// Determines who sent the message to the source queue.
    pub fn resolve_origin(self, resenders: &Resenders) -> Self {
        let origin = resenders.sender_origin(self.record.sender_id.as_deref());
        Self { origin, ..self }
    }

    /// Returns the document in the message's `Failure`, trusted or not.
    #[must_use]
    pub fn document(&self) -> Option<&FailureDocument> {
        self.document.as_ref()
    }

    /// Returns the delivery of this record, for a failure at `failed_at`.
    #[must_use]
    pub fn delivery(&self, failed_at: Timestamp) -> Delivery {
        Delivery::from_record(&self.record, self.came_back, self.origin, failed_at)
    }

    /// Takes the failure out of a message received from the intermediate DLQ.
    #[must_use]
    pub fn take_hand_off(&mut self, now: Timestamp) -> HandedOffFailure {
        let document = self.document.take();
        let (record, came_back, origin) = (&self.record, self.came_back, self.origin);
        let Some(queue) = &record.redriven_from else {
            let mut handed_off = document.and_then(FailureDocument::into_hand_off).unwrap_or_else(|| {
                let details = "the message has no readable Failure attribute";
                HandOff::for_unknown_cause(details, Delivery::from_record(record, came_back, origin, now))
                    .into()
            });
            let delivery = &mut handed_off.hand_off.delivery;
            delivery.came_back = delivery.came_back.max(came_back);
            return handed_off;
        };
        let details = "SQS moved the message: the function crashed, timed out, ran out of memory, was throttled, or could not send it on";
        // The time must be the same for every copy and every receive, because delays are counted from it.
        let failed_at = record.first_received_at.unwrap_or(now);
        let delivery = Delivery {
            source_queue_arn: queue.clone(),
            ..Delivery::from_record(record, came_back, origin, failed_at)
        };
        HandOff::for_unanswered_receives(details, delivery).into()
    }

    /// Takes the verdict out of a message received from the annotation queue.
    ///
    /// # Errors
    /// Returns an error if the message has no trusted verdict. The error contains the last error of an untrusted
    /// document, which may still be correct.
    pub fn take_verdict(&mut self) -> Result<Verdict, Option<LastError>> {
        let is_believed = self.trusted_document().is_some();
        match self.document.take() {
            Some(FailureDocument::Verdict(verdict)) if is_believed => Ok(verdict),
            document => Err(document.and_then(FailureDocument::into_error)),
        }
    }

    /// Finds the message's last return from the final DLQ before the failure, if any: the later of its own and the one
    /// in its `Failure`. For receivers on an inner queue.
    #[must_use]
    pub fn dlq_return_before_failure(&self) -> Option<DlqReturn> {
        let delivery = self.trusted_document().and_then(FailureDocument::failed_delivery);
        self.came_back.max(delivery.and_then(|delivery| delivery.came_back))
    }

    fn trusted_document(&self) -> Option<&FailureDocument> {
        self.document.as_ref().filter(|_| self.record.redriven_from.is_none())
    }

    /// Returns the message with its new metadata.
    pub fn with_rewrite(self, rewritten: RewrittenPart) -> Self {
        match rewritten {
            RewrittenPart::Body(body) => Self { record: ReceivedMessage { body, ..self.record }, ..self },
            RewrittenPart::Attributes(attributes) => self.with_attributes(Some(attributes)),
        }
    }

    /// Replaces the attributes, which include the message's id. `None` leaves the message unchanged.
    pub fn with_attributes(self, attributes: Option<Attributes>) -> Self {
        match attributes {
            Some(attributes) => Self { record: ReceivedMessage { attributes, ..self.record }, ..self },
            None => self,
        }
    }

    /// Attaches the failure to the message.
    pub fn with_hand_off(self, hand_off: &HandOff) -> Self {
        self.with_attached_document(|producer, body_bytes, trace_header| {
            hand_off.attach_to(producer, body_bytes, trace_header)
        })
    }

    /// Attaches the failure and the due time of the retry to the message.
    pub fn with_hop(self, hop: &Hop) -> Self {
        self.with_attached_document(|producer, body_bytes, trace_header| {
            hop.attach_to(producer, body_bytes, trace_header)
        })
    }

    fn with_attached_document(
        self,
        attach: impl FnOnce(&Attributes, usize, Option<&str>) -> AttachedDocument,
    ) -> Self {
        let ReceivedMessage { attributes, body, trace_header, .. } = &self.record;
        let AttachedDocument { attributes, trace_header } =
            attach(attributes, body.len(), trace_header.as_deref());
        Self { record: ReceivedMessage { attributes, trace_header, ..self.record }, ..self }
    }

    /// Returns the unchanged message for the intermediate DLQ, with the longest `DelaySeconds`.
    pub fn into_hop(self, hand_off: HandOff, due_at: Timestamp) -> PendingSend {
        self.with_hop(&Hop { hand_off, due_at }).pass_on(DelaySeconds::MAX, None)
    }

    /// Converts to a message for another queue, or for the message's own queue again. Once the send is confirmed, the
    /// record is done and `confirmed` is reported.
    pub fn pass_on(self, delay: DelaySeconds, confirmed: impl Into<Option<Event>>) -> PendingSend {
        let ReceivedMessage {
            sqs_message_id,
            receipt_handle,
            body,
            attributes,
            message_group_id,
            trace_header,
            ..
        } = self.record;
        let deduplication_id = None; // the queues are standard queues
        let content = Content { body, attributes, message_group_id, deduplication_id, trace_header, delay };
        PendingSend::new(Receipt::new(sqs_message_id, receipt_handle), content, confirmed)
    }

    /// Attaches a verdict to the message, for the annotation queue. `message_id` is for the log.
    pub fn give_up(
        self,
        message_id: Option<String>,
        stage: Stage,
        failure: Failure,
        GiveUp { reason, explanation }: GiveUp,
    ) -> PendingSend {
        let given_up = Event::GivenUp {
            message_id,
            sqs_message_id: self.record.sqs_message_id.clone(),
            error_type: reason.as_str(),
            request_id: failure.delivery.request_id(),
        };
        let case = Some(VerdictDetails { stage: Some(stage.into()), explanation, failure });
        let verdict = Verdict { code: reason.into(), case };
        self.with_attached_document(|producer, body_bytes, trace_header| {
            verdict.attach_to(producer, body_bytes, trace_header)
        })
        .pass_on(DelaySeconds::ZERO, given_up)
    }

    /// Builds the message for the final DLQ, with as much of its annotation as fits. If `DeadLetter` does not fit, the
    /// verdict is kept in the trace header.
    pub fn into_final_record(
        self,
        annotation: &Annotation,
        verdict: &Verdict,
        dead_lettered: Event,
    ) -> PendingSend {
        self.with_attached_document(|producer, body_bytes, trace_header| {
            let attributes = annotate_attributes(producer, body_bytes, annotation);
            // If the attribute with this name has not changed, it is the producer's own.
            let fits = attributes.get(DEAD_LETTER) != producer.get(DEAD_LETTER);
            let with_verdict = || Some(verdict.add_to_trace_header(trace_header));
            let trace_header = if fits { trace_header.map(str::to_owned) } else { with_verdict() };
            AttachedDocument { attributes, trace_header }
        })
        .pass_on(DelaySeconds::ZERO, dead_lettered)
    }
}

/// Splits a message's trace header into the producer's part and redeliver's verdict, which a final record has if its
/// annotation did not fit. If SQS moved the message, the verdict is not trusted: the producer may have written it.
#[must_use]
pub fn trace_header_and_verdict(record: &ReceivedMessage) -> (Option<String>, Option<Verdict>) {
    let SplitTraceHeader { producer_part, failure } = split_trace_header(record.trace_header.clone());
    let failure = failure.filter(|_| record.redriven_from.is_none());
    match failure.map(|failure| failure.into_document(record, record.sent_at)) {
        Some(FailureDocument::Verdict(verdict)) => (producer_part, Some(verdict)),
        _ => (producer_part, None),
    }
}

/// Returns true if the message carries a document written by redeliver's functions: a `Failure`, a `DeadLetter`, or a
/// document in its trace header. Attributes with these names but other contents do not count.
#[must_use]
pub fn has_document(record: &ReceivedMessage) -> bool {
    let failure = record.attributes.get(FAILURE).and_then(RawFailure::from_attribute);
    failure.is_some_and(|failure| failure.has_function_members())
        || strip_annotation(&record.attributes).is_some()
        || split_trace_header(record.trace_header.clone()).failure.is_some()
}

/// The attributes that the producer set on a message, and the message's return from the final DLQ, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerAttributes {
    pub attributes: Attributes,
    pub came_back: Option<DlqReturn>,
}

/// Separates the producer's attributes. For code outside redeliver's functions.
#[must_use]
pub fn split_producer_attributes(attributes: Attributes) -> ProducerAttributes {
    separate_attributes(attributes).producers
}

struct SeparatedAttributes {
    producers: ProducerAttributes,
    failure: Option<RawFailure>,
}

/// Separates the attributes. `Failure` is reserved, so it never belongs to the producer. `DeadLetter`, `ErrorType` and
/// `ErrorDetails` are ours only if `DeadLetter` parses as one of our documents.
fn separate_attributes(mut attributes: Attributes) -> SeparatedAttributes {
    let mut failure = attributes.remove(FAILURE).as_ref().and_then(RawFailure::from_attribute);
    // Unfolded on every queue: if the annotator cannot process a verdict, SQS moves it to the final DLQ unchanged.
    let folded = failure.as_mut().map(RawFailure::take_folded).unwrap_or_default();
    // If the folded attributes of a document cannot be restored, the document is forged or damaged. The other
    // attributes are still the producer's.
    let unfolded = if folded.is_empty() { None } else { unfold_attributes(attributes.clone(), &folded) };
    // Checked after unfolding, so that a producer's own `DeadLetter` is checked alongside the same attributes on every
    // queue.
    let unfolded = unfolded.unwrap_or(attributes);
    let producers = strip_annotation(&unfolded);
    let producers = producers.unwrap_or(ProducerAttributes { attributes: unfolded, came_back: None });
    SeparatedAttributes { producers, failure }
}

/// Returns the attributes before annotation, or `None` if the annotator did not write the `DeadLetter`.
fn strip_annotation(attributes: &Attributes) -> Option<ProducerAttributes> {
    let record = attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute)?;
    let mut others = attributes.clone();
    // Removed only together with our document: a producer's own `ErrorType` was folded into `DeadLetter`.
    others.retain(|name, _| ![DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&name.as_str()));
    let attributes = unfold_attributes(others, &record.folded_attributes)?;
    // The annotator never annotates a message that is already annotated.
    let is_whole = strip_annotation(&attributes).is_none();
    is_whole.then(|| ProducerAttributes { attributes, came_back: Some(record.dlq_return()) })
}

#[cfg(test)]
mod tests;
