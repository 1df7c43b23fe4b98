//! Values that the archive must not contain, such as personal data (`ARCHIVE_OMIT`).

use std::cmp::Reverse;

use serde_json::value::RawValue;
use thiserror::Error;

use super::ArchivedMessage;
use crate::json::pointer::{Pointer, PointerError};

/// The replacement text for an omitted value.
pub const OMITTED: &str = "omitted";
/// Limit on the number of pointers.
const POINTERS_MAX: usize = 50;

/// Pointers to the body values that are replaced in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmitList(Vec<(String, Pointer)>);

/// The reason why a list of pointers is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OmitError {
    /// An entry that is not a pointer, with its position, counted from 1.
    #[error("entry {0} {1}")]
    Pointer(usize, PointerError),
    #[error("has more than {POINTERS_MAX} entries")]
    TooMany,
}

/// A body with the omitted values replaced.
struct RedactedBody {
    body: String,
    /// The pointers that matched a value.
    omitted: Vec<String>,
}

impl OmitList {
    /// Parses a comma-separated list of at most 50 JSON Pointers to values in a body; white space around each is
    /// ignored.
    ///
    /// # Errors
    /// An entry is not a JSON Pointer to a member, or the list has more than 50 entries.
    pub fn parse(text: &str) -> Result<Self, OmitError> {
        let entries: Vec<_> = text.split(',').map(str::trim).collect();
        if entries.len() > POINTERS_MAX {
            return Err(OmitError::TooMany);
        }
        let pointer = |(index, text): (usize, &&str)| {
            let pointer = Pointer::new(text).map_err(|error| OmitError::Pointer(index + 1, error))?;
            Ok(((*text).to_owned(), pointer))
        };
        entries.iter().enumerate().map(pointer).collect::<Result<_, _>>().map(Self)
    }

    /// Replaces the values with `"omitted"`, and lists the pointers that matched. A body that is not JSON is omitted
    /// entirely, since its values cannot be located. Without pointers the line is unchanged.
    #[must_use]
    pub fn apply_to(&self, line: ArchivedMessage) -> ArchivedMessage {
        let Self(pointers) = self;
        if pointers.is_empty() {
            return line;
        }
        let redacted = self.redact_body(&line.body);
        let RedactedBody { body, omitted } = redacted
            .unwrap_or_else(|| RedactedBody { body: OMITTED.to_owned(), omitted: vec![String::new()] });
        ArchivedMessage { body, omitted, ..line }
    }

    /// Returns the redacted body; `None` if the body cannot be parsed.
    fn redact_body(&self, body: &str) -> Option<RedactedBody> {
        let document: &RawValue = serde_json::from_str(body).ok()?;
        let mut omitted = Vec::new();
        let mut values = Vec::new();
        for (text, pointer) in &self.0 {
            let found = pointer.find_all(document)?;
            if !found.is_empty() {
                omitted.push(text.clone());
            }
            values.extend(found.into_iter().map(|value| {
                let start = value.get().as_ptr() as usize - body.as_ptr() as usize;
                start..start + value.get().len()
            }));
        }
        // One value may be nested in another: the outer one sorts first, and covers it.
        values.sort_by_key(|value| (value.start, Reverse(value.end)));
        let mut redacted = String::with_capacity(body.len());
        let mut end = 0;
        for value in values {
            if value.start >= end {
                redacted.push_str(&body[end..value.start]);
                redacted.extend(["\"", OMITTED, "\""]);
                end = value.end;
            }
        }
        redacted.push_str(&body[end..]);
        Some(RedactedBody { body: redacted, omitted })
    }
}
