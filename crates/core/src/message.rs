//! Messages as SQS knows them, before anything is known of their content.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::limits::{ATTRIBUTES_MAX, DelaySeconds, MESSAGE_BYTES_MAX, first_illegal};

/// A moment, UTC.
pub type Timestamp = DateTime<Utc>;

/// Message attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// One message attribute: String, Number, Binary or a custom type such as `Number.int`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// `String`, `Number`, `Binary`, each with an optional `.label`.
    pub data_type: String,
    /// The value, text or bytes as the type says.
    pub value: AttributeValue,
}

/// The value of a message attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Of `String` and `Number` types.
    Text(String),
    /// Of `Binary` types.
    Binary(Vec<u8>),
}

impl Attribute {
    /// An attribute of type `String`.
    #[must_use]
    pub fn string(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), value: AttributeValue::Text(value.into()) }
    }

    /// The text of a String or Number.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            AttributeValue::Text(text) => Some(text),
            AttributeValue::Binary(_) => None,
        }
    }

    /// Bytes that the attribute takes of the message's limit: its name, its type and its value.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        name.len()
            + self.data_type.len()
            + match &self.value {
                AttributeValue::Text(text) => text.len(),
                AttributeValue::Binary(bytes) => bytes.len(),
            }
    }
}

/// Bytes that all attributes take of the message's limit.
#[must_use]
pub fn attributes_size(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, attribute)| attribute.size(name)).sum()
}

/// A message as it was received, from a Lambda event or from `ReceiveMessage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// SQS's own id of the message (not our `metadata.message_id`). A redrive keeps it, a re-send does not.
    pub sqs_message_id: String,
    /// What deletes this receive of it.
    pub receipt_handle: String,
    /// The bytes as they came.
    pub body: String,
    /// Message attributes.
    pub attributes: Attributes,
    /// `SentTimestamp`: when it was sent to the first queue. A redrive keeps it.
    pub sent_at: Timestamp,
    /// `ApproximateFirstReceiveTimestamp`. A redrive keeps it.
    pub first_received_at: Option<Timestamp>,
    /// `ApproximateReceiveCount`. A redrive does not reset it.
    pub receive_count: u32,
    /// `MessageGroupId` (on a standard queue: fair queues).
    pub message_group_id: Option<String>,
    /// The system attribute `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// `DeadLetterQueueSourceArn`: set by a redrive, and by nothing else.
    pub redriven_from: Option<String>,
    /// The ARN of the queue it was received from.
    pub queue_arn: String,
}

/// A message that SQS will accept: the body is not empty, all characters are legal, at most 10 attributes,
/// no attribute is empty, and all of it is at most 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    content: Content,
    size: usize,
}

/// What an [`OutgoingMessage`] is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The body.
    pub body: String,
    /// Message attributes.
    pub attributes: Attributes,
    /// `MessageGroupId`.
    pub message_group_id: Option<String>,
    /// The system attribute `AWSTraceHeader`; it does not count towards the size.
    pub trace_header: Option<String>,
    /// How long the queue holds it back.
    pub delay: DelaySeconds,
}

/// Why SQS would refuse a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotSendable {
    /// SQS wants at least one character.
    #[error("the body is empty; SQS wants at least one character")]
    EmptyBody,
    /// Body and attributes together.
    #[error("{bytes} bytes with its attributes; SQS takes at most {MESSAGE_BYTES_MAX}")]
    TooLarge {
        /// Bytes of body and attributes.
        bytes: usize,
    },
    /// More than ten.
    #[error("{count} message attributes; SQS takes at most {ATTRIBUTES_MAX}")]
    TooManyAttributes {
        /// How many there are.
        count: usize,
    },
    /// A control character, U+FFFE or U+FFFF.
    #[error("the character U+{:04X} at byte {offset} of the {place} is not legal in SQS", *.character as u32)]
    IllegalCharacter {
        /// The character.
        character: char,
        /// Where in that text.
        offset: usize,
        /// `body`, or `attribute NAME`.
        place: String,
    },
    /// SQS refuses an attribute with an empty value.
    #[error("the attribute {name} is empty; SQS wants a value")]
    EmptyAttribute {
        /// Its name.
        name: String,
    },
}

impl NotSendable {
    /// A name for logs, which must not hold an attribute's name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EmptyBody => "EmptyBody",
            Self::TooLarge { .. } => "TooLarge",
            Self::TooManyAttributes { .. } => "TooManyAttributes",
            Self::IllegalCharacter { .. } => "IllegalCharacter",
            Self::EmptyAttribute { .. } => "EmptyAttribute",
        }
    }
}

impl OutgoingMessage {
    /// Checks SQS's limits.
    ///
    /// # Errors
    /// What SQS would refuse, the first rule that is broken.
    pub fn new(content: Content) -> Result<Self, NotSendable> {
        if content.body.is_empty() {
            return Err(NotSendable::EmptyBody);
        }
        let count = content.attributes.len();
        if count > ATTRIBUTES_MAX {
            return Err(NotSendable::TooManyAttributes { count });
        }
        let size = content.body.len() + attributes_size(&content.attributes);
        if size > MESSAGE_BYTES_MAX {
            return Err(NotSendable::TooLarge { bytes: size });
        }
        check_legal(&content.body, || "body".to_owned())?;
        for (name, attribute) in &content.attributes {
            let empty = match &attribute.value {
                AttributeValue::Text(text) => {
                    check_legal(text, || format!("attribute {name}"))?;
                    text.is_empty()
                }
                AttributeValue::Binary(bytes) => bytes.is_empty(),
            };
            if empty {
                return Err(NotSendable::EmptyAttribute { name: name.clone() });
            }
        }
        Ok(Self { content, size })
    }

    /// What is in it.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// What is in it, taken out.
    #[must_use]
    pub fn into_content(self) -> Content {
        self.content
    }

    /// Bytes it takes of a batch: body and attributes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}

fn check_legal(text: &str, place: impl Fn() -> String) -> Result<(), NotSendable> {
    match first_illegal(text) {
        Some((offset, character)) => Err(NotSendable::IllegalCharacter { character, offset, place: place() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(body: &str, attributes: &[(&str, Attribute)]) -> Content {
        Content {
            body: body.to_owned(),
            attributes: attributes
                .iter()
                .map(|(name, attribute)| ((*name).to_owned(), attribute.clone()))
                .collect(),
            ..Content::default()
        }
    }

    fn binary(bytes: &[u8]) -> Attribute {
        Attribute { data_type: "Binary.x".to_owned(), value: AttributeValue::Binary(bytes.to_vec()) }
    }

    #[test]
    fn size_is_the_body_and_each_attributes_name_type_and_value() {
        let content = content("é", &[("ab", Attribute::string("😀")), ("c", binary(&[0; 5]))]);
        assert_eq!(OutgoingMessage::new(content).unwrap().size(), 2 + (2 + 6 + 4) + (1 + 8 + 5));
    }

    #[test]
    fn a_trace_header_does_not_count_towards_the_size() {
        let traced = Content { trace_header: Some("Root=1".to_owned()), ..content("b", &[]) };
        assert_eq!(OutgoingMessage::new(traced).unwrap().size(), 1);
    }

    #[test]
    fn a_message_of_exactly_1_mib_is_sendable_and_one_byte_more_is_not() {
        let attribute = [("ab", Attribute::string("x"))];
        let most = "x".repeat(MESSAGE_BYTES_MAX - 9);
        assert_eq!(OutgoingMessage::new(content(&most, &attribute)).unwrap().size(), MESSAGE_BYTES_MAX);
        let more = format!("{most}x");
        assert_eq!(
            OutgoingMessage::new(content(&more, &attribute)),
            Err(NotSendable::TooLarge { bytes: MESSAGE_BYTES_MAX + 1 })
        );
    }

    #[test]
    fn what_sqs_would_refuse_is_not_sendable() {
        let of = |content| OutgoingMessage::new(content).unwrap_err();
        assert_eq!(of(content("", &[])), NotSendable::EmptyBody);
        let eleven: Attributes = (0..11).map(|index| (index.to_string(), Attribute::string("x"))).collect();
        let eleven = Content { attributes: eleven, ..content("b", &[]) };
        assert_eq!(of(eleven), NotSendable::TooManyAttributes { count: 11 });
        for empty in [Attribute::string(""), binary(&[])] {
            assert_eq!(
                of(content("b", &[("a", empty)])),
                NotSendable::EmptyAttribute { name: "a".to_owned() }
            );
        }
        let illegal = |offset, place: &str| NotSendable::IllegalCharacter {
            character: '\u{FFFE}',
            offset,
            place: place.to_owned(),
        };
        assert_eq!(of(content("é\u{FFFE}", &[])), illegal(2, "body"));
        assert_eq!(of(content("b", &[("a", Attribute::string("x\u{FFFE}"))])), illegal(1, "attribute a"));
        assert_eq!(
            illegal(1, "body").to_string(),
            "the character U+FFFE at byte 1 of the body is not legal in SQS"
        );
    }

    #[test]
    fn binary_attributes_may_hold_any_bytes() {
        assert!(OutgoingMessage::new(content("b", &[("a", binary(&[0, 255]))])).is_ok());
    }
}
