//! What would be sent back, and what not: one decision a message, pure.

mod edit;
mod new_id;

use redeliver_core::annotation::{ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::arrival::producers_attributes;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, OutgoingMessage};
use redeliver_core::metadata::{GENERATION_MAX, Metadata};
use redeliver_core::schema::{MessageSchema, Parsed, Rewritten};
use thiserror::Error;

use crate::{DeadLetterRecord, FilterError, Pick};
pub use edit::Edit;
use new_id::{derived_id, with_new_id};

/// What is done to which messages.
#[derive(Debug, Default)]
pub struct Plan {
    pub pick: Pick,
    pub edit: Option<Edit>,
    /// What the edit changes gets a new `message_id`.
    pub new_id: bool,
    /// What was sent back so often is not sent back again.
    pub max_generation: u32,
    /// What the edited message must match, apart from being a message.
    pub schema: MessageSchema,
}

/// What becomes of one message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    NotSelected,
    Send(Box<SendBack>),
    /// It is selected but stays; a sentence says why.
    Stays(Reason),
}

/// A message on its way back.
#[derive(Clone, Debug, PartialEq)]
pub struct SendBack {
    pub message: OutgoingMessage,
    /// Its own id; if it got a new one, that.
    pub message_id: String,
    /// The id that it had, if it got a new one.
    pub old_message_id: Option<String>,
    pub generation: u32,
    pub edited: bool,
}

/// Why a selected message stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Reason {
    #[error("would be dead-lettered again at once: {0}")]
    NotAMessage(String),
    #[error("parked: was sent back {0} times already (--max-generation)")]
    Parked(u32),
    #[error("the edit is refused: {0}")]
    EditRefused(String),
    #[error("SQS would refuse it: {0}")]
    NotSendable(String),
}

impl Plan {
    /// What becomes of a message.
    ///
    /// # Errors
    /// If a filter fails on it.
    pub fn decide(&self, record: &DeadLetterRecord) -> Result<Verdict, FilterError> {
        if !self.pick.picks(record)? {
            return Ok(Verdict::NotSelected);
        }
        // Before the edit and the schema, which cost more: a message that has had all its rounds is left alone.
        let generation = record.metadata.as_ref().map_or(0, Metadata::generation);
        if generation >= self.max_generation.min(GENERATION_MAX) {
            return Ok(Verdict::Stays(Reason::Parked(generation)));
        }
        let attributes = producer_attributes(record);
        let Some(edit) = &self.edit else {
            return Ok(self.send_back(record, &record.message.body, attributes, None));
        };
        let body = match edit.edited(record)? {
            Ok(body) => body,
            Err(why) => return Ok(Verdict::Stays(Reason::EditRefused(why))),
        };
        // An edit that changes nothing changes no id either: an API would do the same work a second time.
        if !self.new_id || body == record.message.body {
            return Ok(self.send_back(record, &body, attributes, None));
        }
        let sqs_message_id = &record.message.sqs_message_id;
        if let Ok(Parsed::Plain(plain)) = self.schema.read_either(&body, &attributes, sqs_message_id) {
            let old_id = plain.metadata().message_id_text.clone();
            let new_id = derived_id(&old_id.to_ascii_lowercase(), generation + 1, &body);
            let Some(attributes) = plain.renamed(new_id) else {
                return Ok(Verdict::Stays(Reason::NotSendable(NO_PLACE.to_owned())));
            };
            return Ok(self.send_back(record, &body, attributes, Some(old_id)));
        }
        let (body, old_id) = with_new_id(&body, sqs_message_id, generation + 1);
        Ok(self.send_back(record, &body, attributes, Some(old_id)))
    }

    fn send_back(
        &self,
        record: &DeadLetterRecord,
        body: &str,
        attributes: Attributes,
        old_message_id: Option<String>,
    ) -> Verdict {
        let parsed = match self.schema.read_either(body, &attributes, &record.message.sqs_message_id) {
            Ok(parsed) => parsed,
            Err(invalid) => return Verdict::Stays(Reason::NotAMessage(invalid.to_string())),
        };
        let given_up_in = record.dead_letter.as_ref().and_then(|ours| ours.redrive_generation);
        let (new_body, attributes) = match parsed.with_next_generation(given_up_in) {
            Some(Rewritten::Body(body)) => (body, attributes),
            Some(Rewritten::Attributes(attributes)) => (body.to_owned(), attributes),
            None => return Verdict::Stays(Reason::NotSendable(NO_PLACE.to_owned())),
        };
        let content = Content {
            body: new_body,
            attributes,
            message_group_id: record.message.message_group_id.clone(),
            trace_header: record.message.trace_header.clone(),
            delay: DelaySeconds::ZERO,
        };
        match OutgoingMessage::new(content) {
            Ok(message) => Verdict::Send(Box::new(SendBack {
                message,
                message_id: parsed.metadata().message_id_text.clone(),
                old_message_id,
                generation: parsed.metadata().clone().into_next_generation(given_up_in).generation(),
                edited: body != record.message.body,
            })),
            Err(error) => Verdict::Stays(Reason::NotSendable(error.to_string())),
        }
    }
}

/// The producer's attributes, whole again. A final record that had no room for `DeadLetter` has its other two taken off
/// by their names.
fn producer_attributes(record: &DeadLetterRecord) -> Attributes {
    let (mut producer, came_back) = producers_attributes(record.message.attributes.clone());
    if came_back.is_none() && record.is_annotated {
        producer.remove(ERROR_TYPE);
        producer.remove(ERROR_DETAILS);
    }
    producer
}

/// Of a plain message whose attributes nobody can fold.
const NO_PLACE: &str = "none of its ten attributes can make room for redeliver's own";

#[cfg(test)]
mod tests;
