//! Text that others wrote, as text of a page.

use crate::text::escaped_lines;

/// Markup characters and control characters written out, for text and for quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let safe = escaped_lines(text);
    let mut escaped = String::with_capacity(safe.len());
    for character in safe.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_markup_and_no_control_character_remains() {
        assert_eq!(
            escape("</script><b a='1' c=\"2\">&amp;\u{0}\u{1b}\n"),
            "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;\\u{0}\\u{1b}\n"
        );
    }
}
