//! Lambda's Runtime API as the user's function sees it ("Using the Lambda runtime API for custom runtimes").
//!
//! Invocations come from us, and answers go to us. All else (extensions, telemetry) is Lambda's own, and passed on to it.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

use super::answer::Answer;
use super::lock;

/// The largest answer ("Lambda quotas": 6 MB; the Runtime API says it to the byte).
const ANSWER_BYTES_MAX: usize = 6_291_556;

/// After an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One invocation for the function.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) request_id: String,
    pub(super) event: Bytes,
    /// The others of the Runtime API.
    pub(super) headers: HeaderMap,
}

/// A report of the function's, made by a request to its Runtime API.
#[derive(Debug)]
pub(super) enum Said {
    /// It asks for an invocation, or for its restore: it has begun.
    Ready,
    /// It has taken the task.
    Took,
    Answered(Answer),
    /// It could not begin, and says why.
    InitError(Bytes),
}

/// Lambda's own Runtime API, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Upstream(Arc<PooledClient>);

impl Upstream {
    /// At this host and port. `None`: it is none.
    pub(super) fn new(authority: &str) -> Option<Self> {
        let endpoint = Uri::builder().scheme("http").authority(authority).path_and_query("/").build().ok()?;
        Some(Self(Arc::new(PooledClient::builder().with_endpoint(endpoint).build())))
    }

    async fn pass_on(&self, head: Parts, body: Bytes) -> Response<Full<Bytes>> {
        self.answer(head, body).await.unwrap_or_else(|| status(StatusCode::BAD_GATEWAY))
    }

    async fn answer(&self, mut head: Parts, body: Bytes) -> Option<Response<Full<Bytes>>> {
        // `CONNECT` has none, and is for proxies.
        head.uri.path_and_query()?;
        // Those of the connection: each side has its own.
        [HOST, CONNECTION, TRANSFER_ENCODING].iter().for_each(|name| drop(head.headers.remove(name)));
        let answer = self.0.call(Request::from_parts(head, body.into())).await.ok()?;
        let (mut head, body) = answer.into_parts();
        [CONNECTION, TRANSFER_ENCODING].iter().for_each(|name| drop(head.headers.remove(name)));
        Some(Response::from_parts(head, Full::new(body.collect().await.ok()?.to_bytes())))
    }
}

/// The Runtime API of one process. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct RuntimeApi {
    pub(super) address: SocketAddr,
    pub(super) tasks: mpsc::Sender<Task>,
    pub(super) said: mpsc::UnboundedReceiver<Said>,
    server: AbortHandle,
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The state that all connections of one process share.
#[derive(Debug)]
struct Shared {
    tasks: AsyncMutex<mpsc::Receiver<Task>>,
    says: mpsc::UnboundedSender<Said>,
    /// The request that an answer must be for.
    taken: Mutex<Option<String>>,
    upstream: Option<Upstream>,
    /// Lambda hears of errors at the start from the first process alone.
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
        let (tasks, to_do) = mpsc::channel(1);
        let (says, said) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            tasks: AsyncMutex::new(to_do),
            says,
            taken: Mutex::default(),
            upstream,
            reports_init,
            restored,
        });
        let server = tokio::spawn(serve(listener, shared)).abort_handle();
        Ok(Self { address, tasks, said, server })
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // They end with the server.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&shared)))),
            // Without file descriptors: the function may give some back.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // An answer is small, and somebody waits for it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // A function that is gone concerns nobody here: its process has ended.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        // `/2018-06-01/runtime/…`: the version is the function's.
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let segments: Vec<_> = path.split('/').skip(1).collect();
        match (request.method(), &*segments) {
            (&Method::GET, ["runtime", "invocation", "next"]) => self.next_task().await,
            (&Method::POST, ["runtime", "invocation", id, kind @ ("response" | "error")]) => {
                self.take_answer(id, *kind == "error", request.into_body()).await
            }
            (&Method::GET, ["runtime", "restore", "next"]) => self.restore().await,
            (&Method::POST, ["runtime", "init", "error"]) => self.init_error(request).await,
            _ => match &self.upstream {
                Some(upstream) => {
                    let (head, body) = request.into_parts();
                    match read(body).await {
                        Ok(body) => upstream.pass_on(head, body).await,
                        Err(_) => status(StatusCode::BAD_REQUEST),
                    }
                }
                None => status(StatusCode::NOT_FOUND),
            },
        }
    }

    async fn next_task(&self) -> Response<Full<Bytes>> {
        self.say(Said::Ready);
        let Some(Task { request_id, event, headers }) = self.tasks.lock().await.recv().await else {
            // We are about to end.
            return status(StatusCode::GONE);
        };
        let mut response = Response::new(Full::new(event));
        *response.headers_mut() = headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *lock(&self.taken) = Some(request_id);
        self.say(Said::Took);
        response
    }

    async fn take_answer(&self, request_id: &str, is_error: bool, body: Incoming) -> Response<Full<Bytes>> {
        if lock(&self.taken).as_deref() != Some(request_id) {
            return refusal(StatusCode::BAD_REQUEST, "InvalidRequestID", "it is not the invocation's");
        }
        let answer = match read(body).await {
            Ok(body) if is_error => Answer::Error(body),
            Ok(body) => Answer::Response(body),
            Err(error) if error.is::<LengthLimitError>() => Answer::TooLarge,
            // The function ended in the middle of it.
            Err(_) => return status(StatusCode::BAD_REQUEST),
        };
        let is_too_large = answer == Answer::TooLarge;
        // Once: what is said twice counts as it was said first.
        if lock(&self.taken).take_if(|taken| taken == request_id).is_some() {
            self.say(Said::Answered(answer));
        }
        if is_too_large {
            let text = format!("Exceeded maximum allowed payload size ({ANSWER_BYTES_MAX} bytes).");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &text);
        }
        accepted()
    }

    /// "Improving startup performance with Lambda SnapStart": Lambda makes the snapshot while we wait for it.
    async fn restore(&self) -> Response<Full<Bytes>> {
        self.say(Said::Ready);
        let mut restored = self.restored.clone();
        match restored.wait_for(|restored| *restored).await {
            Ok(_) => status(StatusCode::OK),
            Err(_) => status(StatusCode::GONE),
        }
    }

    async fn init_error(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = read(body).await.unwrap_or_default();
        self.say(Said::InitError(body.clone()));
        match &self.upstream {
            Some(upstream) if self.reports_init => upstream.pass_on(head, body).await,
            _ => accepted(),
        }
    }

    fn say(&self, said: Said) {
        // Without a listener there is no function any more.
        let _ = self.says.send(said);
    }
}

async fn read(body: Incoming) -> Result<Bytes, BoxError> {
    Ok(Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes())
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn accepted() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(r#"{"status":"OK"}"#));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn refusal(status: StatusCode, error_type: &str, message: &str) -> Response<Full<Bytes>> {
    let error = serde_json::json!({ "errorType": error_type, "errorMessage": message });
    let mut response = Response::new(Full::from(error.to_string()));
    *response.status_mut() = status;
    response
}
