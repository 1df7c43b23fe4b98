//! The health endpoint: HTTP/1.1, three paths, and bounds on all that a client can do.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use redeliver_loop::work::Health;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::metrics::Metrics;

/// Connections at the same time; further ones wait.
const CONNECTIONS_MAX: usize = 32;
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
}

/// The content type of health and errors.
const JSON: &str = "application/json";
/// "OpenMetrics 1.0", *Protocol Negotiation*; Prometheus asks for it.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For a whole connection, which is one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// After an accept that failed, as it does without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address is taken, or not ours.
#[derive(Debug, Error)]
#[error("--health {address} cannot be listened on: {error}")]
pub(super) struct BindError {
    address: SocketAddr,
    error: io::Error,
}

#[derive(Debug)]
pub(super) struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
    head_timeout: Duration,
}

impl HealthServer {
    pub(super) async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            Ok(Self { address: listener.local_addr()?, listener, head_timeout: HEAD_TIMEOUT })
        };
        bound.await.map_err(|error| BindError { address, error })
    }

    /// Where it listens: if port 0 was asked for, the real one.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers for ever.
    pub(super) async fn serve<C: Clock + Clone + 'static>(self, shown: Shown, clock: C) -> Infallible {
        let shown = Arc::new(shown);
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= CONNECTIONS_MAX {
                connections.join_next().await;
            }
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (shown, clock) = (Arc::clone(&shown), clock.clone());
                    let connection = connection(stream, self.head_timeout, shown, clock);
                    connections.spawn(timeout(CONNECTION_TIMEOUT, connection));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

async fn connection<C: Clock>(stream: TcpStream, head_timeout: Duration, shown: Arc<Shown>, clock: C) {
    let service = service_fn(async |request: Request<_>| {
        Ok::<_, Infallible>(answer(request.method(), request.uri().path(), &shown, clock.now()))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that is gone, or talks nonsense, is no concern of the workers.
    let _ = served.await;
}

fn answer(method: &Method, path: &str, shown: &Shown, now: Timestamp) -> Response<Full<Bytes>> {
    let Shown { health, metrics } = shown;
    let (good, kind, body) = match path {
        "/healthz" => {
            let report = health.report(now);
            (report.healthy, JSON, line(&json!(report)))
        }
        "/readyz" => (health.is_ready(), JSON, line(&json!({ "ready": health.is_ready() }))),
        "/metrics" => (true, METRICS, metrics.text(&health.report(now))),
        _ => {
            let error = json!({ "error": "there are /healthz, /readyz and /metrics" });
            return response(StatusCode::NOT_FOUND, JSON, line(&error));
        }
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let error = json!({ "error": "GET or HEAD" });
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, JSON, line(&error));
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    response(if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, kind, body)
}

fn line(body: &Value) -> String {
    format!("{body}\n")
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
