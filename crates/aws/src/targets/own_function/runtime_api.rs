//! The Runtime API for the user's function ("Using the Lambda runtime API for custom runtimes").
//!
//! Redeliver sends the invocations and receives the responses. All other requests (extensions, telemetry) are forwarded
//! to Lambda's own Runtime API.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use lambda_runtime_api_client::PooledClient;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::answer::FunctionResponse;
use super::lock;

/// The maximum size of a response, from the function or from Lambda: 6 MB ("Lambda quotas"). This is the exact limit of
/// Lambda's own Runtime API.
const ANSWER_BYTES_MAX: usize = 6_291_556;

/// The trailers of a streamed response that failed ("Using the Lambda runtime API for custom runtimes", Response
/// streaming): the error's type, and the error as Base64-encoded JSON.
const ERROR_TYPE: &str = "lambda-runtime-function-error-type";
const ERROR_BODY: &str = "lambda-runtime-function-error-body";

/// The delay after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An invocation to pass to the function.
#[derive(Debug)]
pub(super) struct InvocationTask {
    pub(super) request_id: String,
    pub(super) event: Bytes,
    /// The headers of the Runtime API's response.
    pub(super) headers: HeaderMap,
}

/// A request from the function to its Runtime API.
#[derive(Debug)]
pub(super) enum RuntimeEvent {
    /// The function requests an invocation or a restore, so it has started.
    Ready,
    /// The function has received the task.
    TaskReceived,
    Answered(FunctionResponse),
    /// The function could not start; contains its error.
    InitError(Bytes),
}

/// Lambda's own Runtime API, if available.
#[derive(Clone, Debug)]
pub(super) struct Upstream(Arc<PooledClient>);

impl Upstream {
    /// Returns the Runtime API at this host and port; `None` if they are invalid.
    pub(super) fn new(authority: &str) -> Option<Self> {
        let endpoint = Uri::builder().scheme("http").authority(authority).path_and_query("/").build().ok()?;
        Some(Self(Arc::new(PooledClient::builder().with_endpoint(endpoint).build())))
    }

    async fn forward(&self, head: Parts, body: Bytes) -> Response<Full<Bytes>> {
        self.try_forward(head, body).await.unwrap_or_else(|| empty_response(StatusCode::BAD_GATEWAY))
    }

    async fn try_forward(&self, mut head: Parts, body: Bytes) -> Option<Response<Full<Bytes>>> {
        // Only `CONNECT` requests, which are meant for proxies, have no path.
        head.uri.path_and_query()?;
        // These headers apply to a single connection, so they are not forwarded.
        [HOST, CONNECTION, TRANSFER_ENCODING].iter().for_each(|name| drop(head.headers.remove(name)));
        let answer = self.0.call(Request::from_parts(head, body.into())).await.ok()?;
        let (mut head, body) = answer.into_parts();
        [CONNECTION, TRANSFER_ENCODING].iter().for_each(|name| drop(head.headers.remove(name)));
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok()?;
        Some(Response::from_parts(head, Full::new(body.to_bytes())))
    }
}

/// The Runtime API of one process. Dropping it stops its server.
#[derive(Debug)]
pub(super) struct RuntimeApi {
    pub(super) address: SocketAddr,
    pub(super) tasks: mpsc::Sender<InvocationTask>,
    pub(super) events: mpsc::UnboundedReceiver<RuntimeEvent>,
    server: AbortHandle,
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The state shared by all connections from one process.
#[derive(Debug)]
struct RuntimeApiState {
    tasks: AsyncMutex<mpsc::Receiver<InvocationTask>>,
    events: mpsc::UnboundedSender<RuntimeEvent>,
    /// The id of the request that awaits a response.
    taken: Mutex<Option<String>>,
    upstream: Option<Upstream>,
    /// True for the first process, whose startup errors are reported to Lambda.
    reports_init: bool,
    restored: watch::Receiver<bool>,
}

impl RuntimeApi {
    pub(super) async fn start(
        upstream: Option<Upstream>,
        reports_init: bool,
        restored: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (tasks, task_receiver) = mpsc::channel(1);
        let (sender, events) = mpsc::unbounded_channel();
        let shared = Arc::new(RuntimeApiState {
            tasks: AsyncMutex::new(task_receiver),
            events: sender,
            taken: Mutex::default(),
            upstream,
            reports_init,
            restored,
        });
        let server = tokio::spawn(serve_connections(listener, shared)).abort_handle();
        Ok(Self { address, tasks, events, server })
    }
}

async fn serve_connections(listener: TcpListener, shared: Arc<RuntimeApiState>) {
    // The connections close with the server.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(handle_connection(stream, Arc::clone(&shared)))),
            // Out of file descriptors; the function may close some.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn handle_connection(stream: TcpStream, shared: Arc<RuntimeApiState>) {
    // Responses are small, and the function waits for them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.handle_request(request).await) }
    });
    // An error means that the function has closed the connection; its process has exited.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl RuntimeApiState {
    async fn handle_request(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        // `/2018-06-01/runtime/…`, with any version.
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let segments: Vec<_> = path.split('/').skip(1).collect();
        match (request.method(), &*segments) {
            (&Method::GET, ["runtime", "invocation", "next"]) => self.next_task().await,
            (&Method::POST, ["runtime", "invocation", id, kind @ ("response" | "error")]) => {
                self.handle_response(id, *kind == "error", request.into_body()).await
            }
            (&Method::GET, ["runtime", "restore", "next"]) => self.wait_for_restore().await,
            (&Method::POST, ["runtime", "init", "error"]) => self.handle_init_error(request).await,
            _ => match &self.upstream {
                Some(upstream) => {
                    let (head, body) = request.into_parts();
                    match read_body(body).await {
                        Ok(body) => upstream.forward(head, body).await,
                        Err(_) => empty_response(StatusCode::BAD_REQUEST),
                    }
                }
                None => empty_response(StatusCode::NOT_FOUND),
            },
        }
    }

    async fn next_task(&self) -> Response<Full<Bytes>> {
        self.send_event(RuntimeEvent::Ready);
        let Some(InvocationTask { request_id, event, headers }) = self.tasks.lock().await.recv().await else {
            // The process is about to be stopped.
            return empty_response(StatusCode::GONE);
        };
        let mut response = Response::new(Full::new(event));
        *response.headers_mut() = headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *lock(&self.taken) = Some(request_id);
        self.send_event(RuntimeEvent::TaskReceived);
        response
    }

    async fn handle_response(
        &self,
        request_id: &str,
        is_error: bool,
        body: Incoming,
    ) -> Response<Full<Bytes>> {
        if lock(&self.taken).as_deref() != Some(request_id) {
            let message = "it is not the id of the current invocation";
            return error_response(StatusCode::BAD_REQUEST, "InvalidRequestID", message);
        }
        let answer = match read_with_trailers(body).await {
            Ok((body, _)) if is_error => FunctionResponse::Error(body),
            Ok((body, trailers)) => {
                streamed_error(&trailers).map_or(FunctionResponse::Response(body), FunctionResponse::Error)
            }
            Err(error) if error.is::<LengthLimitError>() => FunctionResponse::TooLarge,
            // The function exited while sending its response.
            Err(_) => return empty_response(StatusCode::BAD_REQUEST),
        };
        let is_too_large = answer == FunctionResponse::TooLarge;
        // Only the first response counts.
        if lock(&self.taken).take_if(|taken| taken == request_id).is_some() {
            self.send_event(RuntimeEvent::Answered(answer));
        }
        if is_too_large {
            let text = format!("Exceeded maximum allowed payload size ({ANSWER_BYTES_MAX} bytes).");
            return error_response(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &text);
        }
        accepted_response()
    }

    /// Waits for the restore ("Improving startup performance with Lambda SnapStart"); meanwhile, Lambda creates the
    /// snapshot.
    async fn wait_for_restore(&self) -> Response<Full<Bytes>> {
        self.send_event(RuntimeEvent::Ready);
        let mut restored = self.restored.clone();
        match restored.wait_for(|restored| *restored).await {
            Ok(_) => empty_response(StatusCode::OK),
            Err(_) => empty_response(StatusCode::GONE),
        }
    }

    async fn handle_init_error(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = read_body(body).await.unwrap_or_default();
        self.send_event(RuntimeEvent::InitError(body.clone()));
        match &self.upstream {
            Some(upstream) if self.reports_init => upstream.forward(head, body).await,
            _ => accepted_response(),
        }
    }

    fn send_event(&self, event: RuntimeEvent) {
        // If there is no receiver, the function has exited.
        let _ = self.events.send(event);
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, BoxError> {
    Ok(read_with_trailers(body).await?.0)
}

async fn read_with_trailers(body: Incoming) -> Result<(Bytes, HeaderMap), BoxError> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    Ok((body.to_bytes(), trailers))
}

/// Returns the handler's error, if any, from the trailers of a streamed response. It takes precedence over the body.
fn streamed_error(trailers: &HeaderMap) -> Option<Bytes> {
    let error_type = trailers.get(ERROR_TYPE)?.to_str().unwrap_or_default();
    let error = trailers.get(ERROR_BODY).and_then(|text| BASE64_STANDARD.decode(text).ok());
    let without_body = || serde_json::json!({ "errorType": error_type }).to_string().into();
    Some(error.map_or_else(without_body, Bytes::from))
}

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn accepted_response() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(r#"{"status":"OK"}"#));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn error_response(status: StatusCode, error_type: &str, message: &str) -> Response<Full<Bytes>> {
    let error = serde_json::json!({ "errorType": error_type, "errorMessage": message });
    let mut response = Response::new(Full::from(error.to_string()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::loopback::EndlessServer;

    #[tokio::test]
    async fn an_endless_runtime_api_response_is_cut_off_at_6_mb() {
        let endless = EndlessServer::start("HTTP/1.1 200 OK\r\n\r\n").await;
        let upstream = Upstream::new(endless.url().strip_prefix("http://").unwrap()).unwrap();
        let (head, ()) = Request::get("/2020-01-01/extension/event/next").body(()).unwrap().into_parts();
        assert_eq!(upstream.forward(head, Bytes::new()).await.status(), StatusCode::BAD_GATEWAY);
        endless.assert_read_at_most(ANSWER_BYTES_MAX);
    }
}
