//! The producer's attributes and ours: taken apart on arrival, folded where ten are not enough.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::annotation::{DEAD_LETTER, DeadLetter, ERROR_DETAILS, ERROR_TYPE};
use crate::failure::{FAILURE, Failure};
use crate::message::{Attribute, AttributeValue, Attributes, Content, OutgoingMessage};

/// An attribute that found no place beside ours, inside one of our JSON documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Folded attributes by name.
pub type FoldedAttributes = BTreeMap<String, Folded>;

/// What the attributes of a received message say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    /// The producer's, whole again.
    pub producer: Attributes,
    /// The content of `Failure`, where it can be read. Whether it is believed is the caller's business.
    pub failure: Option<Failure>,
    /// It came back from the final DLQ: it still had a `DeadLetter`.
    pub came_back: bool,
}

/// Takes our attributes from the producer's. `Failure` is reserved; `DeadLetter`, `ErrorType` and `ErrorDetails` are ours
/// only where `DeadLetter` is a document that we can have written.
#[must_use]
pub fn arrived(mut attributes: Attributes) -> Arrived {
    let failure = attributes.remove(FAILURE).as_ref().and_then(Failure::from_attribute);
    let record = attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute);
    let unannotated = record.and_then(|record| {
        let mut others = attributes.clone();
        others.retain(|name, _| ![DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&name.as_str()));
        unfolded(others, &record.folded_attributes)
    });
    let came_back = unannotated.is_some();
    let producer = unannotated.unwrap_or(attributes);
    // Only a verdict and a hop fold. Where the annotator could not handle a verdict, SQS took it to the final DLQ as it was.
    let folding = failure.as_ref().filter(|failure| failure.verdict.is_some() || failure.due_at.is_some());
    let whole = folding.and_then(|folding| unfolded(producer.clone(), &folding.folded_attributes));
    Arrived { came_back, producer: whole.unwrap_or(producer), failure }
}

/// What the producer gave a message that now has this document; `None` where SQS would never have taken it from a
/// producer: then the document is not ours, and what it would restore could never be sent.
fn unfolded(others: Attributes, folded: &FoldedAttributes) -> Option<Attributes> {
    let count = others.len() + folded.len();
    let mut whole = others;
    restore_folded(folded, &mut whole);
    let content = Content { body: "-".to_owned(), attributes: whole, ..Content::default() };
    let whole = OutgoingMessage::new(content).ok()?.into_content().attributes;
    (whole.len() == count && !whole.contains_key(FAILURE)).then_some(whole)
}

/// Puts folded attributes back among the others.
pub fn restore_folded(folded: &FoldedAttributes, into: &mut Attributes) {
    for (name, folded) in folded {
        let value = match (&folded.text, &folded.base64) {
            (Some(text), _) => AttributeValue::Text(text.clone()),
            (None, Some(base64)) => match STANDARD.decode(base64) {
                Ok(bytes) => AttributeValue::Binary(bytes),
                Err(_) => continue, // not written by us: `fold` encodes it right
            },
            (None, None) => continue,
        };
        into.insert(name.clone(), Attribute { data_type: folded.data_type.clone(), value });
    }
}

/// Folds attributes until at most `places` remain: those with one of the `taken` names, then the smallest.
pub(crate) fn fold(attributes: &Attributes, taken: &[&str], places: usize) -> (Attributes, FoldedAttributes) {
    let mut by_size: Vec<_> = attributes.keys().map(String::as_str).collect();
    by_size.sort_by_key(|name| (!taken.contains(name), attributes[*name].size(name), *name));
    let collisions = by_size.iter().filter(|name| taken.contains(name)).count();
    let count = attributes.len().saturating_sub(places).max(collisions);
    let mut kept = attributes.clone();
    let mut folded = FoldedAttributes::new();
    for name in &by_size[..count] {
        if let Some(Attribute { data_type, value }) = kept.remove(*name) {
            let (text, base64) = match value {
                AttributeValue::Text(text) => (Some(text), None),
                AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
            };
            folded.insert((*name).to_owned(), Folded { data_type, text, base64 });
        }
    }
    (kept, folded)
}

#[cfg(test)]
mod tests;
