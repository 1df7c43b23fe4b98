//! The document in `Redeliver`: the members of an envelope's `metadata`, plus two more.

use redeliver_json_schema::Violation;
use uuid::Uuid;

use crate::json::members::parse_members;
use crate::message::envelope::splice_members;
use crate::message::folding::{FoldedAttributes, unfold_attributes};
use crate::message::metadata::Metadata;
use crate::message::reserved::REDELIVER;
use crate::message::validation::{self, InvalidMessage};
use crate::message::{Attribute, Attributes};

use super::id::{PlainMessageId, is_key};

const MESSAGE_ID: &str = "message_id";
const IDEMPOTENCY_KEY: &str = "idempotency_key";
const FOLDED_ATTRIBUTES: &str = "folded_attributes";

/// The parsed `Redeliver`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RedeliverDocument {
    /// A JSON object, without the folded attributes.
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) idempotency_key: Option<String>,
}

impl RedeliverDocument {
    /// Creates the document for a message that does not have one yet.
    pub(super) fn from_id(id: &PlainMessageId) -> Self {
        let key = id.key.as_ref().map(|key| format!(",\"{IDEMPOTENCY_KEY}\":{}", to_json(key)));
        let text = format!("{{\"message_id\":\"{}\"{}}}", id.text, key.unwrap_or_default());
        let metadata = Metadata::from_id(id.uuid, id.text.clone());
        Self { text, metadata, idempotency_key: id.key.clone() }
    }

    /// Parses the document, and restores the attributes folded into it.
    ///
    /// # Errors
    /// Returns an error if the document is invalid. The error's pointers treat `Redeliver` as a member of the body.
    pub(super) fn from_attribute(
        redeliver: &Attribute,
        producer_attributes: &mut Attributes,
    ) -> Result<Self, InvalidMessage> {
        let violation = |place: &str, rule: &str| {
            InvalidMessage::Schema(vec![Violation::new(format!("/{REDELIVER}{place}"), rule)])
        };
        let text = redeliver.text().ok_or_else(|| violation("", "is not a String attribute"))?;
        let members = parse_members(text, 0..text.len(), &format!("/{REDELIVER}"))
            .map_err(|error| violation("", &format!("is {error}")))?;
        let member = |name: &str| {
            let member = members.iter().find(|member| *member.name == *name.as_bytes());
            member.map(|member| &text[member.value.clone()])
        };
        let idempotency_key = member(IDEMPOTENCY_KEY)
            .map(|key| {
                let key = serde_json::from_str(key).ok().filter(|key: &String| is_key(key));
                key.ok_or_else(|| {
                    violation("/idempotency_key", "is not a string of 1 to 256 printable ASCII characters")
                })
            })
            .transpose()?;
        if let Some(folded) = member(FOLDED_ATTRIBUTES) {
            let folded: Option<FoldedAttributes> = serde_json::from_str(folded).ok();
            let unfolded = folded
                .filter(|folded| !folded.contains_key(REDELIVER))
                .and_then(|folded| unfold_attributes(producer_attributes.clone(), &folded));
            *producer_attributes = unfolded.ok_or_else(|| {
                violation("/folded_attributes", "cannot be restored alongside the other attributes")
            })?;
        }
        let metadata = parse_metadata(text)?;
        let text = splice_members(text, &inner_range(text), &members, [(FOLDED_ATTRIBUTES, None)]);
        Ok(Self { text, metadata, idempotency_key })
    }

    pub(super) fn with_new_id(&self, id: Uuid) -> String {
        self.set_members([(MESSAGE_ID, Some(format!("\"{id}\""))), (IDEMPOTENCY_KEY, None)])
    }

    pub(super) fn set_members<const N: usize>(&self, ours: [(&str, Option<String>); N]) -> String {
        with_members(&self.text, ours)
    }
}

/// Returns the document with these attributes folded into it.
pub(super) fn with_folded(document: String, folded: &FoldedAttributes) -> String {
    if folded.is_empty() {
        return document;
    }
    with_members(&document, [(FOLDED_ATTRIBUTES, Some(to_json(folded)))])
}

fn with_members<const N: usize>(document: &str, ours: [(&str, Option<String>); N]) -> String {
    let members = parse_members(document, 0..document.len(), "")
        .expect("it was parsed as an object or written by us, and splicing preserves that");
    splice_members(document, &inner_range(document), &members, ours)
}

/// Returns the range between the braces of an object.
fn inner_range(document: &str) -> std::ops::Range<usize> {
    document.find('{').map_or(0, |brace| brace + 1)..document.rfind('}').unwrap_or(0)
}

/// Validates the document against the rules for an envelope's `metadata`.
fn parse_metadata(document: &str) -> Result<Metadata, InvalidMessage> {
    let envelope = format!("{{\"metadata\":{document},\"data\":{{}}}}");
    match validation::parse_envelope(&envelope, None) {
        Ok(envelope) => Ok(envelope.metadata),
        Err(InvalidMessage::Format(malformed)) => {
            let rule = format!("is {malformed}");
            Err(InvalidMessage::Schema(vec![Violation::new(format!("/{REDELIVER}"), rule)]))
        }
        Err(InvalidMessage::Schema(violations)) => {
            let renamed = violations.into_iter().map(|Violation { pointer, rule }| {
                let place = pointer.strip_prefix("/metadata").unwrap_or_default();
                // `Redeliver` is always in our own format, so the hint about the setting does not apply.
                let rule = rule.strip_suffix(validation::ANY_ID).unwrap_or(&rule);
                Violation::new(format!("/{REDELIVER}{place}"), rule)
            });
            Err(InvalidMessage::Schema(renamed.collect()))
        }
    }
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("strings and maps with string keys can always be serialized")
}
