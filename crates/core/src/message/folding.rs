//! Folding: if there would be more than ten attributes, some of the producer's are stored inside one of our documents
//! and restored on arrival.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::limits::ATTRIBUTES_MAX;
use crate::message::reserved::FAILURE;
use crate::message::{Attribute, AttributeValue, Attributes, is_certainly_accepted};

/// A producer's attribute that did not fit alongside ours (the SQS limit is ten), as stored in one of our JSON
/// documents: its type, and its value as text or base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedAttribute {
    data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Folded attributes by name.
pub type FoldedAttributes = BTreeMap<String, FoldedAttribute>;

/// Returns the attributes that accompany one of our documents, plus the attributes folded into it. Returns `None` if
/// the folded attributes are forged: SQS might refuse one, a name is used twice, or the total exceeds ten.
#[must_use]
pub(crate) fn unfold_attributes(others: Attributes, folded: &FoldedAttributes) -> Option<Attributes> {
    let mut whole = others;
    // Checked before anything is restored: a forged document must not result in a message that SQS refuses.
    if whole.len() + folded.len() > ATTRIBUTES_MAX || folded.contains_key(FAILURE) {
        return None;
    }
    for (name, folded) in folded {
        let attribute = folded.to_attribute().filter(|attribute| is_certainly_accepted(name, attribute))?;
        if whole.insert(name.clone(), attribute).is_some() {
            return None;
        }
    }
    Some(whole)
}

/// A message's attributes, split into kept and folded ones.
pub(crate) struct Folding {
    pub(crate) kept: Attributes,
    pub(crate) folded: FoldedAttributes,
}

/// Folds attributes until at most `places` remain: first those with one of the `taken` names, then the smallest. Folds
/// only attributes that [`unfold_attributes`] can restore. Returns `None` if there are not enough of them.
pub(crate) fn fold_attributes(attributes: &Attributes, taken: &[&str], places: usize) -> Option<Folding> {
    let (collisions, others): (Vec<_>, Vec<_>) =
        attributes.iter().partition(|(name, _)| taken.contains(&name.as_str()));
    if collisions.iter().any(|(name, attribute)| !is_certainly_accepted(name, attribute)) {
        return None;
    }
    // Smallest first: folded attributes are written as JSON, and binary values grow by a third. Ties are broken by
    // name, so that every copy of a message folds the same attributes.
    let mut foldable: Vec<_> =
        others.into_iter().filter(|(name, attribute)| is_certainly_accepted(name, attribute)).collect();
    foldable.sort_by_key(|(name, attribute)| (attribute.size(name), *name));
    // Attributes with a taken name are folded in any case, which leaves fewer of the others to fold.
    let more = attributes.len().saturating_sub(places).saturating_sub(collisions.len());
    let to_fold = collisions.into_iter().chain(foldable.get(..more)?.iter().copied());
    let mut kept = attributes.clone();
    let mut folded = FoldedAttributes::new();
    for (name, attribute) in to_fold {
        kept.remove(name);
        folded.insert(name.clone(), FoldedAttribute::from_attribute(attribute));
    }
    Some(Folding { kept, folded })
}

impl FoldedAttribute {
    fn from_attribute(Attribute { data_type, value }: &Attribute) -> Self {
        let (text, base64) = match value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { data_type: data_type.clone(), text, base64 }
    }

    /// Restores the attribute; `None` unless it has exactly one value that can be decoded.
    fn to_attribute(&self) -> Option<Attribute> {
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
