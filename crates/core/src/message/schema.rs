//! Message schemas: the rules that decide which envelopes and plain messages are accepted.

use crate::message::Attributes;
use crate::message::envelope::Envelope;
use crate::message::metadata::{DlqReturn, Metadata};
use crate::message::plain::{PlainMessage, PlainMessages};
use crate::message::reserved::REDELIVER;
use crate::message::validation::{self, looks_like_envelope};
pub use crate::message::validation::{
    DataSchema, DataSchemaError, InvalidMessage, MESSAGE_SCHEMA, read_message_metadata,
};
pub use redeliver_json_schema::{SchemaError, Violation, join_violations};

/// The messages that are accepted: envelopes, with the user's schema for `data` if set, and optionally plain messages.
#[derive(Clone, Debug, Default)]
pub struct MessageSchema {
    data: Option<DataSchema>,
    /// `None` if a message without an envelope is invalid.
    plain: Option<PlainMessages>,
}

/// A valid message.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedMessage<'a> {
    Envelope(Envelope<'a>),
    Plain(PlainMessage),
}

/// The part of a message that a re-send rewrites.
#[derive(Clone, Debug, PartialEq)]
pub enum RewrittenPart {
    /// An envelope's body.
    Body(String),
    /// A plain message's attributes.
    Attributes(Attributes),
}

impl ParsedMessage<'_> {
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Envelope(envelope) => &envelope.metadata,
            Self::Plain(plain) => plain.metadata(),
        }
    }

    /// Returns the message to send back from the final DLQ, or `None` if it is plain and `Redeliver` does not fit.
    #[must_use]
    pub fn with_next_generation(&self, came_back: DlqReturn) -> Option<RewrittenPart> {
        match self {
            Self::Envelope(envelope) => Some(RewrittenPart::Body(envelope.with_next_generation(came_back))),
            Self::Plain(plain) => plain.with_next_generation(came_back).map(RewrittenPart::Attributes),
        }
    }
}

impl MessageSchema {
    /// Accepts envelopes, with a schema for `data` if given.
    #[must_use]
    pub fn new(data: Option<DataSchema>) -> Self {
        Self { data, plain: None }
    }

    /// Accepts plain messages as well: `ENVELOPE=optional`.
    #[must_use]
    pub fn with_plain(self, plain: PlainMessages) -> Self {
        Self { plain: Some(plain), ..self }
    }

    /// Returns true if a message without an envelope is valid.
    #[must_use]
    pub const fn accepts_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Returns the settings for plain messages, if they are accepted.
    #[must_use]
    pub const fn plain(&self) -> Option<&PlainMessages> {
        self.plain.as_ref()
    }

    /// Validates a message. `first_id` is the SQS id of its first delivery, which may be the only id it has.
    ///
    /// # Errors
    /// Returns all violations, with their JSON Pointers.
    pub fn read_message<'a>(
        &self,
        body: &'a str,
        attributes: &Attributes,
        first_id: &str,
    ) -> Result<ParsedMessage<'a>, InvalidMessage> {
        match &self.plain {
            Some(plain) if !looks_like_envelope(body) => {
                plain.read_message(body, attributes, first_id).map(ParsedMessage::Plain)
            }
            _ => self.parse_envelope(body).map(ParsedMessage::Envelope),
        }
    }

    /// Validates a message for callers that do not have the `ENVELOPE` setting. Like [`MessageSchema::read_message`],
    /// but a message with a readable `Redeliver` counts as plain.
    ///
    /// # Errors
    /// Returns all violations, with their JSON Pointers.
    pub fn read_either_form<'a>(
        &self,
        body: &'a str,
        attributes: &Attributes,
        first_id: &str,
    ) -> Result<ParsedMessage<'a>, InvalidMessage> {
        let is_named =
            self.plain.is_none() && attributes.contains_key(REDELIVER) && !looks_like_envelope(body);
        match is_named.then(|| PlainMessages::default().read_message(body, attributes, first_id)) {
            Some(Ok(plain)) => Ok(ParsedMessage::Plain(plain)),
            _ => self.read_message(body, attributes, first_id),
        }
    }

    /// Parses and validates an envelope. `data` is skipped unless it has a schema.
    ///
    /// # Errors
    /// Returns all violations, with their JSON Pointers.
    pub fn parse_envelope<'a>(&self, body: &'a str) -> Result<Envelope<'a>, InvalidMessage> {
        validation::parse_envelope(body, self.data.as_ref())
    }
}
