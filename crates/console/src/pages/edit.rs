//! The page that edits a message, and shows its errors while the user types.

use maud::{Markup, html};
use redeliver_dead_letters::read_lossy;
use redeliver_dead_letters::redrive::{BodyEdit, RedriveDecision};
use redeliver_operator::CommandFailure;
use redeliver_operator::terminal::escape::escape_json;
use serde::Deserialize;

use crate::extract::DeadLetterRequest;

/// The fields of the form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EditForm {
    pub(crate) body: String,
    /// Any value: give the message a new id.
    pub(crate) new_id: Option<String>,
}

pub(crate) fn render_edit_form(request: &DeadLetterRequest) -> Result<Markup, CommandFailure> {
    let record = request.read_record()?;
    let back = html! { p { a href=(request.dead_letter_path()) { "Back to the message" } } };
    if let Err(why) = request.at.source_arn() {
        return Ok(html! { p class="warning" { (why) } (back) });
    }
    let is_invalid = request.at.redrive_plan(None, false).was_found_invalid(&record);
    // An invalid message is edited as text.
    let raw_body = || is_invalid.then(|| record.message.body.clone());
    let Some(text) = format_for_editing(&record.message.body).or_else(raw_body) else {
        return Ok(
            html! { p class="warning" { "The body is not a JSON object, so it cannot be edited here." } (back) },
        );
    };
    let unchanged = render_edit_verdict(request, &EditForm { body: text.clone(), new_id: None })?;
    Ok(html! {
        p {
            code { (request.letter.message_id) } ". Only what you change is rewritten; all other bytes stay as they are. "
            @if is_invalid {
                "The message was found invalid, so all of it can be changed, including its id; the result must be a valid message."
            } @else {
                code { "metadata.message_id" } " and redeliver's own metadata cannot be changed."
            }
        }
        form method="post" action=(request.at.page_path("plans")) {
            input type="hidden" name="work" value="send_back";
            input type="hidden" name="id" value=(request.letter.sqs_message_id);
            label for="body" { "Body" }
            textarea id="body" name="body" rows="24" spellcheck="false" data-check={(request.dead_letter_path()) "/check"} aria-describedby="verdict" { "\n" (text) }
            label class="check" {
                input type="checkbox" name="new_id" value="1";
                "Give it a new message_id: for an API that remembers ids and did nothing under the old one"
            }
            div id="verdict" role="status" aria-live="polite" { (unchanged) }
            button { "Plan to send it back" }
        }
        (back)
    })
}

/// Shows whether the edited message can be sent back and, if not, the reason.
pub(crate) fn render_edit_verdict(
    request: &DeadLetterRequest,
    edited: &EditForm,
) -> Result<Markup, CommandFailure> {
    let wrong = |why: &str| html! { p class="warning" { (why) } };
    let plan = request.at.redrive_plan(Some(BodyEdit::replace_body(&edited.body)), edited.new_id.is_some());
    Ok(match plan.decide(&request.read_record()?)? {
        RedriveDecision::Send(send_back) if send_back.edited => {
            html! { p { "The edited message can be sent back." } }
        }
        RedriveDecision::Send(_) => html! { p { "No changes yet." } },
        RedriveDecision::Stays(reason) => wrong(&format!("It would stay: {reason}")),
        RedriveDecision::NotSelected => wrong("It would stay."),
    })
}

/// Formats a body for editing, or returns `None` if it is not a JSON object. Characters that a browser would change, or
/// that hide others, become JSON escapes.
pub(crate) fn format_for_editing(body: &str) -> Option<String> {
    let value = read_lossy(body).ok().filter(serde_json::Value::is_object)?;
    serde_json::to_string_pretty(&value).ok().map(|laid_out| escape_json(&laid_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_a_body_for_editing_keeps_its_value() {
        let body = "{\"a\": 1e400, \"b\":\"\u{202e}\u{7f}\u{85}x\", \"c\":[1.50]}";
        let text = format_for_editing(body).unwrap();
        assert_eq!(redeliver_operator::terminal::escape::escape_lines(&text), text);
        assert_eq!(read_lossy(&text).unwrap(), read_lossy(body).unwrap());
        assert!(text.contains("\"b\": \"\\u202e\\u007f\\u0085x\""), "{text}");
        assert_eq!([format_for_editing("[1]"), format_for_editing("text")], [None, None]);
    }
}
