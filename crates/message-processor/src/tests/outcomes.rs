//! The outcome for a message, depending on the handler's response.

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use serde_json::{Value, json};

use super::*;

/// Returns the failure document of record 1 when the target responds with `error`.
fn failure_document(error: HandlerError) -> Value {
    let setup = Setup::new().failing(1, error);
    assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty(), "handed off, so done");
    assert!(setup.annotation.sent_contents().is_empty());
    let sent = setup.intermediate.only_sent_content();
    assert_eq!(sent.body, nth_body(1));
    attribute_document(&sent.attributes, FAILURE)
}

/// Returns the members common to all hand-offs of record 1, plus `more`.
fn expected_failure(more: Value) -> Value {
    let mut document = json!({
        "failed_at": format_time_at(0),
        "source_message_id": "sqs-1",
        "source_queue_arn": SOURCE_ARN,
        "first_sent_time": format_time_at(-10),
    });
    let Value::Object(more) = more else { panic!("{more}") };
    document.as_object_mut().unwrap().extend(more);
    document
}

#[test]
fn only_a_failed_call_names_the_called_function() {
    let answered = HandlerError { function: Some("orders:6".to_owned()), ..busy_error() };
    let mut setup =
        Setup::new().failing(0, busy_error()).failing(1, answered).on(2, Step::PanicInside).on(3, Step::Hang);
    setup.handler.function = Some("orders:7");
    setup.max_concurrency = 1;
    assert_eq!(setup.process((0..5).map(|n| nth_record(n, nth_body(n))).collect(), 30), [""; 0]);
    let function = |content: &Content| {
        let document = attribute_document(&content.attributes, FAILURE);
        (
            document["type"].as_str().unwrap().to_owned(),
            document.get("function").map(|name| name.as_str().unwrap().to_owned()),
        )
    };
    let mut functions: Vec<_> = setup.intermediate.sent_contents().iter().map(function).collect();
    functions.sort();
    let named = |error: &str, function: &str| (error.to_owned(), Some(function.to_owned()));
    assert_eq!(
        functions,
        [
            named("Db.Busy", "orders:6"),
            named("Db.Busy", "orders:7"),
            ("NotStarted".to_owned(), None),
            named("Panic", "orders:7"),
            named("Timeout", "orders:7")
        ]
    );
}

/// Returns the log location in a hand-off: the request id, the log stream, and the start and end times.
fn handed_off_log_location(content: &Content) -> Option<(Option<String>, String, String, String)> {
    let document = attribute_document(&content.attributes, FAILURE);
    let logs = document.get("last_attempt_logs")?;
    let text = |member: &str| logs[member].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("log_group"), "/aws/lambda/mp");
    let id = logs.get("request_id").map(|_| text("request_id"));
    Some((id, text("log_stream"), text("started_at"), text("ended_at")))
}

#[test]
fn only_a_failed_call_has_a_log_location() {
    let mut setup = Setup::new()
        .failing(0, busy_error())
        .on(1, Step::FailLate(2, busy_error()))
        .on(2, Step::PanicInside)
        .on(3, Step::Hang);
    setup.max_concurrency = 1;
    let location = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), Some("s".to_owned()));
    setup.world.seen.log_location = location.with_request_id(Some("ours"));
    for (has_request_ids, ids) in [(false, ["ours"; 4]), (true, ["call-1", "call-2", "call-3", "call-4"])] {
        setup.handler.has_request_ids = has_request_ids;
        let began = setup.world.elapsed_seconds();
        assert_eq!(setup.process((0..5).map(|n| nth_record(n, nth_body(n))).collect(), 30), [""; 0]);
        let sent = setup.intermediate.sent_contents();
        let sent = &sent[sent.len() - 5..];
        let expected = |id: &str, from: i64, to: i64| {
            Some((
                Some(id.to_owned()),
                "s".to_owned(),
                format_time_at(began + from),
                format_time_at(began + to),
            ))
        };
        assert_eq!(
            sent.iter().map(handed_off_log_location).collect::<Vec<_>>(),
            [
                expected(ids[0], 0, 0),
                expected(ids[1], 0, 2),
                expected(ids[2], 2, 2),
                expected(ids[3], 2, 25),
                None
            ]
        );
        let failed = |event| match event {
            Event::HandedOff { request_id, .. } => Some(request_id),
            _ => None,
        };
        let mut reported: Vec<_> = setup.world.seen.events().into_iter().filter_map(failed).collect();
        let reported = reported.split_off(reported.len() - 5);
        assert_eq!(reported[..4], ids.map(|id| Some(id.to_owned())));
        assert_eq!(reported[4], None, "the target was not called");
        setup.handler.calls.lock().unwrap().clear();
    }
}

#[test]
fn a_call_without_log_lines_has_no_log_location() {
    let setup = Setup::new().failing(0, busy_error());
    setup.process(vec![nth_record(0, nth_body(0))], 30);
    assert!(
        attribute_document(&setup.intermediate.sent_contents()[0].attributes, FAILURE)
            .get("last_attempt_logs")
            .is_none()
    );
}

/// The recorded error is from the previous call.
#[test]
fn a_cut_off_immediate_retry_keeps_the_previous_calls_log_location() {
    for step in [Step::FailThenHang, Step::FailThenNotStart] {
        let mut setup = Setup::with_policy(r#"{"immediate":{"max_attempts":1,"delay_ms":100}}"#).on(0, step);
        setup.handler.has_request_ids = true;
        let location = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), None);
        setup.world.seen.log_location = location;
        setup.process(vec![nth_record(0, nth_body(0))], 30);
        assert_eq!(setup.handler.calls().len(), 2);
        let (id, ..) = handed_off_log_location(&setup.intermediate.sent_contents()[0]).unwrap();
        assert_eq!(id.as_deref(), Some("call-1"));
    }
}

/// The previous call's log lines show a different error.
#[test]
fn an_immediate_retry_that_reaches_no_function_has_our_own_log_location() {
    let immediate = r#"{"immediate":{"max_attempts":1,"delay_ms":100}}"#;
    let mut setup = Setup::with_policy(immediate).on(0, Step::FailThenUnreached);
    setup.handler.has_request_ids = true;
    let location = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), None);
    setup.world.seen.log_location = location.with_request_id(Some("ours"));
    setup.process(vec![nth_record(0, nth_body(0))], 30);
    assert_eq!(setup.handler.calls().len(), 2);
    let (id, ..) = handed_off_log_location(&setup.intermediate.sent_contents()[0]).unwrap();
    assert_eq!(id.as_deref(), Some("ours"));
}

#[test]
fn a_not_now_response_has_a_log_location_but_a_held_message_has_none() {
    let down = || HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503");
    let mut setup = (0..11).fold(Setup::new(), |setup, n| setup.failing(n, down()));
    let location = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), Some("s".to_owned()));
    setup.world.seen.log_location = location.with_request_id(Some("ours"));
    setup.max_concurrency = 1;
    setup.process((0..10).map(|n| nth_record(n, nth_body(n))).collect(), 30);
    let now = || format_time_at(0);
    let call_logs = Some((Some("ours".to_owned()), "s".to_owned(), now(), now()));
    assert_eq!(
        setup.intermediate.sent_contents().iter().map(handed_off_log_location).collect::<Vec<_>>(),
        vec![call_logs; 10]
    );
    setup.process(vec![nth_record(10, nth_body(10))], 30);
    assert_eq!(
        (setup.handler.calls().len(), setup.source.sent_contents().len()),
        (10, 1),
        "the last message is held"
    );
}

#[test]
fn a_success_sends_nothing_and_reports_nothing() {
    let setup = Setup::new();
    let failed = setup.process(ten_records(), 30);
    assert_eq!(failed, [""; 0]);
    assert_eq!(setup.handler.calls().len(), 10);
    assert!(setup.intermediate.sent_contents().is_empty() && setup.annotation.sent_contents().is_empty());
}

#[test]
fn an_empty_batch_succeeds_without_events() {
    let setup = Setup::new();
    assert_eq!(setup.process(Vec::new(), 30), [""; 0]);
    assert!(setup.world.seen.events().is_empty());
}

#[test]
fn a_handler_sees_the_unchanged_body_and_the_producers_attributes() {
    let body = format!(
        "\n{{ \"data\": {{\"n\":1e400,\"é\":\"\\u00e9\"}}, \"metadata\":{{\"message_id\" :\"{}\",\"retry_attempt\":3,\"redrive_generation\":2}} }} ",
        nth_id(1)
    );
    let setup = Setup::new();
    setup.process(vec![ReceivedMessage { attributes: producer_attributes(), ..nth_record(1, &*body) }], 30);
    let expected = SeenMessage {
        body,
        message_id: nth_id(1),
        form: BodyForm::Envelope,
        retry_attempt: 3,
        redrive_generation: 2,
        attributes: producer_attributes(),
        idempotency_key: nth_id(1),
    };
    assert_eq!(setup.handler.calls(), [expected]);
}

#[test]
fn a_handler_gets_the_id_as_the_producer_wrote_it() {
    let setup = Setup::new();
    let id = "6F1C0D3E-8A55-4C8E-9A3F-2B1D7E5F9A01";
    setup.process(vec![nth_record(1, format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{}}}}"#))], 30);
    assert_eq!(setup.handler.called_message_ids(), [id]);
}

#[test]
fn a_transient_error_is_handed_off() {
    assert_eq!(
        failure_document(busy_error()),
        expected_failure(json!({ "type": "Db.Busy", "details": "come later", "kind": "transient" }))
    );
}

#[test]
fn an_http_status_is_handed_off_as_an_error_type() {
    assert_eq!(
        failure_document(HandlerError::transient(ErrorType::HttpStatus(500), "HTTP 500")),
        expected_failure(json!({ "type": "HttpStatus.500", "details": "HTTP 500", "kind": "transient" }))
    );
}

#[test]
fn a_targets_delay_is_handed_off_as_a_hold_up_to_10_percent_longer() {
    let refused = |asked| HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503").retry_after(asked);
    for (asked, written) in
        [(Duration::from_millis(29_001), 31), (Duration::from_secs(30), 32), (Duration::ZERO, 2)]
    {
        assert_eq!(
            failure_document(refused(asked)),
            expected_failure(json!({
                "type": "HttpStatus.503", "details": "HTTP 503", "kind": "held", "retry_after_seconds": written,
                "held_since": format_time_at(0), "outage_failures": 1,
            }))
        );
    }
}

/// The target is available, but requests a delay for this message.
#[test]
fn a_delay_for_one_message_is_handed_off_as_its_own_hold() {
    let locked = HandlerError::transient(ErrorType::HttpStatus(423), "HTTP 423");
    assert_eq!(
        failure_document(locked.retry_after(Duration::from_millis(29_001))),
        expected_failure(json!({
            "type": "HttpStatus.423", "details": "HTTP 423", "kind": "held", "retry_after_seconds": 30,
            "held_since": format_time_at(0), "outage_failures": 0,
        }))
    );
}

#[test]
fn a_handlers_own_delay_is_a_floor_and_spends_an_attempt() {
    for (asked, written) in
        [(Duration::from_millis(29_001), 30), (Duration::from_secs(30), 30), (Duration::ZERO, 0)]
    {
        assert_eq!(
            failure_document(busy_error().retry_after(asked)),
            expected_failure(json!({
                "type": "Db.Busy", "details": "come later", "kind": "transient", "retry_after_seconds": written,
            }))
        );
    }
}

#[test]
fn a_permanent_error_is_handed_off() {
    let error = HandlerError::permanent(ErrorType::FromTarget("Order.Unknown".to_owned()), "no such order");
    assert_eq!(
        failure_document(error),
        expected_failure(json!({ "type": "Order.Unknown", "details": "no such order", "kind": "permanent" }))
    );
}

#[test]
fn a_snooze_is_rounded_up_and_handed_off() {
    let error = HandlerError::snooze("Shop.Closed", "opens at 8", Duration::new(59, 1));
    assert_eq!(
        failure_document(error),
        expected_failure(json!({
            "type": "Shop.Closed", "details": "opens at 8", "kind": "snooze", "retry_after_seconds": 60,
        }))
    );
}

#[test]
fn an_invalid_or_too_long_error_text_is_cleaned_and_handed_off() {
    let document = failure_document(HandlerError::transient("T", format!("\0{}", "é\"".repeat(50_000))));
    let details = document["details"].as_str().unwrap();
    assert!(details.starts_with("\u{FFFD}é\"é\"") && details.ends_with('…'), "{details}");
    let bytes = document.to_string().len();
    assert!((1000..=1024).contains(&bytes), "{bytes} bytes");
}

#[test]
fn a_hand_off_keeps_body_attributes_group_and_trace() {
    let setup = Setup::new().failing(1, busy_error());
    let body = format!(
        "{{\"data\":{{\"é\\u00e9\":1e400}} ,\"metadata\":{{\"message_id\":\"{}\"}},\"x\":[] }}\n",
        nth_id(1)
    );
    let source = setup.world.add_queue("source");
    let arrived = send_and_receive(
        &source,
        Content {
            body: body.clone(),
            attributes: producer_attributes(),
            message_group_id: Some("tenant-7".to_owned()),
            deduplication_id: None,
            trace_header: Some("Root=1-5e1b4151-0123456789abcdef01234567".to_owned()),
            delay: DelaySeconds::ZERO,
        },
    );
    assert_eq!(setup.process(vec![arrived.clone()], 30), [""; 0]);
    let handed_off = setup.intermediate.receive_all().pop().unwrap();
    assert_eq!(handed_off.body, body);
    assert_eq!(strip_own_attributes(&handed_off.attributes), producer_attributes());
    assert_eq!(handed_off.attributes.len(), 5);
    assert_eq!(handed_off.message_group_id.as_deref(), Some("tenant-7"));
    assert_eq!(handed_off.trace_header.as_deref(), Some("Root=1-5e1b4151-0123456789abcdef01234567"));
    assert_eq!(setup.intermediate.only_sent_content().delay, DelaySeconds::ZERO);
    let document = attribute_document(&handed_off.attributes, FAILURE);
    assert_eq!(document["source_message_id"], arrived.sqs_message_id);
    assert_eq!(document["source_queue_arn"], source_arn(&source));
    assert_eq!(
        document["first_sent_time"],
        format_time_at(0),
        "the time of the send to the source queue, not of the hand-off"
    );
}

fn source_arn(source: &SpyQueue) -> &str {
    use redeliver_core::ports::Queue as _;
    source.queue.arn()
}

#[test]
fn a_panic_fails_only_its_own_record_and_its_text_is_discarded() {
    for step in [Step::PanicAtOnce, Step::PanicInside] {
        for max_concurrency in [1, 3, 10] {
            let setup = Setup { max_concurrency, ..Setup::new().on(4, step.clone()) };
            assert_eq!(setup.process(ten_records(), 30), [""; 0]);
            assert_eq!(setup.handler.calls().len(), 10, "the records after it are also handled");
            let sent = setup.intermediate.only_sent_content();
            assert_eq!(sent.body, nth_body(4));
            let document = attribute_document(&sent.attributes, FAILURE);
            assert_eq!(document["type"], "Panic");
            assert_eq!(document["kind"], "transient");
            let all = format!("{sent:?} {:?}", setup.world.seen.events());
            assert!(!all.contains(CANARY), "{all}");
        }
    }
}
