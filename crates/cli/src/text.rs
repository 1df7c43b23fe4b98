//! Text that others wrote, made harmless for a terminal.

use std::fmt::Write as _;

/// Characters that would move the cursor, change colours, or turn the direction of what follows.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// Unsafe characters written out, as `\n` or `\u{1b}`, on one line.
pub(crate) fn escaped(text: &str) -> String {
    escaped_except(text, |_| false)
}

/// The same with line breaks and tabs left as they are.
pub(crate) fn escaped_lines(text: &str) -> String {
    escaped_except(text, |character| matches!(character, '\n' | '\t'))
}

fn escaped_except(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if !is_unsafe(character) || keep(character) => escaped.push(character),
            '\n' | '\r' | '\t' => escaped.extend(character.escape_default()),
            _ => {
                let _ = write!(escaped, "{}", character.escape_unicode());
            }
        }
    }
    escaped
}

/// At most so many characters, with an ellipsis if it was cut.
pub(crate) fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(characters_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_or_turns_text_is_written_out() {
        assert_eq!(escaped("a\u{1b}[31mb\u{9b}1m\u{7f}"), r"a\u{1b}[31mb\u{9b}1m\u{7f}");
        assert_eq!(escaped("a\nb\tc\r"), r"a\nb\tc\r");
        assert_eq!(escaped_lines("a\nb\tc\r\u{202e}"), "a\nb\tc\\r\\u{202e}");
        assert_eq!(escaped("Ärger 😀 — fin"), "Ärger 😀 — fin");
    }

    #[test]
    fn text_is_cut_by_characters() {
        assert_eq!((shortened("äöü", 3).as_str(), shortened("äöüß", 3).as_str()), ("äöü", "äö…"));
    }
}
