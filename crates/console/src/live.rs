//! Server-sent events: a part of a page again and again, whenever it has changed.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use maud::Markup;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

use redeliver_operator::markup::safe;

/// Between two looks at what changes.
const EVERY: Duration = Duration::from_secs(1);

/// A part of a page whenever it has changed. `None` is its end: what comes next is another page, and the browser loads
/// it anew.
pub(super) fn live(part: impl Fn() -> Option<Markup> + Send + 'static) -> Response {
    let events = unfold((part, Some(String::new())), async |(part, before)| {
        // After its end there is nothing more.
        let before = before?;
        loop {
            let Some(markup) = part() else {
                return Some((
                    Ok::<_, Infallible>(Event::default().event("over").data("over")),
                    (part, None),
                ));
            };
            let shown = safe(&markup);
            if shown != before {
                return Some((Ok(Event::default().event("part").data(&shown)), (part, Some(shown))));
            }
            SystemClock.sleep(EVERY).await;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
