//! The batch line: CloudWatch extracts exactly the events' values from it.

use std::collections::BTreeMap;

use redeliver_core::events::round_to_milliseconds;
use redeliver_core::ports::FlushOnDrop;

use super::*;
use crate::telemetry::metrics::{Measure, Measurement, Metric, MetricValue};

/// Values by metric and dimensions, as CloudWatch extracts them: counts summed, measurements sorted.
type ExtractedValues = BTreeMap<(String, Vec<String>), Vec<f64>>;

fn add_values(extracted: &mut ExtractedValues, metric: Metric, dimensions: Vec<String>, values: &[f64]) {
    let known = extracted.entry((format!("{metric:?}"), dimensions)).or_default();
    known.extend(values);
    if metric.measure() == Measure::Count {
        *known = vec![known.iter().sum()];
    }
    known.sort_by(f64::total_cmp);
}

fn extract_values(text: &str) -> ExtractedValues {
    let mut all = ExtractedValues::new();
    for line in parse_lines(text) {
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
            for (set, metric) in directive["Dimensions"].as_array().unwrap().iter().flat_map(|set| {
                directive["Metrics"].as_array().unwrap().iter().map(move |metric| (set, metric))
            }) {
                let name = metric["Name"].as_str().unwrap();
                let metric = Metric::ALL.iter().find(|metric| format!("{metric:?}") == name).unwrap();
                let value = |name: &Value| line[name.as_str().unwrap()].as_str().unwrap().to_owned();
                let dimensions = set.as_array().unwrap().iter().map(value).collect();
                let values = match &line[name] {
                    Value::Array(values) => values.iter().map(|value| value.as_f64().unwrap()).collect(),
                    value => vec![value.as_f64().unwrap()],
                };
                add_values(&mut all, *metric, dimensions, &values);
            }
        }
    }
    all
}

fn expected_values(events: &[Event]) -> ExtractedValues {
    let mut all = ExtractedValues::new();
    for event in events {
        let EventReport { by, metrics, .. } = EventReport::from_event(event);
        for (place, Measurement { metric, value }) in metrics.into_iter().enumerate() {
            let value = match value {
                MetricValue::Whole(value) => value.into(),
                MetricValue::Real(value) => round_to_milliseconds(value),
            };
            let function = || "message-processor".to_owned();
            add_values(&mut all, metric, vec![function()], &[value]);
            if let Some(by) = by.filter(|_| place == 0) {
                add_values(&mut all, metric, vec![function(), by.to_owned()], &[value]);
            }
        }
    }
    all
}

/// Returns all combinations of log detail and log level.
fn settings() -> impl Iterator<Item = Logging> {
    let details = [LogDetail::Batches, LogDetail::Messages];
    let levels = [LogLevel::Info, LogLevel::Warn];
    details.into_iter().flat_map(move |detail| levels.map(|level| Logging { tracing: None, detail, level }))
}

#[test]
fn a_batch_is_one_line() {
    let failed = |error_type: u16| handed_off_event(&ErrorType::HttpStatus(error_type));
    let events = [processed_event(), processed_event(), failed(503), processed_event(), failed(503)];
    let fields = json!({
        "Processed": 3, "HandedOff": 2, "FailureKind": "transient",
        "error_type": "HttpStatus.503", "failures": 2,
        "MessageAgeSeconds": [61.5, 61.5, 61.5, 61.5, 61.5], "TargetSeconds": [0.25, 0.25, 0.25],
    });
    let plain = json!([
        count_metric("Processed"),
        seconds_metric("MessageAgeSeconds"),
        seconds_metric("TargetSeconds")
    ]);
    let by_kind = json!([["Function"], ["Function", "FailureKind"]]);
    let directives = json!([
        directive(&json!([["Function"]]), &plain),
        directive(&by_kind, &json!([count_metric("HandedOff")])),
    ]);
    assert_eq!(
        parse_lines(&log_lines(&events)),
        [expected_line_with_directives("INFO", "batch", fields, &directives)]
    );
}

#[test]
fn excess_values_errors_and_measurements_go_on_further_lines() {
    let failed = |error_type: u16| handed_off_event(&ErrorType::HttpStatus(error_type));
    let scheduled = [1, 1, 2, 3].map(retry_scheduled_event);
    let events: Vec<_> = [failed(503), failed(429)].into_iter().chain(scheduled).collect();
    let lines = parse_lines(&log_lines(&events));
    let shown = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(shown("RetryAttempt"), [json!("1"), json!("2"), json!("3")]);
    assert_eq!(shown("RetriesScheduled"), [json!(2), json!(1), json!(1)]);
    assert_eq!(shown("error_type"), [json!("HttpStatus.503"), json!("HttpStatus.429"), Value::Null]);
    assert_eq!(shown("HandedOff"), [json!(2), Value::Null, Value::Null]);

    let lines = parse_lines(&log_lines(&vec![processed_event(); 201]));
    let values = lines.iter().map(|line| line["TargetSeconds"].as_array().map(Vec::len));
    assert_eq!(values.collect::<Vec<_>>(), [Some(100), Some(100), None], "a single value is a number");
    assert_eq!(lines[2]["TargetSeconds"], json!(0.25));
    assert_eq!(lines[0]["Processed"], json!(201));
}

#[test]
fn the_error_of_a_directly_resent_message_is_counted() {
    let events = ["Timeout", "FromTarget", "Timeout"].map(sent_again_event);
    let lines = parse_lines(&log_lines(&events));
    let errors = lines.iter().map(|line| (line["error_type"].clone(), line["failures"].clone()));
    assert_eq!(errors.collect::<Vec<_>>(), [(json!("Timeout"), json!(2)), (json!("FromTarget"), json!(1))]);
}

/// No metric is lost or counted twice, regardless of which events have separate lines.
#[test]
fn log_settings_do_not_change_the_metrics() {
    let all = all_events();
    let attempts: Vec<_> = (0..30).map(retry_scheduled_event).collect();
    let many: Vec<_> = all.iter().cycle().take(7 * all.len()).cloned().collect();
    let full = vec![processed_event(); 201];
    let batches = all.iter().map(std::slice::from_ref).chain([&all[..], &attempts, &many, &full]);
    for events in batches {
        for logging in settings() {
            assert_eq!(
                extract_values(&log_lines_with_settings(logging, events)),
                expected_values(events),
                "{logging:?} {events:?}"
            );
        }
    }
}

#[test]
fn counts_before_a_panic_are_logged() {
    let lines = JsonLinesObserver::new("message-processor", Logging::default(), FixedClock, Vec::new());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _flush = FlushOnDrop(&lines);
        lines.observe(&processed_event());
        panic!("planned");
    }));
    assert!(panicked.is_err());
    let text = String::from_utf8(lines.writer.into_inner().unwrap()).unwrap();
    assert_eq!(extract_values(&text), expected_values(&[processed_event()]));
}

#[test]
fn batch_totals_are_logged_once() {
    let lines = JsonLinesObserver::new("message-processor", Logging::default(), FixedClock, Vec::new());
    lines.observe(&processed_event());
    lines.flush();
    lines.flush();
    lines.observe(&processed_event());
    lines.flush();
    let text = String::from_utf8(lines.writer.into_inner().unwrap()).unwrap();
    let counts: Vec<_> = parse_lines(&text).into_iter().map(|line| line["Processed"].clone()).collect();
    assert_eq!(counts, [json!(1), json!(1)]);
}

#[test]
fn log_settings_determine_which_events_have_their_own_line() {
    let own = |logging: Logging| -> Vec<String> {
        let lines = parse_lines(&log_lines_with_settings(logging, &all_events()));
        let names = lines.into_iter().map(|line| line["event"].as_str().unwrap().to_owned());
        names.filter(|name| name != "batch").collect()
    };
    let warnings: Vec<_> = all_events()
        .iter()
        .map(EventReport::from_event)
        .filter(|observed| observed.level == "WARN")
        .map(|observed| observed.event.to_owned())
        .collect();
    let everything: Vec<_> =
        all_events().iter().map(|event| EventReport::from_event(event).event.to_owned()).collect();
    for logging in settings() {
        let found = own(logging);
        match logging {
            Logging { level: LogLevel::Warn, .. } => assert_eq!(found, warnings),
            Logging { detail: LogDetail::Messages, .. } => assert_eq!(found, everything),
            Logging { detail: LogDetail::Batches, .. } => {
                let rare = ["probe_failed", "circuit_closed", "notice_published"];
                let is_own = |name: &&String| warnings.contains(name) || rare.contains(&name.as_str());
                assert_eq!(found, everything.iter().filter(is_own).cloned().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn batch_lines_contain_the_trace_id_of_their_batch() {
    let tracing = Some(TracingSettings { continues: true });
    let lines = JsonLinesObserver::new(
        "message-processor",
        Logging { tracing, ..Logging::default() },
        FixedClock,
        Vec::new(),
    );
    let tracer = lines.tracer().unwrap();
    let batch = tracer.begin_trace(FixedClock.now(), true);
    tracer.record_batch_start(batch);
    for _ in 0..150 {
        lines.observe(&retry_scheduled_event(3));
    }
    tracer.record_batch_end(batch);
    lines.flush();
    lines.observe(&retry_scheduled_event(3));
    lines.flush();
    let written = String::from_utf8(lines.writer.into_inner().unwrap()).unwrap();
    let traces: Vec<_> = parse_lines(&written).iter().map(|line| line["trace_id"].clone()).collect();
    let trace_id = Value::from(batch.trace_id());
    assert_eq!(traces, [trace_id.clone(), trace_id, Value::Null]);
}

/// Two environments can be restored from the same snapshot.
#[test]
fn observers_create_unique_ids_and_continue_traces_only_if_enabled() {
    let attempt = |continues| {
        let logging = Logging { tracing: Some(TracingSettings { continues }), ..Logging::default() };
        let lines = JsonLinesObserver::new("message-processor", logging, FixedClock, Vec::new());
        let last = lines.tracer().unwrap().begin_trace(FixedClock.now(), true);
        (last, lines.tracer().unwrap().begin_attempt(None, Some(last), FixedClock.now()).parent)
    };
    let [(first, parent), (second, none)] = [true, false].map(attempt);
    assert_ne!(first, second);
    assert_eq!((parent, none), (Some(first), None));
}

/// The ids identify the calls' own log lines. A line lists at most ten, the maximum size of an SQS batch, without
/// duplicates.
#[test]
fn a_batch_line_lists_the_request_ids_of_its_failures_by_error_type() {
    let failed = |name: &'static str, id: Option<&str>| {
        let mut event = handed_off_event(&ErrorType::Named(name));
        let Event::HandedOff { request_id, .. } = &mut event else { unreachable!("what it is") };
        *request_id = id.map(str::to_owned);
        event
    };
    let mut again = sent_again_event("B");
    let Event::RetryScheduled { request_id, .. } = &mut again else { unreachable!("what it is") };
    *request_id = Some("b-2".to_owned());
    let ids = |events: &[Event]| -> Vec<Value> {
        parse_lines(&log_lines(events)).iter().map(|line| line["request_ids"].clone()).collect()
    };
    let events = [
        failed("A", Some("a-1")),
        failed("B", Some("b-1")),
        failed("A", Some("a-1")),
        again,
        failed("A", Some("a-2")),
    ];
    assert_eq!(ids(&events), [json!(["a-1", "a-2"]), json!(["b-1", "b-2"])]);
    assert_eq!(ids(&[failed("A", None)]), [Value::Null]);
    let many: Vec<_> = (0..12).map(|n| failed("A", Some(&format!("a-{n}")))).collect();
    assert_eq!(ids(&many)[0].as_array().unwrap().len(), 10);
}
