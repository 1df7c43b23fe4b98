//! The page that edits all selected messages, and previews the edit on examples while the user types.

use maud::{Markup, html};
use redeliver_dead_letters::redrive::{BodyEdit, RedriveDecision, RedrivePlan, RedriveReport};
use redeliver_operator::CommandFailure;
use redeliver_operator::terminal::escape::escape_lines;
use redeliver_operator::terminal::units::{format_count, group_digits};
use serde::Deserialize;
use serde_json::Value;

use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::{LetterEntry, Snapshot};
use crate::extract::DeploymentRequest;
use crate::pages::diff::render_diff;
use crate::pages::edit::format_for_editing;
use crate::pages::letter_links::{letter_link, render_skip_reasons};

/// The number of examples shown.
const EXAMPLES: usize = 3;
/// Maximum number of messages on which the edit is tried while the user types. The plan tries it on all of them.
const TRIED_MAX: usize = 500;
/// Maximum size of a body to show, in bytes.
const SHOWN_MAX: usize = 100_000;

/// The edit in a form: a jq expression, or a field with its old and its new value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BulkEdit {
    program: String,
    field: String,
    old: String,
    new: String,
}

impl BulkEdit {
    /// Returns the jq expression, or builds it from the field.
    ///
    /// # Errors
    /// The form contains neither an expression nor a field, or it contains both, or the field cannot be parsed.
    pub(crate) fn build_program(&self) -> Result<String, CommandFailure> {
        match (self.program.trim(), self.field.trim()) {
            ("", "") => Err("Name a field and its new value, or write a jq expression.".into()),
            ("", field) => Ok(build_assignment(&parse_field_path(field)?, self.old.trim(), self.new.trim())),
            (program, "") => Ok(program.to_owned()),
            _ => Err("Write either a field or a jq expression: clear the other one.".into()),
        }
    }
}

/// Converts a JSON Pointer (`/data/currency`) or a dotted path into a jq path.
fn parse_field_path(field: &str) -> Result<String, CommandFailure> {
    let names: Vec<String> = match field.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|name| name.replace("~1", "/").replace("~0", "~")).collect(),
        None => {
            let dotted = field.trim_start_matches('.');
            dotted.strip_prefix("body.").unwrap_or(dotted).split('.').map(str::to_owned).collect()
        }
    };
    if names.iter().any(String::is_empty) {
        return Err("field: write its names with dots, such as data.currency, or a JSON Pointer, such as \
                    /data/currency"
            .into());
    }
    let steps = names.iter().map(|name| match name.parse::<u32>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!("[{}]", Value::from(name.as_str())),
    });
    Ok(format!(".body{}", steps.collect::<String>()))
}

/// Builds the assignment. A message whose field is missing or has another value is left unchanged.
fn build_assignment(path: &str, old: &str, new: &str) -> String {
    let value = |text: &str| match serde_json::from_str::<Value>(text) {
        Ok(value) => value.to_string(),
        Err(_) => Value::from(text).to_string(),
    };
    let new = value(new);
    let condition = match old {
        // A mistyped name must not add a field to every message.
        "" => format!("{path} != null"),
        old => format!("{path} == {}", value(old)),
    };
    // In jq, accessing a named field of a string or an array is an error.
    format!("if (try ({condition}) catch false) then {path} = {new} else . end")
}

/// Renders the form.
pub(crate) fn render_bulk_form(
    at: &DeploymentRequest,
    selection: &Selection,
) -> Result<Markup, CommandFailure> {
    let snapshot = at.last_snapshot()?;
    at.source_arn()?;
    let selected = snapshot.select_letters(selection)?.letters.len();
    let field = |name: &str, label: &str, example: &str| {
        html! { label { (label) input name=(name) placeholder=(example) autocomplete="off" spellcheck="false"; } }
    };
    Ok(html! {
        p {
            (format_count(selected as u64, "message")) ", " (snapshot.describe_selection(selection)) ". One edit for all of them; messages that "
            "it does not change stay in the queue. Nothing is sent before you have seen the plan."
        }
        form method="post" action=(at.page_path("plans")) {
            input type="hidden" name="work" value="edit";
            @for (name, value) in selection.active_members() { input type="hidden" name=(name) value=(value); }
            div class="filters" {
                (field("field", "Field of the body", "data.currency, or /data/currency"))
                (field("old", "Old value (empty: any; a missing field stays missing)", "eur"))
                (field("new", "New value: JSON, or text", "EUR"))
            }
            label for="program" { "Or a jq expression" }
            textarea id="program" name="program" rows="3" spellcheck="false" placeholder=(".body.data.currency = \"EUR\"")
                data-check=(at.page_path("edit/check")) aria-describedby="verdict" {}
            label class="check" {
                input type="checkbox" name="new_id" value="1";
                "Give them new message_ids: for an API that remembers ids and did nothing under the old ones"
            }
            div id="verdict" role="status" aria-live="polite" { p { "No changes yet." } }
            button { "Plan to send them back" }
        }
        p { a href=(selection.page_url(&at.page_path("letters"))) { "Back to the dead letters" } }
    })
}

/// Previews the edit.
pub(crate) fn render_bulk_verdict(
    at: &DeploymentRequest,
    selection: &Selection,
    edit: &BulkEdit,
    new_id: bool,
) -> Result<Markup, CommandFailure> {
    let snapshot = at.last_snapshot()?;
    let program = match edit.build_program() {
        Ok(program) => program,
        Err(why) => return Ok(html! { p { (why) } }),
    };
    let selected = snapshot.select_letters(selection)?.letters;
    let tried = match EditTrial::new(at, &snapshot, &selected, &program, new_id) {
        Ok(tried) => tried,
        Err(why) => return Ok(html! { p class="warning" { (escape_lines(&why.to_string())) } }),
    };
    Ok(html! {
        p { "jq: " code { (escape_lines(&program)) } }
        @if selected.len() > TRIED_MAX { p { "Of the first " (TRIED_MAX) " of " (group_digits(selected.len() as u64)) ":" } }
        table class="plan" { tbody {
            tr { th scope="row" { "changed, and can be sent back" } td class="number" { (group_digits(tried.report.planned)) } td {} }
            (render_skip_reasons(at, &tried.report))
        } }
        @for Example { letter, before, after } in &tried.examples {
            p { (letter_link(at, &letter.sqs_message_id, &letter.message_id)) }
            (render_diff(&format!("Change of {}", letter.message_id), before, after))
        }
    })
}

/// The edit, tried on some of the messages.
struct EditTrial<'l> {
    report: RedriveReport,
    examples: Vec<Example<'l>>,
}

/// A message and its text before and after the edit.
struct Example<'l> {
    letter: &'l LetterEntry,
    before: String,
    after: String,
}

impl<'l> EditTrial<'l> {
    fn new(
        at: &DeploymentRequest,
        snapshot: &Snapshot,
        selected: &[&'l LetterEntry],
        program: &str,
        new_id: bool,
    ) -> Result<Self, CommandFailure> {
        let edited =
            RedrivePlan { edited_only: true, ..at.redrive_plan(Some(BodyEdit::new(program)?), new_id) };
        let unedited_plan = at.redrive_plan(None, false);
        let mut tried = Self { report: RedriveReport::default(), examples: Vec::new() };
        for &letter in selected.iter().take(TRIED_MAX) {
            let record = snapshot.read_record(letter)?;
            let Some(send_back) = edited.decide_and_count(&record, &mut tried.report)? else { continue };
            tried.report.count_planned(&record, &send_back);
            if tried.examples.len() < EXAMPLES {
                // Excludes the changes that a redrive itself makes, such as the generation.
                let before = match unedited_plan.decide(&record)? {
                    RedriveDecision::Send(unedited) => format_body(&unedited.message.content().body),
                    RedriveDecision::Stays(_) | RedriveDecision::NotSelected => {
                        format_body(&record.message.body)
                    }
                };
                let after = format_body(&send_back.message.content().body);
                tried.examples.push(Example { letter, before, after });
            }
        }
        Ok(tried)
    }
}

/// Formats a body for display. Characters that hide others are escaped.
fn format_body(body: &str) -> String {
    let mut text = format_for_editing(body).unwrap_or_else(|| escape_lines(body));
    if text.len() > SHOWN_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_MAX));
        text.push_str("\n…");
    }
    text
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::DeadLetterRecord;
    use redeliver_testing::dead_letters::annotated_record;

    use super::*;

    fn build_field_program(field: &str, old: &str, new: &str) -> Result<String, String> {
        let [field, old, new] = [field, old, new].map(str::to_owned);
        let edit = BulkEdit { program: String::new(), field, old, new };
        edit.build_program().map_err(|error| error.to_string())
    }

    #[test]
    fn a_field_becomes_a_readable_expression() {
        let any = |field: &str| build_field_program(field, "", "EUR").unwrap();
        for field in ["data.currency", ".data.currency", ".body.data.currency", "/data/currency"] {
            let expected = r#"if (try (.body["data"]["currency"] != null) catch false) then .body["data"]["currency"] = "EUR" else . end"#;
            assert_eq!(any(field), expected, "{field}");
        }
        assert!(
            any("/data/items/0/a~1b~0").contains(r#" then .body["data"]["items"][0]["a/b~"] = "EUR" else"#)
        );
        assert_eq!(
            build_field_program("data.n", "1.50", "{\"a\": null}").unwrap(),
            r#"if (try (.body["data"]["n"] == 1.50) catch false) then .body["data"]["n"] = {"a":null} else . end"#
        );
        // A quotation mark does not end the string, and a program in a value is plain text.
        assert!(
            build_field_program("a", "", "\") | halt")
                .unwrap()
                .contains(r#" then .body["a"] = "\") | halt" else"#)
        );
        assert!(
            build_field_program("a..b", "", "1").unwrap_err().starts_with("field: write its names with dots")
        );
        assert_eq!(
            build_field_program("", "", "1").unwrap_err(),
            "Name a field and its new value, or write a jq expression."
        );
        let both = BulkEdit { program: ".".to_owned(), field: "a".to_owned(), ..BulkEdit::default() };
        assert!(
            both.build_program()
                .unwrap_err()
                .to_string()
                .starts_with("Write either a field or a jq expression")
        );
    }

    #[test]
    fn a_field_expression_changes_only_bodies_with_the_old_value() {
        let program = build_field_program("data.currency", "eur", "EUR").unwrap();
        let plan = RedrivePlan {
            edit: Some(BodyEdit::new(&program).unwrap()),
            max_generation: 3,
            ..RedrivePlan::default()
        };
        for (data, edited) in [
            (r#"{"currency":"eur","n":1.50}"#, true),
            (r#"{"currency":"usd"}"#, false),
            (r#"{}"#, false),
            (r#"{"currency":{"a":"eur"}}"#, false),
        ] {
            let body = format!(
                r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"}},"data":{data}}}"#
            );
            let record = DeadLetterRecord::new(annotated_record(&body, "NON_RETRYABLE_ERROR", "x", 7));
            let RedriveDecision::Send(send_back) = plan.decide(&record).unwrap() else {
                panic!("{data} can be sent back")
            };
            assert_eq!(send_back.edited, edited, "{data}");
            let expected = data.replace("\"eur\",", "\"EUR\",");
            assert!(send_back.message.content().body.contains(&format!("\"data\":{expected}")), "{data}");
        }
    }
}
