use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::health::FunctionHealth;

const CANARY: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

fn processed_event(target_seconds: f64) -> Event {
    let message_id = CANARY.to_owned();
    Event::Processed { message_id, retry_attempt: 2, age_seconds: 61.5, target_seconds }
}

fn handed_off_event(kind: &'static str) -> Event {
    Event::HandedOff {
        message_id: CANARY.to_owned(),
        retry_attempt: 2,
        error_type: "FromTarget".to_owned(),
        kind,
        age_seconds: 61.5,
        request_id: None,
    }
}

/// Returns the metrics after these events from `orders-message-processor`, alongside a function without events.
fn metrics_text(events: &[Event]) -> String {
    #[derive(Default)]
    struct EventRecorder(Mutex<Vec<Event>>);
    impl Observer for EventRecorder {
        fn observe(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
    let functions = ["orders-message-processor", "final-dlq-annotator"].map(ToOwned::to_owned);
    let metrics = Arc::new(WorkerMetrics::new(functions.clone()));
    let metered = MeteredObserver::new(EventRecorder::default(), functions[0].clone(), Arc::clone(&metrics));
    let (first, others) = events.split_first().unwrap();
    metered.observe(first);
    metered.observe_all(others);
    assert_eq!(*metered.observer.0.lock().unwrap(), events, "all are forwarded");
    let report = FunctionHealth {
        function: functions[0].clone(),
        healthy: true,
        seconds_since_poll: 7,
        batches_in_flight: 2,
    };
    metrics.render_openmetrics(&HealthReport { healthy: true, functions: vec![report] })
}

fn series_value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

#[test]
fn events_are_counted_by_function_and_dimension() {
    let hopped = Event::Hopped { messages: 7 };
    let text = metrics_text(&[
        processed_event(0.2),
        processed_event(0.3),
        handed_off_event("permanent"),
        hopped.clone(),
        hopped,
    ]);
    let value_of = |name: &str, more: &str| {
        let series = format!("redeliver_{name}{{function=\"orders-message-processor\"{more}}}");
        series_value(&text, &series).unwrap_or_else(|| panic!("{series} in\n{text}")).to_owned()
    };
    assert_eq!(value_of("processed_total", ""), "2");
    assert_eq!(value_of("hops_total", ""), "14");
    assert_eq!(value_of("handed_off_total", r#",failure_kind="permanent""#), "1");
    assert_eq!(value_of("handed_off_total", r#",failure_kind="transient""#), "0");
    assert_eq!(value_of("dead_lettered_total", r#",error_type="MESSAGE_EXPIRED""#), "0");
    assert_eq!(value_of("retries_scheduled_total", r#",retry_attempt="11-100""#), "0");
    assert_eq!(value_of("target_seconds_sum", ""), "0.5");
    let bucket = r#"redeliver_target_seconds_bucket{le="0.25",function="orders-message-processor"}"#;
    assert_eq!(series_value(&text, bucket), Some("1"), "{text}");
    assert_eq!(value_of("message_age_seconds_count", ""), "3");
    assert_eq!(value_of("batches_in_flight", ""), "2");
    assert_eq!(value_of("seconds_since_poll", ""), "7.0");
    assert_eq!(
        series_value(&text, r#"redeliver_processed_total{function="final-dlq-annotator"}"#),
        Some("0")
    );
}

#[test]
fn receive_counts_are_not_added_up() {
    let event = |receive_count| {
        let sqs_message_id = CANARY.to_owned();
        Event::ReceivedAgain { sqs_message_id, receive_count, age_seconds: 900.0 }
    };
    let text = metrics_text(&[event(5), event(60)]);
    let value_of = |name| {
        series_value(&text, &format!("redeliver_receive_count_{name}"))
            .unwrap_or_else(|| panic!("{name} in\n{text}"))
    };
    assert_eq!(value_of(r#"count{function="orders-message-processor"}"#), "2");
    assert_eq!(value_of(r#"bucket{le="5.0",function="orders-message-processor"}"#), "1");
    assert_eq!(value_of(r#"bucket{le="100.0",function="orders-message-processor"}"#), "2");
}

#[test]
fn holds_over_an_hour_are_counted_separately_from_shorter_ones() {
    let held = |longest_hold_seconds| Event::Held { messages: 1, open_seconds: 1.0, longest_hold_seconds };
    let text = metrics_text(&[held(0), held(3600), held(3601)]);
    let value_of = |more: &str| {
        let series = format!("redeliver_longest_hold_seconds_{more}");
        series_value(&text, &series).unwrap_or_else(|| panic!("{series} in\n{text}")).to_owned()
    };
    let function = r#"function="orders-message-processor""#;
    assert_eq!(value_of(&format!(r#"bucket{{le="3600.0",{function}}}"#)), "2");
    assert_eq!(value_of(&format!("count{{{function}}}")), "3");
}

/// A label with a message's id would create one time series per message: Prometheus would run out of memory, and ids
/// are of no use there.
#[test]
fn messages_add_no_time_series_and_their_ids_never_appear() {
    let series = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("redeliver_"));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<BTreeSet<_>>()
    };
    let (one, many) =
        (metrics_text(&[processed_event(0.1)]), metrics_text(&vec![processed_event(0.1); 1000]));
    assert_eq!(series(&one), series(&many));
    assert!(!many.contains(CANARY), "{many}");
}

/// Counters exist before the first event: the first dead letter must be an increase, not a new series that starts at
/// one.
#[test]
fn every_counter_starts_at_zero_with_a_help_text() {
    let text = metrics_text(&[processed_event(0.1)]);
    for metric in Metric::ALL.iter().filter(|metric| metric.measure() == Measure::Count) {
        let name = format!("redeliver_{}", format!("{metric:?}").to_snake_case());
        for kind in ["HELP", "TYPE"] {
            assert!(text.contains(&format!("# {kind} {name} ")), "{kind} {name} in\n{text}");
        }
        let series = format!("\n{name}_total{{function=\"final-dlq-annotator\"");
        assert!(text.contains(&series), "{series} in\n{text}");
    }
}

#[test]
fn the_runbook_lists_every_metric_under_both_names() {
    let runbook = include_str!("../../../../docs/operate/metrics.md");
    for metric in Metric::ALL {
        let total = if metric.measure() == Measure::Count { "_total" } else { "" };
        let name = format!("{metric:?}");
        let row = format!("| `{name}` | `redeliver_{}{total}` |", name.to_snake_case());
        assert!(runbook.contains(&row), "docs/operate/metrics.md has no {row}");
    }
}
