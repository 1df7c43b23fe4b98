//! A collector on loopback. It decodes OTLP with OpenTelemetry's own definitions and keeps the spans.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span as Encoded;
use prost::{DecodeError, Message as _};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::settings::PATIENCE;
use crate::wire::serve_router;

/// A running collector; it stops when dropped.
pub struct SpanReceiver {
    endpoint: String,
    spans: SharedSpans,
    server: JoinHandle<()>,
}

type SharedSpans = Arc<Mutex<Vec<ReceivedSpan>>>;

/// A span as received. Ids are hexadecimal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceivedSpan {
    /// The resource's `service.name`.
    pub service: String,
    /// The span's name.
    pub name: String,
    /// The protocol's name for the kind, for example `SPAN_KIND_CLIENT`.
    pub kind: &'static str,
    /// 32 digits.
    pub trace_id: String,
    /// 16 digits.
    pub span_id: String,
    /// 16 digits; empty for the root span of a trace.
    pub parent_span_id: String,
    /// The links, in the span's order.
    pub links: Vec<SpanLink>,
    /// The attributes, by name.
    pub attributes: BTreeMap<String, Value>,
    /// True if the status is an error.
    pub is_error: bool,
    /// Nanoseconds since 1970.
    #[serde(skip)]
    pub start_nanos: u64,
    /// Nanoseconds since 1970.
    #[serde(skip)]
    pub end_nanos: u64,
}

/// A link to another span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanLink {
    /// 32 digits.
    pub trace_id: String,
    /// 16 digits.
    pub span_id: String,
    /// The attributes, by name.
    pub attributes: BTreeMap<String, Value>,
}

impl SpanReceiver {
    /// Starts a collector.
    pub async fn start() -> Self {
        let spans = SharedSpans::default();
        let router = Router::new().fallback(receive_export).with_state(Arc::clone(&spans));
        let (address, server) = serve_router(router).await;
        Self { endpoint: format!("http://{address}"), spans, server }
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns all spans so far, in order of arrival.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn received_spans(&self) -> Vec<ReceivedSpan> {
        self.spans.lock().expect("no holder panics").clone()
    }

    /// Waits until at least `count` spans have arrived, and returns all spans. An export can outlive its invocation.
    ///
    /// # Panics
    /// If they do not arrive.
    pub async fn wait_for_spans(&self, count: usize) -> Vec<ReceivedSpan> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let spans = self.received_spans();
            if spans.len() >= count {
                return spans;
            }
            assert!(Instant::now() < give_up, "{} of {count} spans: {spans:#?}", spans.len());
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for SpanReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Accepts an export. The protocol's only success response is an empty 200 ("OTLP/HTTP Response", OpenTelemetry).
async fn receive_export(
    State(spans): State<SharedSpans>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if headers.get("content-type").is_none_or(|kind| kind != "application/x-protobuf") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    if uri.path() != "/v1/traces" {
        return StatusCode::NOT_FOUND;
    }
    let Ok(decoded) = decode_spans(body) else { return StatusCode::BAD_REQUEST };
    spans.lock().expect("no holder panics").extend(decoded);
    StatusCode::OK
}

fn decode_spans(body: Bytes) -> Result<Vec<ReceivedSpan>, DecodeError> {
    let mut spans = Vec::new();
    for group in ExportTraceServiceRequest::decode(body)?.resource_spans {
        let resource =
            attributes_by_name(group.resource.map(|resource| resource.attributes).unwrap_or_default());
        let service = resource.get("service.name").and_then(Value::as_str).unwrap_or_default();
        let scoped = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(scoped.map(|span| to_span(service, span)));
    }
    Ok(spans)
}

fn to_span(service: &str, span: Encoded) -> ReceivedSpan {
    ReceivedSpan {
        service: service.to_owned(),
        kind: span.kind().as_str_name(),
        name: span.name,
        trace_id: to_hexadecimal(&span.trace_id),
        span_id: to_hexadecimal(&span.span_id),
        parent_span_id: to_hexadecimal(&span.parent_span_id),
        links: span
            .links
            .into_iter()
            .map(|link| SpanLink {
                trace_id: to_hexadecimal(&link.trace_id),
                span_id: to_hexadecimal(&link.span_id),
                attributes: attributes_by_name(link.attributes),
            })
            .collect(),
        attributes: attributes_by_name(span.attributes),
        is_error: span.status.is_some_and(|status| status.code().as_str_name() == "STATUS_CODE_ERROR"),
        start_nanos: span.start_time_unix_nano,
        end_nanos: span.end_time_unix_nano,
    }
}

/// Returns the id in lower-case hexadecimal.
fn to_hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the attributes as JSON, by name.
fn attributes_by_name(attributes: Vec<KeyValue>) -> BTreeMap<String, Value> {
    let value = |attribute: KeyValue| match attribute.value.and_then(|value| value.value) {
        Some(AnyValue::StringValue(text)) => text.into(),
        Some(AnyValue::IntValue(number)) => number.into(),
        Some(AnyValue::DoubleValue(number)) => number.into(),
        Some(AnyValue::BoolValue(is_set)) => is_set.into(),
        _ => Value::Null,
    };
    attributes.into_iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}
