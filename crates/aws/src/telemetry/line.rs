//! One event, one line: the log's fields and, under `_aws`, which of them are metrics ("Specification: Embedded metric
//! format", Amazon CloudWatch User Guide).

use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The namespace of all metrics.
const NAMESPACE: &str = "Redeliver";

/// A metric's name, its unit and its value.
type Metric = (&'static str, &'static str, Value);

/// What an event is in logs and metrics: the one place for names.
struct Shape {
    level: &'static str,
    name: &'static str,
    fields: Value,
    metrics: Vec<Metric>,
    /// A further dimension of few values.
    dimension: Option<(&'static str, Value)>,
}

pub(super) fn of(event: &Event, function: &str, now: Timestamp) -> String {
    let Shape { level, name, fields, metrics, dimension } = shape(event);
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), redeliver_core::metadata::rfc3339(now).into());
    line.insert("level".to_owned(), level.into());
    line.insert("event".to_owned(), name.into());
    line.insert("Function".to_owned(), function.into());
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    let mut dimensions = vec![vec!["Function"]];
    if let Some((name, value)) = dimension {
        dimensions.push(vec!["Function", name]);
        line.insert(name.to_owned(), value);
    }
    let definitions: Vec<_> =
        metrics.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
    line.extend(metrics.into_iter().map(|(name, _, value)| (name.to_owned(), value)));
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.timestamp_millis(),
            "CloudWatchMetrics": [{ "Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": definitions }],
        }),
    );
    Value::Object(line).to_string()
}

fn shape(event: &Event) -> Shape {
    match event {
        Event::Processed(event) => Shape {
            metrics: vec![
                count("Processed"),
                seconds("MessageAgeSeconds", event.age_seconds),
                seconds("TargetSeconds", event.target_seconds),
            ],
            ..info("processed", event)
        },
        Event::HandedOff(event) => Shape {
            metrics: vec![count("HandedOff"), seconds("MessageAgeSeconds", event.age_seconds)],
            dimension: Some(("FailureKind", event.kind.into())),
            ..info("handed_off", event)
        },
        Event::NotConfirmed(event) => {
            Shape { metrics: vec![count("NotConfirmed")], ..warn("not_confirmed", event) }
        }
        Event::RetryScheduled(event) => Shape {
            metrics: vec![
                count("RetriesScheduled"),
                ("RetryDelaySeconds", "Seconds", event.delay_seconds.get().into()),
                seconds("MessageAgeSeconds", event.age_seconds),
            ],
            dimension: Some(("RetryAttempt", attempt_range(event.retry_attempt).into())),
            ..info("retry_scheduled", event)
        },
        Event::Hopped(event) => {
            Shape { metrics: vec![("Hops", "Count", event.messages.into())], ..info("hopped", event) }
        }
        Event::Paced(event) => Shape {
            metrics: vec![
                ("PacedRetries", "Count", event.paced.into()),
                ("RedeliveryRateNotHeld", "Count", u64::from(!event.rate_is_held).into()),
            ],
            ..info("paced", event)
        },
        Event::NotCounted(event) => {
            Shape { metrics: vec![count("NotCounted")], ..warn("not_counted", event) }
        }
        Event::RetriedImmediately(event) => {
            Shape { metrics: vec![count("ImmediateRetries")], ..info("retried_immediately", event) }
        }
        Event::GivenUp(event) => Shape {
            metrics: vec![count("GivenUp")],
            dimension: Some(("ErrorType", event.error_type.into())),
            ..warn("given_up", event)
        },
        Event::DeadLettered(event) => Shape {
            metrics: vec![count("DeadLettered"), seconds("MessageAgeSeconds", event.age_seconds)],
            dimension: Some(("ErrorType", event.error_type.into())),
            ..warn("dead_lettered", event)
        },
        Event::ArrivedByRedrive(event) => {
            Shape { metrics: vec![count("ArrivedByRedrive")], ..warn("arrived_by_redrive", event) }
        }
        Event::ReceivedAgain(event) => Shape {
            metrics: vec![
                ("ReceiveCount", "Count", event.receive_count.into()),
                seconds("MessageAgeSeconds", event.age_seconds),
            ],
            ..warn("received_again", event)
        },
        Event::UnreadableRecord(event) => {
            Shape { metrics: vec![count("UnreadableRecord")], ..warn("unreadable_record", event) }
        }
        Event::ReceiveFailed(event) => {
            Shape { metrics: vec![count("ReceiveFailed")], ..warn("receive_failed", event) }
        }
        Event::BatchBrokenOff(event) => {
            Shape { metrics: vec![count("BatchBrokenOff")], ..warn("batch_broken_off", event) }
        }
        Event::NotDeleted(event) => {
            Shape { metrics: vec![count("NotDeleted")], ..warn("not_deleted", event) }
        }
    }
}

fn info(name: &'static str, event: &impl Serialize) -> Shape {
    let fields = serde_json::to_value(event).expect("an event has only text and finite numbers");
    Shape { level: "INFO", name, fields, metrics: Vec::new(), dimension: None }
}

fn warn(name: &'static str, event: &impl Serialize) -> Shape {
    Shape { level: "WARN", ..info(name, event) }
}

fn count(name: &'static str) -> Metric {
    (name, "Count", 1.into())
}

fn seconds(name: &'static str, seconds: f64) -> Metric {
    (name, "Seconds", seconds.into())
}

/// Every dimension's value is a metric that is paid for: single attempts up to 10, then decades of them.
fn attempt_range(attempt: u32) -> String {
    match attempt {
        0..=10 => attempt.to_string(),
        11..=100 => "11-100".to_owned(),
        _ => "101-1000".to_owned(),
    }
}
