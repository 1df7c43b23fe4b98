//! Truncates text, and replaces characters that SQS refuses.

use std::borrow::Cow;

use crate::limits::{find_illegal_character, is_legal};

/// Size limit for the error types that we write.
pub const ERROR_TYPE_BYTES_MAX: usize = 128;

/// Size limit of a function's name and version. In Lambda, a name has at most 64 characters and a version is a number
/// ("CreateFunction", AWS Lambda API Reference).
pub const FUNCTION_BYTES_MAX: usize = 128;

/// Precedes the last error in an explanation: `Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503`.
pub const LAST_ERROR: &str = "; last error ";

const ELLIPSIS: &str = "…";
/// Minimum length of an explanation: if less space remains, it is dropped in favor of the last error.
const EXPLANATION_LENGTH_MIN: usize = 18;

/// Truncates `text` to at most `bytes_max` bytes: an ellipsis of 3 bytes replaces the end (below 3 bytes the result is
/// empty), and U+FFFD replaces each character that SQS refuses. For names, and for the details of a single error whose
/// type is stored separately.
#[must_use]
pub fn clean_text(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max && find_illegal_character(text).is_none() {
        return text.to_owned();
    }
    let replace_illegal = |character| {
        if is_legal(character) { character } else { char::REPLACEMENT_CHARACTER }
    };
    let mut cleaned = String::with_capacity(text.len().min(bytes_max));
    let mut cut_at = 0;
    for character in text.chars().map(replace_illegal) {
        if cleaned.len() + character.len_utf8() > bytes_max {
            cleaned.truncate(cut_at);
            if bytes_max >= ELLIPSIS.len() {
                cleaned.push_str(ELLIPSIS);
            }
            return cleaned;
        }
        cleaned.push(character);
        if cleaned.len() + ELLIPSIS.len() <= bytes_max {
            cut_at = cleaned.len();
        }
    }
    cleaned
}

/// Like [`clean_text`], for explanations: cuts the middle, but keeps the last error as [`shorten_text`] does.
#[must_use]
pub fn clean_and_cut_middle(text: &str, bytes_max: usize) -> String {
    let legal = match find_illegal_character(text) {
        None => Cow::Borrowed(text),
        Some(_) => clean_text(text, usize::MAX).into(),
    };
    cut_middle(&legal, bytes_max, char::len_utf8)
}

/// Shortens `text` for display, to at most `characters_max` characters. The start names the failure and the end names
/// its cause, so the middle is cut. If the text has a last error, the explanation before it is cut first, and the error
/// keeps its name.
#[must_use]
pub fn shorten_text(text: &str, characters_max: usize) -> String {
    cut_middle(text, characters_max, |_| 1)
}

fn cut_middle(text: &str, max: usize, length: fn(char) -> usize) -> String {
    // A string never has more characters than bytes.
    if text.len() <= max {
        return text.to_owned();
    }
    let total_length = |text: &str| text.chars().map(length).sum::<usize>();
    let Some((explanation, error)) = text.find(LAST_ERROR).map(|at| text.split_at(at)) else {
        return keep_both_ends(text, max, length);
    };
    if total_length(text) <= max {
        return text.to_owned();
    }
    if max / 4 < EXPLANATION_LENGTH_MIN {
        return keep_both_ends(error.trim_start_matches("; "), max, length);
    }
    let room = total_length(explanation).min(max.saturating_sub(total_length(error)).max(max / 4));
    keep_both_ends(explanation, room, length) + &keep_both_ends(error, max - room, length)
}

/// Keeps both ends: the start gets two thirds of the available length, the end one third.
fn keep_both_ends(text: &str, max: usize, length: fn(char) -> usize) -> String {
    if text.chars().map(length).sum::<usize>() <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(ELLIPSIS.chars().map(length).sum()) else {
        return String::new();
    };
    let fitting_bytes = |room: usize, characters: &mut dyn Iterator<Item = char>| {
        let lengths = characters.scan(0, |used, character| {
            *used += length(character);
            (*used <= room).then_some(character.len_utf8())
        });
        lengths.sum::<usize>()
    };
    let start = fitting_bytes(room - room / 3, &mut text.chars());
    let end = text.len() - fitting_bytes(room / 3, &mut text.chars().rev());
    format!("{}{ELLIPSIS}{}", &text[..start], &text[end..])
}

/// Builds the value with the largest `bytes <= wanted` that fits, found by binary search; `None` if not even 0 fits. If
/// a number fits, all smaller ones must fit, too.
pub(crate) fn largest_fitting<T>(
    wanted: usize,
    written: impl Fn(usize) -> T,
    fits: impl Fn(&T) -> bool,
) -> Option<T> {
    let fitting = |bytes| Some(written(bytes)).filter(|written| fits(written));
    // Nearly everything fits completely, and then only one value is built.
    let complete = fitting(wanted);
    if complete.is_some() {
        return complete;
    }
    let mut best = fitting(0)?;
    let (mut good, mut bad) = (0, wanted);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        match fitting(middle) {
            Some(larger) => (best, good) = (larger, middle),
            None => bad = middle,
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_text;

    #[test]
    fn text_is_cut_at_a_character_boundary_with_an_ellipsis() {
        assert_eq!(clean_text("abcdef", 6), "abcdef");
        assert_eq!(clean_text("abcdefg", 6), "abc…");
        assert_eq!(clean_text("äöüß", 7), "äö…");
        assert_eq!((clean_text("abcd", 3).as_str(), clean_text("abc", 2).as_str()), ("…", ""));
        assert_eq!(clean_text("a\u{0}b\u{FFFE}", 100), "a\u{FFFD}b\u{FFFD}");
    }

    proptest! {
        #[test]
        fn clean_text_never_exceeds_its_limit_and_is_legal(text in any_text(), bytes_max in 0..2000_usize) {
            let cleaned = clean_text(&text, bytes_max);
            prop_assert!(cleaned.len() <= bytes_max);
            prop_assert!(cleaned.chars().all(is_legal));
            let legal: String = text
                .chars()
                .map(|character| if is_legal(character) { character } else { '\u{FFFD}' })
                .collect();
            if legal.len() <= bytes_max {
                prop_assert_eq!(cleaned, legal, "text that fits is not cut");
            } else if bytes_max >= ELLIPSIS.len() {
                let kept = cleaned.strip_suffix(ELLIPSIS).unwrap();
                prop_assert!(legal.starts_with(kept));
                prop_assert!(kept.len() + ELLIPSIS.len() + 4 > bytes_max, "as much as fits is kept");
            } else {
                prop_assert_eq!(cleaned, "");
            }
        }
    }

    #[test]
    fn the_middle_is_cut_and_the_last_error_is_kept() {
        assert_eq!((shorten_text("äöü", 3).as_str(), shorten_text("äöüß", 3).as_str()), ("äöü", "äö…"));
        assert_eq!(shorten_text("connect: no route to host", 13), "connect:…host");
        assert_eq!(clean_and_cut_middle("ääääääää\u{0}b", 14), "ääää…b");
        let explained =
            |explanation: &str, details: &str| format!("{explanation}; last error HttpStatus.500: {details}");
        let long = explained("Max retry attempts 5 exceeded", &"d".repeat(900));
        assert_eq!(
            shorten_text(&long, 120),
            format!(
                "Max retry attempts 5 exceeded; last error HttpStatus.500: {}…{}",
                "d".repeat(31),
                "d".repeat(30)
            )
        );
        let wordy = explained(&"e".repeat(900), "HTTP 500");
        let kept = "; last error HttpStatus.500: HTTP 500";
        assert_eq!(shorten_text(&wordy, 120), format!("{}…{}{kept}", "e".repeat(55), "e".repeat(27)));
        assert_eq!(shorten_text(&wordy, 36), "last error HttpStatus.500: HTTP 500");
        assert_eq!(clean_and_cut_middle(&long, 1), "");
    }

    #[test]
    fn the_last_errors_name_survives_truncation_to_40_bytes() {
        let name = "HttpStatus.500";
        for (explanation, details) in [(30, 0), (30, 900), (900, 20), (900, 900)] {
            let text = format!("{}{LAST_ERROR}{name}: {}", "é".repeat(explanation), "d".repeat(details));
            for room in 40..1100 {
                let cut = clean_and_cut_middle(&text, room);
                assert!(cut.contains(&format!("last error {name}")), "{room}: {cut}");
                assert!(cut.len() <= room);
                assert!(shorten_text(&text, room).contains(&format!("last error {name}")), "{room}");
            }
        }
    }

    proptest! {
        #[test]
        fn cutting_the_middle_keeps_both_ends_and_never_lengthens_the_text(text in any_text(), max in 0..2000_usize) {
            let cut = shorten_text(&text, max);
            prop_assert!(cut.chars().count() <= max);
            let bytes = clean_and_cut_middle(&text, max);
            prop_assert!(bytes.len() <= max && bytes.chars().all(is_legal));
            if text.chars().count() <= max {
                prop_assert_eq!(cut, text);
            } else if !text.contains(LAST_ERROR) && max > 0 {
                let (start, end) = cut.split_once(ELLIPSIS).unwrap();
                prop_assert!(text.starts_with(start));
                // The text may itself contain an ellipsis.
                prop_assert!(text.ends_with(end) || text.contains(ELLIPSIS));
                prop_assert_eq!(cut.chars().count(), max);
            }
        }
    }

    #[test]
    fn the_largest_fitting_number_is_found() {
        let largest_under = |limit| largest_fitting(100, |bytes| bytes, |bytes| Some(*bytes) <= limit);
        assert_eq!(largest_under(Some(37)), Some(37));
        assert_eq!(largest_under(Some(0)), Some(0));
        assert_eq!(largest_under(Some(100)), Some(100));
        assert_eq!(largest_under(None), None);
    }
}
