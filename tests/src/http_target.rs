//! An HTTP endpoint on loopback with scripted responses. It records its requests.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::task::JoinHandle;

use crate::wire::serve_router;

/// A running endpoint; it stops when dropped.
pub struct HttpTargetServer {
    url: String,
    state: Arc<Mutex<ReplyScript>>,
    server: JoinHandle<()>,
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status, with a body that must not appear in any output.
    Status(u16),
    /// A status with `Retry-After` in seconds.
    RetryAfter(u16, u32),
    /// No response at all.
    Hang,
}

/// A request as received.
#[derive(Clone, Debug)]
pub struct TargetRequest {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

/// A string in the body and in a header of every response.
pub const RESPONSE_CANARY: &str = "Zr5answerB9nYc2Fw";

#[derive(Default)]
struct ReplyScript {
    /// The required `Authorization` header, if any.
    key: Option<String>,
    refuses_first_attempts: bool,
    replies: HashMap<String, VecDeque<Reply>>,
    requests: Vec<TargetRequest>,
}

impl HttpTargetServer {
    /// Starts an endpoint. Every response is 200 unless scripted.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(ReplyScript::default()));
        let (address, server) =
            serve_router(Router::new().fallback(handle_request).with_state(Arc::clone(&state))).await;
        Self { url: format!("http://{address}/target"), state, server }
    }

    /// Answers every first attempt with 500 from now on, regardless of the scripts.
    ///
    /// # Panics
    /// Never.
    pub fn refuse_first_attempts(&self) {
        self.state.lock().expect("no holder panics").refuses_first_attempts = true;
    }

    /// Returns the endpoint's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Scripts the responses for one `Idempotency-Key`, in order; 200 once they are used up.
    ///
    /// # Panics
    /// Never.
    pub fn script_replies(&self, message_id: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.state.lock().expect("no holder panics").replies.insert(message_id.to_owned(), replies);
    }

    /// From now on, answers 401 to every request without this `Authorization` header.
    ///
    /// # Panics
    /// Never.
    pub fn require_key(&self, key: &str) {
        self.state.lock().expect("no holder panics").key = Some(key.to_owned());
    }

    /// Returns the requests for one `Idempotency-Key`, in order of arrival.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn requests_for(&self, message_id: &str) -> Vec<TargetRequest> {
        let script = self.state.lock().expect("no holder panics");
        script
            .requests
            .iter()
            .filter(|request| idempotency_key(&request.headers) == message_id)
            .cloned()
            .collect()
    }

    /// Returns the requests whose body contains this string, in order of arrival.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn requests_containing(&self, text: &str) -> Vec<TargetRequest> {
        let script = self.state.lock().expect("no holder panics");
        script.requests.iter().filter(|request| request.body.contains(text)).cloned().collect()
    }

    /// Returns the number of requests so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.state.lock().expect("no holder panics").requests.len()
    }
}

impl Drop for HttpTargetServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle_request(
    State(state): State<Arc<Mutex<ReplyScript>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let reply = {
        let mut script = state.lock().expect("no holder panics");
        let given = headers.get("Authorization").and_then(|key| key.to_str().ok());
        let is_refused = script.key.as_deref().is_some_and(|key| given != Some(key));
        let is_first = headers.get("X-Redeliver-Attempt").is_some_and(|attempt| attempt == "0");
        let reply = if is_refused {
            Some(Reply::Status(401))
        } else if is_first && script.refuses_first_attempts {
            Some(Reply::Status(500))
        } else {
            script.replies.get_mut(idempotency_key(&headers)).and_then(VecDeque::pop_front)
        };
        script.requests.push(TargetRequest { headers, body: String::from_utf8_lossy(&body).into_owned() });
        reply.unwrap_or(Reply::Status(200))
    };
    match reply {
        Reply::Status(status) => {
            (status_code(status), [("X-Own", RESPONSE_CANARY)], RESPONSE_CANARY).into_response()
        }
        Reply::RetryAfter(status, seconds) => {
            (status_code(status), [("Retry-After", seconds.to_string())], RESPONSE_CANARY).into_response()
        }
        Reply::Hang => std::future::pending().await,
    }
}

fn idempotency_key(headers: &HeaderMap) -> &str {
    headers.get("Idempotency-Key").and_then(|key| key.to_str().ok()).unwrap_or_default()
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a script has valid statuses")
}
