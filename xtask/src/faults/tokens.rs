//! Compares code token by token, ignoring white space, line breaks and comments.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Span, TokenStream, TokenTree};

/// The reason why code does not occur exactly once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MatchFailure {
    /// The code has unclosed brackets, or is empty.
    NotTokens,
    /// Not even the first token occurs.
    Nowhere,
    /// Only the first tokens occur: the longest such sequence.
    OnlyBeginning {
        tokens: String,
        place: Range<usize>,
    },
    Repeated(Vec<Range<usize>>),
}

/// Finds the only occurrence of the wanted code in a text.
///
/// # Errors
/// The code does not occur, or occurs more than once.
pub(super) fn find_unique_match(text: &str, wanted: &str) -> Result<Range<usize>, MatchFailure> {
    let wanted = tokenize(wanted).filter(|wanted| !wanted.is_empty()).ok_or(MatchFailure::NotTokens)?;
    let all = tokenize(text).ok_or(MatchFailure::NotTokens)?;
    let mut places = find_matches(&all, &wanted);
    match places.len() {
        0 => Err(describe_beginning(&all, &wanted)),
        1 => Ok(places.remove(0)),
        _ => Err(MatchFailure::Repeated(places)),
    }
}

fn find_matches(all: &[CodeToken], wanted: &[CodeToken]) -> Vec<Range<usize>> {
    let is_same = |window: &&[CodeToken]| window.iter().zip(wanted).all(|(a, b)| a.text == b.text);
    let found = all.windows(wanted.len()).filter(is_same);
    found.map(|window| window[0].range.start..window[window.len() - 1].range.end).collect()
}

fn describe_beginning(all: &[CodeToken], wanted: &[CodeToken]) -> MatchFailure {
    for length in (1..wanted.len()).rev() {
        if let Some(place) = find_matches(all, &wanted[..length]).into_iter().next() {
            let tokens: Vec<_> = wanted[..length].iter().map(|token| token.text.as_str()).collect();
            return MatchFailure::OnlyBeginning { tokens: tokens.join(" "), place };
        }
    }
    MatchFailure::Nowhere
}

#[derive(Debug)]
struct CodeToken {
    text: String,
    range: Range<usize>,
}

/// Returns the tokens of a text, or `None` if a bracket is not closed. Omits commas before closing brackets, because
/// rustfmt adds them where it breaks lines.
fn tokenize(text: &str) -> Option<Vec<CodeToken>> {
    let mut all = Vec::new();
    add_tokens(TokenStream::from_str(text).ok()?, &mut all);
    Some(all)
}

fn add_tokens(stream: TokenStream, all: &mut Vec<CodeToken>) {
    let bracket =
        |span: Span| CodeToken { text: span.source_text().unwrap_or_default(), range: span.byte_range() };
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                all.push(bracket(group.span_open()));
                add_tokens(group.stream(), all);
                all.pop_if(|last| last.text == ",");
                all.push(bracket(group.span_close()));
            }
            tree => all.push(CodeToken { text: tree.to_string(), range: tree.span().byte_range() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_regardless_of_line_breaks() {
        let text = "match a { Some('é') => call( // why\n    &b,\n    [c],\n ), _ => d }";
        for wanted in ["call(&b, [c])", "call ( & b , [ c , ] , )"] {
            let place = find_unique_match(text, wanted).unwrap();
            assert_eq!(&text[place], "call( // why\n    &b,\n    [c],\n )");
        }
    }

    #[test]
    fn missing_or_repeated_code_is_reported_with_its_locations() {
        let found = |wanted| find_unique_match("if a { a + 1 }", wanted).unwrap_err();
        assert_eq!(found("a"), MatchFailure::Repeated(vec![3..4, 7..8]));
        assert_eq!(found("a + 2"), MatchFailure::OnlyBeginning { tokens: "a +".to_owned(), place: 7..10 });
        assert_eq!(found("b"), MatchFailure::Nowhere);
        assert_eq!(found("a {"), MatchFailure::NotTokens);
        assert_eq!(found(""), MatchFailure::NotTokens);
    }
}
