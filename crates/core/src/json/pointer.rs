//! JSON Pointers (RFC 6901) to a member or an element.

use serde_json::value::RawValue;
use thiserror::Error;

use crate::json::members::{NameAndValue, unchecked_members};

/// A JSON Pointer to a value inside a document, never to the whole document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

/// The error for a string that is not a [`Pointer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "is not a JSON Pointer to a member, such as /detail/id: begin it with `/`, and in a name write `~` as ~0 and `/` as ~1"
)]
pub struct PointerError;

impl Pointer {
    /// Parses a pointer.
    ///
    /// # Errors
    /// Returns an error if the string is not a JSON Pointer, or if it points to the whole document.
    pub fn new(text: &str) -> Result<Self, PointerError> {
        let names = text.strip_prefix('/').ok_or(PointerError)?;
        names.split('/').map(unescape_name).collect::<Option<_>>().map(Self).ok_or(PointerError)
    }

    /// Returns the string at the pointer, or the number there exactly as written. Returns `None` for any other value,
    /// an empty string, or a document that is not JSON. If a member is duplicated, the last one counts.
    #[must_use]
    pub fn find_text(&self, document: &str) -> Option<String> {
        let value = self.find_last(serde_json::from_str(document).ok()?)?.get();
        match value.as_bytes().first()? {
            // Parsing fails for a lone surrogate, which a Rust string cannot hold.
            b'"' => serde_json::from_str(value).ok().filter(|text: &String| !text.is_empty()),
            // A float cannot represent 12345678901234567890 exactly.
            b'-' | b'0'..=b'9' => Some(value.to_owned()),
            _ => None,
        }
    }

    /// Returns the value at the pointer. If several members have the same name, the last one counts, as in most
    /// parsers.
    fn find_last<'a>(&self, document: &'a RawValue) -> Option<&'a RawValue> {
        let Self(names) = self;
        names.iter().try_fold(document, |value, name| child_values(value, name)?.pop())
    }

    /// Returns all values at the pointer, including those of duplicate members. Returns `None` if the document cannot
    /// be parsed that far.
    pub(crate) fn find_all<'a>(&self, document: &'a RawValue) -> Option<Vec<&'a RawValue>> {
        let Self(names) = self;
        names.iter().try_fold(vec![document], |values, name| {
            let below: Option<Vec<_>> = values.into_iter().map(|value| child_values(value, name)).collect();
            below.map(|below| below.concat())
        })
    }
}

/// Unescapes one name in a pointer. Returns `None` if a `~` is not followed by 0 or 1.
fn unescape_name(name: &str) -> Option<String> {
    let is_sound = name.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    // `~1` must be replaced first, or `~01` would become `/`.
    is_sound.then(|| name.replace("~1", "/").replace("~0", "~"))
}

/// Returns the values of an object's members with this name, or an array's element at this index.
fn child_values<'a>(value: &'a RawValue, name: &str) -> Option<Vec<&'a RawValue>> {
    let text = value.get();
    if text.starts_with('{') {
        let is_named = |(other, value): NameAndValue<'a>| (*other == *name.as_bytes()).then_some(value);
        return Some(unchecked_members(text).ok()?.into_iter().filter_map(is_named).collect());
    }
    let is_index = name == "0" || (name.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('0'));
    let index: Option<usize> = is_index.then(|| name.parse().ok()).flatten();
    let (true, Some(index)) = (text.starts_with('['), index) else { return Some(Vec::new()) };
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.get(index).copied().into_iter().collect())
}
