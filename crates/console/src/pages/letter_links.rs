//! Links to message pages.

use maud::{Markup, html};
use redeliver_dead_letters::redrive::RedriveReport;
use redeliver_operator::terminal::units::group_digits;

use crate::extract::DeploymentRequest;

/// Renders a link to a message's page.
pub(crate) fn letter_link(at: &DeploymentRequest, sqs_message_id: &str, words: &str) -> Markup {
    html! { a href=(at.letter_path(sqs_message_id)) { code { (words) } } }
}

/// Renders links to the pages of several messages.
pub(crate) fn letter_links(at: &DeploymentRequest, ids: &[String]) -> Markup {
    html! { @for (index, id) in ids.iter().enumerate() { @if index > 0 { ", " } (letter_link(at, id, id)) } }
}

/// Renders the reasons that messages would be skipped, one per row.
pub(crate) fn render_skip_reasons(at: &DeploymentRequest, report: &RedriveReport) -> Markup {
    html! {
        @for (reason, (count, examples)) in &report.staying {
            tr { th scope="row" { "stays: " (reason) } td class="number" { (group_digits(*count)) } td { "e.g. " (letter_links(at, examples)) } }
        }
    }
}
