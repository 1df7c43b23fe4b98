//! Displays a message's body, with its values masked by default.

use redeliver_dead_letters::DeadLetterRecord;

use super::json_text::{FormattedText, JsonLayout, Mask, lay_out};
use crate::terminal::escape::escape_lines;

/// Formats the body in about `bytes_max` bytes. Unless `reveal` is true, values are masked: those outside of `metadata`
/// in redeliver's own messages, and all values in foreign messages, since their meaning is unknown.
pub fn readable_body(record: &DeadLetterRecord, reveal: bool, bytes_max: usize) -> FormattedText {
    let mask = if reveal { Mask::Nothing } else { Mask::for_body(record.can_show_metadata()) };
    let body = &record.message.body;
    lay_out(body, JsonLayout::Pretty, mask, bytes_max).unwrap_or_else(|| {
        if !reveal {
            return FormattedText { text: masked_text(body), is_cut: false };
        }
        let end = body.floor_char_boundary(bytes_max);
        FormattedText { text: escape_lines(&body[..end]), is_cut: end < body.len() }
    })
}

/// Returns a placeholder for text that is not JSON.
pub(super) fn masked_text(text: &str) -> String {
    format!("<masked text of {} bytes>", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::examples::{annotated_record, foreign_record, sample_record};

    fn formatted_body(record: &DeadLetterRecord, reveal: bool) -> String {
        readable_body(record, reveal, 1000).text
    }

    #[test]
    fn data_is_masked_unless_it_is_revealed() {
        let ours = sample_record("NON_RETRYABLE_ERROR", "x", 1);
        assert!(formatted_body(&ours, false).contains("\"card\": \"<masked string>\""));
        assert!(formatted_body(&ours, false).contains("\"error_details\": \"slow 1\""));
        assert!(formatted_body(&ours, true).contains("\"card\": \"secret-1\""));
        let invalid = annotated_record(
            r#"{"metadata":{"tenant":"t"},"data":"secret"}"#,
            "INVALID_MESSAGE_SCHEMA",
            "x",
            1,
        );
        assert!(
            formatted_body(&invalid, false).contains("\"tenant\": \"t\"")
                && !formatted_body(&invalid, false).contains("secret")
        );
    }

    #[test]
    fn a_foreign_message_is_masked_entirely() {
        assert_eq!(
            formatted_body(&foreign_record(r#"{"metadata":"secret"}"#, 1), false),
            "{\n  \"metadata\": \"<masked string>\"\n}"
        );
        assert_eq!(formatted_body(&foreign_record("secret", 1), false), "<masked text of 6 bytes>");
        assert_eq!(formatted_body(&foreign_record("a\n\u{1b}b", 1), true), "a\n\\u{1b}b");
        let cut = readable_body(&foreign_record("äää", 1), true, 3);
        assert_eq!((cut.text.as_str(), cut.is_cut), ("ä", true));
    }
}
