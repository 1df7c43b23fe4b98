//! Where a request is: at a deployment, or at one of its dead letters; and what is said if there is none.

use std::ops::Deref;
use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use redeliver_dead_letters::DeadLetterRecord;
use serde::Deserialize;

use super::desk::Desk;
use super::frame::{Place, bare, encoded, page};
use super::letters::{Letter, Letters};
use super::request::InPath;
use super::site::Site;
use redeliver_operator::Failure;

pub(super) const NOT_LOOKED: &str = "The queue was not looked at yet: open \"Dead letters\" first.";
pub(super) const NOT_THERE: &str =
    "This message was not in the queue when it was looked at last: look again under \"Dead letters\".";

/// A page, or an error.
pub(super) type Answer = Result<Response, Trouble>;

/// An error as people see it: the site renders it as a page.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    status: StatusCode,
    words: String,
    /// The path of the page to go on from, if it is not the start page.
    back: Option<String>,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into(), back: None }
    }

    pub(super) fn missing(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    pub(super) fn leading_to(self, page: &str) -> Self {
        Self { back: Some(page.to_owned()), ..self }
    }
}

/// The request is wrong, or AWS refuses it: the error's words say which.
impl<E: Into<Failure>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.into().to_string())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        (self.status, Extension(self)).into_response()
    }
}

impl Trouble {
    pub(super) fn page(self, base: &str) -> Html<String> {
        let Self { words, back, .. } = self;
        let back = back.filter(|back| back != base);
        let page = match back {
            None => "Go on from the start page",
            Some(_) => "Go on from the page that it belongs to",
        };
        let back = back.as_deref().unwrap_or(base);
        let body = html! { p class="warning" role="alert" { (words) } p { a href=(back) { (page) } } };
        Html(bare(base, "That did not work", &body))
    }
}

/// A deployment of the site.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) site: Arc<Site>,
    /// It has a desk: nothing else makes one.
    number: usize,
}

impl Deref for At {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.site.desks[self.number]
    }
}

impl FromRequestParts<Arc<Site>> for At {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Trouble> {
        #[derive(Deserialize)]
        struct Named {
            desk: usize,
        }
        let InPath(Named { desk: number }) = InPath::from_request_parts(parts, site).await?;
        match site.desks.get(number) {
            Some(_) => Ok(Self { site: Arc::clone(site), number }),
            None => Err(Trouble::missing("There is no such deployment here.")),
        }
    }
}

impl At {
    /// The address of one of its pages.
    pub(super) fn path(&self, page: &str) -> String {
        format!("{}{}/{page}", self.site.guard.base(), self.number)
    }

    pub(super) fn page(&self, place: Place, title: &str, body: &Markup) -> Answer {
        Ok(Html(page(self, place, title, body)).into_response())
    }

    /// Refuses what only a queue can do.
    pub(super) fn check_queue(&self) -> Result<(), Trouble> {
        match self.is_file() {
            false => Ok(()),
            true => Err(Trouble::missing(
                "A file is only looked at: `redeliver redrive FILE` edits its messages, and sends them or writes them to another \
                 file.",
            )),
        }
    }

    /// The dead letters that the last look has found.
    pub(super) fn letters(&self) -> Result<Arc<Letters>, Failure> {
        Ok(self.looks.latest.seen().ok_or(NOT_LOOKED)?)
    }

    /// What keeps a processor busy, on another thread.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Trouble> {
        let at = self.clone();
        match tokio::task::spawn_blocking(move || work(&at)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "The page failed.")),
        }
    }
}

/// A dead letter of the last look.
#[derive(Clone, Debug)]
pub(super) struct OneLetter {
    pub(super) at: At,
    pub(super) letter: Letter,
    letters: Arc<Letters>,
}

impl FromRequestParts<Arc<Site>> for OneLetter {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Trouble> {
        let at = At::from_request_parts(parts, site).await?;
        let InPath(Id { id }) = InPath::from_request_parts(parts, site).await?;
        let letters = at.letters()?;
        let letter = letters.find(&id).cloned().ok_or_else(|| Trouble::missing(NOT_THERE))?;
        Ok(Self { at, letter, letters })
    }
}

/// The id of a dead letter or a plan, in a path.
#[derive(Deserialize)]
pub(super) struct Id {
    pub(super) id: String,
}

impl OneLetter {
    pub(super) fn record(&self) -> Result<DeadLetterRecord, Failure> {
        self.letters.record(&self.letter)
    }

    /// The address of its page.
    pub(super) fn path(&self) -> String {
        self.at.path(&format!("letters/{}", encoded(&self.letter.sqs_message_id)))
    }
}
