//! The health endpoint: `/healthz`, `/readyz` and `/metrics`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::TcpListener;

use crate::health::Health;
use crate::metrics::WorkerMetrics;
use redeliver_operator::http_server;

#[derive(Debug)]
pub(crate) struct ServedState {
    pub(crate) health: Health,
    pub(crate) metrics: Arc<WorkerMetrics>,
}

/// The content type of health and error responses.
const JSON: &str = "application/json";
/// The content type that Prometheus requests for metrics ("OpenMetrics 1.0", *Protocol Negotiation*).
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Error)]
#[error("--health: cannot listen on {address}: {error}")]
pub(crate) struct BindError {
    address: SocketAddr,
    error: io::Error,
}

#[derive(Debug)]
pub(crate) struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl HealthServer {
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            Ok(Self { address: listener.local_addr()?, listener })
        };
        bound.await.map_err(|error| BindError { address, error })
    }

    /// Returns the listening address, with the actual port if port 0 was requested.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests forever.
    pub(crate) async fn serve_forever<C: Clock + Clone + 'static>(
        self,
        state: ServedState,
        clock: C,
    ) -> Infallible {
        let state = Arc::new(state);
        let answer =
            async move |method: Method, uri: Uri| handle_request(&method, uri.path(), &state, clock.now());
        http_server::serve_router(self.listener, Router::new().fallback(answer)).await
    }
}

fn handle_request(method: &Method, path: &str, state: &ServedState, now: Timestamp) -> Response {
    let ServedState { health, metrics } = state;
    let (is_ok, content_type, body) = match path {
        "/healthz" => {
            let report = health.health_report(now);
            (report.healthy, JSON, json_line(&json!(report)))
        }
        "/readyz" => (health.is_ready(), JSON, json_line(&json!({ "ready": health.is_ready() }))),
        "/metrics" => (true, METRICS, metrics.render_openmetrics(&health.health_report(now))),
        _ => {
            let error = json!({ "error": "not found; the paths are /healthz, /readyz and /metrics" });
            return build_response(StatusCode::NOT_FOUND, JSON, json_line(&error));
        }
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let error = json!({ "error": "method not allowed; use GET or HEAD" });
        let mut refused = build_response(StatusCode::METHOD_NOT_ALLOWED, JSON, json_line(&error));
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    build_response(if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, content_type, body)
}

fn json_line(body: &Value) -> String {
    format!("{body}\n")
}

fn build_response(status: StatusCode, content_type: &'static str, body: String) -> Response {
    (status, [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")], body).into_response()
}

#[cfg(test)]
mod tests;
