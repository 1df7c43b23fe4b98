//! The target's own headers, from a secret.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
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
    /// Not a header that HTTP allows.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has a header that HTTP does not allow: {0}")]
    NotAHeader(String),
    /// Ours, or the connection's.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN sets {0}, which redeliver or HTTP itself sets")]
    Reserved(String),
}

/// What redeliver or HTTP itself sets.
const RESERVED: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "te",
    "transfer-encoding",
    "x-redeliver-attempt",
];

impl Headers {
    /// Reads the secret's text.
    ///
    /// # Errors
    /// Which header is wrong.
    pub fn parse(secret: &str) -> Result<Self, HeadersError> {
        let named: BTreeMap<String, String> =
            serde_json::from_str(secret).map_err(|_| HeadersError::NotAnObject)?;
        let mut headers = HeaderMap::new();
        for (name, value) in named {
            let not_a_header = || HeadersError::NotAHeader(name.clone());
            let header: HeaderName = name.parse().map_err(|_| not_a_header())?;
            if RESERVED.contains(&header.as_str()) {
                return Err(HeadersError::Reserved(name));
            }
            let mut value = HeaderValue::from_str(&value).map_err(|_| not_a_header())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(Self(headers))
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

    #[test]
    fn what_cannot_be_a_header_is_refused_by_name_without_its_value() {
        let refused = |secret: &str| Headers::parse(secret).unwrap_err();
        assert_eq!(refused("CANARY"), HeadersError::NotAnObject);
        assert_eq!(refused(r#"{"A":1}"#), HeadersError::NotAnObject);
        assert_eq!(refused(r#"{"A":"a\r\nB: CANARY"}"#), HeadersError::NotAHeader("A".to_owned()));
        assert_eq!(refused(r#"{"A B":"CANARY"}"#), HeadersError::NotAHeader("A B".to_owned()));
        assert_eq!(refused(r#"{"HOST":"CANARY"}"#), HeadersError::Reserved("HOST".to_owned()));
        assert_eq!(
            refused(r#"{"Idempotency-Key":"1"}"#),
            HeadersError::Reserved("Idempotency-Key".to_owned())
        );
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
