//! Links to the pages of messages.

use maud::{Markup, html};
use redeliver_dead_letters::redrive::RedriveReport;
use redeliver_operator::terminal::units::grouped;

use crate::extract::AtDeployment;

/// A message's page.
pub(crate) fn link(at: &AtDeployment, sqs_message_id: &str, words: &str) -> Markup {
    html! { a href=(at.letter_path(sqs_message_id)) { code { (words) } } }
}

/// The pages of some messages.
pub(crate) fn links(at: &AtDeployment, ids: &[String]) -> Markup {
    html! { @for (index, id) in ids.iter().enumerate() { @if index > 0 { ", " } (link(at, id, id)) } }
}

/// The reasons why messages would stay, each a row.
pub(crate) fn staying(at: &AtDeployment, report: &RedriveReport) -> Markup {
    html! {
        @for (reason, (count, examples)) in &report.staying {
            tr { th scope="row" { "stays: " (reason) } td class="number" { (grouped(*count)) } td { "e.g. " (links(at, examples)) } }
        }
    }
}
