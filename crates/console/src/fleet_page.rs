//! Every DLQ of the account, as the first page.

use std::sync::Arc;

use maud::{Markup, html};

use super::latest::Latest;
use redeliver_operator::fleet::{Fleet, html::content, look_silently};
use redeliver_operator::markup::moment;
use redeliver_operator::queues::Connection;

/// The last survey, and whether another one is under way.
pub(super) type Fleets = Arc<Latest<Fleet>>;

/// Starts to look, unless a look is under way.
pub(super) fn begin(fleets: &Fleets, connection: &Connection) {
    let (latest, connection) = (Arc::clone(fleets), connection.clone());
    fleets.begin(move || async move { latest.tell(Ok(look_silently(&connection).await)) });
}

/// What was seen last; the first time, it is looked for.
pub(super) fn body(base: &str, fleets: &Fleets, connection: &Connection) -> Markup {
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

pub(super) fn waiting() -> Markup {
    html! { p role="status" { "Asking for every queue of the account…" } }
}
