//! What a request says: in its address, after the question mark, in a form. What is not understood is answered by a page,
//! as everything else is.

use axum::extract::{Form, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;

use super::at::Trouble;

/// From the parts of an address.
pub(super) struct InPath<T>(pub(super) T);

/// From an address's query.
pub(super) struct InQuery<T>(pub(super) T);

/// From a form.
pub(super) struct InForm<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(said)) => Ok(Self(said)),
            Err(_) => Err(Trouble::missing(NO_SUCH_PAGE)),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for InQuery<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(said)) => Ok(Self(said)),
            Err(error) => {
                let words =
                    format!("The address says something that this page does not know: {}.", cause(&error));
                Err(Trouble::new(StatusCode::BAD_REQUEST, words).leading_to(parts.uri.path()))
            }
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for InForm<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, state: &S) -> Result<Self, Trouble> {
        let back = parent(request.uri()).to_owned();
        match Form::from_request(request, state).await {
            Ok(Form(said)) => Ok(Self(said)),
            Err(error) => {
                let words = format!("This form was not understood, so nothing was done: {}.", cause(&error));
                Err(Trouble::new(StatusCode::BAD_REQUEST, words).leading_to(&back))
            }
        }
    }
}

pub(super) const NO_SUCH_PAGE: &str = "There is no such page.";

/// An address that only does something was opened, or one that only shows something was sent a form.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Trouble {
    let words = match method {
        Method::GET | Method::HEAD => {
            "This address is for a button. Opening it shows nothing and changes nothing."
        }
        _ => "Nothing can be done at this address, and nothing was done: it only shows something.",
    };
    Trouble::new(StatusCode::METHOD_NOT_ALLOWED, words).leading_to(parent(&uri))
}

/// The page that a button's address belongs to, after the part that all paths begin with: `0/look` to `0/`,
/// `0/plans/7/start` to `0/plans/7`.
fn parent(uri: &Uri) -> &str {
    let path = uri.path();
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => path,
        // The start page, and the first one of a deployment.
        Some((page, _)) if page.matches('/').count() <= 2 => &path[..=page.len()],
        Some((page, _)) => page,
    }
}

/// What is wrong, without what the framework says around it.
fn cause(error: &dyn std::error::Error) -> String {
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
    fn a_button_belongs_to_the_page_above_it() {
        for (address, page) in [
            ("/s/fleet", "/s/"),
            ("/s/", "/s/"),
            ("/s/0/look?group=1", "/s/0/"),
            ("/s/0/plans", "/s/0/"),
            ("/s/0/plans/7/start", "/s/0/plans/7"),
            ("/s/0/letters/a-b/check", "/s/0/letters/a-b"),
        ] {
            assert_eq!(parent(&address.parse().unwrap()), page, "{address}");
        }
    }
}
