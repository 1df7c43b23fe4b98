use std::sync::Mutex;

use redeliver_core::message::{Attribute, Attributes, ReceivedMessage};

use super::*;
use crate::clock::manual::ManualClock;
use crate::targets::{EndpointSettings, Target, TargetUrl, UrlSetting, drain};
use crate::tests::loopback::{ClosingServer, Loopback, REFUSED_URL, ScriptedResponse, timeouts};
use crate::tests::record;

/// A timeout that is never reached.
const LONG: Duration = Duration::from_secs(60);
/// A string in the URL and in response bodies that must not appear in any output.
const CANARY: &str = "CANARY";

/// Far below the timeout, and far above the duration of the tested calls.
const SOON: Duration = Duration::from_secs(30);

/// An observer that records all events.
#[derive(Clone, Debug, Default)]
struct RecordingObserver(Arc<Mutex<Vec<Event>>>);

impl Observer for RecordingObserver {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl RecordingObserver {
    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

async fn complete_soon<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, call).await.expect("the call does not wait for its timeout")
}

fn message(body: &str) -> Message<'_> {
    static NONE: Attributes = Attributes::new();
    Message {
        body,
        message_id: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        form: &BodyForm::Envelope,
        retry_attempt: 3,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &NONE,
    }
}

fn target(url: &str, timeout: Duration) -> HttpTarget {
    HttpTarget::new(public_endpoint(&format!("{url}/orders/new?key={CANARY}")), None, timeout).unwrap()
}

/// Returns an endpoint without authentication.
fn public_endpoint<C>(url: &str) -> EndpointSource<C> {
    EndpointSource::Fixed(Endpoint::without_auth(TargetUrl(url.parse().unwrap())))
}

/// Returns an endpoint with `TARGET` and this secret.
fn endpoint_with_secret<C>(url: &str, secret: &str) -> EndpointSource<C> {
    let settings = EndpointSettings { url: UrlSetting::Given(TargetUrl(url.parse().unwrap())), sigv4: None };
    EndpointSource::Fixed(Endpoint::parse(&settings, secret).unwrap())
}

/// Returns a target whose clock is stopped, so that waits never end.
fn target_at(url: &str, clock: &ManualClock) -> HttpTarget<ManualClock> {
    let client = harden_client(Client::builder(), LONG).build().unwrap();
    HttpTarget::with_clock(client, public_endpoint(&format!("{url}/orders/new?key={CANARY}")), clock.clone())
}

async fn call(server: &Loopback, timeout: Duration) -> Result<(), HandlerError> {
    let outcome = target(server.url(), timeout).handle(&message("{}")).await;
    assert!(!format!("{outcome:?}").contains(CANARY), "{outcome:?}");
    outcome
}

async fn response_outcome(status: u16, headers: &[(&str, &str)]) -> Result<(), HandlerError> {
    let body = format!(r#"{{"error":"{CANARY}"}}"#);
    call(&Loopback::start([ScriptedResponse::new(status, headers, &body)]).await, LONG).await
}

async fn failure(status: u16, headers: &[(&str, &str)]) -> HandlerError {
    response_outcome(status, headers).await.unwrap_err()
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
        let error = failure(status, &[("location", elsewhere.url())]).await;
        assert_eq!((error.error_type, error.kind), (ErrorType::HttpStatus(status), FailureKind::Transient));
        assert_eq!(elsewhere.requests().len(), 0, "{status}");
    }
}

/// If these statuses were permanent, a deployment that lacks a route for an hour would send the entire queue to the
/// final DLQ.
#[tokio::test]
async fn a_missing_route_or_method_is_transient() {
    for (status, kind) in [
        (404, FailureKind::Transient),
        (405, FailureKind::Transient),
        (406, FailureKind::Permanent),
        (410, FailureKind::Permanent),
    ] {
        assert_eq!(failure(status, &[]).await.kind, kind, "{status}");
    }
}

#[tokio::test]
async fn retry_after_in_seconds_is_honored() {
    for status in [429, 503] {
        let error = failure(status, &[("Retry-After", "120")]).await;
        assert_eq!(error.kind, FailureKind::TransientAfter(Duration::from_secs(120)), "{status}");
    }
}

#[tokio::test]
async fn retry_after_as_a_date_is_honored() {
    let clock = ManualClock::default();
    let date = httpdate::fmt_http_date((clock.now() + Duration::from_secs(600)).into());
    let server = Loopback::start([ScriptedResponse::new(503, &[("Retry-After", &date)], "")]).await;
    let error = target_at(server.url(), &clock).handle(&message("{}")).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::TransientAfter(Duration::from_secs(600)));
    let past = failure(429, &[("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT")]).await;
    assert_eq!(past.kind, FailureKind::TransientAfter(Duration::ZERO));
}

#[tokio::test]
async fn common_variants_of_retry_after_are_parsed() {
    for (name, value, seconds) in [
        ("Retry-After", "120.0", 120.0),
        ("Retry-After", "2.5", 2.5),
        ("Retry-After", "120, 60", 120.0),
        ("Retry-After", "784111777", 0.0),
        ("retry-after-ms", "2500", 2.5),
        ("X-RateLimit-Reset", "60", 60.0),
    ] {
        let kind = FailureKind::TransientAfter(Duration::from_secs_f64(seconds));
        assert_eq!(failure(429, &[(name, value)]).await.kind, kind, "{name}: {value}");
    }
    assert_eq!(
        failure(400, &[("Retry-After", "2.0")]).await.kind,
        FailureKind::TransientAfter(Duration::from_secs(2))
    );
}

#[tokio::test]
async fn an_unreadable_retry_after_is_reported_and_the_backoff_applies() {
    for (value, events) in [("", 1), ("soon", 1), ("-5", 1), ("1994-11-06T08:49:37", 1), ("1", 0)] {
        let server = Loopback::start([ScriptedResponse::new(503, &[("Retry-After", value)], "")]).await;
        let noted = RecordingObserver::default();
        let target = target(server.url(), LONG).with_observer(Arc::new(noted.clone()));
        let error = target.handle(&message("{}")).await.unwrap_err();
        assert_eq!(error.kind == FailureKind::Transient, events == 1, "{value}");
        let event = Event::RetryAfterUnreadable {
            message_id: message("{}").message_id.to_owned(),
            error_type: "HttpStatus.503".to_owned(),
        };
        assert_eq!(noted.events(), vec![event; events], "{value}");
    }
}

#[tokio::test]
async fn the_request_has_the_unchanged_body_and_the_headers() {
    let body = "{ \"metadata\":{},\r\n \"data\" : {\"n\":1e400,\"é\":\"\\u00e9\u{FFFD}😀\",\"n\":0.10}}\n";
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let url = format!("{}/orders/new?key={CANARY}&b=%20", server.url());
    let endpoint = endpoint_with_secret(&url, r#"{"Authorization":"Bearer key","X-Tenant":"a"}"#);
    HttpTarget::new(endpoint, None, LONG).unwrap().handle(&message(body)).await.unwrap();
    let request = server.request();
    assert_eq!(request.line, format!("POST /orders/new?key={CANARY}&b=%20 HTTP/1.1"));
    assert_eq!(request.body, body.as_bytes());
    assert_eq!(request.header("content-type"), ["application/json"]);
    assert_eq!(request.header("idempotency-key"), ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]);
    assert_eq!(request.header("x-redeliver-attempt"), ["3"]);
    assert_eq!(request.header("authorization"), ["Bearer key"]);
    assert_eq!(request.header("x-tenant"), ["a"]);
    assert_eq!(request.header("content-length"), [body.len().to_string()]);
}

#[tokio::test]
async fn the_target_gets_the_trace_context_unless_a_secret_sets_the_header() {
    let attributes = Attributes::from([
        (
            "traceparent".to_owned(),
            Attribute::string("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"),
        ),
        ("tracestate".to_owned(), Attribute::string("vendor=a")),
    ]);
    let own = Message { attributes: &attributes, ..message("{}") };
    let looped = "Root=1-00000001-000000000000000000000002;Parent=0000000000000003;Sampled=0;Lineage=a:1";
    let record = ReceivedMessage { trace_header: Some(looped.to_owned()), ..record(None) };
    let sent = async |secret: &str, message: &Message<'_>| {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
        let target = HttpTarget::new(endpoint_with_secret(server.url(), secret), None, LONG).unwrap();
        let end = Timestamp::MAX_UTC;
        target.invoke(Invocation { trace: None, logs: None, message, record: &record, end }).await.unwrap();
        let request = server.request();
        ["traceparent", "tracestate", "x-amzn-trace-id"].map(|name| request.header(name).join("|"))
    };
    let parent = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
    let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    assert_eq!(sent("{}", &own).await, [parent, "vendor=a", xray]);
    assert_eq!(sent(r#"{"TraceParent":"fixed"}"#, &own).await, ["fixed", "vendor=a", xray]);
    let mut forged = attributes.clone();
    forged.insert("tracestate".to_owned(), Attribute::string("vendor=a\r\nX-Admin: 1"));
    let forged = Message { attributes: &forged, ..message("{}") };
    assert_eq!(sent("{}", &forged).await, [parent, "", xray], "the call is made without the header");
    let from_header = [
        "00-00000001000000000000000000000002-0000000000000003-00",
        "",
        "Root=1-00000001-000000000000000000000002;Parent=0000000000000003;Sampled=0",
    ];
    assert_eq!(sent("{}", &message("{}")).await, from_header, "a lineage is only for Lambda");
}

#[tokio::test]
async fn a_body_of_1_mib_arrives_completely() {
    let body = format!(r#"{{"data":"{}"}}"#, "x".repeat(1_048_576 - 11));
    assert_eq!(body.len(), 1_048_576);
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    target(server.url(), LONG).handle(&message(&body)).await.unwrap();
    assert_eq!(server.request().body, body.as_bytes());
}

#[tokio::test]
async fn a_target_timeout_is_transient_and_sends_one_request() {
    for timeout in timeouts() {
        let server = Loopback::start([ScriptedResponse::hang()]).await;
        let error = call(&server, timeout).await.unwrap_err();
        assert_eq!((error.error_type, error.kind), ("Http.Timeout".into(), FailureKind::Transient));
        match server.requests().len() {
            0 => {}
            requests => return assert_eq!(requests, 1),
        }
    }
    panic!("no request arrived");
}

#[tokio::test]
async fn connect_failure_is_transient() {
    let error = target(REFUSED_URL, LONG).handle(&message("{}")).await.unwrap_err();
    assert_eq!((&error.error_type, error.kind), (&"Http.Refused".into(), FailureKind::Transient));
    assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
}

#[tokio::test]
async fn a_broken_connection_is_transient_and_not_retried() {
    let server = Loopback::start([ScriptedResponse::closed()]).await;
    let error = call(&server, LONG).await.unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Http.Reset".into(), FailureKind::Transient));
    // The target may have handled the request: the policy decides when to call again.
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn debug_output_omits_the_endpoint() {
    let endpoint =
        endpoint_with_secret("https://example.com/CANARY?key=CANARY", r#"{"Authorization":"Bearer CANARY"}"#);
    assert_eq!(format!("{endpoint:?}"), "Fixed(Endpoint { .. })");
    let target = HttpTarget::new(endpoint, None, LONG).unwrap();
    assert_eq!(format!("{target:?}"), "HttpTarget { .. }");
}

mod answers;
mod error_excerpt;
mod hardening;
mod no_response;
mod proxy;
mod rotation;
mod signatures;
mod statuses;

#[tokio::test]
async fn a_plain_message_is_sent_with_its_content_type_and_idempotency_key() {
    for (body, content_type) in [
        (r#" {"n":1e400}"#, "application/json"),
        ("a,b\n1,2", "text/plain; charset=utf-8"),
        ("{", "text/plain; charset=utf-8"),
    ] {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
        let form = &BodyForm::Plain { idempotency_key: Some("order 17".to_owned()) };
        let plain = Message { form, ..message(body) };
        assert_eq!(target(server.url(), LONG).handle(&plain).await, Ok(()));
        let request = server.request();
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(request.header("content-type"), [content_type]);
        assert_eq!(request.header("idempotency-key"), ["order 17"]);
    }
}

#[test]
fn the_call_span_has_only_the_host_and_port_of_the_url() {
    for (url, host, port) in
        [("https://example.com", "example.com", 443_u32), ("http://127.0.0.1:8080", "127.0.0.1", 8080)]
    {
        let attributes = vec![
            ("http.request.method", "POST".into()),
            ("server.address", host.to_owned().into()),
            ("server.port", port.into()),
        ];
        let expected = CallSpan { name: "POST".into(), kind: SpanKind::Client, attributes };
        assert_eq!(Target::Http(Box::new(target(url, LONG))).call_span(), expected);
    }
}
