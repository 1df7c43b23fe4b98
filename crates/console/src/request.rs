//! The parts of a request: path, query and form. Errors are rendered as pages.

use axum::extract::{Form, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;

use crate::error::PageError;

/// Parameters from the path.
pub(crate) struct PathParams<T>(pub(crate) T);

/// Parameters from the query.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// Fields of a form.
pub(crate) struct FormFields<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(_) => Err(PageError::not_found(NO_SUCH_PAGE)),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                let words = format!("The address has an invalid parameter: {}.", innermost_cause(&error));
                Err(PageError::new(StatusCode::BAD_REQUEST, words).with_back_link(parts.uri.path()))
            }
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for FormFields<T> {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        let back = parent_page(request.uri()).to_owned();
        match Form::from_request(request, state).await {
            Ok(Form(value)) => Ok(Self(value)),
            Err(error) => {
                let words = format!("The form is invalid, so nothing was done: {}.", innermost_cause(&error));
                Err(PageError::new(StatusCode::BAD_REQUEST, words).with_back_link(&back))
            }
        }
    }
}

pub(crate) const NO_SUCH_PAGE: &str = "There is no such page.";

/// Rejects a GET of an action-only URL, and a form sent to a read-only URL.
pub(crate) async fn reject_method(method: Method, uri: Uri) -> PageError {
    let words = match method {
        Method::GET | Method::HEAD => {
            "This address is only for a button. Opening it shows and changes nothing."
        }
        _ => "This address only shows a page, so nothing was done.",
    };
    PageError::new(StatusCode::METHOD_NOT_ALLOWED, words).with_back_link(parent_page(&uri))
}

/// Returns the page that has the button for an action. For example, after the secret part of the URL, `0/refresh`
/// belongs to `0/`, and `0/plans/7/start` belongs to `0/plans/7`.
fn parent_page(uri: &Uri) -> &str {
    let path = uri.path();
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => path,
        // The paths of the start page and of a deployment's first page end with `/`.
        Some((page, _)) if page.matches('/').count() <= 2 => &path[..=page.len()],
        Some((page, _)) => page,
    }
}

/// Returns the innermost cause of an error, without the framework's text around it.
fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_url_maps_to_the_page_with_its_button() {
        for (address, page) in [
            ("/s/fleet", "/s/"),
            ("/s/", "/s/"),
            ("/s/0/refresh?group=1", "/s/0/"),
            ("/s/0/plans", "/s/0/"),
            ("/s/0/plans/7/start", "/s/0/plans/7"),
            ("/s/0/letters/a-b/check", "/s/0/letters/a-b"),
        ] {
            assert_eq!(parent_page(&address.parse().unwrap()), page, "{address}");
        }
    }
}
