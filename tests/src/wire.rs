//! A tap between a function and SQS: it records requests and can make sends fail.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What SQS says of a send that fails; must appear nowhere.
pub const INJECTED_CANARY: &str = "Ty3injectedQ6gUk8Vb";

/// A running tap; dropping it ends it.
pub struct Tap {
    endpoint_url: String,
    state: Arc<TapState>,
    server: JoinHandle<()>,
}

/// One request of the SQS JSON protocol.
#[derive(Clone, Debug)]
pub struct SqsRequest {
    /// E.g. `SendMessageBatch`.
    pub action: String,
    /// The request's members.
    pub members: Value,
}

struct TapState {
    upstream: String,
    client: reqwest::Client,
    requests: Mutex<Vec<SqsRequest>>,
    /// Part of the URL of the queue to which sends fail.
    failing_queue: Mutex<Option<String>>,
}

impl Tap {
    /// Starts one that passes everything on to `upstream`.
    pub async fn start(upstream: &str) -> Self {
        let state = Arc::new(TapState {
            upstream: upstream.to_owned(),
            client: reqwest::Client::new(),
            requests: Mutex::default(),
            failing_queue: Mutex::default(),
        });
        let (address, server) = serve(Router::new().fallback(pass_on).with_state(Arc::clone(&state))).await;
        Self { endpoint_url: format!("http://{address}"), state, server }
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }

    /// From now on sends to the queue whose URL is `url` are answered with 500 and do not arrive.
    ///
    /// # Panics
    /// Never.
    pub fn fail_sends_to(&self, url: &str) {
        *self.state.failing_queue.lock().expect("no holder panics") = Some(url.to_owned());
    }

    /// From now on all sends arrive.
    ///
    /// # Panics
    /// Never.
    pub fn heal(&self) {
        *self.state.failing_queue.lock().expect("no holder panics") = None;
    }

    /// All requests, of whatever kind.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn requests(&self) -> Vec<SqsRequest> {
        self.state.requests.lock().expect("no holder panics").clone()
    }

    /// All entries of the batches that were sent to a queue.
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

async fn pass_on(State(state): State<Arc<TapState>>, headers: HeaderMap, body: Bytes) -> Response {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let target = header("x-amz-target");
    let request = SqsRequest {
        action: target.trim_start_matches("AmazonSQS.").to_owned(),
        members: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let fails = {
        let failing = state.failing_queue.lock().expect("no holder panics");
        request.is_send() && failing.as_deref().is_some_and(|url| request.members["QueueUrl"] == url)
    };
    state.requests.lock().expect("no holder panics").push(request);
    if fails {
        let error = json!({"__type": "com.amazonaws.sqs#InternalFailure", "message": INJECTED_CANARY});
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    let request = state.client.post(&state.upstream).header("x-amz-target", target);
    let request = request
        .header("content-type", header("content-type"))
        .header("authorization", header("authorization"));
    let answer = request.body(body).send().await.expect("the emulator answers");
    let status = answer.status();
    let content_type = answer.headers()[CONTENT_TYPE].clone();
    let body = answer.bytes().await.expect("the emulator answers whole");
    (status, [(CONTENT_TYPE, content_type)], body).into_response()
}

/// Serves on a free port of loopback.
///
/// # Panics
/// If there is none.
pub async fn serve(router: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (
        address,
        tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is dropped");
        }),
    )
}
