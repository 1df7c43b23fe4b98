//! Every DLQ of the account, as the first page.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use maud::{Markup, html};

use super::frame::moment;
use crate::connection::Connection;
use crate::fleet::{Fleet, look, shown};

/// The last survey, and whether another one is under way.
#[derive(Debug, Default)]
pub(super) struct Fleets {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Arc<Fleet>>,
    running: bool,
}

impl Fleets {
    /// Starts to look, unless a look is under way.
    pub(super) fn begin(self: &Arc<Self>, connection: &Connection) {
        if std::mem::replace(&mut self.state().running, true) {
            return;
        }
        let (fleets, ended, connection) = (Arc::clone(self), Arc::clone(self), connection.clone());
        let look = move || async move {
            let fleet = look(&connection).await;
            fleets.state().last = Some(Arc::new(fleet));
        };
        super::thread(look, move || ended.state().running = false);
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().running
    }

    /// What was seen last; the first time, it is looked for.
    pub(super) fn body(self: &Arc<Self>, connection: &Connection) -> Markup {
        if self.state().last.is_none() {
            self.begin(connection);
        }
        let last = self.state().last.clone();
        html! {
            @if self.is_running() { div data-live="/fleet/live" { (waiting()) } }
            @if let Some(fleet) = last {
                div class="actions" {
                    span { "Every DLQ of the account and region, read " (moment(fleet.at)) "." }
                    form method="post" action="/fleet" class="inline" { button { "Look again" } }
                }
                (shown(&fleet))
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn waiting() -> Markup {
    html! { p role="status" { "Asking for every queue of the account…" } }
}
