//! A message's page: its history, its attributes, its body, and the possible actions.

use maud::{Markup, html};
use redeliver_operator::CommandFailure;
use redeliver_operator::dead_letter::{ShowOptions, render_details};
use redeliver_operator::terminal::escape::shorten_text;
use serde::Deserialize;

use crate::dead_letters::selection::Selection;
use crate::extract::DeadLetterRequest;
use crate::pages::selected::render_plan_forms;

/// The page's query parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Parameters {
    /// Any value: reveal the masked values.
    reveal: Option<String>,
}

const DETAILS_MAX: usize = 2000;
/// The SQS limit on a body: 1 MiB ("Amazon SQS message quotas").
const BODY_BYTES_MAX: usize = 1_048_576;

pub(crate) fn render_dead_letter(
    request: &DeadLetterRequest,
    parameters: &Parameters,
) -> Result<Markup, CommandFailure> {
    let DeadLetterRequest { at, letter, .. } = request;
    let record = request.read_record()?;
    let show_options = ShowOptions { reveal: parameters.reveal.is_some(), traces: at.site.traces.clone() };
    let selection = Selection::for_message(&letter.sqs_message_id);
    Ok(html! {
        p { strong { (letter.headline) } }
        p class="remark" { code { (record.error_type) } " " code { (letter.message_id) } }
        @if !record.error_details.is_empty() { p class="details" { (shorten_text(&record.error_details, DETAILS_MAX)) } }
        div class="actions" {
            @if show_options.reveal { a href=(request.dead_letter_path()) { "Mask values" } }
            @else { a href={(request.dead_letter_path()) "?reveal=1"} { "Reveal values" } }
            a href=(at.cause_path(&letter.fingerprint)) { "Its cause" }
            @if !at.site.guard.read_only {
                (render_plan_forms(at, &selection, "Plan to send it back", "Plan to delete it"))
                a href={(request.dead_letter_path()) "/edit"} { "Edit and send back" }
            }
        }
        (render_details(&record, &show_options, BODY_BYTES_MAX, true))
    })
}
