//! A proxy between a function and SQS. It records requests and can make sends fail.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The error message of a failed send. It must not appear in any output.
pub const INJECTED_CANARY: &str = "Ty3injectedQ6gUk8Vb";

/// A running proxy; it stops when dropped.
pub struct Tap {
    endpoint_url: String,
    state: Arc<TapState>,
    server: JoinHandle<()>,
}

/// A request in the SQS JSON protocol.
#[derive(Clone, Debug)]
pub struct SqsRequest {
    /// The action, for example `SendMessageBatch`.
    pub action: String,
    /// The request's members.
    pub members: Value,
}

struct TapState {
    upstream: String,
    client: reqwest::Client,
    requests: Mutex<Vec<SqsRequest>>,
    /// Part of the URL of the queue for which all sends fail.
    failing_queue: Mutex<Option<String>>,
    /// The number of sends since [`Tap::fail_sends_in_turn`]; `None` if there are no faults.
    faulty_sends: Mutex<Option<usize>>,
}

/// The faults that sends encounter in turn after [`Tap::fail_sends_in_turn`].
#[derive(Clone, Copy)]
enum SendFault {
    None,
    /// The send does not arrive, and the response is 500.
    NotSent,
    /// The send arrives, and the response is 500.
    ServerError,
    /// The send arrives, and the connection breaks in the middle of the response.
    ResponseLost,
    /// All entries arrive, but the response reports that the first did not.
    EntryFailed,
}

const FAULTS: [SendFault; 5] = [
    SendFault::ResponseLost,
    SendFault::None,
    SendFault::EntryFailed,
    SendFault::ServerError,
    SendFault::NotSent,
];

impl Tap {
    /// Starts a proxy that forwards everything to `upstream`.
    pub async fn start(upstream: &str) -> Self {
        let state = Arc::new(TapState {
            upstream: upstream.to_owned(),
            client: reqwest::Client::new(),
            requests: Mutex::default(),
            failing_queue: Mutex::default(),
            faulty_sends: Mutex::default(),
        });
        let (address, server) =
            serve_router(Router::new().fallback(forward_request).with_state(Arc::clone(&state))).await;
        Self { endpoint_url: format!("http://{address}"), state, server }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }

    /// Makes sends to the queue `url` fail with status 500 from now on, without forwarding them.
    ///
    /// # Panics
    /// Never.
    pub fn fail_sends_to(&self, url: &str) {
        *self.state.failing_queue.lock().expect("no holder panics") = Some(url.to_owned());
    }

    /// Leaves four out of every five sends unconfirmed from now on: some do not arrive, and the responses to others are
    /// lost or report a failure.
    ///
    /// # Panics
    /// Never.
    pub fn fail_sends_in_turn(&self) {
        *self.state.faulty_sends.lock().expect("no holder panics") = Some(0);
    }

    /// Stops injecting faults. Returns the number of sends since [`Self::fail_sends_in_turn`].
    ///
    /// # Panics
    /// Never.
    pub fn stop_faults(&self) -> usize {
        *self.state.failing_queue.lock().expect("no holder panics") = None;
        self.state.faulty_sends.lock().expect("no holder panics").take().unwrap_or(0)
    }

    /// Returns all requests, of any action.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn observed_requests(&self) -> Vec<SqsRequest> {
        self.state.requests.lock().expect("no holder panics").clone()
    }

    /// Returns all entries of the batches that were sent to a queue.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn sent_to(&self, url: &str) -> Vec<Value> {
        let requests = self.state.requests.lock().expect("no holder panics");
        let batches =
            requests.iter().filter(|request| request.is_send() && request.members["QueueUrl"] == url);
        batches.flat_map(|batch| batch.members["Entries"].as_array().cloned().unwrap_or_default()).collect()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl SqsRequest {
    fn is_send(&self) -> bool {
        self.action == "SendMessage" || self.action == "SendMessageBatch"
    }
}

async fn forward_request(State(state): State<Arc<TapState>>, headers: HeaderMap, body: Bytes) -> Response {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let target = header("x-amz-target");
    let request = SqsRequest {
        action: target.trim_start_matches("AmazonSQS.").to_owned(),
        members: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let fault = state.next_fault(&request);
    state.requests.lock().expect("no holder panics").push(request);
    if matches!(fault, SendFault::NotSent) {
        return server_error();
    }
    let request = state.client.post(&state.upstream).header("x-amz-target", target);
    let request = request
        .header("content-type", header("content-type"))
        .header("authorization", header("authorization"));
    let answer = request.body(body).send().await.expect("the emulator answers");
    let (status, content_type) = (answer.status(), answer.headers()[CONTENT_TYPE].clone());
    let body = answer.bytes().await.expect("the emulator's answer is complete");
    let body = match fault {
        SendFault::None | SendFault::NotSent => Body::from(body),
        SendFault::ServerError => return server_error(),
        SendFault::ResponseLost => {
            let half = body.slice(..body.len() / 2);
            Body::from_stream(stream::iter([Ok(half), Err(io::Error::from(io::ErrorKind::ConnectionReset))]))
        }
        SendFault::EntryFailed => Body::from(fail_first_entry(&body)),
    };
    (status, [(CONTENT_TYPE, content_type)], body).into_response()
}

impl TapState {
    fn next_fault(&self, request: &SqsRequest) -> SendFault {
        if !request.is_send() {
            return SendFault::None;
        }
        let failing = self.failing_queue.lock().expect("no holder panics");
        if failing.as_deref().is_some_and(|url| request.members["QueueUrl"] == url) {
            return SendFault::NotSent;
        }
        match &mut *self.faulty_sends.lock().expect("no holder panics") {
            None => SendFault::None,
            Some(sends) => {
                *sends += 1;
                FAULTS[(*sends - 1) % FAULTS.len()]
            }
        }
    }
}

fn server_error() -> Response {
    let error = json!({"__type": "com.amazonaws.sqs#InternalFailure", "message": INJECTED_CANARY});
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

/// Moves the first successful entry in a batch response to the failed entries.
fn fail_first_entry(answer: &Bytes) -> String {
    let mut answer: Value = serde_json::from_slice(answer).expect("SQS answers in JSON");
    if let Some(entry) = answer["Successful"].as_array_mut().filter(|entries| !entries.is_empty()) {
        let failed = json!([{"Id": entry.remove(0)["Id"], "Code": "InternalError", "SenderFault": false}]);
        answer["Failed"] = failed;
    }
    answer.to_string()
}

/// Serves the router on a free loopback port.
///
/// # Panics
/// If no port is free.
pub async fn serve_router(router: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (
        address,
        tokio::spawn(async move {
            axum::serve(listener, router).await.expect("the server runs");
        }),
    )
}
