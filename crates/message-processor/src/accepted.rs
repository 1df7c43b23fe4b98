//! A message on its way: read or refused before its call, and what is known of it after that.

use std::mem;

use redeliver_core::arrival::Arrival;
use redeliver_core::decide::GiveUp;
use redeliver_core::deliver::{Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::failure::{CIRCUIT_OPEN, Failure, HandOff, Stage, in_its_generation};
use redeliver_core::handler::{Form, Message};
use redeliver_core::message::metadata::Metadata;
use redeliver_core::message::plain::Plain;
use redeliver_core::message::schema::Parsed;
use redeliver_core::message::{Attributes, ReceivedMessage, Timestamp};

use super::MessageProcessor;
use super::calls::{Call, Outcome};

/// A valid message, and what its answer needs of the record.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) message: Message,
    pub(super) metadata: Metadata,
    /// Without body, which the message has, and the attributes of an envelope.
    pub(super) arrival: Arrival,
    /// If it is a plain message.
    plain: Option<Box<Plain>>,
}

/// A message that was not processed, and why.
pub(super) struct Failed {
    pub(super) accepted: Accepted,
    pub(super) hand_off: HandOff,
    /// Our name of the error, or `FromTarget`.
    pub(super) error_type: String,
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// A message to call the target for, or the verdict on what must not come to it.
    pub(super) fn accept(&self, record: ReceivedMessage, now: Timestamp) -> Result<Accepted, Box<Outgoing>> {
        // A `Failure` on the source queue is its producer's: nobody believes it.
        let arrival = self.of_its_origin(Arrival::open(record, now));
        let ReceivedMessage { body, attributes, sqs_message_id, .. } = &arrival.record;
        let (metadata, plain) = match self.schema.read(body, attributes, sqs_message_id) {
            Ok(Parsed::Envelope(envelope)) => (envelope.metadata, None),
            Ok(Parsed::Plain(plain)) => (plain.metadata().clone(), Some(Box::new(plain))),
            Err(invalid) => {
                let failure = Failure::invalid(invalid.reason(), &invalid, arrival.delivery(now));
                let verdict =
                    arrival.give_up(None, Stage::MessageProcessor, failure, invalid.reason().into());
                return Err(Box::new(verdict));
            }
        };
        self.check_receives(self.accepted(arrival, metadata, plain), now)
    }

    fn accepted(&self, mut arrival: Arrival, metadata: Metadata, plain: Option<Box<Plain>>) -> Accepted {
        let metadata = in_its_generation(metadata, arrival.came_back);
        let record = &mut arrival.record;
        let (form, attributes) = match &plain {
            Some(plain) => (plain.form(), plain.attributes.clone()),
            // Not a copy, which may be of a mebibyte, nor of the body: `into_arrival` puts them back.
            None => (Form::Envelope, mem::take(&mut record.attributes)),
        };
        let message = Message {
            retry_attempt: self.retries_made(&metadata, record.receive_count),
            redrive_generation: metadata.generation(),
            message_id: metadata.message_id_text.clone(),
            form,
            attributes,
            body: mem::take(&mut record.body),
        };
        Accepted { message, metadata, arrival, plain }
    }
}

impl Accepted {
    pub(super) fn first_sent(&self) -> Timestamp {
        self.metadata.first_sent(self.arrival.record.sent_at)
    }

    /// How long it was held.
    pub(super) fn held_seconds(&self) -> u32 {
        self.metadata.holds.seconds(self.arrival.origin)
    }

    /// Since when its target is down, by redeliver's own word, and when that was said.
    pub(super) fn told_of_outage(&self) -> Option<(Timestamp, Timestamp)> {
        let told_at = self.arrival.record.sent_at;
        let since = self.metadata.holds.outage_since(self.arrival.origin, told_at)?;
        Some((since, told_at))
    }

    /// What its call has made of it.
    pub(super) fn answered(self, call: &Call, now: Timestamp) -> Result<Event, Box<Failed>> {
        let delivery = || self.arrival.delivery(now);
        let (hand_off, error_type) = match &call.outcome {
            Outcome::Success => {
                let age_seconds = until(self.first_sent(), now).as_secs_f64();
                let target_seconds = call.seconds;
                let Message { message_id, retry_attempt, .. } = self.message;
                return Ok(Event::Processed { message_id, retry_attempt, age_seconds, target_seconds });
            }
            Outcome::Failure(error) => {
                (HandOff::of_handler(error, delivery()), error.error_type.loggable().into_owned())
            }
            Outcome::Held { since, probed: None } => {
                (HandOff::held(*since, delivery()), CIRCUIT_OPEN.to_owned())
            }
            Outcome::Held { probed: Some(error), .. } => {
                (HandOff::probed(error, delivery()), error.error_type.loggable().into_owned())
            }
            Outcome::NotStarted => (HandOff::not_started(delivery()), "NotStarted".to_owned()),
        };
        Err(Box::new(Failed { accepted: self, hand_off, error_type }))
    }

    pub(super) fn give_up(self, hand_off: HandOff, give_up: GiveUp) -> Box<Outgoing> {
        let failure = Failure { attempts: Some(self.message.retry_attempt), ..hand_off.into() };
        let (message_id, arrival) = self.into_arrival(Plain::named_at_any_price);
        Box::new(arrival.give_up(Some(message_id), Stage::MessageProcessor, failure, give_up))
    }

    /// Whole again, with the message's id. A plain message goes on with its id among its attributes.
    pub(super) fn into_arrival(self, named: impl FnOnce(&Plain) -> Option<Attributes>) -> (String, Arrival) {
        let Message { message_id, body, attributes, .. } = self.message;
        let arrival = self.arrival.with_body(body);
        let arrival = match self.plain {
            Some(plain) => arrival.named(named(&plain)),
            None => arrival.with_attributes(attributes),
        };
        (message_id, arrival)
    }
}
