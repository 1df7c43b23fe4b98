//! The start page, which lists every DLQ in the account.

use std::sync::Arc;

use maud::{Markup, html};
use redeliver_operator::fleet::{html::render_content, survey_silently};
use redeliver_operator::markup::render_timestamp;
use redeliver_operator::queues::AwsConnection;

use crate::site::FleetSurvey;

/// Starts a survey unless one is running.
pub(crate) fn start_survey(fleets: &FleetSurvey, connection: &AwsConnection) {
    let (last_seen, connection) = (Arc::clone(fleets), connection.clone());
    fleets
        .start_task(move || async move { last_seen.publish_result(Ok(survey_silently(&connection).await)) });
}

/// Shows the last survey. The first view starts one.
pub(crate) fn render_fleet(base: &str, fleets: &FleetSurvey, connection: &AwsConnection) -> Markup {
    if fleets.last_result().is_none() {
        start_survey(fleets, connection);
    }
    html! {
        @if fleets.is_running() { div data-live={(base) "fleet/live"} { (render_survey_placeholder()) } }
        @if let Some(fleet) = fleets.last_result() {
            div class="actions" {
                span { "Every DLQ of the account and region, read " (render_timestamp(fleet.at)) "." }
                form method="post" action={(base) "fleet"} class="inline" { button { "Refresh" } }
            }
            (render_content(&fleet))
        }
    }
}

pub(crate) fn render_survey_placeholder() -> Markup {
    html! { p role="status" { "Querying every queue of the account…" } }
}
