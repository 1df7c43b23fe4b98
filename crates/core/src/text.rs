//! Text that SQS accepts, cut to a number of bytes.

use crate::limits::{first_illegal, is_legal};

/// Bytes of an error's name anywhere we write it.
pub const ERROR_TYPE_BYTES_MAX: usize = 128;

const ELLIPSIS: &str = "…";

/// `text` in at most `bytes_max` bytes, characters that SQS refuses replaced by U+FFFD, an ellipsis if it was cut.
#[must_use]
pub fn clean(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max && first_illegal(text).is_none() {
        return text.to_owned();
    }
    let legal = |character| {
        if is_legal(character) { character } else { char::REPLACEMENT_CHARACTER }
    };
    let mut cleaned = String::with_capacity(text.len().min(bytes_max));
    let mut cut_at = 0;
    for character in text.chars().map(legal) {
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

/// What is written with the most `bytes <= wanted` of text that fit, found by halving the distance; `None` if not even
/// 0 do. What fits with so many must fit with fewer.
pub(crate) fn largest_fitting<T>(
    wanted: usize,
    written: impl Fn(usize) -> T,
    fits: impl Fn(&T) -> bool,
) -> Option<T> {
    let fitting = |bytes| Some(written(bytes)).filter(|written| fits(written));
    // Nearly everything has room for all it says, and is written once.
    let whole = fitting(wanted);
    if whole.is_some() {
        return whole;
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
    fn text_is_cut_at_a_character_and_says_so() {
        assert_eq!(clean("abcdef", 6), "abcdef");
        assert_eq!(clean("abcdefg", 6), "abc…");
        assert_eq!(clean("äöüß", 7), "äö…");
        assert_eq!(clean("abc", 2), "");
        assert_eq!(clean("a\u{0}b\u{FFFE}", 100), "a\u{FFFD}b\u{FFFD}");
    }

    proptest! {
        #[test]
        fn clean_text_never_exceeds_its_limit_and_is_legal(text in any_text(), bytes_max in 0..2000_usize) {
            let cleaned = clean(&text, bytes_max);
            prop_assert!(cleaned.len() <= bytes_max);
            prop_assert!(cleaned.chars().all(is_legal));
            let legal: String = text
                .chars()
                .map(|character| if is_legal(character) { character } else { '\u{FFFD}' })
                .collect();
            if legal.len() <= bytes_max {
                prop_assert_eq!(cleaned, legal, "what fits is not cut");
            } else if bytes_max >= ELLIPSIS.len() {
                let kept = cleaned.strip_suffix(ELLIPSIS).unwrap();
                prop_assert!(legal.starts_with(kept));
                prop_assert!(kept.len() + ELLIPSIS.len() + 4 > bytes_max, "as much is kept as fits");
            } else {
                prop_assert_eq!(cleaned, "");
            }
        }
    }

    #[test]
    fn the_largest_fitting_number_is_found() {
        let largest = |limit| largest_fitting(100, |bytes| bytes, |bytes| Some(*bytes) <= limit);
        assert_eq!(largest(Some(37)), Some(37));
        assert_eq!(largest(Some(0)), Some(0));
        assert_eq!(largest(Some(100)), Some(100));
        assert_eq!(largest(None), None);
    }
}
