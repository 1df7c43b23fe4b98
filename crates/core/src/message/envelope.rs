//! The message body `{"metadata":{…},"data":{…}}`, taken apart without touching its bytes.

mod members;

use std::ops::Range;

pub(crate) use members::unchecked_members;
pub use members::{Member, members};
use thiserror::Error;

use crate::message::metadata::{Metadata, OurMembers, RetryMetadata, fresh_members};

/// Objects and arrays inside one another, the body's own object included.
pub const NESTING_MAX: usize = 128;

/// A valid message body. Made by [`crate::message::schema::MessageSchema::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<'a> {
    body: &'a str,
    /// What we read of `metadata`.
    pub metadata: Metadata,
    /// Where the inside of the `metadata` object stands in the body: after `{`, before `}`.
    inside: Range<usize>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn new(skimmed: Skimmed<'a>, metadata: Metadata) -> Self {
        let Skimmed { body, inside, .. } = skimmed;
        Self { body, metadata, inside }
    }

    /// The body as it came.
    #[must_use]
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// The body with our metadata members set or removed, and every other byte as it came. A member that is there
    /// keeps its place; a new one comes last.
    #[must_use]
    pub fn with_retry_metadata(&self, retry: &RetryMetadata) -> String {
        with_metadata(self.body, &self.inside, retry.members())
    }

    /// The body as it is sent back from the final DLQ: a fresh start in the generation after its own and the one that
    /// its final record has, and every other byte as it came.
    #[must_use]
    pub fn with_next_generation(&self, of_final_record: Option<u32>) -> String {
        let generation = self.metadata.clone().into_next_generation(of_final_record).generation();
        with_metadata(self.body, &self.inside, fresh_members(generation))
    }

    pub(crate) fn into_metadata(self) -> (Metadata, Range<usize>) {
        (self.metadata, self.inside)
    }
}

/// The body with our metadata members set or removed, and every other byte as it came. `inside` is where the inside of
/// `metadata` stands in a body that was parsed.
pub(crate) fn with_metadata(body: &str, inside: &Range<usize>, ours: OurMembers) -> String {
    let object = inside.start - 1..inside.end + 1;
    let members =
        members(body, object, "/metadata").expect("the body was parsed, and its metadata is an object");
    spliced(body, inside, &members, ours)
}

/// Why a body is not a message at all: `INVALID_MESSAGE_FORMAT`. Never holds a value of the body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The JSON parser's own words, with line and column.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// An array, a string, a number…
    #[error("not a JSON object")]
    NotAnObject,
    /// At the top level or in `metadata`, names compared unescaped. Which of the two counts is anyone's guess.
    #[error("duplicate member {0}")]
    DuplicateMember(String),
    #[error("nested deeper than {NESTING_MAX} levels at byte {0}")]
    TooDeep(usize),
}

/// A body taken apart, not yet validated.
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

/// Takes a body apart: a JSON object, not nested too deep, with no duplicate member at the top level or in `metadata`.
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

/// Refuses what nests deeper than [`NESTING_MAX`]. `serde_json` would not: it skims what it does not build.
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

/// Also those in strings: most small bodies have too few even so. Counted in blocks whose count fits in a byte: the
/// compiler makes vector instructions of that.
fn opening_brackets(body: &str) -> usize {
    let of_block = |block: &[u8]| block.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    body.as_bytes().chunks(128).map(|block| usize::from(of_block(block))).sum()
}

/// To after the quote that ends it; one after a backslash does not.
fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

/// The text with these members set, or removed if they have no value. One that is there keeps its place; a new one comes
/// last. `inside` is where the inside of the object stands, whose `members` these are.
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

/// One more member; a comma before it unless it is the first one.
fn push_parts<const N: usize>(written: &mut String, first: usize, parts: [&str; N]) {
    if written.len() > first {
        written.push(',');
    }
    parts.into_iter().for_each(|part| written.push_str(part));
}

#[cfg(test)]
mod tests;
