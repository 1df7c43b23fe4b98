//! Plain messages: the body is arbitrary, and the attribute `Redeliver` contains what an envelope has in `metadata`.

mod document;
mod id;

use std::ops::Not;

use uuid::Uuid;

use crate::json::members::check_nesting;
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::folding::{Folding, fold_attributes};
use crate::message::metadata::{DlqReturn, Metadata, RetryMetadata, fresh_members};
use crate::message::validation::{DataSchema, InvalidMessage, parse_json_value};
use crate::message::{Attribute, Attributes, BodyForm, attributes_size};
use document::RedeliverDocument;
pub(crate) use id::cloud_event_strings;
pub use id::{IdAttribute, IdAttributeError, IdSources, KEY_CHARACTERS_MAX, NAMESPACE};

use crate::message::reserved::DEAD_LETTER;
pub use crate::message::reserved::REDELIVER;

/// Limit on the producer's attributes kept alongside `Redeliver`. One more slot is reserved for `Failure`.
const PRODUCER_ATTRIBUTES_MAX: usize = ATTRIBUTES_MAX - 2;
/// Bytes reserved for `Failure` when a message gets its id on the first hand-off.
const FAILURE_ROOM_BYTES: usize = 2048;

/// Settings for reading plain messages.
#[derive(Clone, Debug, Default)]
pub struct PlainMessages {
    /// The sources of message ids.
    pub id: IdSources,
    /// The schema for bodies. If set, bodies must be JSON.
    pub body: Option<DataSchema>,
}

impl PlainMessages {
    /// Checks a body against the schema for bodies, if there is one.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON or violates the schema.
    pub fn check_body(&self, body: &str) -> Result<(), InvalidMessage> {
        let Some(schema) = &self.body else { return Ok(()) };
        check_nesting(body)?;
        let violations = schema.violations(parse_json_value(body)?, "");
        if violations.is_empty() { Ok(()) } else { Err(InvalidMessage::Schema(violations)) }
    }

    /// Reads a message without an envelope. `first_id` is the SQS id of its first delivery.
    ///
    /// # Errors
    /// Returns an error if the message's `Redeliver` is invalid, or if its body violates the schema.
    pub(crate) fn read_message(
        &self,
        body: &str,
        attributes: &Attributes,
        first_id: &str,
    ) -> Result<PlainMessage, InvalidMessage> {
        self.check_body(body)?;
        let mut producers = attributes.clone();
        let document = match producers.remove(REDELIVER) {
            Some(redeliver) => RedeliverDocument::from_attribute(&redeliver, &mut producers)?,
            None => RedeliverDocument::from_id(&self.id.find_id(body, attributes, first_id)),
        };
        let has_id = attributes.contains_key(REDELIVER);
        Ok(PlainMessage { document, attributes: producers, has_id, body_bytes: body.len() })
    }
}

/// A plain message.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainMessage {
    /// The producer's attributes, unfolded.
    pub attributes: Attributes,
    document: RedeliverDocument,
    /// True if the message arrived with a `Redeliver`.
    has_id: bool,
    body_bytes: usize,
}

impl PlainMessage {
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.document.metadata
    }

    /// Returns the form in which the handler receives the body: plain, with the idempotency key if present.
    #[must_use]
    pub fn form(&self) -> BodyForm {
        BodyForm::Plain { idempotency_key: self.document.idempotency_key.clone() }
    }

    /// Returns the attributes for a hand-off, with `Redeliver` added. Returns `None` if the message arrived with
    /// `Redeliver`, has more than eight attributes, or would leave less than 2 KiB for `Failure`.
    #[must_use]
    pub fn with_id(&self) -> Option<Attributes> {
        let has_place = !self.has_id && self.attributes.len() <= PRODUCER_ATTRIBUTES_MAX;
        let named = has_place.then(|| self.with_document(self.document.text.clone())).flatten()?;
        let bytes = self.body_bytes + attributes_size(&named) + FAILURE_ROOM_BYTES;
        (bytes <= MESSAGE_BYTES_MAX).then_some(named)
    }

    /// Returns the attributes with the id added, if SQS accepts them. Returns `None` if they should remain unchanged.
    #[must_use]
    pub fn with_id_if_sendable(&self) -> Option<Attributes> {
        let named = self.has_id.not().then(|| self.with_document(self.document.text.clone())).flatten()?;
        (self.body_bytes + attributes_size(&named) <= MESSAGE_BYTES_MAX).then_some(named)
    }

    /// Returns the attributes for a re-send, or `None` if `Redeliver` does not fit.
    #[must_use]
    pub(crate) fn with_retry_metadata(&self, retry: &RetryMetadata) -> Option<Attributes> {
        self.with_document(self.document.set_members(retry.json_members()))
    }

    /// Returns the attributes for sending the message back from the final DLQ, like
    /// [`crate::message::envelope::Envelope::with_next_generation`].
    #[must_use]
    pub(crate) fn with_next_generation(&self, came_back: DlqReturn) -> Option<Attributes> {
        let fresh = self.metadata().clone().into_next_generation(came_back);
        self.with_document(self.document.set_members(fresh_members(&fresh)))
    }

    /// Returns the attributes with a new id, or `None` if `Redeliver` does not fit.
    #[must_use]
    pub fn with_new_id(&self, id: Uuid) -> Option<Attributes> {
        self.with_document(self.document.with_new_id(id))
    }

    /// Adds `Redeliver`. Ten attributes leave no slots for `Redeliver` and `Failure`, so two are folded. A producer's
    /// own `DeadLetter` is folded first: with fewer attributes alongside it, the attributes folded into it might fit,
    /// and it would be mistaken for ours.
    fn with_document(&self, document: String) -> Option<Attributes> {
        let fold_first = |first: &[&str]| fold_attributes(&self.attributes, first, PRODUCER_ATTRIBUTES_MAX);
        let is_full = self.attributes.len() > PRODUCER_ATTRIBUTES_MAX;
        let with_dead_letter = is_full.then(|| fold_first(&[DEAD_LETTER])).flatten();
        let Folding { kept: mut attributes, folded } = with_dead_letter.or_else(|| fold_first(&[]))?;
        let document = document::with_folded(document, &folded);
        attributes.insert(REDELIVER.to_owned(), Attribute::string(document));
        Some(attributes)
    }
}

#[cfg(test)]
mod tests;
