//! Members of an object set or removed in its text, and every other byte as it came.

use std::ops::Range;

use super::Member;

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
