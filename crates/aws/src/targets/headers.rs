//! The headers for an HTTP target, from a secret.

mod secret;

use std::fmt;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use thiserror::Error;

pub use secret::SecretHeaders;

/// Headers of every request to the target. Their values are secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub(super) HeaderMap);

/// The problem of an unusable secret, without values from it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeadersError {
    /// Secrets Manager's error code.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN cannot be read ({0}); the function's role needs secretsmanager:GetSecretValue on it"
    )]
    Unreadable(String),
    /// Not an object of strings.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN is not a JSON object of header names and string values")]
    NotAnObject,
    /// A name that HTTP does not allow. It is not shown: name and value may be swapped.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has a header whose name HTTP does not allow")]
    NotAName,
    /// A value that HTTP does not allow, such as a line break.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN gives {0} a value with a line break or another control character"
    )]
    NotAValue(HeaderName),
    /// A name that occurs twice, ignoring case as HTTP does.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has the header {0} twice")]
    Twice(HeaderName),
    /// A header that redeliver or HTTP sets.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN sets {0}, which redeliver or HTTP itself sets")]
    Reserved(HeaderName),
}

impl HeadersError {
    /// A code for logs, without names from the secret.
    fn code(&self) -> &str {
        match self {
            Self::Unreadable(code) => code,
            Self::NotAnObject => "NotAnObject",
            Self::NotAName => "NotAName",
            Self::NotAValue(_) => "NotAValue",
            Self::Twice(_) => "Twice",
            Self::Reserved(_) => "Reserved",
        }
    }
}

/// Headers that redeliver or HTTP itself sets.
const RESERVED: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The prefix of redeliver's present and future headers.
const RESERVED_PREFIX: &str = "x-redeliver-";

impl Headers {
    /// Reads the secret's text.
    ///
    /// # Errors
    /// If the text is not a JSON object of valid headers.
    pub fn parse(secret: &str) -> Result<Self, HeadersError> {
        let Named(named) = serde_json::from_str(secret).map_err(|_| HeadersError::NotAnObject)?;
        let mut headers = HeaderMap::new();
        for (name, value) in named {
            let name: HeaderName = name.parse().map_err(|_| HeadersError::NotAName)?;
            if RESERVED.contains(&name.as_str()) || name.as_str().starts_with(RESERVED_PREFIX) {
                return Err(HeadersError::Reserved(name));
            }
            let Ok(mut value) = HeaderValue::from_str(&value) else {
                return Err(HeadersError::NotAValue(name));
            };
            value.set_sensitive(true);
            if headers.insert(&name, value).is_some() {
                return Err(HeadersError::Twice(name));
            }
        }
        Ok(Self(headers))
    }
}

/// The members of an object of strings, including duplicates.
struct Named(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Named, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(Named(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests;
