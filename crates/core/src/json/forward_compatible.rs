//! Forward compatibility with documents from later versions. Versions run side by side: an update replaces writers and
//! readers in any order, a message hops for hours, and a rollback brings back an older version. A reader therefore
//! preserves the members that it does not recognize.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use strum::VariantArray;

use crate::limits::find_illegal_character;
use crate::truncate;

/// Size limit of an unknown value.
const UNKNOWN_BYTES_MAX: usize = 64;

/// Members that this version does not recognize, as raw text.
#[derive(Clone, Debug, Default)]
pub struct UnknownMembers(Vec<(String, Box<RawValue>)>);

impl UnknownMembers {
    /// Adds a member. Its value keeps its original text. Its name is re-encoded, so the member is dropped if the name
    /// contains an escaped character that SQS refuses.
    pub(crate) fn push_member(&mut self, name: &str, value: &RawValue) {
        if find_illegal_character(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Returns the members of an object, except those that are `known`.
    pub(crate) fn all_except(known: &[&str], object: &str) -> Self {
        let members: BTreeMap<BorrowedText<'_>, &RawValue> = serde_json::from_str(object).unwrap_or_default();
        let mut unknown = Self::default();
        members
            .iter()
            .filter(|(BorrowedText(name), _)| !known.contains(&&**name))
            .for_each(|(BorrowedText(name), value)| unknown.push_member(name, value));
        unknown
    }

    /// Returns true if the document has no unknown members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for UnknownMembers {
    fn eq(&self, other: &Self) -> bool {
        let texts = |Self(members): &Self| -> Vec<_> {
            members.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
        };
        texts(self) == texts(other)
    }
}

impl Serialize for UnknownMembers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| members.serialize_entry(name, value))?;
        members.end()
    }
}

/// A string that is copied only if it contains an escape.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub(crate) struct BorrowedText<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The values of an [`OpenEnum`] in this version.
pub trait OpenVariants: Copy + Into<&'static str> + VariantArray {
    /// Returns the value's name in documents.
    fn wire_name(self) -> &'static str {
        self.into()
    }

    /// Returns true if an unknown value may come from a later version.
    fn admits_unknown(unknown: &str) -> bool {
        let _ = unknown;
        true
    }
}

/// An enum to which later versions may add values. The text of an unknown value is preserved, truncated to 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenEnum<T> {
    /// A value that this version knows.
    Known(T),
    /// A value from a later version: a short text that SQS accepts.
    Unknown(String),
}

impl<T: OpenVariants> OpenEnum<T> {
    /// Parses a value. Returns `None` if no version can have written it.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let known = T::VARIANTS.iter().copied().find(|known| known.wire_name() == text).map(Self::Known);
        let unknown =
            || T::admits_unknown(text).then(|| Self::Unknown(truncate::clean_text(text, UNKNOWN_BYTES_MAX)));
        known.or_else(unknown)
    }

    /// Returns the value's name in documents.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.wire_name(),
            Self::Unknown(text) => text,
        }
    }

    /// Returns the value if this version knows it, or `None` if it comes from a later version.
    #[must_use]
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Unknown(_) => None,
        }
    }
}

impl<T> From<T> for OpenEnum<T> {
    fn from(known: T) -> Self {
        Self::Known(known)
    }
}

impl<T: OpenVariants> Serialize for OpenEnum<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: OpenVariants> Deserialize<'de> for OpenEnum<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BorrowedText(text) = BorrowedText::deserialize(deserializer)?;
        Self::from_text(&text).ok_or_else(|| serde::de::Error::custom("a value that no version writes"))
    }
}
