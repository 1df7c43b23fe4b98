//! Records with a valid message, and how a failed message becomes a re-send, a hop or a verdict.

use std::ops::Range;

use crate::arrival::Arrival;
use crate::deliver::PendingSend;
use crate::failure::{Delivery, Failure, HandOff, Stage, metadata_in_current_generation};
use crate::handler::Message;
use crate::message::BodyForm;
use crate::message::envelope::splice_metadata;
use crate::message::metadata::{Metadata, RetryMetadata};
use crate::message::outage::Outage;
use crate::message::plain::PlainMessage;
use crate::message::reason::GiveUp;
use crate::message::schema::{InvalidMessage, MessageSchema, ParsedMessage, RewrittenPart};
use crate::message::{Receipt, ReceivedMessage, Timestamp, attributes_size};
use crate::span_context::SpanContext;

/// A record with a valid message, ready to be passed to the target, re-sent or given up on.
#[derive(Debug)]
#[must_use = "the record is received again unless it is confirmed or sent on"]
pub struct AcceptedMessage {
    arrival: Arrival,
    metadata: Metadata,
    form: BodyForm,
    /// The location of the message's metadata: the body or the attributes.
    place: MetadataPlace,
}

#[derive(Debug)]
enum MetadataPlace {
    /// The range between the braces of the body's `metadata` object.
    Envelope(Range<usize>),
    Plain(Box<PlainMessage>),
}

/// An outage of the target, as reported by a held message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedOutage {
    pub outage: Outage,
    /// Time at which the message was sent.
    pub reported_at: Timestamp,
}

/// A message with new metadata, and its size.
#[derive(Debug)]
pub(crate) struct ResizedMessage {
    pub(crate) rewritten: RewrittenPart,
    /// Size in bytes, as counted by SQS.
    pub(crate) bytes: usize,
}

/// A record with an invalid message, and the reason why it is invalid.
#[derive(Debug)]
#[must_use = "the record is received again unless it is given up on"]
pub struct RefusedMessage {
    pub arrival: Arrival,
    pub invalid: InvalidMessage,
}

/// A failed message, before it is re-sent, hops or gets a verdict.
#[derive(Debug)]
#[must_use = "the record is received again unless it is sent on"]
pub struct FailedMessage {
    pub accepted: AcceptedMessage,
    pub hand_off: HandOff,
    /// Due time of the retry, if the message has hopped.
    pub due_at: Option<Timestamp>,
    /// The function that decides what happens to the message.
    pub stage: Stage,
    /// redeliver's name for the error, or `FromTarget`; `None` if an event has already reported it.
    pub error_type: Option<String>,
    /// The span of the message's call, or of the decision on the message, if spans are recorded.
    pub span: Option<SpanContext>,
}

impl Arrival {
    /// Validates the message. `failed` is the failed delivery, if the message was handed off.
    ///
    /// # Errors
    /// Returns the refused message if it is invalid.
    pub fn accept(
        self,
        schema: &MessageSchema,
        failed: Option<&Delivery>,
    ) -> Result<AcceptedMessage, Box<RefusedMessage>> {
        let ReceivedMessage { body, attributes, sqs_message_id, .. } = &self.record;
        let first_id = failed.map_or(sqs_message_id, |failed| &failed.source_message_id);
        let came_back = failed.map_or(self.came_back, |failed| failed.came_back);
        let (metadata, form, place) = match schema.read_message(body, attributes, first_id) {
            Ok(ParsedMessage::Envelope(envelope)) => {
                let (metadata, inside) = envelope.into_metadata();
                (metadata, BodyForm::Envelope, MetadataPlace::Envelope(inside))
            }
            Ok(ParsedMessage::Plain(plain)) => {
                (plain.metadata().clone(), plain.form(), MetadataPlace::Plain(Box::new(plain)))
            }
            Err(invalid) => return Err(Box::new(RefusedMessage { arrival: self, invalid })),
        };
        Ok(AcceptedMessage {
            metadata: metadata_in_current_generation(metadata, came_back),
            arrival: self,
            form,
            place,
        })
    }
}

impl AcceptedMessage {
    /// Returns the record, with only the producer's attributes.
    #[must_use]
    pub fn record(&self) -> &ReceivedMessage {
        &self.arrival.record
    }

    /// Returns the metadata in its current generation: reset if the message has just been sent back from the final DLQ.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the message as passed to a handler.
    #[must_use]
    pub fn message(&self, retry_attempt: u32) -> Message<'_> {
        let ReceivedMessage { body, attributes, .. } = self.record();
        Message {
            body,
            message_id: &self.metadata.message_id_text,
            form: &self.form,
            retry_attempt,
            redrive_generation: self.metadata.generation(),
            held_seconds: self.held_seconds(),
            attributes: match &self.place {
                MetadataPlace::Envelope(_) => attributes,
                MetadataPlace::Plain(plain) => &plain.attributes,
            },
        }
    }

    /// Returns the delivery of this record, for a failure at `failed_at`.
    #[must_use]
    pub fn failed_delivery(&self, failed_at: Timestamp) -> Delivery {
        self.arrival.delivery(failed_at)
    }

    /// Returns the time of the first send; see [`Metadata::first_sent`].
    #[must_use]
    pub fn first_sent(&self) -> Timestamp {
        self.metadata.first_sent(self.record().sent_at)
    }

    /// Returns the number of seconds for which the message was held, or 0 if a producer wrote the count.
    #[must_use]
    pub fn held_seconds(&self) -> u32 {
        self.metadata.holds.trusted_seconds(self.arrival.origin)
    }

    /// Returns the outage during which the message was held, if redeliver sent the message.
    #[must_use]
    pub fn reported_outage(&self) -> Option<ReportedOutage> {
        let reported_at = self.record().sent_at;
        let outage = self.metadata.holds.trusted_outage(self.arrival.origin, reported_at)?;
        Some(ReportedOutage { outage, reported_at })
    }

    /// Converts the record to its receipt, once the target has processed the message.
    pub fn into_receipt(self) -> Receipt {
        self.arrival.record.into_receipt()
    }

    /// Returns the record as received.
    pub fn into_arrival(self) -> Arrival {
        self.arrival
    }

    /// Returns the record to hand off to the intermediate DLQ. An id is added if the message needs one and it fits.
    pub fn with_id(self) -> Arrival {
        match &self.place {
            MetadataPlace::Plain(plain) => {
                let attributes = plain.with_id();
                self.arrival.with_attributes(attributes)
            }
            MetadataPlace::Envelope(_) => self.arrival,
        }
    }

    /// Returns the message with new metadata, or `None` if the metadata does not fit in the attributes.
    pub(crate) fn with_retry_metadata(&self, retry: &RetryMetadata) -> Option<ResizedMessage> {
        let ReceivedMessage { body, attributes, .. } = self.record();
        match &self.place {
            MetadataPlace::Envelope(inside) => {
                let body = splice_metadata(body, inside, retry.json_members());
                let bytes = body.len() + attributes_size(attributes);
                Some(ResizedMessage { rewritten: RewrittenPart::Body(body), bytes })
            }
            MetadataPlace::Plain(plain) => {
                let attributes = plain.with_retry_metadata(retry)?;
                let bytes = body.len() + attributes_size(&attributes);
                Some(ResizedMessage { rewritten: RewrittenPart::Attributes(attributes), bytes })
            }
        }
    }
}

impl RefusedMessage {
    /// Creates a verdict for the annotation queue. `hand_off` is the failure that arrived with the message, if any.
    pub fn give_up(self, stage: Stage, hand_off: Option<HandOff>, now: Timestamp) -> PendingSend {
        let Self { arrival, invalid } = self;
        let reason = invalid.reason();
        let failure = match hand_off {
            Some(hand_off) => Failure::from(hand_off).into_invalid_message_failure(reason, &invalid),
            None => Failure::for_invalid_message(reason, &invalid, arrival.delivery(now)),
        };
        arrival.give_up(None, stage, failure, reason.into())
    }
}

impl FailedMessage {
    /// Creates a verdict for the annotation queue. `attempts` is the number of retries made, or `None` if the body
    /// contains it.
    pub fn give_up(self, attempts: Option<u32>, give_up: GiveUp) -> PendingSend {
        let Self { accepted, hand_off, stage, span, .. } = self;
        let AcceptedMessage { arrival, metadata, place, .. } = accepted;
        let arrival = match place {
            MetadataPlace::Plain(plain) => arrival.with_attributes(plain.with_id_if_sendable()),
            MetadataPlace::Envelope(_) => arrival,
        };
        let failure = Failure { attempts, ..hand_off.into() };
        arrival.give_up(Some(metadata.message_id_text), stage, failure, give_up).with_span(span)
    }

    /// Returns the unchanged message for the intermediate DLQ, with the longest `DelaySeconds`.
    pub(crate) fn into_hop(self, due_at: Timestamp) -> PendingSend {
        self.accepted.into_arrival().into_hop(self.hand_off, due_at).with_span(self.span)
    }
}
