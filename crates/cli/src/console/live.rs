//! Server-sent events: a part of a page again and again, whenever it has changed.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use maud::Markup;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

use super::frame::harmless;

/// Between two looks at what changes.
const EVERY: Duration = Duration::from_secs(1);

/// A part of a page as it is now.
pub(super) enum Part {
    Shown(Markup),
    /// What comes next is another page: the browser loads it anew.
    Over,
}

/// The part whenever it has changed, until it is over.
pub(super) fn live(
    part: impl Fn() -> Part + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = unfold((part, Some(String::new())), async |(part, before)| {
        // After its end there is nothing more.
        let before = before?;
        loop {
            match part() {
                Part::Over => return Some((Ok(Event::default().event("over").data("over")), (part, None))),
                Part::Shown(markup) => {
                    let shown = harmless(&markup.into_string());
                    if shown != before {
                        return Some((Ok(Event::default().event("part").data(&shown)), (part, Some(shown))));
                    }
                }
            }
            SystemClock.sleep(EVERY).await;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}
