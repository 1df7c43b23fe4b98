//! Plain messages: a body of any bytes, and what an envelope has as `metadata` beside it, in the attribute `Redeliver`.

mod document;
mod id;

use std::ops::Not;

use uuid::Uuid;

use crate::handler::Form;
use crate::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::envelope::check_nesting;
use crate::message::folding::fold;
use crate::message::metadata::{Metadata, RetryMetadata, fresh_members};
use crate::message::schema::{DataSchema, Invalid, well_formed};
use crate::message::{Attribute, Attributes, attributes_size};
use document::Document;
pub use id::{
    IdAttribute, IdAttributeError, IdPointer, IdPointerError, IdSources, KEY_CHARACTERS_MAX, NAMESPACE,
};

use crate::message::reserved::DEAD_LETTER;
pub use crate::message::reserved::REDELIVER;

/// The producer's attributes that stay beside `Redeliver`: one place is left for `Failure`.
const PRODUCERS_MAX: usize = ATTRIBUTES_MAX - 2;
/// Kept free if a message is named at its first hand-off: `Failure` must find room.
const FAILURE_ROOM_BYTES: usize = 2048;

/// How plain messages are read.
#[derive(Clone, Debug, Default)]
pub struct PlainMessages {
    /// Where their ids stand.
    pub id: IdSources,
    /// What their bodies must match; they are JSON then.
    pub body: Option<DataSchema>,
}

impl PlainMessages {
    /// Reads a message that is no envelope. `first_id` is SQS's id of its first delivery.
    ///
    /// # Errors
    /// Its `Redeliver` is wrong, or its body is not what the schema wants.
    pub(crate) fn read(&self, body: &str, attributes: &Attributes, first_id: &str) -> Result<Plain, Invalid> {
        if let Some(schema) = &self.body {
            check_nesting(body)?;
            let text = well_formed(body)?;
            let violations = schema.violations(text, "");
            if !violations.is_empty() {
                return Err(Invalid::Schema(violations));
            }
        }
        let mut producers = attributes.clone();
        let document = match producers.remove(REDELIVER) {
            Some(redeliver) => Document::read(&redeliver, &mut producers)?,
            None => Document::first(&self.id.of(body, attributes, first_id)),
        };
        let is_named = attributes.contains_key(REDELIVER);
        Ok(Plain { document, attributes: producers, is_named, body_bytes: body.len() })
    }
}

/// A plain message.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    /// The producer's attributes, whole.
    pub attributes: Attributes,
    document: Document,
    /// It came with its document.
    is_named: bool,
    body_bytes: usize,
}

impl Plain {
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.document.metadata
    }

    /// As a handler is told.
    #[must_use]
    pub fn form(&self) -> Form {
        Form::Plain { idempotency_key: self.document.idempotency_key.clone() }
    }

    /// The attributes with which it is handed off: with its id, unless it came with that, or has no place for it.
    #[must_use]
    pub fn named(&self) -> Option<Attributes> {
        let has_place = !self.is_named && self.attributes.len() <= PRODUCERS_MAX;
        let named = has_place.then(|| self.with(self.document.text.clone())).flatten()?;
        let bytes = self.body_bytes + attributes_size(&named) + FAILURE_ROOM_BYTES;
        (bytes <= MESSAGE_BYTES_MAX).then_some(named)
    }

    /// The attributes with its id at any price but one that SQS would refuse; `None` if they are best as they came.
    #[must_use]
    pub fn named_at_any_price(&self) -> Option<Attributes> {
        let named = self.is_named.not().then(|| self.with(self.document.text.clone())).flatten()?;
        (self.body_bytes + attributes_size(&named) <= MESSAGE_BYTES_MAX).then_some(named)
    }

    /// The attributes of a re-send; `None` if there is no place for `Redeliver`.
    #[must_use]
    pub(crate) fn with_retry_metadata(&self, retry: &RetryMetadata) -> Option<Attributes> {
        self.with(self.document.spliced(retry.members()))
    }

    /// The attributes with which it is sent back from the final DLQ, as
    /// [`crate::message::envelope::Envelope::with_next_generation`].
    #[must_use]
    pub(crate) fn with_next_generation(&self, of_final_record: Option<u32>) -> Option<Attributes> {
        let generation = self.metadata().clone().into_next_generation(of_final_record).generation();
        self.with(self.document.spliced(fresh_members(generation)))
    }

    /// The attributes under another id; `None` if there is no place for `Redeliver`.
    #[must_use]
    pub fn renamed(&self, id: Uuid) -> Option<Attributes> {
        self.with(self.document.renamed(id))
    }

    /// Of ten attributes two are folded: `Redeliver` needs a place, and `Failure`. A `DeadLetter` of the producer's own is
    /// the first: next to fewer, what it folds itself might find places, and it would be taken for ours.
    fn with(&self, document: String) -> Option<Attributes> {
        let fold_first = |first: &[&str]| fold(&self.attributes, first, PRODUCERS_MAX);
        let is_full = self.attributes.len() > PRODUCERS_MAX;
        let with_dead_letter = is_full.then(|| fold_first(&[DEAD_LETTER])).flatten();
        let (mut attributes, folded) = with_dead_letter.or_else(|| fold_first(&[]))?;
        let document = document::folding(document, &folded);
        attributes.insert(REDELIVER.to_owned(), Attribute::string(document));
        Some(attributes)
    }
}

#[cfg(test)]
mod tests;
