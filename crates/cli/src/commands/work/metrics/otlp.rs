//! The same metrics as OTLP has them: what was counted since the start, by the names and labels of `/metrics`. A counter has
//! no `_total`, which Prometheus adds by itself.

use heck::ToSnakeCase as _;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram as Histograms, HistogramDataPoint, Metric as Encoded,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use redeliver_aws::telemetry::metrics::{Measure, NAMESPACE};
use redeliver_core::message::Timestamp;
use redeliver_core::trace::otlp::nanoseconds;

use super::histogram::{Histogram, Values};
use super::{
    BATCHES_IN_FLIGHT, BATCHES_IN_FLIGHT_HELP, Labels, Metrics, SECONDS_SINCE_POLL, SECONDS_SINCE_POLL_HELP,
    all_labels, help, labels,
};
use crate::commands::work::health::{FunctionHealth, HealthReport};
use crate::commands::work::otlp::{key_value, resource, scope};

/// The time in which was counted.
#[derive(Clone, Copy)]
pub struct Period {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl Metrics {
    /// The request with all metrics.
    pub fn exported(
        &self,
        attributes: &[(String, String)],
        report: &HealthReport,
        period: Period,
    ) -> ExportMetricsServiceRequest {
        let metrics = self.counters(period).chain(self.histograms(period)).chain(gauges(report, period));
        let metrics = ScopeMetrics { scope: Some(scope()), metrics: metrics.collect(), ..Default::default() };
        let metrics = ResourceMetrics {
            resource: Some(resource(attributes)),
            scope_metrics: vec![metrics],
            ..Default::default()
        };
        ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
    }

    fn counters(&self, period: Period) -> impl Iterator<Item = Encoded> {
        self.counters.iter().map(move |(metric, family)| {
            let series = self.functions.iter().flat_map(|function| all_labels(*metric, function));
            let point = |labels: Labels| {
                let count = family.get_or_create(&labels).get();
                number(labels, count, period)
            };
            let sum = Sum {
                data_points: series.map(point).collect(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            };
            encoded(metric.name(), help(*metric), "", Data::Sum(sum))
        })
    }

    /// Those that have a value.
    fn histograms(&self, period: Period) -> impl Iterator<Item = Encoded> {
        self.histograms.iter().filter_map(move |(metric, family)| {
            let point = |function: &String| {
                let labels = labels(*metric, function, None);
                let histogram = family.get(&labels)?;
                Some(buckets(labels, &histogram, period))
            };
            let data_points: Vec<_> = self.functions.iter().filter_map(point).collect();
            let aggregation_temporality = AggregationTemporality::Cumulative.into();
            let unit = if metric.measure() == Measure::Seconds { "s" } else { "" };
            (!data_points.is_empty()).then(|| {
                let data = Histograms { data_points, aggregation_temporality };
                encoded(metric.name(), help(*metric), unit, Data::Histogram(data))
            })
        })
    }
}

fn gauges(report: &HealthReport, period: Period) -> [Encoded; 2] {
    let gauge = |value: fn(&FunctionHealth) -> u64| {
        let point = |function: &FunctionHealth| {
            let labels = vec![("function".to_owned(), function.function.clone())];
            number(labels, value(function), period)
        };
        Data::Gauge(Gauge { data_points: report.functions.iter().map(point).collect() })
    };
    let batches = gauge(|function| u64::try_from(function.batches_in_flight).unwrap_or(u64::MAX));
    let since_poll = gauge(|function| function.seconds_since_poll);
    [
        encoded(BATCHES_IN_FLIGHT, BATCHES_IN_FLIGHT_HELP, "", batches),
        encoded(SECONDS_SINCE_POLL, SECONDS_SINCE_POLL_HELP, "s", since_poll),
    ]
}

fn encoded(name: &str, help: &str, unit: &str, data: Data) -> Encoded {
    Encoded {
        name: format!("{}_{}", NAMESPACE.to_snake_case(), name.to_snake_case()),
        description: help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Encoded::default()
    }
}

fn number(labels: Labels, value: u64, period: Period) -> NumberDataPoint {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    NumberDataPoint {
        attributes: key_values(labels),
        start_time_unix_nano: nanoseconds(period.start),
        time_unix_nano: nanoseconds(period.end),
        value: Some(number_data_point::Value::AsInt(value)),
        ..NumberDataPoint::default()
    }
}

fn buckets(labels: Labels, histogram: &Histogram, period: Period) -> HistogramDataPoint {
    let Values { sum, counts } = histogram.values();
    HistogramDataPoint {
        attributes: key_values(labels),
        start_time_unix_nano: nanoseconds(period.start),
        time_unix_nano: nanoseconds(period.end),
        count: counts.iter().sum(),
        sum: Some(sum),
        bucket_counts: counts,
        explicit_bounds: histogram.bounds.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn key_values(labels: Labels) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| key_value(name, Value::StringValue(value))).collect()
}
