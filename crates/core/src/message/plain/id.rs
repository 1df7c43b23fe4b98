//! The id of a plain message: the producer's own if present, otherwise the SQS id.

use std::borrow::Cow;

use serde_json::value::RawValue;
use thiserror::Error;
use uuid::Uuid;

use crate::json::members::unchecked_members;
use crate::json::pointer::Pointer;
use crate::message::reserved::{FAILURE, REDELIVER};
use crate::message::{Attributes, UnsendableReason, check_attribute_name};

/// Namespace of the version 5 UUIDs derived from ids that are not UUIDs. The name to hash is the id in UTF-8.
pub const NAMESPACE: Uuid = Uuid::from_u128(0x9d1f_f0a2_5f0c_5c1e_8c38_6d9a_5a1b_2f47);
/// Length limit of an idempotency key. Every server accepts a header of this length.
pub const KEY_CHARACTERS_MAX: usize = 256;

/// The sources of plain messages' ids. The first one that has an id wins: the attribute, the pointer, a CloudEvents
/// `id` with its `source` ("CloudEvents", version 1.0.2), and finally the SQS id of the first delivery. By default,
/// neither the attribute nor the pointer is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSources {
    /// `MESSAGE_ID_ATTRIBUTE`: a message attribute.
    pub attribute: Option<IdAttribute>,
    /// `MESSAGE_ID_POINTER`: a JSON Pointer into the body.
    pub pointer: Option<Pointer>,
}

/// The name of a message attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdAttribute(String);

/// The reason why an attribute with this name cannot hold an id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdAttributeError {
    #[error("is reserved for redeliver's own attribute; use another name")]
    Reserved,
    #[error("is not the name of a message attribute: {0}")]
    NotAName(#[from] UnsendableReason),
}

impl IdAttribute {
    /// Checks the name.
    ///
    /// # Errors
    /// Returns an error if SQS does not allow the name, or if it is reserved.
    pub fn new(name: String) -> Result<Self, IdAttributeError> {
        if [FAILURE, REDELIVER].contains(&name.as_str()) {
            return Err(IdAttributeError::Reserved);
        }
        check_attribute_name(&name)?;
        Ok(Self(name))
    }
}

/// The id of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlainMessageId {
    pub(super) uuid: Uuid,
    /// The UUID as the producer or redeliver wrote it.
    pub(super) text: String,
    /// The producer's id, if it is not a UUID and is valid as a key.
    pub(super) key: Option<String>,
}

impl IdSources {
    /// Returns the id of a message. `first_id` is the SQS id of its first delivery.
    pub(super) fn find_id(&self, body: &str, attributes: &Attributes, first_id: &str) -> PlainMessageId {
        let text = self.find_in_attribute(attributes).map(Cow::Borrowed);
        let text = text.or_else(|| self.find_in_body(body).map(Cow::Owned));
        let text = text.or_else(|| cloud_event_id(body).map(Cow::Owned));
        PlainMessageId::from_text(text.unwrap_or(Cow::Borrowed(first_id)).into_owned())
    }

    fn find_in_attribute<'a>(&self, attributes: &'a Attributes) -> Option<&'a str> {
        let IdAttribute(name) = self.attribute.as_ref()?;
        let text = attributes.get(name)?.text()?;
        Some(text).filter(|text| !text.is_empty())
    }

    fn find_in_body(&self, body: &str) -> Option<String> {
        self.pointer.as_ref()?.find_text(body)
    }
}

fn find_member<'a>(members: &[(Cow<'_, [u8]>, &'a RawValue)], name: &str) -> Option<&'a RawValue> {
    members.iter().rfind(|(other, _)| **other == *name.as_bytes()).map(|(_, value)| *value)
}

/// Parses a non-empty JSON string. Returns `None` if it has a lone surrogate, which a Rust string cannot hold.
fn parse_string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok().filter(|text: &String| !text.is_empty())
}

/// Returns `source` and `id`, which are unique together ("CloudEvents", version 1.0.2). A URI reference cannot contain
/// a space, so joining the two with a space is unambiguous.
fn cloud_event_id(body: &str) -> Option<String> {
    let [id, source] = cloud_event_strings(body, ["id", "source"])?;
    let (id, source) = (id?, source?);
    (!source.contains(' ')).then(|| format!("{source} {id}"))
}

/// Returns members of a CloudEvent, each `None` unless it is a non-empty string. Returns `None` if the body is not a
/// CloudEvent.
pub(crate) fn cloud_event_strings<const N: usize>(
    body: &str,
    names: [&str; N],
) -> Option<[Option<String>; N]> {
    let body = body.trim_start();
    let members = body.starts_with('{').then(|| unchecked_members(body).ok()).flatten()?;
    let text = |name| parse_string(find_member(&members, name)?.get());
    text("specversion")?;
    Some(names.map(text))
}

impl PlainMessageId {
    fn from_text(text: String) -> Self {
        // The hyphenated form is the only one of this length that the parser accepts.
        let is_hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
        if let Some(uuid) = Uuid::parse_str(&text).ok().filter(|_| is_hyphenated) {
            return Self { uuid, text, key: None };
        }
        let uuid = Uuid::new_v5(&NAMESPACE, text.as_bytes());
        Self { uuid, text: uuid.to_string(), key: is_key(&text).then_some(text) }
    }
}

/// Returns true if the text is valid as a header value.
pub(super) fn is_key(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_trimmed = !text.starts_with(' ') && !text.ends_with(' ');
    (1..=KEY_CHARACTERS_MAX).contains(&text.len()) && is_printable && is_trimmed
}
