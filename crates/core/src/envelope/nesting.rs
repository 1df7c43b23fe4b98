//! How deep a body nests: a look at the brackets outside strings. Whether they match is the parser's business.

use super::{Malformed, NESTING_MAX};

/// Refuses what nests deeper than [`NESTING_MAX`]. `serde_json` would not: it skims what it does not build.
pub(super) fn check_nesting(body: &str) -> Result<(), Malformed> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in body.bytes().enumerate() {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') if depth == NESTING_MAX => return Err(Malformed::TooDeep(at)),
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nested(depth: usize, inside: &str) -> String {
        format!("{}{inside}{}", "[".repeat(depth), "]".repeat(depth))
    }

    proptest! {
        /// Strings of brackets, quotes and backslashes do not count, wherever they stand.
        #[test]
        fn only_brackets_outside_strings_count(before in any::<String>(), text in r#"[\[\]{}"\\x]{0,99}"#, depth in 100..160_usize) {
            let strings = serde_json::to_string(&[before, text]).unwrap();
            let head = format!("[{strings},");
            let body = format!("{head}{}]", nested(depth, &strings));
            // The strings' own array is a level more.
            let expected = match depth {
                0..=126 => Ok(()),
                127 => Err(Malformed::TooDeep(head.len() + depth)),
                _ => Err(Malformed::TooDeep(head.len() + 127)),
            };
            prop_assert_eq!(check_nesting(&body), expected);
        }
    }

    #[test]
    fn what_is_closed_and_not_open_makes_no_room() {
        assert_eq!(check_nesting(&format!("]]]{}", nested(128, ""))), Ok(()));
        assert_eq!(check_nesting(&format!("]]]{}", nested(129, ""))), Err(Malformed::TooDeep(131)));
    }
}
