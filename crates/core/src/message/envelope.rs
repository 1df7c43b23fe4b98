//! The message body `{"metadata":{…},"data":{…}}`, parsed without changing its bytes.

mod members;

use std::ops::Range;

pub use members::{Member, members};
pub(crate) use members::{NameAndValue, unchecked_members};
use thiserror::Error;

use crate::failure::CameBack;
use crate::message::metadata::{Metadata, OurMembers, RetryMetadata, fresh_members};

/// Limit on nested objects and arrays, the body's own object included.
pub const NESTING_MAX: usize = 128;

/// A valid message body, created by [`crate::message::schema::MessageSchema::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<'a> {
    body: &'a str,
    /// The members of `metadata` that we know.
    pub metadata: Metadata,
    /// Range of the `metadata` object's inside in the body: after `{`, before `}`.
    inside: Range<usize>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn new(skimmed: Skimmed<'a>, metadata: Metadata) -> Self {
        let Skimmed { body, inside, .. } = skimmed;
        Self { body, metadata, inside }
    }

    /// The body, unchanged.
    #[must_use]
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// The body with our metadata members set or removed, and every other byte unchanged. An existing member keeps its
    /// place; a new one comes last.
    #[must_use]
    pub fn with_retry_metadata(&self, retry: &RetryMetadata) -> String {
        with_metadata(self.body, &self.inside, retry.members())
    }

    /// The body for sending the message back from the final DLQ: a fresh start, in the generation after its own and its
    /// final record's; every other byte is unchanged.
    #[must_use]
    pub fn with_next_generation(&self, came_back: CameBack) -> String {
        let fresh = self.metadata.clone().into_next_generation(came_back);
        with_metadata(self.body, &self.inside, fresh_members(&fresh))
    }

    pub(crate) fn into_metadata(self) -> (Metadata, Range<usize>) {
        (self.metadata, self.inside)
    }
}

/// The body with our metadata members set or removed, and every other byte unchanged. `inside` is the range of the
/// `metadata` object's inside in a parsed body.
pub(crate) fn with_metadata(body: &str, inside: &Range<usize>, ours: OurMembers) -> String {
    let object = inside.start - 1..inside.end + 1;
    let members =
        members(body, object, "/metadata").expect("the body was parsed, and its metadata is an object");
    spliced(body, inside, &members, ours)
}

/// The reason why a body is not a message at all: `INVALID_MESSAGE_FORMAT`. Never holds a value of the body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The JSON parser's message, with line and column.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// An array, a string, a number…
    #[error("not a JSON object")]
    NotAnObject,
    /// At the top level or in `metadata`, with unescaped names. Either of the two might be the intended one.
    #[error("duplicate member {0}")]
    DuplicateMember(String),
    #[error("nested deeper than {NESTING_MAX} levels at byte {0}")]
    TooDeep(usize),
}

/// A parsed body, not yet validated.
pub(crate) struct Skimmed<'a> {
    pub(crate) body: &'a str,
    /// The members of `metadata`, if that is an object.
    pub(crate) metadata: Vec<Member<'a>>,
    pub(crate) inside: Range<usize>,
    /// The text of `metadata`.
    pub(crate) metadata_text: Option<&'a str>,
    /// The text of `data`.
    pub(crate) data_text: Option<&'a str>,
}

/// Parses a body: a JSON object, not nested too deep, without duplicate members at the top level or in `metadata`.
pub(crate) fn skim(body: &str) -> Result<Skimmed<'_>, Malformed> {
    check_nesting(body)?;
    let top = members(body, 0..body.len(), "")?;
    let find = |name: &str| top.iter().find(|member| *member.name == *name.as_bytes());
    let metadata_at = find("metadata").map(|member| member.value.clone());
    let metadata_text = metadata_at.clone().map(|at| &body[at]);
    let (metadata, inside) = match metadata_at {
        Some(at) if body[at.clone()].starts_with('{') => {
            (members(body, at.clone(), "/metadata")?, at.start + 1..at.end - 1)
        }
        _ => (Vec::new(), 0..0),
    };
    let data_text = find("data").map(|member| &body[member.value.clone()]);
    Ok(Skimmed { body, metadata, inside, metadata_text, data_text })
}

/// Refuses a body that nests deeper than [`NESTING_MAX`]. `serde_json` does not check this for values that it skips.
pub(crate) fn check_nesting(body: &str) -> Result<(), Malformed> {
    if opening_brackets(body) <= NESTING_MAX {
        return Ok(());
    }
    let mut depth = 0_usize;
    let mut bytes = body.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' if depth == NESTING_MAX => return Err(Malformed::TooDeep(at)),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Includes brackets in strings: even so, most small bodies have too few. Counted in blocks whose count fits in a byte,
/// so that the compiler vectorises the loop.
fn opening_brackets(body: &str) -> usize {
    let of_block = |block: &[u8]| block.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    body.as_bytes().chunks(128).map(|block| usize::from(of_block(block))).sum()
}

/// Skips past the closing quote; a quote after a backslash does not close.
pub(crate) fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

/// The text with these members set, or removed if they have no value. An existing member keeps its place; a new one
/// comes last. `inside` is the range of the object's inside, and `members` are its members.
pub(crate) fn spliced<const N: usize>(
    text: &str,
    inside: &Range<usize>,
    members: &[Member<'_>],
    mut ours: [(&str, Option<String>); N],
) -> String {
    let added =
        ours.iter().map(|(name, value)| value.as_ref().map_or(0, |value| name.len() + value.len() + 4));
    let mut written = String::with_capacity(text.len() + added.sum::<usize>());
    written.push_str(&text[..inside.start]);
    let first = written.len();
    for member in members {
        let (before_value, after_value) =
            (member.segment.start..member.value.start, member.value.end..member.segment.end);
        match ours.iter_mut().find(|(name, _)| name.as_bytes() == &*member.name) {
            None => push_parts(&mut written, first, [&text[member.segment.clone()]]),
            Some((_, value)) => {
                if let Some(value) = value.take() {
                    let parts = [&text[before_value], &value, &text[after_value]];
                    push_parts(&mut written, first, parts);
                }
            }
        }
    }
    for (name, value) in ours {
        if let Some(value) = value {
            push_parts(&mut written, first, ["\"", name, "\":", &value]);
        }
    }
    written.push_str(&text[inside.end..]);
    written
}

/// Appends a member, after a comma unless it is the first one.
fn push_parts<const N: usize>(written: &mut String, first: usize, parts: [&str; N]) {
    if written.len() > first {
        written.push(',');
    }
    parts.into_iter().for_each(|part| written.push_str(part));
}

#[cfg(test)]
mod tests;
