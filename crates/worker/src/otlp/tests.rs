use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use futures_util::future::ready;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use redeliver_aws::otlp::OtlpSettings;
use redeliver_aws::settings::{Logging, TracingSettings};
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::message::Timestamp;
use redeliver_core::trace::messaging::receive_span;
use redeliver_embedded::VirtualClock;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

const FUNCTION_NAME: &str = "orders-message-processor";
const OFTEN: Duration = Duration::from_millis(1);
/// Disables the periodic export, so that only shutdown exports.
const NEVER: Duration = Duration::from_secs(3600);

/// A collector that records the requests it receives.
struct Collector {
    address: String,
    requests: UnboundedReceiver<(String, HeaderMap, Bytes)>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, requests) = unbounded_channel();
        let answer = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            // The test may have ended.
            let _ = sender.send((uri.path().to_owned(), headers, body));
            ready(())
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { address, requests }
    }

    async fn next_request(&mut self) -> ExportTraceServiceRequest {
        let (path, headers, body) = self.requests.recv().await.unwrap();
        assert_eq!(path, "/v1/traces");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["api-key"], "secret");
        ExportTraceServiceRequest::decode(body).unwrap()
    }
}

fn span_export(address: &str, interval: Duration) -> SpanExport {
    let exporter = Exporter::new(OtlpSettings {
        endpoint: format!("http://{address}/v1/traces"),
        headers: vec![("api-key".to_owned(), "secret".to_owned())],
        resource: vec![("service.name".to_owned(), "redeliver-work".to_owned())],
    });
    SpanExport { exporter, interval }
}

/// Returns a function's observer, which discards log lines.
fn tracing_observer() -> Arc<dyn Observer> {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH + Duration::from_secs(7));
    let logging = Logging { tracing: Some(TracingSettings::default()), ..Logging::default() };
    Arc::new(JsonLinesObserver::new(FUNCTION_NAME, logging, clock, std::io::sink()))
}

fn traced_functions(observer: &Arc<dyn Observer>) -> Vec<TracedFunction> {
    vec![(FUNCTION_NAME.to_owned(), Arc::clone(observer))]
}

fn tracer(observer: &Arc<dyn Observer>) -> &Tracer {
    observer.tracer().unwrap()
}

/// Records a span for a batch.
fn record_batch_span(observer: &Arc<dyn Observer>) {
    let (tracer, now) = (tracer(observer), Timestamp::UNIX_EPOCH + Duration::from_secs(7));
    tracer.record_span(receive_span(
        tracer.begin_trace(now, true),
        "arn:aws:sqs:eu-west-1:1:orders",
        2,
        now,
        now,
    ));
}

fn format_attributes(attributes: &[KeyValue]) -> String {
    let value = |one: &KeyValue| match one.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| format!("{}={}", one.key, value(one))).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn exported_spans_name_their_function() {
    let mut collector = Collector::start().await;
    let observer = tracing_observer();
    let running = span_export(&collector.address, NEVER).start_export(traced_functions(&observer));
    record_batch_span(&observer);
    running.finish_export(&SystemClock).await;
    let [resource] = <[_; 1]>::try_from(collector.next_request().await.resource_spans).unwrap();
    assert_eq!(format_attributes(&resource.resource.unwrap().attributes), "service.name=redeliver-work");
    let spans = &resource.scope_spans[0].spans;
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["receive orders"]);
    assert_eq!(spans[0].start_time_unix_nano, 7_000_000_000);
    let attributes = format_attributes(&spans[0].attributes);
    assert!(attributes.ends_with(&format!("redeliver.function={FUNCTION_NAME}")), "{attributes}");
    assert_eq!(tracer(&observer).take_ended(), EndedSpans::default(), "they are taken");
}

#[tokio::test]
async fn spans_from_all_functions_in_a_process_are_exported_together() {
    let mut collector = Collector::start().await;
    let names = ["orders-message-processor", "orders-final-dlq-annotator"];
    let functions: Vec<_> = names.map(|name| (name.to_owned(), tracing_observer())).into();
    let running = span_export(&collector.address, NEVER).start_export(functions.clone());
    for (_, observer) in &functions {
        record_batch_span(observer);
    }
    running.finish_export(&SystemClock).await;
    let [resource] = <[_; 1]>::try_from(collector.next_request().await.resource_spans).unwrap();
    let spans = resource.scope_spans[0]
        .spans
        .iter()
        .map(|span| format_attributes(&span.attributes))
        .collect::<Vec<_>>();
    assert_eq!(spans.len(), 2, "{spans:?}");
    for (span, name) in spans.iter().zip(names) {
        assert!(span.ends_with(&format!("redeliver.function={name}")), "{span}");
    }
}

#[tokio::test]
async fn spans_are_exported_at_each_interval_and_only_once() {
    let mut collector = Collector::start().await;
    let observer = tracing_observer();
    let running = span_export(&collector.address, OFTEN).start_export(traced_functions(&observer));
    for _ in 0..2 {
        record_batch_span(&observer);
        let request = collector.next_request().await;
        assert_eq!(request.resource_spans[0].scope_spans[0].spans.len(), 1);
    }
    running.finish_export(&SystemClock).await;
    assert!(collector.requests.try_recv().is_err(), "no request without spans");
}

/// An unreachable collector must cause only one warning, never the loss of a message or the end of the process.
#[tokio::test]
async fn spans_for_an_unreachable_collector_are_dropped_with_a_warning() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let observer = tracing_observer();
    let export = span_export(&address, NEVER);
    let exporter = export.exporter.clone();
    let running = export.start_export(traced_functions(&observer));
    record_batch_span(&observer);
    running.finish_export(&SystemClock).await;
    assert!(!exporter.may_warn(), "it has warned, and does so at most once a minute");
    assert_eq!(tracer(&observer).take_ended(), EndedSpans::default(), "they are lost");
}

/// A clock on which every wait ends immediately.
struct ImmediateClock;

impl Clock for ImmediateClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {}
}

#[tokio::test]
async fn an_unresponsive_collector_delays_neither_batches_nor_shutdown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let observer = tracing_observer();
    let running = span_export(&address, OFTEN).start_export(traced_functions(&observer));
    record_batch_span(&observer);
    let connection = listener.accept().await.unwrap();
    assert_eq!(tracer(&observer).take_ended(), EndedSpans::default(), "the request has them");
    // While the export waits for its response, batches continue, and new spans are queued.
    record_batch_span(&observer);
    let EndedSpans { spans: waiting, dropped } = tracer(&observer).take_ended();
    assert_eq!((waiting.len(), dropped, running.task.is_finished()), (1, 0, false));
    running.finish_export(&ImmediateClock).await;
    drop(connection);
}
