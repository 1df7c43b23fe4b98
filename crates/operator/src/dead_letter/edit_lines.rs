//! The lines that an edit changes in a message, with all unchanged values masked.

use redeliver_dead_letters::redrive::EditExample;

use super::body::masked_text;
use super::json_text::{JsonLayout, Mask, lay_out};
use crate::diff::{DiffLine, diff_lines, is_compared_line_by_line};

/// Placeholder for an unchanged line that has no masked counterpart.
const MASKED: &str = "<masked>";

/// A line of a body before or after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditLine {
    /// A masked line that the edit leaves unchanged.
    Same(String),
    Old(String),
    New(String),
    /// The number of unchanged lines that are hidden.
    Hidden(usize),
}

/// Returns the lines that an edit changes, with three lines of context. If the body is not JSON before or after the
/// edit, or if the change is very large, the changed lines are masked as well.
#[must_use]
pub fn masked_edit_diff(example: &EditExample) -> Vec<EditLine> {
    let EditExample { before, after, can_show_metadata, .. } = example;
    let mask = Mask::for_body(*can_show_metadata);
    // Trailing commas are removed. Otherwise, appending a member would also change the line before it.
    let laid_out = |body: &str, mask| {
        let laid_out = lay_out(body, JsonLayout::Pretty, mask, usize::MAX)?;
        let lines = laid_out.text.lines().map(|line| line.strip_suffix(',').unwrap_or(line));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let masked = |body: &str| laid_out(body, mask).unwrap_or_else(|| masked_text(body));
    let (Some(old), Some(new)) = (laid_out(before, Mask::Nothing), laid_out(after, Mask::Nothing)) else {
        return diff_and_mask_unchanged(&masked(before), &masked(after), &masked(before));
    };
    if is_compared_line_by_line(&old, &new) {
        diff_and_mask_unchanged(&old, &new, &masked(before))
    } else {
        diff_and_mask_unchanged(&masked(before), &masked(after), &masked(before))
    }
}

/// Returns the diff of two texts. Each unchanged line is replaced with the line of `masked` that has the same number.
fn diff_and_mask_unchanged(before: &str, after: &str, masked: &str) -> Vec<EditLine> {
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
            DiffLine::Same(_) => EditLine::Same(masked.get(line - 1).copied().unwrap_or(MASKED).to_owned()),
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

    fn format_edit_lines(before: &str, after: &str) -> Vec<String> {
        let example = EditExample {
            message_id: "id".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            can_show_metadata: true,
        };
        let lines = masked_edit_diff(&example).into_iter().map(|line| match line {
            EditLine::Same(text) => format!(" {text}"),
            EditLine::Old(text) => format!("-{text}"),
            EditLine::New(text) => format!("+{text}"),
            EditLine::Hidden(count) => format!("…{count}"),
        });
        lines.collect()
    }

    #[test]
    fn an_edit_diff_shows_changed_lines_and_masks_the_rest() {
        let body = |currency: &str| {
            format!(
                r#"{{"metadata":{{"tenant":"t"}},"data":{{"card":"secret","n":1,"currency":"{currency}"}}}}"#
            )
        };
        assert_eq!(
            format_edit_lines(&body("eur"), &body("EUR")),
            [
                "…4",
                "   \"data\": {",
                "     \"card\": \"<masked string>\"",
                "     \"n\": \"<masked number>\"",
                "-    \"currency\": \"eur\"",
                "+    \"currency\": \"EUR\"",
                "   }",
                " }"
            ]
        );
        // An inserted line shifts the lines below it.
        assert_eq!(
            format_edit_lines(r#"{"data":{"b":"secret"}}"#, r#"{"data":{"a":1,"b":"secret"}}"#)[2..4],
            ["+    \"a\": 1".to_owned(), "     \"b\": \"<masked string>\"".to_owned()]
        );
    }

    #[test]
    fn a_value_beside_an_added_or_removed_member_stays_masked() {
        let [card, both] = [r#"{"data":{"card":"secret"}}"#, r#"{"data":{"card":"secret","n":1}}"#];
        let card_line = "     \"card\": \"<masked string>\"";
        assert_eq!(format_edit_lines(card, both)[2..4], [card_line, "+    \"n\": 1"]);
        assert_eq!(format_edit_lines(both, card)[2..4], [card_line, "-    \"n\": 1"]);
    }

    #[test]
    fn a_very_large_change_is_masked_completely() {
        let body = |first: u32, last: u32| {
            let middle = ["\"secret\""; 500].join(",");
            format!(r#"{{"data":[{first},{middle},{last}]}}"#)
        };
        let shown = format_edit_lines(&body(1, 2), &body(3, 4));
        assert!(!shown.iter().any(|line| line.contains("secret")), "{shown:?}");
    }

    #[test]
    fn a_body_that_becomes_json_is_masked_before_and_after() {
        let shown = format_edit_lines(r#"{"data":{"card":"secret"}"#, r#"{"data":{"card":"secret"}}"#);
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
