//! A loopback stub for Lambda's asynchronous invocations: it accepts events, "runs" them, and sends a record of each
//! failure to a queue.
//!
//! ministack also does this, but its records lack the time and the request id, which the async-retry-handler needs.

use std::sync::{Arc, Mutex};

use aws_sdk_sqs::Client;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::sqs::TestQueue;
use crate::wire::serve_router;

/// A string in the function's error that must not appear in any log.
pub const ERROR_CANARY: &str = "Al4asyncM8hNd2Fs6";

/// A running Lambda stub whose functions have `destination` as their on-failure destination; it stops when dropped.
pub struct AsyncLambda {
    url: String,
    service: Arc<AsyncService>,
    server: JoinHandle<()>,
}

/// An event as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokedEvent {
    /// The function.
    pub function_arn: String,
    /// The payload's bytes.
    pub payload: String,
    /// Milliseconds since 1970.
    pub at_millis: i64,
}

struct AsyncService {
    client: Client,
    destination: TestQueue,
    /// Returns true if the event fails.
    fails: fn(payload: &Value) -> bool,
    /// The number of requests still to be answered with 429.
    throttles: Mutex<u32>,
    invoked: Mutex<Vec<InvokedEvent>>,
}

impl AsyncLambda {
    /// Starts a service.
    pub async fn start(client: Client, destination: TestQueue, fails: fn(payload: &Value) -> bool) -> Self {
        let service =
            AsyncService { client, destination, fails, throttles: Mutex::new(0), invoked: Mutex::default() };
        let service = Arc::new(service);
        let invoke = "/2015-03-31/functions/{function_arn}/invocations";
        let router = Router::new().route(invoke, post(handle_request)).with_state(Arc::clone(&service));
        let (address, server) = serve_router(router).await;
        Self { url: format!("http://{address}"), service, server }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL_LAMBDA`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.url
    }

    /// Throttles the next `requests` requests.
    ///
    /// # Panics
    /// Never.
    pub fn throttle_next(&self, requests: u32) {
        *self.service.throttles.lock().expect("no holder panics") = requests;
    }

    /// Invokes a function as a producer does.
    pub async fn invoke_async(&self, function_arn: &str, payload: &str) {
        self.service.run_event(function_arn, payload).await;
    }

    /// Returns the events so far, in order of arrival.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn invoked_events(&self) -> Vec<InvokedEvent> {
        self.service.invoked.lock().expect("no holder panics").clone()
    }
}

impl Drop for AsyncLambda {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl AsyncService {
    /// Returns true if this request is throttled.
    fn is_throttled(&self) -> bool {
        let mut throttles = self.throttles.lock().expect("no holder panics");
        let is_throttled = *throttles > 0;
        *throttles = throttles.saturating_sub(1);
        is_throttled
    }

    async fn run_event(&self, function_arn: &str, payload: &str) {
        let now = chrono::DateTime::from_timestamp_millis(epoch_millis()).expect("the current time is valid");
        self.invoked.lock().expect("no holder panics").push(InvokedEvent {
            function_arn: function_arn.to_owned(),
            payload: payload.to_owned(),
            at_millis: now.timestamp_millis(),
        });
        let event: Value = serde_json::from_str(payload).expect("the payload is JSON");
        if (self.fails)(&event) {
            let record = recent_failure_record(function_arn, payload, self.event_number());
            let request = self.client.send_message().queue_url(&self.destination.url).message_body(record);
            request.send().await.expect("the destination accepts the record");
        }
    }

    fn event_number(&self) -> usize {
        self.invoked.lock().expect("no holder panics").len()
    }
}

async fn handle_request(
    State(service): State<Arc<AsyncService>>,
    Path(function_arn): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(headers["x-amz-invocation-type"], "Event", "all invocations are asynchronous");
    if service.is_throttled() {
        let code = [("x-amzn-errortype", "TooManyRequestsException")];
        return (StatusCode::TOO_MANY_REQUESTS, code, "{}").into_response();
    }
    let payload = std::str::from_utf8(&body).expect("JSON is UTF-8");
    service.run_event(&function_arn, payload).await;
    StatusCode::ACCEPTED.into_response()
}

fn epoch_millis() -> i64 {
    i64::try_from(crate::settings::epoch_millis()).expect("the time fits in an i64")
}

/// Returns the failure record of an invocation that failed just now, with this number.
///
/// # Panics
/// If the payload is not JSON.
#[must_use]
pub fn recent_failure_record(function_arn: &str, payload: &str, number: usize) -> String {
    let now = chrono::DateTime::from_timestamp_millis(epoch_millis()).expect("the current time is valid");
    let request_id = format!("{:08x}-0000-4000-8000-{number:012x}", now.timestamp_subsec_nanos());
    let timestamp = now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    failure_record(function_arn, payload, &request_id, &timestamp)
}

/// Returns the record of a failed invocation ("Capturing records of Lambda asynchronous invocations", AWS Lambda
/// Developer Guide).
fn failure_record(function_arn: &str, payload: &str, request_id: &str, timestamp: &str) -> String {
    let payload: &RawValue = serde_json::from_str(payload).expect("the payload is JSON");
    let context = json!({
        "requestId": request_id,
        "functionArn": function_arn,
        "condition": "RetriesExhausted",
        "approximateInvokeCount": 1,
    });
    let response = json!({ "errorMessage": ERROR_CANARY, "errorType": "OrderLocked" });
    format!(
        r#"{{"version":"1.0","timestamp":"{timestamp}","requestContext":{context},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{response}}}"#
    )
}
