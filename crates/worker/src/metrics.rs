//! `/metrics`: the functions' metrics, aggregated for Prometheus. Names and labels are the same as in CloudWatch, but
//! in snake case. The number of time series depends only on the functions and the dimension values, not on the
//! messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use heck::ToSnakeCase as _;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use redeliver_aws::telemetry::metrics::{EventReport, Measure, Measurement, Metric, MetricValue, NAMESPACE};
use redeliver_core::events::Event;
use redeliver_core::ports::Observer;
use redeliver_core::trace::Tracer;

use crate::health::HealthReport;

/// Buckets from the duration of an HTTP call to a week in a queue.
const SECONDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0,
    10_800.0, 43_200.0, 86_400.0, 604_800.0,
];
/// Buckets up to the intermediate DLQ's `maxReceiveCount`; the annotation queue's is ten higher.
const RECEIVES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0];

type Labels = Vec<(String, String)>;
/// One histogram per label set.
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics for all functions in a process.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    registry: Registry,
    counters: BTreeMap<Metric, Family<Labels, Counter>>,
    histograms: BTreeMap<Metric, Histograms>,
    batches_in_flight: Family<Labels, Gauge>,
    seconds_since_poll: Family<Labels, Gauge<f64, AtomicU64>>,
}

impl WorkerMetrics {
    /// Creates the metrics for the functions with these names. All counters start at zero, so that the first event
    /// shows as an increase.
    pub(crate) fn new(functions: impl IntoIterator<Item = String>) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(NAMESPACE.to_snake_case()),
            counters: BTreeMap::new(),
            histograms: BTreeMap::new(),
            batches_in_flight: Family::default(),
            seconds_since_poll: Family::default(),
        };
        Metric::ALL.iter().for_each(|metric| metrics.register_metric(*metric));
        metrics.registry.register(
            "batches_in_flight",
            "Batches that are being handled",
            metrics.batches_in_flight.clone(),
        );
        metrics.registry.register(
            "seconds_since_poll",
            "Seconds since the last successful receive or the end of the last batch",
            metrics.seconds_since_poll.clone(),
        );
        for function in functions {
            for (metric, family) in &metrics.counters {
                for labels in all_labels(*metric, &function) {
                    drop(family.get_or_create(&labels));
                }
            }
        }
        metrics
    }

    fn register_metric(&mut self, metric: Metric) {
        let name = metric.name().to_snake_case();
        let histogram: fn() -> Histogram = match metric.measure() {
            Measure::Count => {
                let family = Family::default();
                self.registry.register(name, help_text(metric), family.clone());
                self.counters.insert(metric, family);
                return;
            }
            Measure::Seconds => || Histogram::new(SECONDS.iter().copied()),
            Measure::Receives => || Histogram::new(RECEIVES.iter().copied()),
        };
        let family = Family::new_with_constructor(histogram);
        self.registry.register(name, help_text(metric), family.clone());
        self.histograms.insert(metric, family);
    }

    fn count_event(&self, function: &str, event: &Event) {
        let EventReport { by, metrics, .. } = EventReport::from_event(event);
        for Measurement { metric, value } in metrics {
            if let Some(counter) = self.counters.get(&metric) {
                let count = if let MetricValue::Whole(count) = value { count } else { 1 };
                counter.get_or_create(&metric_labels(metric, function, by)).inc_by(count.into());
            } else if let Some(histogram) = self.histograms.get(&metric) {
                histogram.get_or_create(&metric_labels(metric, function, None)).observe(match value {
                    MetricValue::Whole(number) => number.into(),
                    MetricValue::Real(number) => number,
                });
            }
        }
    }

    /// Renders all metrics in the OpenMetrics text format.
    pub(crate) fn render_openmetrics(&self, report: &HealthReport) -> String {
        for function in &report.functions {
            let labels = vec![("function".to_owned(), function.function.clone())];
            let batches = i64::try_from(function.batches_in_flight).unwrap_or(i64::MAX);
            self.batches_in_flight.get_or_create(&labels).set(batches);
            #[expect(clippy::cast_precision_loss, reason = "no process polls for 285 million years")]
            let seconds = function.seconds_since_poll as f64;
            self.seconds_since_poll.get_or_create(&labels).set(seconds);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String can always be written to");
        text
    }
}

/// An observer that records each event in the metrics, and forwards it.
#[derive(Debug)]
pub(crate) struct MeteredObserver<O> {
    observer: O,
    function: String,
    metrics: Arc<WorkerMetrics>,
}

impl<O> MeteredObserver<O> {
    pub(crate) fn new(observer: O, function: String, metrics: Arc<WorkerMetrics>) -> Self {
        Self { observer, function, metrics }
    }
}

impl<O: Observer> Observer for MeteredObserver<O> {
    fn observe(&self, event: &Event) {
        self.observe_all(std::slice::from_ref(event));
    }

    fn observe_all(&self, events: &[Event]) {
        events.iter().for_each(|event| self.metrics.count_event(&self.function, event));
        self.observer.observe_all(events);
    }

    fn flush(&self) {
        self.observer.flush();
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.observer.tracer()
    }
}

fn metric_labels(metric: Metric, function: &str, by: Option<&'static str>) -> Labels {
    let function = ("function".to_owned(), function.to_owned());
    let by = metric.dimension().zip(by);
    let by = by.map(|(dimension, value)| (dimension.name.to_snake_case(), value.to_owned()));
    [Some(function), by].into_iter().flatten().collect()
}

/// Returns the label sets of a counter's time series for one function.
fn all_labels(metric: Metric, function: &str) -> Vec<Labels> {
    match metric.dimension() {
        Some(dimension) => {
            dimension.values.iter().map(|value| metric_labels(metric, function, Some(value))).collect()
        }
        None => vec![metric_labels(metric, function, None)],
    }
}

/// Returns the help text of a metric.
const fn help_text(metric: Metric) -> &'static str {
    match metric {
        Metric::Processed => "Messages that the target processed",
        Metric::HandedOff => "Messages that failed and were handed off",
        Metric::NotConfirmed => "Sends that SQS did not confirm; their messages come back",
        Metric::RetriesScheduled => "Messages that will come back to the source queue",
        Metric::Hops => "Hops of messages whose retry is more than 900 s away",
        Metric::ImmediateRetries => "Second calls within the same invocation",
        Metric::CircuitOpen => "Number of times that the target was found to be down, or still down",
        Metric::Held => "Messages that were held because their target is down",
        Metric::LongestHoldSeconds => "The longest total time that a message of a batch was held",
        Metric::Probes => "Calls that probed whether the target had recovered",
        Metric::GivenUp => "Messages that were given up, on their way to the final DLQ",
        Metric::Blocked => "Number of times that a message was given up and blocked its group",
        Metric::DeadLettered => "Messages in the final DLQ",
        Metric::ArrivedByRedrive => "Messages that SQS itself moved after a crash, a timeout or a throttle",
        Metric::UnreadableRecord => "Messages that could not be read at all",
        Metric::ReceiveFailed => "Failed receives",
        Metric::BatchBrokenOff => "Batches that panicked or ran out of time; they come back",
        Metric::NotDeleted => "Finished messages that could not be deleted; copies of them come back",
        Metric::ArchiveRefused => "Final records that could not be written to the archive; they come back",
        Metric::Notices => "Notices about causes of dead letters",
        Metric::NoticeRefused => "Notices that could not be published",
        Metric::HeadersNotRefreshed => "Failed refreshes of the secret with the target's headers",
        Metric::RetryAfterUnreadable => "Responses of the target whose Retry-After could not be parsed",
        Metric::AnswerTakenAsSuccess => {
            "Kinds of function responses that look like failure reports but count as successes"
        }
        Metric::MessageAgeSeconds => "Seconds since a message's first send",
        Metric::TargetSeconds => "Duration of a call to the target",
        Metric::RetryDelaySeconds => "Delay of a retry",
        Metric::ReceiveCount => "Receives of messages that were received more than once",
    }
}

#[cfg(test)]
mod tests;
