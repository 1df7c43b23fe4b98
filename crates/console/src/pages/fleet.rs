//! Every DLQ of the account, as the first page.

use std::sync::Arc;

use maud::{Markup, html};
use redeliver_operator::fleet::{html::content, look_silently};
use redeliver_operator::markup::moment;
use redeliver_operator::queues::Connection;

use crate::site::FleetSeen;

/// Starts to read, unless a reading is under way.
pub(crate) fn begin(fleets: &FleetSeen, connection: &Connection) {
    let (last_seen, connection) = (Arc::clone(fleets), connection.clone());
    fleets.begin(move || async move { last_seen.tell(Ok(look_silently(&connection).await)) });
}

/// Shows the last survey. The first view starts one.
pub(crate) fn body(base: &str, fleets: &FleetSeen, connection: &Connection) -> Markup {
    if fleets.seen().is_none() {
        begin(fleets, connection);
    }
    html! {
        @if fleets.is_running() { div data-live={(base) "fleet/live"} { (waiting()) } }
        @if let Some(fleet) = fleets.seen() {
            div class="actions" {
                span { "Every DLQ of the account and region, read " (moment(fleet.at)) "." }
                form method="post" action={(base) "fleet"} class="inline" { button { "Look again" } }
            }
            (content(&fleet))
        }
    }
}

pub(crate) fn waiting() -> Markup {
    html! { p role="status" { "Asking for every queue of the account…" } }
}
