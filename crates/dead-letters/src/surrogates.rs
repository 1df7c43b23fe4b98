//! Lone surrogates: halves of characters, which remain when JavaScript cuts a string inside an emoji. JSON can contain
//! one as an escape, and a message with one is valid, but UTF-8 cannot represent it.

use std::borrow::Cow;

use redeliver_core::json::value;
use serde_json::Value;

/// Replaces the escape of each lone surrogate with the escape of U+FFFD, as jq and browsers do.
pub(crate) fn replace_surrogates(json: &str) -> Cow<'_, str> {
    let lone: Vec<_> = lone_escapes(json).collect();
    if lone.is_empty() {
        return Cow::Borrowed(json);
    }
    let (mut text, mut copied) = (String::with_capacity(json.len()), 0);
    for at in lone {
        text.push_str(&json[copied..at]);
        text.push_str("\\ufffd");
        copied = at + ESCAPE_BYTES;
    }
    Cow::Owned(text + &json[copied..])
}

/// Parses JSON, replacing each lone surrogate with U+FFFD.
///
/// # Errors
/// If the text is not JSON, or is nested too deeply.
pub fn read_lossy(json: &str) -> serde_json::Result<Value> {
    value::parse_value(&replace_surrogates(json))
}

/// Returns true if the change would replace a lone surrogate in `before` with U+FFFD as a side effect.
pub(crate) fn loses_surrogates(before: &str, after: &str) -> bool {
    let count = |text: &str| text.matches(char::REPLACEMENT_CHARACTER).count();
    lone_escapes(before).next().is_some() && count(after) > count(before)
}

/// The length of an escape: `\u` and four digits.
const ESCAPE_BYTES: usize = 6;

/// Returns the positions of escaped lone surrogates. In JSON, a backslash occurs only in strings, and starts an escape.
fn lone_escapes(json: &str) -> impl Iterator<Item = usize> {
    let unit = move |at: usize| {
        let escape = json.get(at..at + ESCAPE_BYTES)?;
        u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
    };
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let at = next + json.as_bytes().get(next..)?.iter().position(|byte| *byte == b'\\')?;
            match (unit(at), unit(at + ESCAPE_BYTES)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => next = at + 2 * ESCAPE_BYTES,
                (Some(0xd800..=0xdfff), _) => {
                    next = at + ESCAPE_BYTES;
                    return Some(at);
                }
                // The escaped character may be a backslash.
                _ => next = at + 2,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (json, expected) in [
            (r#""A\ud800""#, r#""A\ufffd""#),
            (r#""\uDC00\ud83d\ude00\uD83D\ud83d\ude00""#, r#""\ufffd\ud83d\ude00\ufffd\ud83d\ude00""#),
            (r#"{"\ud800\n":"\ud800\ud800"}"#, r#"{"\ufffd\n":"\ufffd\ufffd"}"#),
            (r#""\\ud800 \\\ud800 é\u00e9""#, r#""\\ud800 \\\ufffd é\u00e9""#),
            (r#""\ud800é€""#, r#""\ufffdé€""#),
            ("[1,2]", "[1,2]"),
        ] {
            assert_eq!(replace_surrogates(json), expected, "{json}");
            assert!(read_lossy(json).is_ok(), "{json}");
        }
    }

    #[test]
    fn text_that_is_not_json_does_not_make_the_surrogate_scan_panic() {
        for text in ["\\", "\\u", "\\ud8", "\\ud800\\", "\\ud800é", "\\u+800"] {
            let _replaced = replace_surrogates(text);
        }
    }
}
