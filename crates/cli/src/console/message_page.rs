//! A message: its story, its attributes, its body, and what can be done with it.

use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{base, encoded};
use super::letters::{Letter, Letters, Selection};
use super::letters_page::hidden;
use super::site::Site;
use crate::Failure;
use crate::audit::told;
use crate::text::shortened;

pub(super) const NOT_LOOKED: &str = "The queue was not looked at yet: open \"Dead letters\" first.";
pub(super) const NOT_THERE: &str =
    "This message was not in the queue when it was looked at last: look again under \"Dead letters\".";

/// How a message is shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Showing {
    /// Any value: what is masked is shown.
    reveal: Option<String>,
}

const DETAILS_MAX: usize = 2000;
/// Bytes of a body: all of it, as SQS limits it.
const BODY_BYTES_MAX: usize = 1_048_576;

pub(super) fn body(
    site: &Site,
    number: usize,
    letters: &Letters,
    letter: &Letter,
    showing: &Showing,
) -> Result<Markup, Failure> {
    let record = letters.record(letter)?;
    let reveal = showing.reveal.is_some();
    let address = format!("{}/letters/{}", base(number), encoded(&letter.sqs_message_id));
    let one = Selection { id: letter.sqs_message_id.clone(), ..Selection::default() };
    Ok(html! {
        p { code { (letter.message_id) } " " span class="badge" { (record.error_type) } }
        @if !record.error_details.is_empty() { p class="details" { (shortened(&record.error_details, DETAILS_MAX)) } }
        div class="actions" {
            @if reveal { a href=(address) { "Mask values" } }
            @else { a href={(address) "?reveal=1"} { "Reveal values" } }
            a href=(super::letters_page::address(number, &Selection { group: letter.fingerprint.clone(), ..Selection::default() })) { "Its group" }
            @if !site.guard.read_only {
                @for (work, words) in [("send_back", "Plan to send it back"), ("delete", "Plan to delete it")] {
                    form method="post" action={(base(number)) "/plans"} class="inline" {
                        input type="hidden" name="work" value=(work);
                        (hidden(&one))
                        button { (words) }
                    }
                }
                a href={(address) "/edit"} { "Edit and send back" }
            }
        }
        (told(&record, reveal, BODY_BYTES_MAX, true))
    })
}
