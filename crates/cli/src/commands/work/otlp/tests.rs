use std::collections::BTreeMap;
use std::io;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use futures_util::future::ready;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, NumberDataPoint};
use redeliver_aws::otlp::OtlpSettings;
use redeliver_aws::settings::{Logging, Tracing};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::events::Event;
use redeliver_core::trace::messaging::receive;
use redeliver_core::trace::otlp::nanoseconds;
use redeliver_embedded::VirtualClock;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;

use super::*;
use crate::commands::work::health::Heartbeat;
use crate::commands::work::metrics::MeteredObserver;

const FUNCTION_NAME: &str = "orders-message-processor";
/// Only the end of the process exports.
const NEVER: Duration = Duration::from_secs(3600);

/// A collector, and the requests that it got.
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
            // The test may be over.
            let _ = sender.send((uri.path().to_owned(), headers, body));
            ready(())
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { address, requests }
    }

    async fn next<M: prost::Message + Default>(&mut self, path: &str) -> M {
        let (got, headers, body) = self.requests.recv().await.unwrap();
        assert_eq!(got, path);
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["api-key"], "secret");
        M::decode(body).unwrap()
    }
}

fn export(address: &str, path: &str, interval: Duration) -> Option<Export> {
    let exporter = Exporter::new(OtlpSettings {
        endpoint: format!("http://{address}{path}"),
        headers: vec![("api-key".to_owned(), "secret".to_owned())],
        resource: vec![("service.name".to_owned(), "redeliver-work".to_owned())],
    });
    Some(Export { exporter, interval })
}

/// The function's observer, which writes to nowhere.
fn observer(exports: &Exports, metrics: &Arc<Metrics>, clock: VirtualClock) -> Arc<dyn Observer> {
    let logging = Logging { tracing: Some(Tracing::default()), ..Logging::default() };
    let lines = JsonLines::new(FUNCTION_NAME, logging, clock, exports.log.tee(io::sink()));
    Arc::new(MeteredObserver::new(lines, FUNCTION_NAME.to_owned(), Arc::clone(metrics)))
}

struct World {
    metrics: Arc<Metrics>,
    observer: Arc<dyn Observer>,
    clock: VirtualClock,
}

impl World {
    fn begin(exports: &mut Exports) -> Self {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH + Duration::from_secs(7));
        let metrics = Arc::new(Metrics::new([FUNCTION_NAME.to_owned()]));
        let observer = observer(exports, &metrics, clock.clone());
        let heartbeat = Arc::new(Heartbeat::new(FUNCTION_NAME, SystemClock.now()));
        heartbeat.batch_begins();
        let health = Health { pollers: vec![heartbeat], stop: Stop::default() };
        let functions = vec![(FUNCTION_NAME.to_owned(), Arc::clone(&observer))];
        exports.begin(functions, Arc::clone(&metrics), health);
        Self { metrics, observer, clock }
    }

    /// A batch of two messages: one is processed, one is handed off.
    fn batch(&self) {
        let processed = Event::Processed {
            message_id: "1".to_owned(),
            retry_attempt: 0,
            age_seconds: 61.5,
            target_seconds: 0.2,
        };
        let handed_off = Event::HandedOff {
            message_id: "2".to_owned(),
            retry_attempt: 0,
            error_type: "HttpStatus.503".to_owned(),
            kind: "transient",
            age_seconds: 1.5,
        };
        let tracer = self.observer.tracer().unwrap();
        let now = self.clock.now();
        let batch = tracer.begin(now, true);
        tracer.batch_began(batch);
        self.observer.observe_all(&[processed, handed_off]);
        tracer.record(receive(batch, "arn:aws:sqs:eu-west-1:1:orders", 2, now, now));
        self.observer.flush();
    }
}

fn labels(attributes: &[KeyValue]) -> String {
    let value = |one: &KeyValue| match one.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| format!("{}={}", one.key, value(one))).collect::<Vec<_>>().join(",")
}

fn number(point: &NumberDataPoint) -> i64 {
    match point.value.unwrap() {
        number_data_point::Value::AsInt(number) => number,
        number_data_point::Value::AsDouble(_) => panic!("{point:?}"),
    }
}

/// The metrics, by name.
fn metrics_of(request: ExportMetricsServiceRequest) -> BTreeMap<String, Metric> {
    let [resource] = <[_; 1]>::try_from(request.resource_metrics).unwrap();
    assert_eq!(labels(&resource.resource.unwrap().attributes), "service.name=redeliver-work");
    let [scope] = <[_; 1]>::try_from(resource.scope_metrics).unwrap();
    assert_eq!(scope.scope.unwrap().name, "redeliver");
    scope.metrics.into_iter().map(|metric| (metric.name.clone(), metric)).collect()
}

/// The counts of a counter that are not 0, by labels.
fn counts(metric: &Metric, started: Timestamp) -> Vec<(String, i64)> {
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, 2), "cumulative");
    for point in &sum.data_points {
        assert_eq!(point.start_time_unix_nano, nanoseconds(started));
        assert!(point.time_unix_nano >= point.start_time_unix_nano);
    }
    let counts = sum.data_points.iter().map(|point| (labels(&point.attributes), number(point)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn histogram(metric: &Metric) -> &HistogramDataPoint {
    let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
    assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
    let [point] = &histogram.data_points[..] else { panic!("{metric:?}") };
    point
}

#[tokio::test]
async fn metrics_have_the_values_and_names_of_prometheus() {
    let mut collector = Collector::start().await;
    let mut exports =
        Exports::new(None, export(&collector.address, "/v1/metrics", Duration::from_millis(1)), None);
    let started = exports.started;
    let world = World::begin(&mut exports);
    world.batch();
    for time in ["the first time", "the second time: what was counted before is still counted once"] {
        let metrics = metrics_of(collector.next("/v1/metrics").await);
        let of = |name: &str| &metrics[&format!("redeliver_{name}")];
        let function = format!("function={FUNCTION_NAME}");
        assert_eq!(counts(of("processed"), started), [(function.clone(), 1)], "{time}");
        let transient = format!("{function},failure_kind=transient");
        assert_eq!(counts(of("handed_off"), started), [(transient, 1)], "{time}");
        assert_eq!(counts(of("dead_lettered"), started), [], "{time}");
        let Some(Data::Sum(none)) = &of("dead_lettered").data else { panic!() };
        assert!(none.data_points.len() > 1, "all series are there from the start");

        let age = histogram(of("message_age_seconds"));
        assert_eq!((age.count, age.sum, of("message_age_seconds").unit.as_str()), (2, Some(63.0), "s"));
        let bucket = |bound: f64| {
            let place = age.explicit_bounds.iter().position(|one| *one == bound).unwrap();
            age.bucket_counts[place]
        };
        assert_eq!([1.0, 2.5, 60.0, 300.0].map(bucket), [0, 1, 0, 1], "{time}");
        assert_eq!(age.bucket_counts.len(), age.explicit_bounds.len() + 1);
        assert_eq!(labels(&age.attributes), function);
        assert!(!metrics.contains_key("redeliver_retry_delay_seconds"), "it has no value yet");

        let Some(Data::Gauge(batches)) = &of("batches_in_flight").data else { panic!() };
        assert_eq!(batches.data_points.iter().map(number).collect::<Vec<_>>(), [1]);
    }
}

/// Both read the same numbers, so that two dashboards cannot differ.
#[tokio::test]
async fn prometheus_shows_the_same_numbers() {
    let mut exports = Exports::new(None, None, None);
    let world = World::begin(&mut exports);
    world.batch();
    let report = Health { pollers: Vec::new(), stop: Stop::default() }.report(SystemClock.now());
    let text = world.metrics.openmetrics(&report);
    let period = Period { start: exports.started, end: exports.started };
    let resource = [("service.name".to_owned(), "redeliver-work".to_owned())];
    for (name, metric) in metrics_of(world.metrics.exported(&resource, &report, period)) {
        match &metric.data {
            Some(Data::Sum(sum)) => {
                for point in &sum.data_points {
                    let labels = labels(&point.attributes).replace('=', "=\"").replace(',', "\",");
                    let line = format!("{name}_total{{{labels}\"}} {}\n", number(point));
                    assert!(text.contains(&line), "{line} in\n{text}");
                }
            }
            Some(Data::Histogram(_)) => {
                let (point, function) = (histogram(&metric), format!("{{function=\"{FUNCTION_NAME}\"}}"));
                assert!(text.contains(&format!("{name}_count{function} {}\n", point.count)), "{text}");
                let sum = point.sum.unwrap();
                assert!(text.contains(&format!("{name}_sum{function} {sum:?}\n")), "{text}");
            }
            _ => {}
        }
    }
    assert!(exports.tasks.is_empty(), "nothing is exported unless it is asked for");
}

#[tokio::test]
async fn a_line_is_a_record_with_its_trace_and_its_members() {
    let mut collector = Collector::start().await;
    let mut exports = Exports::new(None, None, export(&collector.address, "/v1/logs", NEVER));
    let world = World::begin(&mut exports);
    world.batch();
    exports.log.warn("queue", "no redrive policy");
    exports.finish(&SystemClock).await;
    let request: ExportLogsServiceRequest = collector.next("/v1/logs").await;
    let [resource] = <[_; 1]>::try_from(request.resource_logs).unwrap();
    assert_eq!(labels(&resource.resource.unwrap().attributes), "service.name=redeliver-work");
    let [scope] = <[_; 1]>::try_from(resource.scope_logs).unwrap();
    let [batch, queue] = <[LogRecord; 2]>::try_from(scope.log_records).unwrap();

    let text = |text: &str| Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) });
    assert_eq!((batch.body, batch.event_name.as_str()), (text("batch"), "batch"));
    assert_eq!((batch.severity_number, batch.severity_text.as_str()), (9, "INFO"));
    assert_eq!(batch.time_unix_nano, 7_000_000_000);
    let trace_id = world.observer.tracer().unwrap().take().0[0].context.trace_id;
    assert_eq!(batch.trace_id, trace_id.to_be_bytes());
    let attributes: BTreeMap<_, _> =
        batch.attributes.into_iter().map(|one| (one.key, one.value.unwrap().value.unwrap())).collect();
    assert_eq!(attributes["redeliver.function"], Value::StringValue(FUNCTION_NAME.to_owned()));
    assert_eq!(attributes["error_type"], Value::StringValue("HttpStatus.503".to_owned()));
    assert_eq!(attributes["Processed"], Value::IntValue(1));
    assert_eq!(attributes["TargetSeconds"], Value::DoubleValue(0.2));
    let Value::ArrayValue(ages) = &attributes["MessageAgeSeconds"] else { panic!("{attributes:?}") };
    let ages: Vec<_> = ages.values.iter().map(|age| age.value.clone().unwrap()).collect();
    assert_eq!(ages, [Value::DoubleValue(61.5), Value::DoubleValue(1.5)]);
    for own in ["_aws", "event", "level", "timestamp", "trace_id"] {
        assert!(!attributes.contains_key(own), "{own} in {attributes:?}");
    }

    assert_eq!((queue.body, queue.severity_number, queue.trace_id), (text("queue"), 13, Vec::new()));
    assert_eq!(labels(&queue.attributes), "remark=no redrive policy");
}

#[tokio::test]
async fn spans_say_which_function_they_are_of() {
    let mut collector = Collector::start().await;
    let mut exports = Exports::new(export(&collector.address, "/v1/traces", NEVER), None, None);
    let world = World::begin(&mut exports);
    world.batch();
    exports.finish(&SystemClock).await;
    let request: ExportTraceServiceRequest = collector.next("/v1/traces").await;
    let [resource] = <[_; 1]>::try_from(request.resource_spans).unwrap();
    assert_eq!(labels(&resource.resource.unwrap().attributes), "service.name=redeliver-work");
    let spans = &resource.scope_spans[0].spans;
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["receive orders"]);
    assert_eq!(spans[0].start_time_unix_nano, 7_000_000_000);
    let attributes = labels(&spans[0].attributes);
    assert!(attributes.ends_with(&format!("redeliver.function={FUNCTION_NAME}")), "{attributes}");
    assert!(world.observer.tracer().unwrap().take().0.is_empty(), "they are taken");
}

/// The collector's end must cost one warning, and never a message or the process.
#[tokio::test]
async fn a_collector_that_is_gone_delays_nothing_and_is_logged_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut exports = Exports::new(export(&address, "/v1/traces", Duration::from_millis(1)), None, None);
    exports.log.exported = Some(Arc::default());
    let world = World::begin(&mut exports);
    let exported = exports.log.exported.clone().unwrap();
    let tracer = world.observer.tracer().unwrap();
    let mut lines = Vec::new();
    while lines.is_empty() {
        world.batch();
        sleep(Duration::from_millis(1)).await;
        lines = exported.take().lines.into_iter().filter(|line| line.contains("otlp")).collect();
    }
    let warning: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(warning["remark"], "spans were not exported: the collector cannot be reached");
    exports.finish(&SystemClock).await;
    assert!(exported.take().lines.iter().all(|line| !line.contains("otlp")), "at most once a minute");
    assert!(tracer.take().0.is_empty(), "they are lost");
}

/// The end of all waiting.
struct TimeIsUp;

impl Clock for TimeIsUp {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {}
}

#[tokio::test]
async fn a_collector_that_never_answers_delays_no_batch_and_not_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let often = Duration::from_millis(1);
    let mut exports = Exports::new(export(&address, "/v1/traces", often), None, None);
    let world = World::begin(&mut exports);
    world.batch();
    let under_way = listener.accept().await.unwrap();
    assert!(world.observer.tracer().unwrap().take().0.is_empty(), "the request has them");
    // While it waits for its answer, a batch does not wait, and the next spans do.
    world.batch();
    let (waiting, dropped) = world.observer.tracer().unwrap().take();
    assert_eq!((waiting.len(), dropped, exports.tasks[0].is_finished()), (1, 0, false));
    exports.finish(&TimeIsUp).await;
    drop(under_way);
}
