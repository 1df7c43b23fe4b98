//! The `TARGET_ERROR_EXCERPT` setting: the values in an HTTP target's error response that are recorded with the error.

use redeliver_core::handler::{ErrorType, HandlerError};
use redeliver_core::json::pointer::Pointer;
use redeliver_core::truncate::clean_text;
use serde_json::Value;
use thiserror::Error;

const POINTERS_MAX: usize = 8;
const POINTER_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 200;
const EXCERPT_BYTES_MAX: usize = 1024;
const CODE_BYTES_MAX: usize = 64;

/// JSON Pointers to strings and numbers in the body of an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorExcerpt(Box<[(String, Pointer)]>);

/// The reason why the setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ErrorExcerptError {
    #[error(
        "has \"{0}\", which is not a JSON Pointer to a member; separate pointers with commas, as in /type,/title"
    )]
    NotAPointer(String),
    #[error(
        "has more than {POINTERS_MAX} pointers, or one of more than {POINTER_BYTES_MAX} bytes; name fewer values"
    )]
    TooMuch,
}

impl ErrorExcerpt {
    /// Parses comma-separated pointers.
    ///
    /// # Errors
    /// Returns the reason why they are invalid.
    pub fn parse(text: &str) -> Result<Self, ErrorExcerptError> {
        let texts: Vec<_> = text.split(',').map(str::trim).collect();
        if texts.len() > POINTERS_MAX || texts.iter().any(|text| text.len() > POINTER_BYTES_MAX) {
            return Err(ErrorExcerptError::TooMuch);
        }
        let pointer = |text: &str| match Pointer::new(text) {
            Ok(pointer) => Ok((text.to_owned(), pointer)),
            Err(_) => Err(ErrorExcerptError::NotAPointer(text.to_owned())),
        };
        texts.into_iter().map(pointer).collect::<Result<_, _>>().map(Self)
    }

    /// Adds the values in `body` to the error's details, and the first code to its type.
    pub(super) fn add_to(&self, error: HandlerError, body: &str) -> HandlerError {
        let Self(pointers) = self;
        let values: Vec<_> = pointers
            .iter()
            .filter_map(|(name, pointer)| Some((name.as_str(), pointer.find_text(body)?)))
            .collect();
        if values.is_empty() {
            return error;
        }
        let texts = values.iter().map(|(name, value)| {
            let value = Value::from(clean_text(value, VALUE_BYTES_MAX));
            format!("{name}: {value}")
        });
        let excerpt = clean_text(&texts.collect::<Vec<_>>().join("; "), EXCERPT_BYTES_MAX);
        let error_type = match error.error_type {
            ErrorType::HttpStatus(status) => {
                let codes =
                    values.iter().filter(|(name, _)| name.ends_with("/type") || name.ends_with("/code"));
                let code =
                    codes.filter_map(|(_, value)| error_code(value)).find(|code| *code != status.to_string());
                code.map_or(ErrorType::HttpStatus(status), |code| {
                    ErrorType::HttpProblem(status, code.to_owned())
                })
            }
            other => other,
        };
        let details = format!("{}; {excerpt}", error.details);
        HandlerError { error_type, details, ..error }
    }
}

/// Extracts an error code from a value: a short name, or the end of a URI (RFC 9457, section 3.1.1). `about:blank` adds
/// no information to the status.
fn error_code(value: &str) -> Option<&str> {
    let name = value.trim_end_matches('/').rsplit(['/', '#', ':']).next()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_code = (1..=CODE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_name);
    (is_code && value != "about:blank").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded_error(setting: &str, status: u16, body: &str) -> (String, String) {
        let error = HandlerError::permanent(ErrorType::HttpStatus(status), format!("HTTP {status}"));
        let error = ErrorExcerpt::parse(setting).unwrap().add_to(error, body);
        (error.error_type.name().into_owned(), error.details)
    }

    fn recorded_422_error(setting: &str, body: &str) -> (String, String) {
        recorded_error(setting, 422, body)
    }

    fn pair(error_type: &str, details: &str) -> (String, String) {
        (error_type.to_owned(), details.to_owned())
    }

    #[test]
    fn only_selected_values_are_recorded() {
        let body = r#"{"type":"about:blank","title":"currency is missing","status":422,"secret":"CANARY"}"#;
        let title = r#"HTTP 422; /type: "about:blank"; /title: "currency is missing""#;
        assert_eq!(recorded_422_error("/type, /title,/gone", body), pair("HttpStatus.422", title));
        let body = r#"{"error":{"code":"card_declined","message":"a\n\"b\""},"errors":[{"code":7}]}"#;
        let details = r#"HTTP 422; /error/message: "a\n\"b\""; /errors/0/code: "7""#;
        assert_eq!(
            recorded_422_error("/error/message,/errors/0/code", body),
            pair("HttpStatus.422:7", details)
        );
    }

    #[test]
    fn the_first_code_is_added_to_the_error_type() {
        for (body, error_type) in [
            (r#"{"type":"currency_missing"}"#, "HttpStatus.422:currency_missing"),
            (r#"{"type":"https://example.com/probs/out-of-credit"}"#, "HttpStatus.422:out-of-credit"),
            (r#"{"type":"https://example.com/probs/"}"#, "HttpStatus.422:probs"),
            (r#"{"type":"urn:problem:no_stock","code":"b"}"#, "HttpStatus.422:no_stock"),
            (r#"{"type":"about:blank","code":"b"}"#, "HttpStatus.422:b"),
            (r#"{"type":"two words","code":1042}"#, "HttpStatus.422:1042"),
            (r#"{"code":422}"#, "HttpStatus.422"),
            (r#"{"code":{"a":"b"}}"#, "HttpStatus.422"),
            (r#"{"code":"€"}"#, "HttpStatus.422"),
        ] {
            assert_eq!(recorded_422_error("/type,/code", body).0, error_type, "{body}");
        }
        let long = format!(r#"{{"code":"{}"}}"#, "x".repeat(65));
        assert_eq!(recorded_422_error("/code", &long).0, "HttpStatus.422");
        assert_eq!(
            recorded_422_error("/title", r#"{"title":"plain"}"#).0,
            "HttpStatus.422",
            "only a type or a code"
        );
    }

    #[test]
    fn a_body_without_the_selected_values_does_not_change_the_error() {
        for body in ["", "<html>", "{", "null", "[]", r#"{"type":null}"#, r#"{"type":""}"#] {
            assert_eq!(recorded_422_error("/type", body), pair("HttpStatus.422", "HTTP 422"), "{body}");
        }
    }

    #[test]
    fn long_values_are_truncated() {
        let pointers: Vec<_> = (0..POINTERS_MAX).map(|number| format!("/v{number}")).collect();
        let members: Vec<_> =
            (0..POINTERS_MAX).map(|number| format!(r#""v{number}":"{}""#, "x".repeat(10_000))).collect();
        let body = format!("{{{}}}", members.join(","));
        let (_, details) = recorded_422_error(&pointers.join(","), &body);
        assert_eq!(details.len(), "HTTP 422; ".len() + EXCERPT_BYTES_MAX);
        let (_, details) = recorded_422_error("/v0", &body);
        assert_eq!(details.len(), "HTTP 422; /v0: ".len() + 2 + VALUE_BYTES_MAX);
    }

    #[test]
    fn an_invalid_pointer_is_refused() {
        for (setting, culprit) in [("type", "type"), ("", ""), ("/type,", ""), ("/a,/b~2", "/b~2")] {
            assert_eq!(ErrorExcerpt::parse(setting), Err(ErrorExcerptError::NotAPointer(culprit.to_owned())));
        }
        assert_eq!(ErrorExcerpt::parse("/a,/b,/c,/d,/e,/f,/g,/h,/i"), Err(ErrorExcerptError::TooMuch));
        assert_eq!(ErrorExcerpt::parse(&format!("/{}", "x".repeat(128))), Err(ErrorExcerptError::TooMuch));
    }
}
