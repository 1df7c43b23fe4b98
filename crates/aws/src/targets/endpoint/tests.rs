use std::sync::Arc;

use super::*;
use crate::SystemClock;
use crate::settings::Logging;
use crate::targets::SigV4Setting;
use crate::telemetry::JsonLinesObserver;
use crate::tests::loopback::{Loopback, ScriptedResponse};

const SIGNING_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Returns the settings with this `TARGET`.
fn settings_with_url(url: &str) -> EndpointSettings {
    let Ok(TargetAddress::Url(url)) = TargetAddress::parse(url, false) else { panic!("not a URL: {url}") };
    EndpointSettings { url: UrlSetting::Given(url), sigv4: None }
}

/// Returns the settings without a `TARGET`.
fn settings_with_url_in_secret(allow_http: bool) -> EndpointSettings {
    EndpointSettings { url: UrlSetting::InSecret { allow_http }, sigv4: None }
}

fn parse_secret(secret: &str) -> Result<Endpoint, SecretError> {
    Endpoint::parse(&settings_with_url("https://example.com/hook"), secret)
}

#[test]
fn headers_from_the_secret_are_marked_sensitive() {
    let endpoint = parse_secret(r#"{"Authorization":"Bearer CANARY","X-Api-Key":"k"}"#).unwrap();
    assert_eq!(endpoint.headers.len(), 2);
    assert!(endpoint.headers.values().all(HeaderValue::is_sensitive));
    assert_eq!(endpoint.url.0.as_str(), "https://example.com/hook");
}

#[test]
fn debug_output_shows_nothing_from_the_secret() {
    let secret = format!(
        r#"{{":url":"https://canary.example/CANARY?key=CANARY",":signing-secrets":"{SIGNING_SECRET}","X-Canary":"CANARY"}}"#
    );
    let endpoint = Endpoint::parse(&settings_with_url_in_secret(false), &secret).unwrap();
    assert_eq!(format!("{endpoint:?}"), "Endpoint { .. }");
    let secrets = SigningSecrets::parse(SIGNING_SECRET).unwrap();
    assert_eq!(format!("{secrets:?}"), "SigningSecrets { .. }");
}

fn secret_error(secret: &str) -> SecretError {
    secret_error_with_settings(&settings_with_url("https://example.com/hook"), secret)
}

fn secret_error_with_settings(settings: &EndpointSettings, secret: &str) -> SecretError {
    let error = Endpoint::parse(settings, secret).unwrap_err();
    assert!(!format!("{error} {error:?} {}", error.log_code()).contains("CANARY"), "{error}");
    error
}

#[test]
fn a_url_in_the_secret_is_the_target_if_the_setting_is_missing() {
    let secret = r#"{":url":"https://example.com/hooks/T0/B1?a=b","X-Key":"k"}"#;
    let endpoint = Endpoint::parse(&settings_with_url_in_secret(false), secret).unwrap();
    assert_eq!(endpoint.url.0.as_str(), "https://example.com/hooks/T0/B1?a=b");
    assert_eq!(endpoint.headers["x-key"], "k");

    assert_eq!(
        secret_error_with_settings(&settings_with_url_in_secret(false), r#"{"X-Key":"CANARY"}"#),
        SecretError::NoUrl
    );
    assert_eq!(secret_error(secret), SecretError::TwoUrls);
}

#[test]
fn a_url_in_the_secret_follows_the_same_rules_as_the_setting() {
    let refused = |url: &str| {
        let error = secret_error_with_settings(
            &settings_with_url_in_secret(false),
            &format!(r#"{{":url":"{url}"}}"#),
        );
        error.to_string().replace(":url in the secret of TARGET_HEADERS_SECRET_ARN ", "")
    };
    assert_eq!(
        refused("http://example.com/CANARY"),
        "is http:// to another machine; use https://, or set TARGET_ALLOW_HTTP=true"
    );
    assert_eq!(refused("https://example.com/#CANARY"), "has a fragment (#…), which is never sent; remove it");
    for no_url in ["", "CANARY", "arn:aws:lambda:eu-central-1:123456789012:function:CANARY"] {
        assert_eq!(refused(no_url), "is not an https:// URL");
    }
    let credentials = refused("https://CANARY:CANARY@example.com/");
    assert!(credentials.starts_with("contains credentials; "), "{credentials}");
    let http = r#"{":url":"http://10.0.0.1/"}"#;
    assert_eq!(
        Endpoint::parse(&settings_with_url_in_secret(true), http).unwrap().url.0.as_str(),
        "http://10.0.0.1/"
    );
}

#[test]
fn an_unknown_or_duplicate_part_is_refused() {
    for unknown in [":URL", ":uri", ":signing-secret", ":", ":CANARY"] {
        assert_eq!(
            secret_error(&format!(r#"{{"{unknown}":"CANARY"}}"#)),
            SecretError::UnknownPart,
            "{unknown}"
        );
    }
    let twice = r#"{":url":"https://a.example/CANARY",":url":"https://b.example/"}"#;
    assert_eq!(
        secret_error_with_settings(&settings_with_url_in_secret(false), twice),
        SecretError::PartTwice(":url")
    );
    let twice = format!(r#"{{":signing-secrets":"{SIGNING_SECRET}",":signing-secrets":"CANARY"}}"#);
    assert_eq!(secret_error(&twice), SecretError::PartTwice(":signing-secrets"));
}

#[test]
fn invalid_signing_secrets_are_refused_without_revealing_them() {
    let error = secret_error(r#"{":signing-secrets":"CANARY"}"#);
    assert_eq!(error, SecretError::SigningSecrets(SigningSecretsError::NotASecret));
    assert_eq!(
        error.to_string(),
        ":signing-secrets in the secret of TARGET_HEADERS_SECRET_ARN has a secret that is not whsec_ and base64 \
         with its padding; copy it again"
    );
}

fn name(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

#[test]
fn a_secret_that_is_not_an_object_of_strings_is_refused() {
    for secret in ["CANARY", r#""CANARY""#, r#"{"A":1}"#, r#"["CANARY"]"#, r#"{"A":"CANARY"} CANARY"#] {
        assert_eq!(secret_error(secret), SecretError::NotAnObject, "{secret}");
    }
}

#[test]
fn a_header_with_a_control_character_is_refused_by_name() {
    for value in [r"a\r\nB: CANARY", r"CANARY\n", r"CANARY\r", r"CANARY\u0000", r"CANARY\u007f"] {
        let secret = format!(r#"{{"X-Key":"{value}"}}"#);
        assert_eq!(secret_error(&secret), SecretError::NotAValue(name("x-key")), "{secret}");
    }
}

#[test]
fn an_invalid_header_name_is_refused_without_revealing_it() {
    // Here, name and value are swapped.
    for wrong in ["Bearer CANARY", "CANARY:", r"CANARY\r\nB", "", "é"] {
        let secret = format!(r#"{{"{wrong}":"Authorization"}}"#);
        assert_eq!(secret_error(&secret), SecretError::NotAName, "{secret}");
    }
}

#[test]
fn a_reserved_header_is_refused_in_any_case() {
    let ours = ["X-Redeliver-Attempt", "x-redeliver-anything"];
    for reserved in RESERVED.into_iter().chain(standard_webhooks::HEADERS).chain(ours) {
        for spelling in [reserved.to_ascii_lowercase(), reserved.to_ascii_uppercase()] {
            let lower = HeaderName::from_bytes(reserved.as_bytes()).unwrap();
            let secret = format!(r#"{{"{spelling}":"CANARY"}}"#);
            assert_eq!(secret_error(&secret), SecretError::Reserved(lower), "{secret}");
        }
    }
}

#[test]
fn a_duplicate_header_is_refused() {
    for secret in [r#"{"X-Key":"CANARY","x-key":"b"}"#, r#"{"X-Key":"a","X-Key":"CANARY"}"#] {
        assert_eq!(secret_error(secret), SecretError::Twice(name("x-key")));
    }
}

/// Returns the endpoint from a Secrets Manager response.
async fn endpoint_from_response(answer: ScriptedResponse) -> Result<Endpoint, SecretError> {
    let server = Loopback::start([answer]).await;
    let arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:s";
    let observer = Arc::new(JsonLinesObserver::new("test", Logging::default(), SystemClock, std::io::sink()));
    let settings = settings_with_url("https://example.com/");
    let secret =
        SecretEndpoint::read_secret(&server.sdk_config(), arn, settings, SystemClock, observer).await?;
    assert_eq!(format!("{secret:?}"), format!("SecretEndpoint {{ arn: {arn:?}, .. }}"));
    Ok(secret.current_endpoint())
}

#[tokio::test]
async fn a_secret_is_parsed_into_an_endpoint() {
    let body = r#"{"SecretString":"{\"Authorization\":\"Bearer key\"}"}"#;
    let endpoint = endpoint_from_response(ScriptedResponse::new(200, &[], body)).await.unwrap();
    assert_eq!(endpoint.headers["authorization"], "Bearer key");
}

#[tokio::test]
async fn an_unusable_secret_is_refused_without_revealing_it() {
    let denied = r#"{"__type":"AccessDeniedException","Message":"CANARY"}"#;
    let error = endpoint_from_response(ScriptedResponse::new(400, &[], denied)).await.unwrap_err();
    assert_eq!(error, SecretError::Unreadable("AccessDeniedException".to_owned()));
    let text = endpoint_from_response(ScriptedResponse::new(200, &[], r#"{"SecretString":"CANARY"}"#))
        .await
        .unwrap_err();
    assert_eq!(text, SecretError::NotAnObject);
    let bytes = endpoint_from_response(ScriptedResponse::new(200, &[], r#"{"SecretBinary":"e30="}"#))
        .await
        .unwrap_err();
    assert_eq!(bytes, SecretError::NotAnObject);
}

/// Returns the settings with `TARGET_SIGV4=auto`.
fn with_auto_sigv4(settings: EndpointSettings) -> EndpointSettings {
    let config = aws_config::SdkConfig::builder().build();
    EndpointSettings { sigv4: Some(SigV4Signer::new(SigV4Setting::ByHost, &config)), ..settings }
}

#[test]
fn a_role_signature_excludes_signing_secrets_and_reserves_its_headers() {
    let settings =
        with_auto_sigv4(settings_with_url("https://a1b2.execute-api.eu-west-1.amazonaws.com/prod/hook"));
    let signing_secrets = format!(r#"{{":signing-secrets":"{SIGNING_SECRET}"}}"#);
    let error = secret_error_with_settings(&settings, &signing_secrets);
    assert_eq!(error, SecretError::TwoSignatures);
    assert_eq!(
        error.to_string(),
        "TARGET_SIGV4 is set, and the secret of TARGET_HEADERS_SECRET_ARN also has :signing-secrets; remove one of them"
    );
    for header in sigv4::HEADERS {
        let secret = format!(r#"{{"{header}":"CANARY"}}"#);
        assert_eq!(secret_error_with_settings(&settings, &secret), SecretError::Reserved(name(header)));
        assert!(parse_secret(&secret).is_ok(), "{header}");
    }
    let key = Endpoint::parse(&settings, r#"{"x-api-key":"k"}"#).unwrap();
    assert_eq!(key.headers["x-api-key"], "k");
}

#[test]
fn the_host_of_a_url_in_the_secret_determines_the_service() {
    let settings = with_auto_sigv4(settings_with_url_in_secret(false));
    assert!(Endpoint::parse(&settings, r#"{":url":"https://ab.lambda-url.eu-west-1.on.aws/"}"#).is_ok());
    let error = secret_error_with_settings(&settings, r#"{":url":"https://example.com/CANARY"}"#);
    assert_eq!(error, SecretError::SigV4(SigV4Error::UnknownHost));
    assert!(error.to_string().starts_with("TARGET_SIGV4 is auto, but the URL's host is not "), "{error}");
}
