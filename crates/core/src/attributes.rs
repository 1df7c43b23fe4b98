//! The producer's attributes and ours: taken apart on arrival, folded where ten are not enough.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::annotation::{DEAD_LETTER, DeadLetter, ERROR_DETAILS, ERROR_TYPE};
use crate::failure::{FAILURE, Failure};
use crate::limits::ATTRIBUTES_MAX;
use crate::message::{Attribute, AttributeValue, Attributes, is_surely_taken};

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
    /// The generation that this `DeadLetter` told, if it had one.
    pub generation_told: Option<u32>,
}

/// Takes our attributes from the producer's. `Failure` is reserved; `DeadLetter`, `ErrorType` and `ErrorDetails` are ours
/// only where `DeadLetter` is a document that we can have written.
#[must_use]
pub fn arrived(mut attributes: Attributes) -> Arrived {
    let failure = attributes.remove(FAILURE).as_ref().and_then(Failure::from_attribute);
    // Only a verdict and a hop fold. Where the annotator could not handle a verdict, SQS took it to the final DLQ as it was.
    let folding = failure.as_ref().filter(|failure| failure.verdict.is_some() || failure.due_at.is_some());
    let whole = folding.and_then(|folding| unfold(attributes.clone(), &folding.folded_attributes));
    let producer = whole.unwrap_or(attributes);
    // Now that it is whole: so a document of the producer's own is judged beside the same attributes on every queue.
    match unannotated(&producer) {
        Some((generation_told, producer)) => Arrived { producer, failure, came_back: true, generation_told },
        None => Arrived { producer, failure, came_back: false, generation_told: None },
    }
}

/// The generation that the annotator told, and the attributes that it found; `None` where it did not write the `DeadLetter`.
fn unannotated(attributes: &Attributes) -> Option<(Option<u32>, Attributes)> {
    let record = attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute)?;
    let mut others = attributes.clone();
    others.retain(|name, _| ![DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&name.as_str()));
    let whole = unfold(others, &record.folded_attributes)?;
    // It annotates nothing that has an annotation still.
    unannotated(&whole).is_none().then_some((record.redrive_generation, whole))
}

/// The attributes beside one of our documents with those that it folds; `None` where we cannot have folded them: SQS would not
/// surely take them, one of them has the name of another, or they are more than ten.
#[must_use]
pub(crate) fn unfold(beside: Attributes, folded: &FoldedAttributes) -> Option<Attributes> {
    let mut whole = beside;
    if whole.len() + folded.len() > ATTRIBUTES_MAX || folded.contains_key(FAILURE) {
        return None;
    }
    for (name, folded) in folded {
        let attribute = folded.attribute().filter(|attribute| is_surely_taken(name, attribute))?;
        if whole.insert(name.clone(), attribute).is_some() {
            return None;
        }
    }
    Some(whole)
}

/// Folds attributes until at most `places` remain: those with one of the `taken` names, then the smallest. Folded is only what
/// [`unfold`] puts back; `None` where that is not enough.
pub(crate) fn fold(
    attributes: &Attributes,
    taken: &[&str],
    places: usize,
) -> Option<(Attributes, FoldedAttributes)> {
    let (collisions, others): (Vec<_>, Vec<_>) =
        attributes.iter().partition(|(name, _)| taken.contains(&name.as_str()));
    if collisions.iter().any(|(name, attribute)| !is_surely_taken(name, attribute)) {
        return None;
    }
    let mut foldable: Vec<_> =
        others.into_iter().filter(|(name, attribute)| is_surely_taken(name, attribute)).collect();
    foldable.sort_by_key(|(name, attribute)| (attribute.size(name), *name));
    let more = attributes.len().saturating_sub(places).saturating_sub(collisions.len());
    let to_fold = collisions.into_iter().chain(foldable.get(..more)?.iter().copied());
    let mut kept = attributes.clone();
    let mut folded = FoldedAttributes::new();
    for (name, attribute) in to_fold {
        kept.remove(name);
        folded.insert(name.clone(), Folded::of(attribute));
    }
    Some((kept, folded))
}

impl Folded {
    fn of(Attribute { data_type, value }: &Attribute) -> Self {
        let (text, base64) = match value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { data_type: data_type.clone(), text, base64 }
    }

    /// `None` where it has not exactly one value, or one that cannot be decoded.
    fn attribute(&self) -> Option<Attribute> {
        let value = match (&self.text, &self.base64) {
            (Some(text), None) => AttributeValue::Text(text.clone()),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
            _ => return None,
        };
        Some(Attribute { data_type: self.data_type.clone(), value })
    }
}

#[cfg(test)]
mod tests;
