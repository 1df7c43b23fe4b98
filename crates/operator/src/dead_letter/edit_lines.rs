//! The lines that an edit changes in a message, with masks over all that it leaves alone.

use redeliver_dead_letters::redrive::EditExample;

use super::body::masked_text;
use super::json_text::{Layout, Mask, lay_out};
use crate::diff::{DiffLine, diff_lines};

/// A line of a body before or after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditLine {
    /// A line that the edit leaves alone, masked.
    Same(String),
    Old(String),
    New(String),
    /// Lines that are the same and are not shown.
    Hidden(usize),
}

/// The lines that an edit changes, and three around them. A body that is not JSON has no lines, so all of it is masked,
/// and what it becomes.
#[must_use]
pub fn edit_lines(example: &EditExample) -> Vec<EditLine> {
    let EditExample { before, after, has_open_metadata, .. } = example;
    let mask = Mask::of_body(*has_open_metadata);
    let laid_out =
        |body: &str, mask| lay_out(body, Layout::Pretty, mask, usize::MAX).map(|laid_out| laid_out.text);
    let masked = |body: &str| laid_out(body, mask).unwrap_or_else(|| masked_text(body));
    let (Some(old), Some(new)) = (laid_out(before, Mask::Nothing), laid_out(after, Mask::Nothing)) else {
        return show(&masked(before), &masked(after), "");
    };
    show(&old, &new, &masked(before))
}

/// The difference of two texts, with the lines of `masked` in place of the first text's that stay.
fn show(before: &str, after: &str, masked: &str) -> Vec<EditLine> {
    let masked: Vec<_> = masked.lines().collect();
    let mut line = 0;
    let mut shown = Vec::new();
    for changed in diff_lines(before, after) {
        line += match changed {
            DiffLine::Same(_) | DiffLine::Old(_) => 1,
            DiffLine::New(_) => 0,
            DiffLine::Hidden(count) => count,
        };
        shown.push(match changed {
            DiffLine::Same(same) => EditLine::Same(masked.get(line - 1).unwrap_or(&same).to_string()),
            DiffLine::Old(text) => EditLine::Old(text.to_owned()),
            DiffLine::New(text) => EditLine::New(text.to_owned()),
            DiffLine::Hidden(count) => EditLine::Hidden(count),
        });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> Vec<String> {
        let example = EditExample {
            message_id: "id".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            has_open_metadata: true,
        };
        let lines = edit_lines(&example).into_iter().map(|line| match line {
            EditLine::Same(text) => format!(" {text}"),
            EditLine::Old(text) => format!("-{text}"),
            EditLine::New(text) => format!("+{text}"),
            EditLine::Hidden(count) => format!("…{count}"),
        });
        lines.collect()
    }

    #[test]
    fn an_edit_shows_what_it_changes_and_masks_the_rest() {
        let body = |currency: &str| {
            format!(
                r#"{{"metadata":{{"tenant":"t"}},"data":{{"card":"secret","n":1,"currency":"{currency}"}}}}"#
            )
        };
        assert_eq!(
            shown(&body("eur"), &body("EUR")),
            [
                "…4",
                "   \"data\": {",
                "     \"card\": \"<masked string>\",",
                "     \"n\": \"<masked number>\",",
                "-    \"currency\": \"eur\"",
                "+    \"currency\": \"EUR\"",
                "   }",
                " }"
            ]
        );
        // A line that is new moves the ones below it.
        assert_eq!(
            shown(r#"{"data":{"b":"secret"}}"#, r#"{"data":{"a":1,"b":"secret"}}"#)[2..4],
            ["+    \"a\": 1,".to_owned(), "     \"b\": \"<masked string>\"".to_owned()]
        );
    }

    #[test]
    fn a_text_that_becomes_json_is_masked_before_and_after() {
        let shown = shown(r#"{"data":{"card":"secret"}"#, r#"{"data":{"card":"secret"}}"#);
        assert_eq!(
            shown,
            [
                "-<masked text of 25 bytes>",
                "+{",
                "+  \"data\": {",
                "+    \"card\": \"<masked string>\"",
                "+  }",
                "+}"
            ]
        );
    }
}
