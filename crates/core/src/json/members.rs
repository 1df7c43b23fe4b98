//! The members of a JSON object with their ranges in the text, and a limit on nesting depth.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use redeliver_json_schema::pointer_to;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

/// Limit on nested objects and arrays, including the body's own object.
pub const NESTING_MAX: usize = 128;

/// The reason why a body cannot be parsed as a message (`INVALID_MESSAGE_FORMAT`). Never contains a value from the
/// body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MalformedBody {
    /// The JSON parser's error message, with line and column.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// An array, a string, a number…
    #[error("not a JSON object")]
    NotAnObject,
    /// A duplicate at the top level or in `metadata`. Names are compared unescaped. Either of the two members might be
    /// the intended one.
    #[error("duplicate member {0}")]
    DuplicateMember(String),
    #[error("nested deeper than {NESTING_MAX} levels at byte {0}")]
    TooDeep(usize),
}

/// A member of an object. Offsets are relative to the start of the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    /// The unescaped name, as bytes because JSON can escape a lone surrogate, which UTF-8 cannot encode.
    pub name: Cow<'a, [u8]>,
    /// The text between `{` or `,` and the next `,` or `}`: white space, name, colon, value, white space.
    pub segment: Range<usize>,
    pub value: Range<usize>,
}

/// Parses the members of the object at `at` in `body`, in order. `pointer` locates the object in errors. The nesting
/// depth is not checked.
///
/// # Errors
/// Returns an error if the text at `at` is not an object, or if the object has a duplicate member or a control
/// character in a name.
pub fn parse_members<'a>(
    body: &'a str,
    at: Range<usize>,
    pointer: &str,
) -> Result<Vec<Member<'a>>, MalformedBody> {
    let text = &body[at.clone()];
    let RawObject(found) = serde_json::from_str::<RawObject<'_>>(text).map_err(|error| {
        // Values are only skimmed, so a type error can only concern the outermost value.
        if error.is_data() { MalformedBody::NotAnObject } else { MalformedBody::NotJson(error.to_string()) }
    })?;
    let mut seen = SeenNames::default();
    let mut members = Vec::with_capacity(found.len());
    let mut segment_start = body[at.start..].find('{').map_or(at.start, |brace| at.start + brace + 1);
    for (index, (name, raw)) in found.iter().enumerate() {
        if seen.is_repeated(&found[..index], name) {
            return Err(MalformedBody::DuplicateMember(pointer_to(pointer, &String::from_utf8_lossy(name))));
        }
        let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
        check_member_name(body, segment_start..start)?;
        let end = start + raw.get().len();
        // Only white space can separate a value from the next comma or brace.
        let segment_end = body[end..].find([',', '}']).map_or(end, |separator| end + separator);
        members.push(Member { name: name.clone(), segment: segment_start..segment_end, value: start..end });
        segment_start = segment_end + 1;
    }
    Ok(members)
}

/// Detects duplicate names by comparing a few names, or by hashing many.
#[derive(Default)]
struct SeenNames<'b>(HashSet<&'b [u8]>);

/// Up to this many names, comparing is faster than hashing.
const COMPARED_MAX: usize = 16;

impl<'b> SeenNames<'b> {
    /// Returns true if one of the names in `before` equals `name`.
    fn is_repeated(&mut self, before: &'b [NameAndValue<'_>], name: &'b [u8]) -> bool {
        if before.len() < COMPARED_MAX {
            return before.iter().any(|(other, _)| **other == *name);
        }
        if self.0.is_empty() {
            self.0.extend(before.iter().map(|(other, _)| &**other));
        }
        !self.0.insert(name)
    }
}

/// Refuses control characters in a name. `serde_json` accepts them in a string that is read as bytes, but JSON requires
/// them to be escaped, and the next parser would refuse the message. `at` covers the member up to its value.
fn check_member_name(body: &str, at: Range<usize>) -> Result<(), MalformedBody> {
    let before_value = &body.as_bytes()[at.clone()];
    let mut from_quote = before_value.iter().enumerate().skip_while(|(_, byte)| **byte != b'"');
    let end = before_value.iter().rposition(|byte| *byte == b'"').unwrap_or(0);
    match from_quote.find(|(index, byte)| *index < end && **byte < b' ') {
        Some((index, _)) => Err(MalformedBody::NotJson(format!(
            "control character (\\u0000-\\u001F) in a member's name at byte {}",
            at.start + index
        ))),
        None => Ok(()),
    }
}

/// Returns the names and values of an object's members, including duplicates.
pub(crate) fn unchecked_members(text: &str) -> serde_json::Result<Vec<NameAndValue<'_>>> {
    serde_json::from_str(text).map(|RawObject(members)| members)
}

/// An unescaped name and its value.
pub(crate) type NameAndValue<'a> = (Cow<'a, [u8]>, &'a RawValue);

struct RawObject<'a>(Vec<NameAndValue<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawObjectVisitor;
        impl<'de> Visitor<'de> for RawObjectVisitor {
            type Value = RawObject<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(COMPARED_MAX / 2);
                while let Some(NameBytes(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

struct NameBytes<'a>(Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for NameBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameBytesVisitor;
        impl<'de> Visitor<'de> for NameBytesVisitor {
            type Value = NameBytes<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a member's name")
            }

            fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Self::Value, E> {
                Ok(NameBytes(Cow::Borrowed(name)))
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
                Ok(NameBytes(Cow::Owned(name.to_vec())))
            }
        }
        deserializer.deserialize_bytes(NameBytesVisitor)
    }
}

/// Refuses a body that is nested more deeply than [`NESTING_MAX`]. `serde_json` does not check this for values that it
/// skips.
pub(crate) fn check_nesting(body: &str) -> Result<(), MalformedBody> {
    if count_opening_brackets(body) <= NESTING_MAX {
        return Ok(());
    }
    let mut depth = 0_usize;
    let mut bytes = body.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' if depth == NESTING_MAX => return Err(MalformedBody::TooDeep(at)),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Counts opening brackets, including those in strings. Even so, most small bodies stay below the limit. Each block is
/// small enough for its count to fit in a byte, so that the compiler vectorizes the loop.
fn count_opening_brackets(body: &str) -> usize {
    let brackets_in_block =
        |block: &[u8]| block.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    body.as_bytes().chunks(128).map(|block| usize::from(brackets_in_block(block))).sum()
}

/// Skips past the closing quote; escaped quotes do not close the string.
pub(crate) fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}
