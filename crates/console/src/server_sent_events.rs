//! Server-sent events that update a part of a page whenever it changes.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use maud::Markup;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_operator::markup::escape_markup;

/// The pause between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Sends a part of a page whenever it changes. `None` ends the stream, and the browser reloads the page.
pub(crate) fn stream_part(part: impl Fn() -> Option<Markup> + Send + 'static) -> Response {
    let events = unfold((part, Some(String::new())), async |(part, before)| {
        // `None` after the last event.
        let before = before?;
        loop {
            let Some(markup) = part() else {
                return Some((
                    Ok::<_, Infallible>(Event::default().event("over").data("over")),
                    (part, None),
                ));
            };
            let shown = escape_markup(&markup);
            if shown != before {
                return Some((Ok(Event::default().event("part").data(&shown)), (part, Some(shown))));
            }
            SystemClock.sleep(CHECK_INTERVAL).await;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
