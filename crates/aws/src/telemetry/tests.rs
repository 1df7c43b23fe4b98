mod batch;
mod metrics;
mod queries;

use redeliver_core::handler::ErrorType;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use serde_json::{Value, json};

use super::*;

/// A clock that is stopped at 2025-06-15T15:06:40.123456Z.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_timestamp_micros(1_750_000_000_123_456).unwrap()
    }

    async fn sleep(&self, _: std::time::Duration) {}
}

/// Returns the lines of a batch with these events.
fn log_lines_with_settings(logging: Logging, events: &[Event]) -> String {
    let lines = JsonLinesObserver::new("message-processor", logging, FixedClock, Vec::new());
    for event in events {
        lines.observe(event);
    }
    lines.flush();
    String::from_utf8(lines.writer.into_inner().unwrap()).unwrap()
}

fn log_lines(events: &[Event]) -> String {
    log_lines_with_settings(Logging::default(), events)
}

fn parse_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the line for one event with `LOG_DETAIL=messages`; it contains no metrics.
fn own_line(event: Event) -> Value {
    let logging = Logging { detail: LogDetail::Messages, ..Logging::default() };
    let mut lines = parse_lines(&log_lines_with_settings(logging, &[event]));
    assert_eq!(lines.len(), 2, "the event's own line and the batch line");
    lines.swap_remove(0)
}

/// Returns the line for one event.
fn only_line(event: Event) -> Value {
    let line = log_lines(&[event]);
    assert_eq!(line.find('\n'), Some(line.len() - 1), "a single, terminated line: {line}");
    serde_json::from_str(&line).unwrap()
}

/// Returns a line with the common members and these fields.
fn expected_line(level: &str, event: &str, fields: Value, metrics: &Value) -> Value {
    let directives = json!([directive(&json!([["Function"]]), metrics)]);
    expected_line_with_directives(level, event, fields, &directives)
}

/// Returns the line for a message whose metrics are in the batch line.
fn line_without_metrics(event: &str, fields: Value) -> Value {
    let mut line = expected_line("INFO", event, fields, &json!([]));
    line.as_object_mut().unwrap().remove("_aws");
    line
}

/// Returns a line whose metrics have several sets of dimensions.
fn expected_line_with_directives(level: &str, event: &str, fields: Value, directives: &Value) -> Value {
    let mut line = fields;
    line["timestamp"] = json!("2025-06-15T15:06:40.123456Z");
    line["level"] = json!(level);
    line["event"] = json!(event);
    line["Function"] = json!("message-processor");
    line["_aws"] = json!({ "Timestamp": 1_750_000_000_123_u64, "CloudWatchMetrics": directives });
    line
}

fn directive(dimensions: &Value, metrics: &Value) -> Value {
    json!({ "Namespace": "Redeliver", "Dimensions": dimensions, "Metrics": metrics })
}

/// Declares the counter with an additional dimension and the rest with only the function as their dimension.
fn counter_directives(dimension: &str, counter: &str, rest: &Value) -> Value {
    let dimensions = json!([["Function"], ["Function", dimension]]);
    json!([directive(&dimensions, &json!([count_metric(counter)])), directive(&json!([["Function"]]), rest)])
}

fn count_metric(name: &str) -> Value {
    json!({ "Name": name, "Unit": "Count" })
}

fn seconds_metric(name: &str) -> Value {
    json!({ "Name": name, "Unit": "Seconds" })
}

fn message_id() -> String {
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8".to_owned()
}

fn processed_event() -> Event {
    let message_id = message_id();
    Event::Processed { message_id, retry_attempt: 2, age_seconds: 61.5, target_seconds: 0.25 }
}

fn handed_off_event(error_type: &ErrorType) -> Event {
    Event::HandedOff {
        message_id: message_id(),
        retry_attempt: 2,
        error_type: error_type.loggable_name().into_owned(),
        kind: "transient",
        age_seconds: 61.500_4,
        request_id: None,
    }
}

fn not_confirmed_event() -> Event {
    let code = "EntryNotAnswered".to_owned();
    Event::NotConfirmed { sqs_message_id: "sqs".to_owned(), send: "hand-off", code }
}

fn retry_scheduled_event(retry_attempt: u32) -> Event {
    Event::RetryScheduled {
        message_id: message_id(),
        retry_attempt,
        spends_attempt: true,
        delay_seconds: RetryDelay::SHORT_MAX,
        age_seconds: 61.500_4,
        error_type: None,
        request_id: None,
    }
}

/// Returns an event for a message that is re-sent without a hand-off.
fn sent_again_event(error: &str) -> Event {
    let mut event = retry_scheduled_event(3);
    let Event::RetryScheduled { error_type, .. } = &mut event else { unreachable!("what it is") };
    *error_type = Some(error.to_owned());
    event
}

fn retried_immediately_event() -> Event {
    let (message_id, error_type) = (message_id(), "Http.Timeout".to_owned());
    Event::RetriedImmediately { message_id, retry_attempt: 2, error_type }
}

fn given_up_event(message_id: Option<String>) -> Event {
    let error_type = "INVALID_MESSAGE_FORMAT";
    Event::GivenUp { message_id, sqs_message_id: "sqs".to_owned(), error_type, request_id: None }
}

fn blocked_event() -> Event {
    let error_type = "MESSAGE_EXPIRED";
    Event::Blocked {
        message_id: Some(message_id()),
        sqs_message_id: "sqs".to_owned(),
        error_type,
        request_id: None,
    }
}

fn dead_lettered_event() -> Event {
    Event::DeadLettered {
        trace_id: None,
        message_id: Some(message_id()),
        sqs_message_id: "sqs".to_owned(),
        error_type: "RETRY_ATTEMPT_EXCEEDED",
        retry_attempt: 5,
        age_seconds: 3_600.000_4,
        logs: LogLocation::default(),
    }
}

fn arrived_by_redrive_event() -> Event {
    Event::ArrivedByRedrive { sqs_message_id: "sqs".to_owned(), receive_count: 2 }
}

fn received_again_event() -> Event {
    let sqs_message_id = "sqs".to_owned();
    Event::ReceivedAgain { sqs_message_id, receive_count: 5, age_seconds: 900.000_4 }
}

fn unreadable_record_event() -> Event {
    Event::UnreadableRecord { sqs_message_id: "sqs".to_owned() }
}

fn poller_events() -> [Event; 3] {
    let (code, sqs_message_id) = ("RequestThrottled".to_owned(), "sqs".to_owned());
    [
        Event::ReceiveFailed { code, pause_seconds: 1.500_4 },
        Event::BatchBrokenOff { records: 10, reason: "panic" },
        Event::NotDeleted { sqs_message_id },
    ]
}

fn retry_after_unreadable_event() -> Event {
    Event::RetryAfterUnreadable { message_id: message_id(), error_type: "HttpStatus.503".to_owned() }
}

fn headers_not_refreshed_event() -> Event {
    Event::HeadersNotRefreshed { code: "AccessDeniedException".to_owned() }
}

fn hopped_event() -> Event {
    Event::Hopped { messages: 7 }
}

#[test]
fn a_processed_message_has_a_line() {
    let fields = json!({
        "message_id": message_id(), "retry_attempt": 2, "age_seconds": 61.5, "target_seconds": 0.25,
    });
    assert_eq!(own_line(processed_event()), line_without_metrics("processed", fields));
}

#[test]
fn seconds_are_rounded_to_milliseconds() {
    let (message_id, age_seconds, target_seconds) = (message_id(), 3.272_000_000_000_000_2, 0.027_958_248);
    let event = Event::Processed { message_id, retry_attempt: 2, age_seconds, target_seconds };
    let own = own_line(event.clone());
    assert_eq!((&own["age_seconds"], &own["target_seconds"]), (&json!(3.272), &json!(0.028)));
    let line = only_line(event);
    assert_eq!((&line["MessageAgeSeconds"], &line["TargetSeconds"]), (&json!(3.272), &json!(0.028)));
}

#[test]
fn a_hand_off_has_a_line() {
    let fields = json!({
        "message_id": message_id(), "retry_attempt": 2, "error_type": "HttpStatus.503", "kind": "transient",
        "age_seconds": 61.5,
    });
    assert_eq!(
        own_line(handed_off_event(&ErrorType::HttpStatus(503))),
        line_without_metrics("handed_off", fields)
    );
}

#[test]
fn an_unconfirmed_send_has_a_line() {
    let fields = json!({
        "sqs_message_id": "sqs", "send": "hand-off", "code": "EntryNotAnswered", "NotConfirmed": 1,
    });
    let metrics = json!([count_metric("NotConfirmed")]);
    assert_eq!(only_line(not_confirmed_event()), expected_line("WARN", "not_confirmed", fields, &metrics));
}

#[test]
fn a_scheduled_retry_has_a_line() {
    let mut fields = json!({
        "message_id": message_id(), "retry_attempt": 3, "spends_attempt": true, "delay_seconds": 900,
        "age_seconds": 61.5,
    });
    assert_eq!(own_line(retry_scheduled_event(3)), line_without_metrics("retry_scheduled", fields.clone()));
    // For a direct re-send, the event also contains the error.
    fields["error_type"] = json!("Timeout");
    assert_eq!(own_line(sent_again_event("Timeout")), line_without_metrics("retry_scheduled", fields));
}

#[test]
fn an_immediate_retry_has_a_line() {
    let fields = json!({ "message_id": message_id(), "retry_attempt": 2, "error_type": "Http.Timeout" });
    assert_eq!(own_line(retried_immediately_event()), line_without_metrics("retried_immediately", fields));
}

#[test]
fn a_thousand_attempts_map_to_few_dimension_values() {
    let range = |attempt| only_line(retry_scheduled_event(attempt))["RetryAttempt"].clone();
    let ranges =
        [(0, "0"), (10, "10"), (11, "11-100"), (100, "11-100"), (101, "101-1000"), (1000, "101-1000")];
    for (attempt, expected) in ranges {
        assert_eq!(range(attempt), expected, "{attempt}");
    }
}

#[test]
fn a_message_given_up_on_has_a_line() {
    let fields = |message_id: Option<String>| {
        let mut fields = json!({
            "sqs_message_id": "sqs", "error_type": "INVALID_MESSAGE_FORMAT",
            "GivenUp": 1,
        });
        if let Some(message_id) = message_id {
            fields["message_id"] = json!(message_id);
        }
        fields
    };
    for id in [None, Some(message_id())] {
        let metrics = json!([count_metric("GivenUp")]);
        assert_eq!(
            only_line(given_up_event(id.clone())),
            expected_line("WARN", "given_up", fields(id), &metrics)
        );
    }
}

#[test]
fn a_blocked_group_has_a_line() {
    let fields = json!({
        "message_id": message_id(), "sqs_message_id": "sqs", "error_type": "MESSAGE_EXPIRED", "Blocked": 1,
    });
    assert_eq!(
        only_line(blocked_event()),
        expected_line("WARN", "blocked", fields, &json!([count_metric("Blocked")]))
    );
}

#[test]
fn a_dead_letter_has_a_line() {
    let fields = json!({
        "message_id": message_id(), "sqs_message_id": "sqs", "error_type": "RETRY_ATTEMPT_EXCEEDED",
        "retry_attempt": 5, "age_seconds": 3600.0, "ErrorType": "RETRY_ATTEMPT_EXCEEDED", "DeadLettered": 1,
        "MessageAgeSeconds": 3600.0,
    });
    let metrics =
        counter_directives("ErrorType", "DeadLettered", &json!([seconds_metric("MessageAgeSeconds")]));
    assert_eq!(
        only_line(dead_lettered_event()),
        expected_line_with_directives("WARN", "dead_lettered", fields, &metrics)
    );
}

#[test]
fn redriven_and_unreadable_records_have_lines() {
    let fields = json!({ "sqs_message_id": "sqs", "receive_count": 2, "ArrivedByRedrive": 1 });
    let metrics = json!([count_metric("ArrivedByRedrive")]);
    assert_eq!(
        only_line(arrived_by_redrive_event()),
        expected_line("WARN", "arrived_by_redrive", fields, &metrics)
    );
    let fields = json!({ "sqs_message_id": "sqs", "UnreadableRecord": 1 });
    let metrics = json!([count_metric("UnreadableRecord")]);
    assert_eq!(
        only_line(unreadable_record_event()),
        expected_line("WARN", "unreadable_record", fields, &metrics)
    );
}

#[test]
fn poller_failures_have_lines() {
    let expected = [
        (
            "receive_failed",
            json!({ "code": "RequestThrottled", "pause_seconds": 1.5, "ReceiveFailed": 1 }),
            "ReceiveFailed",
        ),
        (
            "batch_broken_off",
            json!({ "records": 10, "reason": "panic", "BatchBrokenOff": 1 }),
            "BatchBrokenOff",
        ),
        ("not_deleted", json!({ "sqs_message_id": "sqs", "NotDeleted": 1 }), "NotDeleted"),
    ]
    .map(|(name, fields, metric)| expected_line("WARN", name, fields, &json!([count_metric(metric)])));
    assert_eq!(poller_events().map(only_line), expected);
}

#[test]
fn hopped_messages_have_a_line_without_metrics() {
    assert_eq!(own_line(hopped_event()), line_without_metrics("hopped", json!({ "messages": 7 })));
}

#[test]
fn outage_events_have_lines() {
    let expected = [
        expected_line(
            "WARN",
            "circuit_opened",
            json!({
                "outages": 10, "error_type": "HttpStatus.503", "probe_in_seconds": 14.5, "CircuitOpen": 1,
            }),
            &json!([count_metric("CircuitOpen")]),
        ),
        line_without_metrics(
            "held",
            json!({ "messages": 9, "open_seconds": 45.5, "longest_hold_seconds": 4320 }),
        ),
        line_without_metrics(
            "not_now",
            json!({ "messages": 2, "error_type": "HttpStatus.503", "longest_hold_seconds": 60 }),
        ),
        expected_line(
            "INFO",
            "probe_failed",
            json!({ "error_type": "Timeout", "probe_in_seconds": 29.5, "Probes": 1, "CircuitOpen": 1 }),
            &json!([count_metric("Probes"), count_metric("CircuitOpen")]),
        ),
        expected_line(
            "INFO",
            "circuit_closed",
            json!({ "open_seconds": 90.5, "probes": 4, "Probes": 1 }),
            &json!([count_metric("Probes")]),
        ),
    ];
    let [opened, held, not_now, failed, closed] = outage_events();
    let written =
        [only_line(opened), own_line(held), own_line(not_now), only_line(failed), only_line(closed)];
    assert_eq!(written, expected);
}

#[test]
fn the_longest_message_hold_is_a_metric() {
    let [_, held, ..] = outage_events();
    let limited = Event::RateLimited { messages: 9, limited_seconds: 45.0, longest_hold_seconds: 4320 };
    for event in [held, limited] {
        let line = only_line(event);
        assert_eq!((&line["Held"], &line["LongestHoldSeconds"]), (&json!(9), &json!(4320)));
    }
}

#[test]
fn a_repeatedly_received_message_has_a_line() {
    let fields = json!({
        "sqs_message_id": "sqs",
        "receive_count": 5,
        "age_seconds": 900.0,
        "ReceiveCount": 5,
        "MessageAgeSeconds": 900.0,
    });
    let metrics = json!([count_metric("ReceiveCount"), seconds_metric("MessageAgeSeconds")]);
    assert_eq!(only_line(received_again_event()), expected_line("WARN", "received_again", fields, &metrics));
}

#[test]
fn a_failed_secret_refresh_has_a_line() {
    let fields = json!({ "code": "AccessDeniedException", "HeadersNotRefreshed": 1 });
    let metrics = json!([count_metric("HeadersNotRefreshed")]);
    assert_eq!(
        only_line(headers_not_refreshed_event()),
        expected_line("WARN", "headers_not_refreshed", fields, &metrics)
    );
}

#[test]
fn an_unreadable_retry_after_is_counted_in_the_batch_line() {
    let lines = parse_lines(&log_lines(&[retry_after_unreadable_event(), retry_after_unreadable_event()]));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["RetryAfterUnreadable"], 2);
}

fn answer_taken_as_success_event() -> Event {
    Event::AnswerTakenAsSuccess { shape: "BatchItemFailures" }
}

#[test]
fn a_response_taken_as_success_has_a_line() {
    let fields = json!({ "shape": "BatchItemFailures", "AnswerTakenAsSuccess": 1 });
    let metrics = json!([count_metric("AnswerTakenAsSuccess")]);
    let expected = expected_line("WARN", "answer_taken_as_success", fields, &metrics);
    assert_eq!(only_line(answer_taken_as_success_event()), expected);
}

/// Returns one event of each kind.
fn all_events() -> Vec<Event> {
    [
        processed_event(),
        handed_off_event(&"Http.Timeout".into()),
        not_confirmed_event(),
        retry_scheduled_event(11),
        retried_immediately_event(),
        given_up_event(None),
        blocked_event(),
        dead_lettered_event(),
        arrived_by_redrive_event(),
        received_again_event(),
        unreadable_record_event(),
        headers_not_refreshed_event(),
        retry_after_unreadable_event(),
        answer_taken_as_success_event(),
        hopped_event(),
    ]
    .into_iter()
    .chain(poller_events())
    .chain(outage_events())
    .chain(archive_events())
    .collect()
}

fn archive_events() -> [Event; 3] {
    let (code, fingerprint) = ("AccessDenied".to_owned(), "0a1b".to_owned());
    [
        Event::ArchiveRefused { sqs_message_id: "sqs".to_owned(), code: code.clone() },
        Event::NoticePublished { fingerprint: fingerprint.clone() },
        Event::NoticeRefused { fingerprint, code },
    ]
}

#[test]
fn archive_and_notice_events_have_lines() {
    let expected = [
        expected_line(
            "WARN",
            "archive_refused",
            json!({ "sqs_message_id": "sqs", "code": "AccessDenied", "ArchiveRefused": 1 }),
            &json!([count_metric("ArchiveRefused")]),
        ),
        expected_line(
            "INFO",
            "notice_published",
            json!({ "fingerprint": "0a1b", "Notices": 1 }),
            &json!([count_metric("Notices")]),
        ),
        expected_line(
            "WARN",
            "notice_refused",
            json!({ "fingerprint": "0a1b", "code": "AccessDenied", "NoticeRefused": 1 }),
            &json!([count_metric("NoticeRefused")]),
        ),
    ];
    assert_eq!(archive_events().map(only_line), expected);
}

fn outage_events() -> [Event; 5] {
    let (error_type, probe_in_seconds) = ("HttpStatus.503".to_owned(), 14.500_4);
    [
        Event::CircuitOpened { outages: 10, error_type, probe_in_seconds },
        Event::Held { messages: 9, open_seconds: 45.500_4, longest_hold_seconds: 4320 },
        Event::NotNow { messages: 2, error_type: "HttpStatus.503".to_owned(), longest_hold_seconds: 60 },
        Event::ProbeFailed { error_type: "Timeout".to_owned(), probe_in_seconds: 29.500_4 },
        Event::CircuitClosed { open_seconds: 90.500_4, probes: 4 },
    ]
}

/// "Specification: Embedded metric format", Amazon CloudWatch User Guide.
#[test]
fn every_line_is_valid_embedded_metric_format() {
    let all = all_events();
    let many: Vec<_> = all.iter().cycle().take(101 * all.len()).cloned().collect();
    for line in all.into_iter().map(only_line).chain(parse_lines(&log_lines(&many))) {
        assert!(line["_aws"]["Timestamp"].is_u64(), "{line}");
        let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap();
        for directive in directives {
            assert!(directive["Namespace"].is_string(), "{line}");
            let metrics = directive["Metrics"].as_array().unwrap();
            assert!(!metrics.is_empty() && metrics.len() <= 100, "{line}");
            for metric in metrics {
                let value = &line[metric["Name"].as_str().unwrap()];
                let values = value.as_array().map_or(1, Vec::len);
                assert!(value.is_number() || (2..=100).contains(&values), "{metric} in {line}");
            }
            for name in
                directive["Dimensions"].as_array().unwrap().iter().flat_map(|set| set.as_array().unwrap())
            {
                assert!(line[name.as_str().unwrap()].is_string(), "{name} in {line}");
            }
        }
    }
}

#[test]
fn several_events_are_written_in_a_single_write() {
    struct Writes(Vec<Vec<u8>>);
    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines =
        JsonLinesObserver::new("message-processor", Logging::default(), FixedClock, Writes(Vec::new()));
    let events = [given_up_event(None), dead_lettered_event()];
    lines.observe_all(&events);
    lines.observe_all(&[]);
    lines.flush();
    let writes = lines.writer.into_inner().unwrap().0;
    assert_eq!(writes, [log_lines(&events).into_bytes()]);
}

#[test]
fn error_names_from_a_target_are_not_logged() {
    let line = log_lines(&[handed_off_event(&ErrorType::FromTarget("CANARY".to_owned()))]);
    assert!(line.contains(r#""error_type":"FromTarget""#), "{line}");
    assert!(!line.contains("CANARY"), "{line}");
}

#[test]
fn a_failed_log_write_does_not_fail_the_message() {
    struct FullDisk;
    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = JsonLinesObserver::new("message-processor", Logging::default(), FixedClock, FullDisk);
    lines.observe(&given_up_event(None));
    lines.observe(&processed_event());
    lines.flush();
}

#[test]
fn the_log_location_contains_the_invocations_request_id() {
    let lines = JsonLinesObserver::new("message-processor", Logging::default(), FixedClock, Vec::new());
    *lock(&lines.log_location) = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), None);
    for id in ["first", "second"] {
        lines.begin_invocation(id);
        let location = lines.log_location();
        assert_eq!((location.request_id(), location.log_group()), (Some(id), Some("/aws/lambda/mp")));
    }
}
