use std::sync::Arc;

use super::*;
use crate::SystemClock;
use crate::settings::Logging;
use crate::telemetry::JsonLines;
use crate::tests::loopback::{Answer, Loopback};

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
    // The value is in the place of the name.
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

/// The headers from a response of Secrets Manager.
async fn secret(answer: Answer) -> Result<Headers, HeadersError> {
    let server = Loopback::start([answer]).await;
    let arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:s";
    let observer = Arc::new(JsonLines::new("test", Logging::default(), SystemClock, std::io::sink()));
    let secret = SecretHeaders::read(&server.sdk_config(), arn, SystemClock, observer).await?;
    assert!(!format!("{secret:?}").contains("key"), "{secret:?}");
    Ok(secret.current())
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
