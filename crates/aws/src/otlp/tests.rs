use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest,
};
use redeliver_core::trace::{SPANS_MAX, messaging};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::*;
use crate::tests::loopback::{Loopback, REFUSED_URL, ScriptedResponse};

/// A timeout that is reached only if the code hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that counts its requests and responds to one request per permit.
#[derive(Clone, Debug)]
struct Collector {
    requests: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
}

impl Collector {
    fn silent() -> Self {
        Self { requests: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn exporter(&self) -> Exporter {
        let connector = SharedHttpConnector::new(self.clone());
        Exporter { connector, ..exporter("http://collector.example.com/v1/traces") }
    }
}

impl HttpConnector for Collector {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answers = Arc::clone(&self.answers);
        HttpConnectorFuture::new(async move {
            let closed = |error| ConnectorError::io(Box::new(error));
            answers.acquire().await.map_err(closed)?.forget();
            Ok(HttpResponse::new(200.try_into().unwrap(), SdkBody::empty()))
        })
    }
}

fn exporter(endpoint: &str) -> Exporter {
    Exporter::new(OtlpSettings {
        endpoint: endpoint.to_owned(),
        headers: vec![("api-key".to_owned(), "k".to_owned())],
        resource: vec![("service.name".to_owned(), "orders".to_owned())],
    })
}

/// Returns a tracer with one span to export.
fn tracer() -> Tracer {
    let tracer = Tracer::new(|| [7; 32], false);
    let now = Timestamp::UNIX_EPOCH;
    let batch = tracer.begin_trace(now, true);
    tracer.record_span(messaging::receive_span(batch, "arn:aws:sqs:eu-central-1:0:orders", 1, now, now));
    tracer
}

fn an_hour_from_now() -> Timestamp {
    SystemClock.now() + TimeDelta::hours(1)
}

fn exports_under_way(exporter: &Exporter) -> usize {
    CONCURRENT_EXPORTS_MAX - exporter.under_way.available_permits()
}

fn warned_at(exporter: &Exporter) -> Option<Timestamp> {
    *lock(&exporter.warned_at)
}

async fn wait_until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, polling).await.expect("the condition becomes true");
}

#[test]
fn exporting_waits_at_most_50_ms_or_half_the_time_left() {
    let now = Timestamp::UNIX_EPOCH;
    let waited = |left_ms| wait_limit(now, now + TimeDelta::milliseconds(left_ms)).as_millis();
    assert_eq!([30_000, 100, 60, 2, 0, -1000].map(waited), [50, 50, 30, 1, 0, 0]);
}

#[tokio::test]
async fn no_request_is_made_without_spans() {
    let collector = Collector::silent();
    let exporter = collector.exporter();
    let tracer = tracer();
    drop(tracer.take_ended());
    exporter.export_spans(&tracer, an_hour_from_now()).await;
    yield_now().await;
    assert_eq!((collector.requests(), exports_under_way(&exporter)), (0, 0));
}

#[tokio::test]
async fn an_export_continues_after_the_invocation_stops_waiting() {
    let collector = Collector::silent();
    let exporter = collector.exporter();
    exporter.export_spans(&tracer(), an_hour_from_now()).await;
    assert_eq!((collector.requests(), exports_under_way(&exporter)), (1, 1), "the invocation ended first");
    collector.answers.add_permits(1);
    wait_until(|| exports_under_way(&exporter) == 0).await;
    assert_eq!((collector.answers.available_permits(), warned_at(&exporter)), (0, None));
}

#[tokio::test]
async fn a_slow_collector_receives_at_most_four_concurrent_exports() {
    let collector = Collector::silent();
    let exporter = collector.exporter();
    for _ in 0..5 {
        exporter.export_spans(&tracer(), Timestamp::UNIX_EPOCH).await;
    }
    wait_until(|| warned_at(&exporter).is_some()).await;
    assert_eq!(
        (collector.requests(), exports_under_way(&exporter)),
        (CONCURRENT_EXPORTS_MAX, CONCURRENT_EXPORTS_MAX)
    );
    assert_eq!(exporter.post_spans(Vec::new()).await, Err(ExportError::TooSlow));

    collector.answers.add_permits(CONCURRENT_EXPORTS_MAX + 1);
    wait_until(|| exports_under_way(&exporter) == 0).await;
    assert_eq!(exporter.post_spans(Vec::new()).await, Ok(()), "there is room for the next export");
}

#[tokio::test]
async fn posted_spans_have_the_users_headers_and_can_be_decoded() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let exporter = exporter(server.url());
    exporter.export_spans(&tracer(), an_hour_from_now()).await;
    wait_until(|| exports_under_way(&exporter) == 0).await;
    let request = server.request();
    assert_eq!(request.header("api-key"), ["k"]);
    assert_eq!(request.header("content-type"), ["application/x-protobuf"]);
    assert_eq!(request.header("content-length"), [request.body.len().to_string()]);
    let decoded = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
    let [resource_spans] = &decoded.resource_spans[..] else { panic!("{decoded:?}") };
    assert_eq!(resource_spans.scope_spans[0].spans[0].name, "receive orders");
    assert_eq!(warned_at(&exporter), None);
}

#[tokio::test]
async fn a_failed_export_reports_its_reason() {
    let refusing = Loopback::start([ScriptedResponse::new(503, &[], "")]).await;
    let closing = Loopback::start([ScriptedResponse::closed()]).await;
    for (endpoint, error) in [
        (refusing.url(), ExportError::Refused(503)),
        (closing.url(), ExportError::NotReached),
        (REFUSED_URL, ExportError::NotReached),
        ("no URL", ExportError::NotBuilt),
    ] {
        let exporter = exporter(endpoint);
        assert_eq!(exporter.post_spans(Vec::new()).await, Err(error), "{endpoint}");
        assert_eq!(exports_under_way(&exporter), 0, "{endpoint}");
    }
    let settings = OtlpSettings::clone(&exporter(REFUSED_URL).settings);
    let headers = vec![("x".to_owned(), "a\nb".to_owned())];
    let exporter = Exporter::new(OtlpSettings { headers, ..settings });
    assert_eq!(exporter.post_spans(Vec::new()).await, Err(ExportError::NotBuilt));
}

#[tokio::test]
async fn spans_rejected_in_a_200_response_count_as_lost() {
    let answer = |rejected_spans, message: &str| {
        let partial_success = ExportTracePartialSuccess { rejected_spans, error_message: message.to_owned() };
        ExportTraceServiceResponse { partial_success: Some(partial_success) }.encode_to_vec()
    };
    let long = "x".repeat(300);
    for (answer, expected) in [
        (answer(1, ""), true),
        (answer(300, "no room"), true),
        (answer(300, &long), true),
        (answer(0, ""), false),
        (answer(0, &long), false),
        (Vec::new(), false),
        (b"{}".to_vec(), false),
    ] {
        assert_eq!(has_rejected_spans(&answer), expected, "{answer:?}");
    }
    for (rejected, expected) in [(1, Err(ExportError::Rejected)), (0, Ok(()))] {
        let body = String::from_utf8(answer(rejected, "no room")).unwrap();
        let server = Loopback::start([ScriptedResponse::new(200, &[], &body)]).await;
        assert_eq!(exporter(server.url()).post_spans(Vec::new()).await, expected);
    }
}

/// A collector must not exhaust a function's memory.
#[tokio::test]
async fn an_endless_collector_response_is_cut_off_at_64_kib() {
    let endless = Loopback::start([ScriptedResponse::unfinished(200, ANSWER_BYTES_MAX + 1)]).await;
    assert_eq!(exporter(endless.url()).post_spans(Vec::new()).await, Err(ExportError::AnswerTooLong));
    let refusing = Loopback::start([ScriptedResponse::unfinished(503, 0)]).await;
    assert_eq!(exporter(refusing.url()).post_spans(Vec::new()).await, Err(ExportError::Refused(503)));
    let longest = "x".repeat(ANSWER_BYTES_MAX);
    let server = Loopback::start([ScriptedResponse::new(200, &[], &longest)]).await;
    assert_eq!(exporter(server.url()).post_spans(Vec::new()).await, Ok(()));
}

#[tokio::test]
async fn an_unreachable_collector_causes_one_warning_per_minute() {
    let exporter = exporter(REFUSED_URL);
    exporter.export_spans(&tracer(), an_hour_from_now()).await;
    wait_until(|| warned_at(&exporter).is_some()).await;
    let first = warned_at(&exporter);
    exporter.export_spans(&tracer(), an_hour_from_now()).await;
    wait_until(|| exports_under_way(&exporter) == 0).await;
    assert_eq!(warned_at(&exporter), first, "less than a minute has passed");
}

#[test]
fn a_local_endpoint_bypasses_the_proxy() {
    for local in ["localhost:4318/v1/traces", "127.0.0.1:4318", "127.9.9.9", "[::1]:4318/"] {
        assert!(is_local(&format!("http://{local}")), "{local}");
    }
    for other in ["localhost.example.com", "10.0.0.1:4318", "[2001:db8::1]:4318", "api.example.com/localhost"]
    {
        assert!(!is_local(&format!("https://{other}")), "{other}");
    }
}

#[test]
fn debug_output_omits_the_endpoint_and_headers() {
    let exporter = exporter("http://127.0.0.1/secret");
    let shown = format!("{exporter:?} {:?}", exporter.settings);
    assert!(!shown.contains("secret") && !shown.contains("api-key"), "{shown}");
    assert!(shown.contains("service.name"), "{shown}");
}

#[tokio::test]
async fn dropped_spans_are_reported() {
    let collector = Collector::silent();
    let exporter = collector.exporter();
    let tracer = tracer();
    let span = tracer.take_ended().spans;
    for _ in 0..=SPANS_MAX {
        tracer.record_span(span[0].clone());
    }
    exporter.export_spans(&tracer, Timestamp::UNIX_EPOCH).await;
    assert!(warned_at(&exporter).is_some());
}

#[tokio::test]
async fn user_headers_do_not_replace_protocol_headers() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let settings = OtlpSettings::clone(&exporter(server.url()).settings);
    let headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
    let exporter = Exporter::new(OtlpSettings { headers, ..settings });
    assert_eq!(exporter.post_spans(Vec::new()).await, Ok(()));
    assert_eq!(server.request().header("content-type"), ["application/x-protobuf"]);
}
