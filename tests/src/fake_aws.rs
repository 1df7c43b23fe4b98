//! Stubs of Secrets Manager and Lambda on loopback, limited to the calls that a message-processor makes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::wire::serve_router;

/// Both services; they stop when dropped.
pub struct FakeAws {
    url: String,
    state: Arc<InvocationScript>,
    server: JoinHandle<()>,
}

/// The scripted result of an invocation.
#[derive(Clone, Debug)]
pub enum FakeInvocation {
    /// The function fails with this error type and message.
    FunctionError(&'static str, &'static str),
    /// Lambda refuses the invocation: status, code, and a text that must not appear in any output.
    Refused(u16, &'static str, &'static str),
    /// The function returns a text that must not appear in any output.
    Answered(&'static str),
}

struct InvocationScript {
    /// Status code and body of `GetSecretValue`.
    secret: Mutex<(u16, Value)>,
    invocations: Mutex<HashMap<String, VecDeque<FakeInvocation>>>,
    /// The value of `X-Amz-Log-Result`.
    log_result: &'static str,
}

impl FakeAws {
    /// Starts both services. Every invocation succeeds unless scripted.
    pub async fn start(secret: (u16, Value), log_result: &'static str) -> Self {
        let secret = Mutex::new(secret);
        let state = Arc::new(InvocationScript { secret, invocations: Mutex::default(), log_result });
        let (address, server) =
            serve_router(Router::new().fallback(handle_request).with_state(Arc::clone(&state))).await;
        Self { url: format!("http://{address}"), state, server }
    }

    /// Starts both services with this secret.
    pub async fn with_secret(text: &str) -> Self {
        Self::start(secret_response(text), "").await
    }

    /// Replaces the secret.
    ///
    /// # Panics
    /// Never.
    pub fn rotate_secret(&self, text: &str) {
        *self.state.secret.lock().expect("no holder panics") = secret_response(text);
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL_SECRETS_MANAGER` and `AWS_ENDPOINT_URL_LAMBDA`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.url
    }

    /// Scripts the invocations for one message, in order; later ones succeed.
    ///
    /// # Panics
    /// Never.
    pub fn script_invocations(
        &self,
        message_id: &str,
        invocations: impl IntoIterator<Item = FakeInvocation>,
    ) {
        let invocations = invocations.into_iter().collect();
        self.state.invocations.lock().expect("no holder panics").insert(message_id.to_owned(), invocations);
    }
}

impl Drop for FakeAws {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle_request(
    State(script): State<Arc<InvocationScript>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    if target == "secretsmanager.GetSecretValue" {
        let (status, body) = script.secret.lock().expect("no holder panics").clone();
        return (status_code(status), body.to_string()).into_response();
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message_id = body["metadata"]["message_id"].as_str().unwrap_or_default();
    let next = {
        let mut invocations = script.invocations.lock().expect("no holder panics");
        invocations.get_mut(message_id).and_then(VecDeque::pop_front)
    };
    let log = ("X-Amz-Log-Result", script.log_result);
    match next.unwrap_or(FakeInvocation::Answered("null")) {
        FakeInvocation::Answered(text) => ([log], json!({ "answer": text }).to_string()).into_response(),
        FakeInvocation::FunctionError(error_type, message) => {
            let payload =
                json!({ "errorType": error_type, "errorMessage": message, "stackTrace": [message] });
            ([log, ("X-Amz-Function-Error", "Unhandled")], payload.to_string()).into_response()
        }
        FakeInvocation::Refused(status, code, text) => {
            let body = json!({ "Message": text, "message": text });
            (status_code(status), [("x-amzn-errortype", code)], body.to_string()).into_response()
        }
    }
}

fn secret_response(text: &str) -> (u16, Value) {
    (200, json!({ "Name": "headers", "SecretString": text }))
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a script has valid statuses")
}
