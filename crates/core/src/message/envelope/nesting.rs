//! How deep a body nests: a look at the brackets outside strings. Whether they match is the parser's business.

use super::{Malformed, NESTING_MAX};

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
