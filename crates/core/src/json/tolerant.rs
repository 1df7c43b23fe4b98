//! Forward compatibility with documents of later versions. Versions run side by side: an update replaces writers and
//! readers in any order, a message hops for hours, and a rollback goes the other way. So a reader keeps and passes on
//! the members that it does not know.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use strum::VariantArray;

use crate::limits::first_illegal;
use crate::text;

/// Size limit of an unknown word.
const WORD_BYTES_MAX: usize = 64;

/// Members that this version does not know, as raw text.
#[derive(Clone, Debug, Default)]
pub struct Unknown(Vec<(String, Box<RawValue>)>);

impl Unknown {
    /// Keeps the value's text unchanged. The name is re-encoded, so one with an escaped character that SQS refuses is
    /// left out.
    pub(crate) fn push(&mut self, name: &str, value: &RawValue) {
        if first_illegal(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The members of an object, except those that are `known`.
    pub(crate) fn except(known: &[&str], object: &str) -> Self {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap_or_default();
        let mut unknown = Self::default();
        members
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .for_each(|(name, value)| unknown.push(name, value));
        unknown
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Unknown {
    fn eq(&self, other: &Self) -> bool {
        let texts = |Self(members): &Self| -> Vec<_> {
            members.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
        };
        texts(self) == texts(other)
    }
}

impl Serialize for Unknown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| members.serialize_entry(name, value))?;
        members.end()
    }
}

/// A string that is copied only if it has an escape.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Borrowed<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Words of which a later version may know more.
pub trait Vocabulary: Copy + Into<&'static str> + VariantArray {
    /// The word in documents.
    fn word(self) -> &'static str {
        self.into()
    }

    /// True if an unknown word may be one of a later version.
    fn admits(unknown: &str) -> bool {
        let _ = unknown;
        true
    }
}

/// A word of a vocabulary. One of a later version keeps its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<T> {
    /// A word of this version.
    Known(T),
    /// A word of a later version: a short text that SQS accepts.
    Unknown(String),
}

impl<T: Vocabulary> Word<T> {
    /// `None` if no version can have written this word.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let known = T::VARIANTS.iter().copied().find(|known| known.word() == text).map(Self::Known);
        let unknown = || T::admits(text).then(|| Self::Unknown(text::clean(text, WORD_BYTES_MAX)));
        known.or_else(unknown)
    }

    /// The word in documents.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.word(),
            Self::Unknown(text) => text,
        }
    }

    /// `None` for a word of a later version.
    #[must_use]
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Unknown(_) => None,
        }
    }
}

impl<T> From<T> for Word<T> {
    fn from(known: T) -> Self {
        Self::Known(known)
    }
}

impl<T: Vocabulary> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: Vocabulary> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Borrowed(text) = Borrowed::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| serde::de::Error::custom("a word that no version writes"))
    }
}
