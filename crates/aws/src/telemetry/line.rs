//! One event, one line: the log's fields and, under `_aws`, which of them are metrics ("Specification: Embedded metric
//! format", Amazon CloudWatch User Guide).

use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use serde::{Serialize, Serializer};

use super::metrics::{FUNCTION, Measure, Measured, Metric, NAMESPACE, Observed};

/// What all lines of one moment have in common.
pub(super) struct Lines<'a> {
    function: &'a str,
    /// RFC 3339.
    timestamp: String,
    timestamp_millis: i64,
    /// The lines, each with its end.
    pub(super) text: Vec<u8>,
}

/// A further dimension of the first metric, with its value.
type By = Option<(&'static str, &'static str)>;

impl<'a> Lines<'a> {
    pub(super) fn new(function: &'a str, now: Timestamp) -> Self {
        let timestamp = redeliver_core::metadata::rfc3339(now);
        Self { function, timestamp, timestamp_millis: now.timestamp_millis(), text: Vec::new() }
    }

    /// The counter, which comes first, is also counted by its dimension.
    pub(super) fn push(&mut self, event: &Event) {
        let Observed { level, event: name, by, metrics } = Observed::of(event);
        let dimension = metrics.first().and_then(|counter| counter.metric.dimension());
        let by: By = dimension.zip(by).map(|(dimension, value)| (dimension.name, value));
        let plain = [FUNCTION];
        let further = by.map(|(dimension, _)| [FUNCTION, dimension]);
        // CloudWatch counts each set of dimensions as a metric that is paid for, so only the counter has the further
        // one.
        let (counter, others) = metrics.split_at(usize::from(by.is_some()));
        let directive = |dimensions, metrics| Directive { namespace: NAMESPACE, dimensions, metrics };
        let by_two = further.as_ref().map(|further| directive(vec![&plain[..], &further[..]], counter));
        let by_one = (!others.is_empty()).then(|| directive(vec![&plain[..]], others));
        let line = Line {
            timestamp: &self.timestamp,
            level,
            event: name,
            function: self.function,
            fields: event,
            by,
            metrics: &metrics,
            aws: Metadata {
                timestamp: self.timestamp_millis,
                cloud_watch_metrics: by_two.into_iter().chain(by_one).collect(),
            },
        };
        serde_json::to_writer(&mut self.text, &line).expect("an event has only text and finite numbers");
        self.text.push(b'\n');
    }
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: &'a str,
    level: &'static str,
    event: &'static str,
    #[serde(rename = "Function")]
    function: &'a str,
    #[serde(flatten)]
    fields: &'a Event,
    #[serde(flatten, serialize_with = "value_of_dimension")]
    by: By,
    #[serde(flatten, serialize_with = "values_of_metrics")]
    metrics: &'a [Measured],
    #[serde(rename = "_aws")]
    aws: Metadata<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata<'a> {
    timestamp: i64,
    cloud_watch_metrics: Vec<Directive<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    namespace: &'static str,
    dimensions: Vec<&'a [&'static str]>,
    #[serde(serialize_with = "definitions_of_metrics")]
    metrics: &'a [Measured],
}

fn value_of_dimension<S: Serializer>(by: &By, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(*by)
}

fn values_of_metrics<S: Serializer>(metrics: &&[Measured], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|measured| (measured.metric, measured.value)))
}

fn definitions_of_metrics<S: Serializer>(metrics: &&[Measured], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Definition {
        name: Metric,
        unit: &'static str,
    }
    serializer.collect_seq(metrics.iter().map(|Measured { metric, .. }| Definition {
        name: *metric,
        unit: match metric.measure() {
            Measure::Count | Measure::Receives => "Count",
            Measure::Seconds => "Seconds",
        },
    }))
}
