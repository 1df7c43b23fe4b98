//! Errors as pages.

use axum::Extension;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::html;
use redeliver_operator::CommandFailure;

use crate::layout::render_bare_page;

/// A page, or an error.
pub(crate) type PageResult = Result<Response, PageError>;

/// An error as a sentence. The router renders it as a page.
#[derive(Clone, Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    words: String,
    /// The page to return to, if it is not the start page.
    back: Option<String>,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into(), back: None }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    pub(crate) fn with_back_link(self, page: &str) -> Self {
        Self { back: Some(page.to_owned()), ..self }
    }
}

/// Either the request is invalid, or AWS rejects it; the error says which.
impl<E: Into<CommandFailure>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.into().to_string())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (self.status, Extension(self)).into_response()
    }
}

impl PageError {
    pub(crate) fn render_page(self, base: &str) -> Html<String> {
        let Self { words, back, .. } = self;
        let back = back.filter(|back| back != base);
        let page = match back {
            None => "Return to the start page",
            Some(_) => "Return to the related page",
        };
        let back = back.as_deref().unwrap_or(base);
        let body = html! { p class="warning" role="alert" { (words) } p { a href=(back) { (page) } } };
        Html(render_bare_page(base, "That did not work", &body))
    }
}
