//! The message body `{"metadata":{…},"data":{…}}`, parsed without changing its bytes.

use std::ops::Range;

use crate::json::members::check_nesting;
pub use crate::json::members::{MalformedBody, Member, NESTING_MAX, parse_members};
use crate::message::metadata::{DlqReturn, Metadata, OurMembers, RetryMetadata, fresh_members};

/// A valid message body, created by [`crate::message::schema::MessageSchema::parse_envelope`].
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<'a> {
    body: &'a str,
    /// The parsed `metadata`.
    pub metadata: Metadata,
    /// Range in the body between the braces of the `metadata` object.
    inside: Range<usize>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn new(skimmed: SkimmedBody<'a>, metadata: Metadata) -> Self {
        let SkimmedBody { body, inside, .. } = skimmed;
        Self { body, metadata, inside }
    }

    /// Returns the body, unchanged.
    #[must_use]
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// Returns the body with our metadata members set or removed, and every other byte unchanged. Existing members keep
    /// their positions; new ones are added at the end.
    #[must_use]
    pub fn with_retry_metadata(&self, retry: &RetryMetadata) -> String {
        splice_metadata(self.body, &self.inside, retry.json_members())
    }

    /// Returns the body for sending the message back from the final DLQ: reset, with a generation higher than those in
    /// the body and the final record. Every other byte is unchanged.
    #[must_use]
    pub fn with_next_generation(&self, came_back: DlqReturn) -> String {
        let fresh = self.metadata.clone().into_next_generation(came_back);
        splice_metadata(self.body, &self.inside, fresh_members(&fresh))
    }

    pub(crate) fn into_metadata(self) -> (Metadata, Range<usize>) {
        (self.metadata, self.inside)
    }
}

/// Returns the body with our metadata members set or removed, and every other byte unchanged. `inside` is the range
/// between the braces of the `metadata` object in a parsed body.
pub(crate) fn splice_metadata(body: &str, inside: &Range<usize>, ours: OurMembers) -> String {
    let object = inside.start - 1..inside.end + 1;
    let members =
        parse_members(body, object, "/metadata").expect("the body was parsed, and its metadata is an object");
    splice_members(body, inside, &members, ours)
}

/// A parsed body, not yet validated.
pub(crate) struct SkimmedBody<'a> {
    pub(crate) body: &'a str,
    /// The members of `metadata`, if it is an object.
    pub(crate) metadata: Vec<Member<'a>>,
    pub(crate) inside: Range<usize>,
    /// The JSON text of `metadata`.
    pub(crate) metadata_text: Option<&'a str>,
    /// The JSON text of `data`.
    pub(crate) data_text: Option<&'a str>,
}

/// Parses a body: a JSON object that is not nested too deeply and has no duplicate members at the top level or in
/// `metadata`.
pub(crate) fn skim_body(body: &str) -> Result<SkimmedBody<'_>, MalformedBody> {
    check_nesting(body)?;
    let top = parse_members(body, 0..body.len(), "")?;
    let find = |name: &str| top.iter().find(|member| *member.name == *name.as_bytes());
    let metadata_at = find("metadata").map(|member| member.value.clone());
    let metadata_text = metadata_at.clone().map(|at| &body[at]);
    let (metadata, inside) = match metadata_at {
        Some(at) if body[at.clone()].starts_with('{') => {
            (parse_members(body, at.clone(), "/metadata")?, at.start + 1..at.end - 1)
        }
        _ => (Vec::new(), 0..0),
    };
    let data_text = find("data").map(|member| &body[member.value.clone()]);
    Ok(SkimmedBody { body, metadata, inside, metadata_text, data_text })
}

/// Returns the text with these members set, or removed if they have no value. Existing members keep their positions;
/// new ones are added at the end. `inside` is the range between the braces of the object, and `members` are its
/// members.
pub(crate) fn splice_members<const N: usize>(
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

/// Appends a member, preceded by a comma unless it is the first.
fn push_parts<const N: usize>(written: &mut String, first: usize, parts: [&str; N]) {
    if written.len() > first {
        written.push(',');
    }
    parts.into_iter().for_each(|part| written.push_str(part));
}

#[cfg(test)]
mod tests;
