//! Text search as people expect it: matches text and numbers, but not parts of an id.

/// Minimum length, in characters, at which a word with a digit counts as an id.
const ID_MIN: usize = 16;
/// Minimum length, in characters, at which a part of an id matches the id.
const PART_MIN: usize = 8;

/// A search for text, ignoring case. A number matches only as a whole word, and a part of an id only if it has at least
/// 8 characters.
#[derive(Debug)]
pub(crate) struct TextSearch {
    wanted: String,
    is_number: bool,
}

impl TextSearch {
    /// Creates a search, or returns `None` if the text is empty.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let wanted = text.trim().to_lowercase();
        let is_number = wanted.bytes().all(|byte| byte.is_ascii_digit());
        (!wanted.is_empty()).then_some(Self { wanted, is_number })
    }

    pub(crate) fn finds_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        text.match_indices(&self.wanted).any(|(at, _)| self.is_relevant(&text, at))
    }

    /// True for an occurrence that is not part of a longer number or an id.
    fn is_relevant(&self, text: &str, at: usize) -> bool {
        let end = at + self.wanted.len();
        let is_word_character = |character: char| character.is_alphanumeric() || character == '-';
        let start = text[..at].trim_end_matches(is_word_character).len();
        let after = text.len() - text[end..].trim_start_matches(is_word_character).len();
        let is_in_id = is_id(&text[start..after]);
        if self.is_number {
            let is_whole = !text[..at].ends_with(char::is_alphanumeric)
                && !text[end..].starts_with(char::is_alphanumeric);
            return is_whole && (!is_in_id || self.wanted.len() == after - start);
        }
        self.wanted.len() >= PART_MIN || !is_in_id
    }
}

fn is_id(word: &str) -> bool {
    word.len() >= ID_MIN && word.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_text_but_not_short_parts_of_ids() {
        let id = "0191f3a2-7b1c-7d3e-8422-0422dead0422";
        for (wanted, text, is_found) in [
            ("422", "HTTP 422 Unprocessable Entity", true),
            ("422", r#"{"code":422}"#, true),
            ("422", "E-422", true),
            ("422", "1422 and 4220", false),
            ("422", "2026-11-27T05:35:19.422Z", false),
            ("422", id, false),
            ("422", "0191f3a2-7b1c-7d3e-422-04", false),
            ("dead", id, false),
            ("dead", "it is DEAD", true),
            ("deadline", "no deadline", true),
            ("0191f3a2", id, true),
            ("0191f3a", id, false),
            ("0422dead", id, true),
            (id, id, true),
            ("entity", "HTTP 422 Unprocessable Entity", true),
            ("ärger", "ÄRGER AG", true),
            ("a 1", "Schema 12", true),
        ] {
            assert_eq!(TextSearch::new(wanted).unwrap().finds_in(text), is_found, "{wanted} in {text}");
        }
        assert!(TextSearch::new(" ").is_none());
    }
}
