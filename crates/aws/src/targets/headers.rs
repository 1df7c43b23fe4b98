//! The target's own headers, from a secret.

use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use thiserror::Error;

/// Headers for every request to the target; their values are secret.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub(super) HeaderMap);

/// Why the secret cannot be used. Never holds a value.
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
    /// A name that HTTP does not allow. It is not repeated: somebody may have taken the value for the name.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has a header whose name HTTP does not allow")]
    NotAName,
    /// A value that HTTP does not allow, a line break above all.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN gives {0} a value with a line break or another control character"
    )]
    NotAValue(HeaderName),
    /// HTTP does not tell upper case from lower.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has the header {0} twice")]
    Twice(HeaderName),
    /// Ours, or the connection's.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN sets {0}, which redeliver or HTTP itself sets")]
    Reserved(HeaderName),
}

/// What redeliver or HTTP itself sets: the request's meaning, its framing and its connection.
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
/// Ours, also those that are still to come.
const RESERVED_PREFIX: &str = "x-redeliver-";

impl Headers {
    /// Reads the secret's text.
    ///
    /// # Errors
    /// Which header is wrong.
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

/// The members of an object of strings, also those that have the same name.
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

/// Reads the secret from Secrets Manager, once.
///
/// # Errors
/// If it cannot be read, or is not what it should be.
pub async fn secret_headers(config: &SdkConfig, arn: &str) -> Result<Headers, HeadersError> {
    let secret = aws_sdk_secretsmanager::Client::new(config)
        .get_secret_value()
        .secret_id(arn)
        .send()
        .await
        .map_err(|error| HeadersError::Unreadable(error.code().unwrap_or("no answer").to_owned()))?;
    Headers::parse(secret.secret_string.as_deref().ok_or(HeadersError::NotAnObject)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::{Answer, Loopback};

    #[test]
    fn headers_of_the_secret_are_marked_sensitive() {
        let headers = Headers::parse(r#"{"Authorization":"Bearer CANARY","X-Api-Key":"k"}"#).unwrap();
        assert_eq!(headers.0.len(), 2);
        assert!(headers.0.values().all(HeaderValue::is_sensitive));
        assert!(!format!("{headers:?}").contains("CANARY"));
    }

    fn refused(secret: &str) -> HeadersError {
        let error = Headers::parse(secret).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("CANARY"), "{error}");
        error
    }

    fn name(name: &'static str) -> HeaderName {
        HeaderName::from_static(name)
    }

    #[test]
    fn what_is_no_object_of_strings_is_refused() {
        for secret in ["CANARY", r#""CANARY""#, r#"{"A":1}"#, r#"["CANARY"]"#, r#"{"A":"CANARY"} CANARY"#] {
            assert_eq!(refused(secret), HeadersError::NotAnObject, "{secret}");
        }
    }

    #[test]
    fn a_value_that_would_end_its_line_is_refused_by_its_header() {
        for value in [r"a\r\nB: CANARY", r"CANARY\n", r"CANARY\r", r"CANARY\u0000", r"CANARY\u007f"] {
            let secret = format!(r#"{{"X-Key":"{value}"}}"#);
            assert_eq!(refused(&secret), HeadersError::NotAValue(name("x-key")), "{secret}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_without_its_text() {
        // Somebody has taken the value for the name.
        for wrong in ["Bearer CANARY", "CANARY:", r"CANARY\r\nB", "", "é"] {
            let secret = format!(r#"{{"{wrong}":"Authorization"}}"#);
            assert_eq!(refused(&secret), HeadersError::NotAName, "{secret}");
        }
    }

    #[test]
    fn what_redeliver_or_http_itself_sets_is_refused_in_any_case() {
        let ours = ["X-Redeliver-Attempt", "x-redeliver-anything"];
        for reserved in RESERVED.into_iter().chain(ours) {
            for spelling in [reserved.to_ascii_lowercase(), reserved.to_ascii_uppercase()] {
                let lower = HeaderName::from_bytes(reserved.as_bytes()).unwrap();
                let secret = format!(r#"{{"{spelling}":"CANARY"}}"#);
                assert_eq!(refused(&secret), HeadersError::Reserved(lower), "{secret}");
            }
        }
    }

    #[test]
    fn a_header_given_twice_is_refused_not_chosen_from() {
        for secret in [r#"{"X-Key":"CANARY","x-key":"b"}"#, r#"{"X-Key":"a","X-Key":"CANARY"}"#] {
            assert_eq!(refused(secret), HeadersError::Twice(name("x-key")));
        }
    }

    /// What becomes of a secret as Secrets Manager answers.
    async fn secret(answer: Answer) -> Result<Headers, HeadersError> {
        let server = Loopback::start([answer]).await;
        secret_headers(&server.sdk_config(), "arn:aws:secretsmanager:eu-central-1:123456789012:secret:s")
            .await
    }

    #[tokio::test]
    async fn the_secrets_text_becomes_headers() {
        let body = r#"{"SecretString":"{\"Authorization\":\"Bearer key\"}"}"#;
        let headers = secret(Answer::new(200, &[], body)).await.unwrap();
        assert_eq!(headers.0["authorization"], "Bearer key");
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_used_is_refused_without_its_text() {
        let denied = r#"{"__type":"AccessDeniedException","Message":"CANARY"}"#;
        let error = secret(Answer::new(400, &[], denied)).await.unwrap_err();
        assert_eq!(error, HeadersError::Unreadable("AccessDeniedException".to_owned()));
        let text = secret(Answer::new(200, &[], r#"{"SecretString":"CANARY"}"#)).await.unwrap_err();
        assert_eq!(text, HeadersError::NotAnObject);
        let bytes = secret(Answer::new(200, &[], r#"{"SecretBinary":"e30="}"#)).await.unwrap_err();
        assert_eq!(bytes, HeadersError::NotAnObject);
    }
}
