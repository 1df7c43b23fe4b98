//! One event, one line: the log's fields and, under `_aws`, which of them are metrics ("Specification: Embedded metric
//! format", Amazon CloudWatch User Guide).

use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use serde::{Serialize, Serializer};

/// The namespace of all metrics.
const NAMESPACE: &str = "Redeliver";

/// What all lines of one moment have in common.
pub(super) struct Lines<'a> {
    function: &'a str,
    /// RFC 3339.
    timestamp: String,
    timestamp_millis: i64,
    /// The lines, each with its end.
    pub(super) text: Vec<u8>,
}

/// Written twice: as its definition, and as a member of the line with its value.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metric {
    name: &'static str,
    unit: &'static str,
    #[serde(skip)]
    value: Number,
}

enum Number {
    Whole(u32),
    Real(f64),
}

/// A further dimension of the first metric, of few values: each value is a metric that is paid for, so only what a graph reads
/// has one.
type By = Option<(&'static str, &'static str)>;

impl<'a> Lines<'a> {
    pub(super) fn new(function: &'a str, now: Timestamp) -> Self {
        let timestamp = redeliver_core::metadata::rfc3339(now);
        Self { function, timestamp, timestamp_millis: now.timestamp_millis(), text: Vec::new() }
    }

    /// What an event is in logs and metrics: the one place for names.
    pub(super) fn push(&mut self, event: &Event) {
        match event {
            Event::Processed(event) => {
                let age = seconds("MessageAgeSeconds", event.age_seconds);
                let target = seconds("TargetSeconds", event.target_seconds);
                self.info("processed", event, None, &[count("Processed"), age, target]);
            }
            Event::HandedOff(event) => {
                let age = seconds("MessageAgeSeconds", event.age_seconds);
                self.info("handed_off", event, Some(("FailureKind", event.kind)), &[count("HandedOff"), age]);
            }
            Event::NotConfirmed(event) => self.warn("not_confirmed", event, None, &[count("NotConfirmed")]),
            Event::RetryScheduled(event) => {
                let by = Some(("RetryAttempt", attempt_range(event.retry_attempt)));
                let delay = Number::Whole(event.delay_seconds.get().into());
                let delay = Metric { value: delay, ..seconds("RetryDelaySeconds", 0.0) };
                let age = seconds("MessageAgeSeconds", event.age_seconds);
                self.info("retry_scheduled", event, by, &[count("RetriesScheduled"), delay, age]);
            }
            Event::Hopped(event) => self.info("hopped", event, None, &[several("Hops", event.messages)]),
            Event::Paced(event) => {
                let not_held = several("RedeliveryRateNotHeld", u32::from(!event.rate_is_held));
                self.info("paced", event, None, &[several("PacedRetries", event.paced), not_held]);
            }
            Event::NotCounted(event) => self.warn("not_counted", event, None, &[count("NotCounted")]),
            Event::RetriedImmediately(event) => {
                self.info("retried_immediately", event, None, &[count("ImmediateRetries")]);
            }
            Event::GivenUp(event) => self.warn("given_up", event, None, &[count("GivenUp")]),
            Event::DeadLettered(event) => {
                let age = seconds("MessageAgeSeconds", event.age_seconds);
                let by = Some(("ErrorType", event.error_type));
                self.warn("dead_lettered", event, by, &[count("DeadLettered"), age]);
            }
            Event::ArrivedByRedrive(event) => {
                self.warn("arrived_by_redrive", event, None, &[count("ArrivedByRedrive")]);
            }
            Event::ReceivedAgain(event) => {
                let receives = several("ReceiveCount", event.receive_count);
                let age = seconds("MessageAgeSeconds", event.age_seconds);
                self.warn("received_again", event, None, &[receives, age]);
            }
            Event::UnreadableRecord(event) => {
                self.warn("unreadable_record", event, None, &[count("UnreadableRecord")]);
            }
            Event::ReceiveFailed(event) => {
                self.warn("receive_failed", event, None, &[count("ReceiveFailed")])
            }
            Event::BatchBrokenOff(event) => {
                self.warn("batch_broken_off", event, None, &[count("BatchBrokenOff")]);
            }
            Event::NotDeleted(event) => self.warn("not_deleted", event, None, &[count("NotDeleted")]),
            Event::HeadersNotRefreshed(event) => {
                self.warn("headers_not_refreshed", event, None, &[count("HeadersNotRefreshed")]);
            }
        }
    }

    fn info(&mut self, name: &'static str, event: &impl Serialize, by: By, metrics: &[Metric]) {
        self.write("INFO", name, event, by, metrics);
    }

    fn warn(&mut self, name: &'static str, event: &impl Serialize, by: By, metrics: &[Metric]) {
        self.write("WARN", name, event, by, metrics);
    }

    /// The counter, which comes first, is also counted by `by`.
    fn write(
        &mut self,
        level: &'static str,
        name: &'static str,
        event: &impl Serialize,
        by: By,
        metrics: &[Metric],
    ) {
        let plain = ["Function"];
        let further = by.map(|(dimension, _)| ["Function", dimension]);
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
            metrics,
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
struct Line<'a, E> {
    timestamp: &'a str,
    level: &'static str,
    event: &'static str,
    #[serde(rename = "Function")]
    function: &'a str,
    #[serde(flatten)]
    fields: &'a E,
    #[serde(flatten, serialize_with = "value_of_dimension")]
    by: By,
    #[serde(flatten, serialize_with = "values_of_metrics")]
    metrics: &'a [Metric],
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
    metrics: &'a [Metric],
}

fn value_of_dimension<S: Serializer>(by: &By, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(*by)
}

fn values_of_metrics<S: Serializer>(metrics: &&[Metric], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|metric| (metric.name, &metric.value)))
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(number) => serializer.serialize_u32(*number),
            Self::Real(number) => serializer.serialize_f64(*number),
        }
    }
}

fn count(name: &'static str) -> Metric {
    several(name, 1)
}

fn several(name: &'static str, count: u32) -> Metric {
    Metric { name, unit: "Count", value: Number::Whole(count) }
}

fn seconds(name: &'static str, seconds: f64) -> Metric {
    Metric { name, unit: "Seconds", value: Number::Real(seconds) }
}

/// Every dimension's value is a metric that is paid for: single attempts up to 10, then decades of them.
fn attempt_range(attempt: u32) -> &'static str {
    const SINGLE: [&str; 11] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
    let single = usize::try_from(attempt).ok().and_then(|attempt| SINGLE.get(attempt));
    single.copied().unwrap_or(if attempt <= 100 { "11-100" } else { "101-1000" })
}
