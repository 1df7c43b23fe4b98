//! Log lines with an `_aws` member that declares which fields are metrics ("Specification: Embedded metric format",
//! Amazon CloudWatch User Guide).

use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::batch_totals::{BatchLine, FailuresByType};
use super::invalid_messages::AllInvalidLine;
use super::metrics::{EventReport, FUNCTION, Measure, Measurement, Metric, NAMESPACE};

/// The maximum number of values per metric in one line.
pub(super) const VALUES_MAX: usize = 100;

/// Log lines with the same function and timestamp.
pub(super) struct MetricLogLines<'a> {
    function: &'a str,
    /// In RFC 3339 format.
    timestamp: String,
    timestamp_millis: i64,
    /// The lines, each ending with a line break.
    pub(super) text: Vec<u8>,
}

impl<'a> MetricLogLines<'a> {
    pub(super) fn new(function: &'a str, now: Timestamp) -> Self {
        let timestamp = redeliver_core::message::metadata::format_rfc3339(now);
        Self { function, timestamp, timestamp_millis: now.timestamp_millis(), text: Vec::new() }
    }

    /// Adds the line for an event, with its metrics.
    pub(super) fn push_event(&mut self, event: &Event, observed: &EventReport) {
        let (counter, others) = observed.metrics.split_at(usize::from(observed.by.is_some()));
        let names = |metrics: &[Measurement]| metrics.iter().map(|measured| measured.metric).collect();
        let dimension = counter.first().and_then(|counter| counter.metric.dimension());
        let by = dimension.zip(observed.by).map(|(dimension, value)| (dimension.name, value));
        // CloudWatch bills each set of dimensions as a metric, so only the counter has an additional dimension.
        let by_two = by.map(|(dimension, _)| Directive::for_metrics(Some(dimension), names(counter)));
        let by_one = (!others.is_empty()).then(|| Directive::for_metrics(None, names(others)));
        self.push_line(
            observed.level,
            observed.event,
            &EventFields { event, by, metrics: &observed.metrics },
            [by_two, by_one].into_iter().flatten().collect(),
        );
    }

    /// Adds the line for an event whose metrics are in the batch line.
    pub(super) fn push_without_metrics(&mut self, event: &Event, observed: &EventReport) {
        let fields = EventFields { event, by: None, metrics: &[] };
        self.push_line(observed.level, observed.event, &fields, Vec::new());
    }

    pub(super) fn push_batch(&mut self, line: &BatchLine<'_>) {
        self.push_line("INFO", "batch", line, line.directives());
    }

    pub(super) fn push_all_invalid(&mut self, line: &AllInvalidLine) {
        self.push_line("WARN", "all_invalid", line, Vec::new());
    }

    fn push_line(&mut self, level: &str, event: &str, fields: &impl Serialize, directives: Vec<Directive>) {
        let (timestamp, function) = (&self.timestamp, self.function);
        let aws = (!directives.is_empty())
            .then_some(EmfMetadata { timestamp: self.timestamp_millis, cloud_watch_metrics: directives });
        let line = LogLine { timestamp, level, event, function, fields, aws };
        serde_json::to_writer(&mut self.text, &line).expect("an event has only text and finite numbers");
        self.text.push(b'\n');
    }
}

#[derive(Serialize)]
struct LogLine<'a, F> {
    timestamp: &'a str,
    level: &'a str,
    event: &'a str,
    #[serde(rename = "Function")]
    function: &'a str,
    #[serde(flatten)]
    fields: &'a F,
    #[serde(rename = "_aws", skip_serializing_if = "Option::is_none")]
    aws: Option<EmfMetadata>,
}

#[derive(Serialize)]
struct EventFields<'a> {
    #[serde(flatten)]
    event: &'a Event,
    /// The additional dimension of the first metric, with its value.
    #[serde(flatten, serialize_with = "serialize_dimension")]
    by: Option<(&'static str, &'static str)>,
    #[serde(flatten, serialize_with = "serialize_metrics")]
    metrics: &'a [Measurement],
}

impl Serialize for BatchLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        for (metric, count) in &self.counts {
            fields.serialize_entry(metric, count)?;
        }
        for (_, dimension, value) in &self.by {
            fields.serialize_entry(dimension, value)?;
        }
        if let Some(FailuresByType { error_type, count, request_ids }) = self.failure {
            fields.serialize_entry("error_type", error_type)?;
            fields.serialize_entry("failures", count)?;
            if !request_ids.is_empty() {
                fields.serialize_entry("request_ids", request_ids)?;
            }
        }
        if let Some(trace_id) = self.trace_id {
            fields.serialize_entry("trace_id", trace_id)?;
        }
        for (metric, values) in &self.values {
            match values {
                [value] => fields.serialize_entry(metric, value)?,
                values => fields.serialize_entry(metric, values)?,
            }
        }
        fields.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EmfMetadata {
    timestamp: i64,
    cloud_watch_metrics: Vec<Directive>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Directive {
    namespace: &'static str,
    dimensions: Vec<Vec<&'static str>>,
    metrics: Vec<MetricDefinition>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetricDefinition {
    name: Metric,
    unit: &'static str,
}

impl Directive {
    /// Declares metrics with the function as their dimension and, if `dimension` is set, also with both dimensions.
    pub(super) fn for_metrics(dimension: Option<&'static str>, metrics: Vec<Metric>) -> Self {
        let further = dimension.map(|dimension| vec![FUNCTION, dimension]);
        let definition = |metric: Metric| MetricDefinition {
            name: metric,
            unit: match metric.measure() {
                Measure::Count | Measure::Receives => "Count",
                Measure::Seconds => "Seconds",
            },
        };
        Self {
            namespace: NAMESPACE,
            dimensions: std::iter::once(vec![FUNCTION]).chain(further).collect(),
            metrics: metrics.into_iter().map(definition).collect(),
        }
    }
}

fn serialize_dimension<S: Serializer>(
    by: &Option<(&'static str, &'static str)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(*by)
}

fn serialize_metrics<S: Serializer>(metrics: &&[Measurement], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|measured| (measured.metric, measured.value)))
}
