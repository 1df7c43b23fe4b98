//! The page of a message: what happened to it, its attributes, its body, and the possible actions.

use maud::{Markup, html};
use redeliver_operator::Failure;
use redeliver_operator::dead_letter::{Showing, details};
use redeliver_operator::terminal::escape::shortened;
use serde::Deserialize;

use crate::dead_letters::selection::Selection;
use crate::extract::AtDeadLetter;
use crate::pages::selected::plan_forms;

/// The parameters of the page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Parameters {
    /// Any value: show masked values.
    reveal: Option<String>,
}

const DETAILS_MAX: usize = 2000;
/// The SQS limit on a body: 1 MiB ("Amazon SQS message quotas").
const BODY_BYTES_MAX: usize = 1_048_576;

pub(crate) fn body(one: &AtDeadLetter, parameters: &Parameters) -> Result<Markup, Failure> {
    let AtDeadLetter { at, letter, .. } = one;
    let record = one.record()?;
    let showing = Showing { reveal: parameters.reveal.is_some(), traces: at.site.traces.clone() };
    let of_message = Selection::of_message(&letter.sqs_message_id);
    Ok(html! {
        p { strong { (letter.headline) } }
        p class="remark" { code { (record.error_type) } " " code { (letter.message_id) } }
        @if !record.error_details.is_empty() { p class="details" { (shortened(&record.error_details, DETAILS_MAX)) } }
        div class="actions" {
            @if showing.reveal { a href=(one.path()) { "Mask values" } }
            @else { a href={(one.path()) "?reveal=1"} { "Reveal values" } }
            a href=(at.cause_path(&letter.fingerprint)) { "Its cause" }
            @if !at.site.guard.read_only {
                (plan_forms(at, &of_message, "Plan to send it back", "Plan to delete it"))
                a href={(one.path()) "/edit"} { "Edit and send back" }
            }
        }
        (details(&record, &showing, BODY_BYTES_MAX, true))
    })
}
