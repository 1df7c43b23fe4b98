//! A producer's attributes inside one of our documents: if ten are not enough, some are folded, and put back on
//! arrival.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::limits::ATTRIBUTES_MAX;
use crate::message::reserved::FAILURE;
use crate::message::{Attribute, AttributeValue, Attributes, is_surely_taken};

/// An attribute that found no place next to ours, inside one of our JSON documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Folded attributes by name.
pub type FoldedAttributes = BTreeMap<String, Folded>;

/// The attributes next to one of our documents, together with those that it folds; `None` if we cannot have folded
/// them: SQS would not surely take them, one of them has the name of another, or they are more than ten.
#[must_use]
pub(crate) fn unfold(others: Attributes, folded: &FoldedAttributes) -> Option<Attributes> {
    let mut whole = others;
    // Looked at before anything is put back: a forged document must not make a message that SQS refuses.
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

/// Folds attributes until at most `places` remain: those with one of the `taken` names, then the smallest. Folded is
/// only what [`unfold`] puts back; `None` if that is not enough.
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
    // The smallest: what is folded is written as JSON, and bytes grow by a third. Among equals the name decides, so
    // that each copy folds the same.
    let mut foldable: Vec<_> =
        others.into_iter().filter(|(name, attribute)| is_surely_taken(name, attribute)).collect();
    foldable.sort_by_key(|(name, attribute)| (attribute.size(name), *name));
    // Collisions are folded in any case, and make room by that.
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

    /// `None` if it has not exactly one value, or one that cannot be decoded.
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
