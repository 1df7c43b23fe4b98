//! Messages that are valid for SQS.

use strum::IntoStaticStr;
use thiserror::Error;

use super::sqs_rules::{check_attribute, check_deduplication_id, check_message_group_id, check_text};
use super::{Attributes, attributes_size};
use crate::limits::{ATTRIBUTES_MAX, DelaySeconds, MESSAGE_BYTES_MAX};

/// A message that SQS accepts, checked on creation: a non-empty body, at most 10 attributes with valid names, types and
/// values, only legal characters, and at most 1 MiB for the body and the attributes together ("Amazon SQS message
/// quotas").
///
/// Most of these messages were received from SQS, so SQS has accepted them before. Where its documentation is
/// ambiguous, this type is lenient: a rule stricter than SQS's own would strand a producer's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    content: Content,
    size: usize,
}

/// The parts of an [`OutgoingMessage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub body: String,
    pub attributes: Attributes,
    pub message_group_id: Option<String>,
    /// `MessageDeduplicationId`: required by FIFO queues, refused by standard queues.
    pub deduplication_id: Option<String>,
    /// The system attribute `AWSTraceHeader`. It does not count towards the size, and must not be empty.
    pub trace_header: Option<String>,
    /// `DelaySeconds`, 0 to 900: the time before the queue delivers the message.
    pub delay: DelaySeconds,
}

/// The reason why SQS would refuse a message. Never contains an attribute's value.
#[derive(Clone, Debug, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(const_into_str)]
pub enum UnsendableReason {
    #[error("the body is empty; SQS requires at least one character")]
    EmptyBody,
    #[error("{bytes} bytes with its attributes; the SQS limit is {MESSAGE_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("{count} message attributes; the SQS limit is {ATTRIBUTES_MAX}")]
    TooManyAttributes { count: usize },
    /// A control character, U+FFFE or U+FFFF.
    #[error("the character U+{:04X} at byte {offset} of the {place} is not allowed in SQS", *.character as u32)]
    IllegalCharacter {
        character: char,
        /// Byte offset in the body, attribute, type or trace header.
        offset: usize,
        /// `body`, `attribute NAME`, `type of the attribute NAME` or `trace header`.
        place: String,
    },
    #[error("the attribute name {name:?} {rule}; rename the attribute")]
    AttributeName {
        name: String,
        /// The broken rule.
        rule: &'static str,
    },
    #[error(
        "the type {data_type:?} of the attribute {name} {rule}; use String, Number or Binary, optionally with a label, such as String.json"
    )]
    AttributeType {
        name: String,
        data_type: String,
        /// The broken rule.
        rule: &'static str,
    },
    /// A text value with a binary type, or a binary value with a text type.
    #[error(
        "the attribute {name} has the type {data_type:?}, but its value is {found}; use {wanted}, or change the type"
    )]
    AttributeValue {
        name: String,
        data_type: String,
        /// `text` or `bytes`.
        found: &'static str,
        /// The kind of value that the type requires: `bytes` or `text`.
        wanted: &'static str,
    },
    #[error(
        "the attribute {name} is a Number, but its value is not; use a number such as -12.5, or the type String"
    )]
    NotANumber { name: String },
    #[error("the attribute {name} is empty; SQS requires a value")]
    EmptyAttribute { name: String },
    #[error("the message group id {rule}; SQS allows 1 to 128 letters, digits and punctuation characters")]
    MessageGroupId {
        /// The broken rule.
        rule: &'static str,
    },
    #[error("the deduplication id {rule}; SQS allows 1 to 128 letters, digits and punctuation characters")]
    DeduplicationId {
        /// The broken rule.
        rule: &'static str,
    },
    #[error("the trace header is empty; leave it out")]
    EmptyTraceHeader,
}

impl UnsendableReason {
    /// Returns a code for logs, without the attribute's name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.into_str()
    }
}

impl OutgoingMessage {
    /// Checks the content against the SQS limits: first the sizes and counts, then each text.
    ///
    /// # Errors
    /// Returns the first broken rule. Later rules are not checked.
    pub fn new(content: Content) -> Result<Self, UnsendableReason> {
        if content.body.is_empty() {
            return Err(UnsendableReason::EmptyBody);
        }
        let count = content.attributes.len();
        if count > ATTRIBUTES_MAX {
            return Err(UnsendableReason::TooManyAttributes { count });
        }
        let size = content.body.len() + attributes_size(&content.attributes);
        if size > MESSAGE_BYTES_MAX {
            return Err(UnsendableReason::TooLarge { bytes: size });
        }
        check_text(&content.body, || "body".to_owned())?;
        content.attributes.iter().try_for_each(|(name, attribute)| check_attribute(name, attribute))?;
        content.message_group_id.as_deref().map_or(Ok(()), check_message_group_id)?;
        content.deduplication_id.as_deref().map_or(Ok(()), check_deduplication_id)?;
        match content.trace_header.as_deref() {
            Some("") => return Err(UnsendableReason::EmptyTraceHeader),
            Some(header) => check_text(header, || "trace header".to_owned())?,
            None => {}
        }
        Ok(Self { content, size })
    }

    /// Skips all checks, to test SQS's responses to invalid messages.
    #[cfg(feature = "unchecked")]
    #[must_use]
    pub fn unchecked(content: Content) -> Self {
        let size = content.body.len() + attributes_size(&content.attributes);
        Self { content, size }
    }

    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    #[must_use]
    pub fn into_content(self) -> Content {
        self.content
    }

    /// Returns the number of bytes that count towards the 1 MiB limit on a message and on a batch: the body and the
    /// attributes' names, types and values. The trace header is not included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests;
