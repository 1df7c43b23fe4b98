//! A collector on loopback that keeps what is exported to it by OTLP over HTTP.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::task::JoinHandle;

use crate::wire::serve;

/// A running collector; dropping it ends it.
pub struct Receiver {
    endpoint: String,
    received: Arc<Mutex<Received>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Received {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    logs: Vec<ExportLogsServiceRequest>,
}

impl Receiver {
    /// Starts it.
    pub async fn start() -> Self {
        let received = Arc::default();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&received));
        let (address, server) = serve(router).await;
        Self { endpoint: format!("http://{address}"), received, server }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().expect("no holder panics");
        let resources = received.traces.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The metrics of the last export.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let received = self.received.lock().expect("no holder panics");
        let resources = received.metrics.last().into_iter().flat_map(|request| &request.resource_metrics);
        resources
            .flat_map(|resource| &resource.scope_metrics)
            .flat_map(|scope| scope.metrics.clone())
            .collect()
    }

    /// All log records so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn logs(&self) -> Vec<LogRecord> {
        let received = self.received.lock().expect("no holder panics");
        let resources = received.logs.iter().flat_map(|request| &request.resource_logs);
        resources
            .flat_map(|resource| &resource.scope_logs)
            .flat_map(|scope| scope.log_records.clone())
            .collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(received): State<Arc<Mutex<Received>>>, uri: Uri, body: Bytes) -> StatusCode {
    let mut received = received.lock().expect("no holder panics");
    let decoded = match uri.path() {
        "/v1/traces" => ExportTraceServiceRequest::decode(body).map(|request| received.traces.push(request)),
        "/v1/metrics" => {
            ExportMetricsServiceRequest::decode(body).map(|request| received.metrics.push(request))
        }
        "/v1/logs" => ExportLogsServiceRequest::decode(body).map(|request| received.logs.push(request)),
        _ => return StatusCode::NOT_FOUND,
    };
    decoded.map_or(StatusCode::BAD_REQUEST, |()| StatusCode::OK)
}
