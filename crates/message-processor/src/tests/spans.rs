//! The spans of a batch.

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use redeliver_core::message::Attribute;
use redeliver_core::trace::{Span, SpanContext, SpanEvent, SpanKind, SpanValue, TRACEPARENT};
use serde_json::json;

use super::*;

const PRODUCER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const LAST: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn traced_setup() -> Setup {
    let mut setup = Setup::new();
    setup.world.seen.enable_tracing(false);
    setup
}

fn record_from_producer(traceparent: &str, record: ReceivedMessage) -> ReceivedMessage {
    let attributes = Attributes::from([(TRACEPARENT.to_owned(), Attribute::string(traceparent))]);
    ReceivedMessage { attributes, ..record }
}

/// Returns the n-th body after an attempt with the span `LAST`.
fn body_after_attempt(n: usize) -> String {
    nth_body(n).replace(
        r#""},"data"#,
        &format!(r#"","retry_attempt":2,"last_attempt_traceparent":"{LAST}"}},"data"#),
    )
}

fn spans_named<'a>(spans: &'a [Span<'static>], name: &str) -> Vec<&'a Span<'static>> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn only_span<'a>(spans: &'a [Span<'static>], name: &str) -> &'a Span<'static> {
    let [span] = spans_named(spans, name)[..] else { panic!("{name}: {spans:#?}") };
    span
}

/// Returns the role and the destination of each link.
fn links(span: &Span) -> Vec<(&'static str, String)> {
    span.links.iter().map(|link| (link.role, link.to.traceparent())).collect()
}

fn attributes(span: &Span) -> Vec<String> {
    let text = |(name, value): &(&str, SpanValue)| match value {
        SpanValue::Text(text) => format!("{name}={text}"),
        SpanValue::Number(number) => format!("{name}={number}"),
    };
    span.attributes.iter().map(text).collect()
}

#[test]
fn an_attempt_is_linked_to_its_producer_previous_attempt_and_batch() {
    let mut setup = traced_setup().on(1, Step::FailLate(3, busy_error()));
    setup.max_concurrency = 1;
    let records = vec![
        nth_record(0, nth_body(0)),
        record_from_producer(PRODUCER, nth_record(1, body_after_attempt(1))),
    ];
    assert!(setup.process(records, 30).is_empty());
    let spans = setup.world.seen.take_spans();
    assert_eq!(spans.len(), 6, "a batch, two attempts with their calls, and a hand-off: {spans:#?}");

    let batch = only_span(&spans, "receive source");
    assert_eq!((batch.parent, batch.kind), (None, SpanKind::Client));
    assert_eq!((batch.start, batch.end), (start_time(), start_time() + chrono::TimeDelta::seconds(3)));
    assert_eq!(
        attributes(batch),
        [
            "messaging.system=aws_sqs",
            "messaging.operation.name=receive",
            "messaging.operation.type=receive",
            "messaging.destination.name=source",
            "messaging.batch.message_count=2"
        ]
    );
    let [first, second] = spans_named(&spans, "process source")[..] else { panic!("{spans:#?}") };
    let received = ("receive", batch.context.traceparent());
    assert_eq!(links(first), std::slice::from_ref(&received), "there was no previous attempt");
    assert_eq!(
        links(second),
        [("producer", PRODUCER.to_owned()), ("last_attempt", LAST.to_owned()), received]
    );
    assert_eq!((second.parent, second.kind), (None, SpanKind::Consumer));
    assert_eq!(second.error.as_deref(), Some("Db.Busy"));
    assert_eq!((second.start, second.end), (start_time(), start_time() + chrono::TimeDelta::seconds(3)));
    assert_eq!(
        attributes(second),
        [
            "messaging.system=aws_sqs",
            "messaging.operation.name=process",
            "messaging.operation.type=process",
            "messaging.destination.name=source",
            "messaging.message.id=sqs-1",
            "messaging.message.conversation_id=0191f3a2-7b1c-7d3e-8f00-000000000001",
            "redeliver.retry_attempt=2",
            "redeliver.generation=0",
            "redeliver.verdict=transient"
        ]
    );
    assert!(attributes(first).contains(&"redeliver.verdict=processed".to_owned()), "{first:#?}");
    let traces = [first, second, batch].map(|span| span.context.trace_id);
    assert!(traces[0] != traces[1] && traces[1] != traces[2] && traces[0] != traces[2], "{traces:?}");
    let seconds = u128::try_from(start_time().timestamp()).unwrap();
    assert!(traces.iter().all(|trace| trace >> 96 == seconds), "{traces:x?}");

    let [call, again] = spans_named(&spans, "handle")[..] else { panic!("{spans:#?}") };
    assert_eq!(call.parent, Some(first.context));
    assert_eq!(again.parent, Some(second.context));
    assert_eq!((again.error.as_deref(), again.kind), (Some("Db.Busy"), SpanKind::Internal));
    let send = spans.iter().find(|span| span.name.starts_with("send ")).unwrap();
    assert_eq!((send.parent, send.kind), (Some(second.context), SpanKind::Client));
    let failure = attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE);
    assert_eq!(failure["last_attempt_traceparent"], json!(second.context.traceparent()));
}

#[test]
fn without_a_tracer_a_message_keeps_its_last_recorded_attempt() {
    let setup = Setup::new().failing(1, busy_error());
    setup.process(vec![record_from_producer(PRODUCER, nth_record(1, body_after_attempt(1)))], 30);
    let sent = setup.intermediate.only_sent_content();
    assert_eq!(attribute_document(&sent.attributes, FAILURE).get("last_attempt_traceparent"), None);
    assert_eq!(sent.body, body_after_attempt(1), "the last recorded attempt");
}

#[test]
fn an_attempt_continues_the_trace_of_its_producer_or_last_attempt() {
    let mut setup = Setup::new();
    setup.world.seen.enable_tracing(true);
    let records = vec![
        record_from_producer(PRODUCER, nth_record(1, body_after_attempt(1))),
        nth_record(2, body_after_attempt(2)),
    ];
    setup.process(records, 30);
    let spans = setup.world.seen.take_spans();
    let [first, second] = spans_named(&spans, "process source")[..] else { panic!("{spans:#?}") };
    let [producer, last] = [PRODUCER, LAST].map(|text| SpanContext::from_traceparent(text).unwrap());
    assert_eq!((first.parent, first.context.trace_id), (Some(producer), producer.trace_id));
    assert_eq!(first.links.iter().map(|link| link.to).collect::<Vec<_>>()[0], last, "a parent needs no link");
    assert_eq!((second.parent, second.context.trace_id), (Some(last), last.trace_id));
    assert_eq!(second.links.len(), 1, "only the link to the batch");
}

#[test]
fn an_unsampled_trace_is_propagated_but_not_recorded() {
    let setup = traced_setup().failing(1, busy_error());
    setup.process(vec![record_from_producer(UNSAMPLED, nth_record(1, nth_body(1)))], 30);
    assert_eq!(setup.world.seen.take_spans(), []);
    let failure = attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE);
    let last = failure["last_attempt_traceparent"].as_str().unwrap();
    assert!(last.ends_with("-00"), "{last}");
    assert!(!last.contains("0af7651916cd43dd8448eb211c80319c"), "a separate trace: {last}");
}

/// The target has received the trace context, regardless of the outcome.
#[test]
fn each_started_call_has_a_span_even_if_cut_off_or_repeated() {
    let policy = r#"{"immediate":{"max_attempts":2,"delay_ms":100}}"#;
    let mut setup = Setup::with_policy(policy).on(1, Step::Blip(2)).on(2, Step::Hang);
    setup.world.seen.enable_tracing(false);
    setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30);
    let spans = setup.world.seen.take_spans();
    let [blip, hang] = spans_named(&spans, "process source")[..] else { panic!("{spans:#?}") };
    let calls = |attempt: &Span| {
        let calls =
            spans_named(&spans, "handle").into_iter().filter(|call| call.parent == Some(attempt.context));
        calls.map(|call| call.error.clone().unwrap_or_default().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(calls(blip), ["Db.Busy", "Db.Busy", ""]);
    assert_eq!(calls(hang), ["Timeout"]);
    assert_eq!(hang.error.as_deref(), Some("Timeout"));
}

#[test]
fn a_held_message_has_no_span_but_an_event_in_the_batch_span() {
    let unavailable = HandlerError::unavailable("Db.Down", "down");
    let mut setup = (0..20).fold(traced_setup(), |setup, n| setup.failing(n, unavailable.clone()));
    setup.max_concurrency = 1;
    setup.process((0..20).map(|n| nth_record(n, nth_body(n))).collect(), 30);
    let spans = setup.world.seen.take_spans();
    let attempts = spans_named(&spans, "process source").len();
    assert!(attempts < 20, "the circuit opened after {attempts}");
    assert_eq!(spans_named(&spans, "handle").len(), attempts);
    let batch = only_span(&spans, "receive source");
    let [held] = &batch.events[..] else { panic!("{batch:#?}") };
    assert_eq!(held.name, "redeliver.held");
    let messages = i64::try_from(20 - attempts).unwrap();
    assert_eq!(held.attributes[0], ("redeliver.messages", SpanValue::Number(messages)));
    assert_eq!(attempts, 10);
    let not_called = setup.source.sent_contents();
    assert_eq!(not_called.len(), 10);
    assert!(not_called.iter().all(|sent| !sent.body.contains("last_attempt_traceparent")));
}

/// The message does not change, so its spans are derived from its receive count.
#[test]
fn on_a_queue_that_counts_attempts_each_receive_is_linked_to_the_previous_one() {
    let mut setup = traced_setup().failing(1, busy_error());
    setup.strategy = Strategy::Visibility;
    let attempt = |receive_count| {
        setup.process(vec![ReceivedMessage { receive_count, ..nth_record(1, nth_body(1)) }], 30);
        let spans = setup.world.seen.take_spans();
        only_span(&spans, "process source").clone()
    };
    let [first, second, third] = [1, 2, 3].map(attempt);
    assert_eq!(first.links.len(), 1, "only the link to the batch");
    assert_eq!(links(&second)[0], ("last_attempt", first.context.traceparent()));
    assert_eq!(links(&third)[0], ("last_attempt", second.context.traceparent()));
    assert_ne!(first.context.trace_id, second.context.trace_id);
}

/// Returns the error, start and end of each span with this name. The times are in seconds since the start of the test.
fn errors_and_times(spans: &[Span<'static>], name: &str) -> Vec<(Option<String>, i64, i64)> {
    let seconds = |time: Timestamp| (time - start_time()).num_seconds();
    let error_and_times =
        |span: &&Span| (span.error.as_deref().map(str::to_owned), seconds(span.start), seconds(span.end));
    spans_named(spans, name).iter().map(error_and_times).collect()
}

#[test]
fn an_attempt_and_its_call_have_their_own_times_even_if_cut_off() {
    let mut setup =
        traced_setup().on(1, Step::Take(3)).on(2, Step::FailLate(2, busy_error())).on(3, Step::Hang);
    setup.max_concurrency = 1;
    setup.process((1..5).map(|n| nth_record(n, nth_body(n))).collect(), 30);
    let spans = setup.world.seen.take_spans();
    let [.., (timeout, began, ended)] = &errors_and_times(&spans, "process source")[..] else {
        panic!("{spans:#?}")
    };
    assert_eq!((timeout.as_deref(), *began), (Some("Timeout"), 5));
    assert!(*ended > 20, "{ended}");
    let expected =
        [(None, 0, 3), (Some("Db.Busy".to_owned()), 3, 5), (Some("Timeout".to_owned()), 5, *ended)];
    assert_eq!(errors_and_times(&spans, "process source"), expected, "the last message was not called");
    assert_eq!(errors_and_times(&spans, "handle"), expected);
}

#[test]
fn the_target_receives_the_span_of_each_call() {
    let setup = traced_setup().failing(1, busy_error());
    setup.process(vec![record_from_producer(PRODUCER, nth_record(1, nth_body(1)))], 30);
    let spans = setup.world.seen.take_spans();
    let [attempt, call] =
        ["process source", "handle"].map(|name| only_span(&spans, name).context.traceparent());
    assert_ne!(call, attempt);
    assert_eq!(*setup.handler.traces.lock().unwrap(), [Some(call)]);
}

#[test]
fn the_handler_describes_the_call_span_and_the_status_is_its_error() {
    let mut setup =
        traced_setup().failing(1, HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503"));
    let method = ("http.request.method", "POST".into());
    setup.handler.span = CallSpan { name: "POST".into(), kind: SpanKind::Client, attributes: vec![method] };
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    let spans = setup.world.seen.take_spans();
    let call = only_span(&spans, "POST");
    assert_eq!((call.kind, call.error.as_deref()), (SpanKind::Client, Some("503")));
    assert_eq!(attributes(call), ["http.request.method=POST", "http.response.status_code=503"]);
    assert_eq!(only_span(&spans, "process source").error.as_deref(), Some("HttpStatus.503"));
}

#[test]
fn no_span_contains_a_targets_own_error_type() {
    let error = ErrorType::FromTarget(CANARY.to_owned());
    let setup = traced_setup().failing(1, HandlerError::transient(error, CANARY));
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    let spans = setup.world.seen.take_spans();
    assert_eq!(only_span(&spans, "handle").error.as_deref(), Some("FromTarget"));
    assert!(!format!("{spans:?}").contains(CANARY), "{spans:#?}");
}

#[test]
fn a_call_that_did_not_start_has_no_span() {
    let setup = traced_setup().failing(1, HandlerError::not_started());
    setup.process(vec![nth_record(1, body_after_attempt(1))], 30);
    let spans = setup.world.seen.take_spans();
    assert_eq!(spans.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["receive source"]);
    let failure = attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE);
    assert_eq!(failure.get("last_attempt_traceparent"), None);
}

#[test]
fn a_batch_is_recorded_if_one_of_its_messages_is_sampled() {
    let setup = traced_setup();
    let records =
        vec![record_from_producer(UNSAMPLED, nth_record(1, nth_body(1))), nth_record(2, nth_body(2))];
    setup.process(records, 30);
    let spans = setup.world.seen.take_spans();
    assert_eq!(spans_named(&spans, "process source").len(), 1);
    let batch = only_span(&spans, "receive source").context;
    assert_eq!(setup.world.seen.tracer.as_ref().unwrap().batch_for_log_line(), Some(batch));
}

#[test]
fn a_refused_attempt_is_held_and_the_others_wait_for_their_turn() {
    let refused = HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429");
    let setup = traced_setup().failing(1, refused.clone()).failing(2, refused);
    setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30);
    let spans = setup.world.seen.take_spans();
    for attempt in spans_named(&spans, "process source") {
        assert_eq!(attempt.error.as_deref(), Some("HttpStatus.429"));
        assert!(attributes(attempt).contains(&"redeliver.verdict=held".to_owned()), "{attempt:#?}");
    }
    assert_eq!(only_span(&spans, "receive source").events, [], "the messages were called");
    setup.process(vec![nth_record(3, nth_body(3))], 30);
    let spans = setup.world.seen.take_spans();
    let [waits] = &only_span(&spans, "receive source").events[..] else { panic!("{spans:#?}") };
    assert_eq!((spans.len(), waits.name), (1, "redeliver.rate_limited"), "{spans:#?}");
}

#[test]
fn a_probe_is_recorded_as_an_event_in_its_call_span() {
    let down = HandlerError::unavailable("Db.Down", "down");
    let mut setup = (0..30).fold(traced_setup(), |setup, n| setup.failing(n, down.clone()));
    setup.process(ten_records(), 30);
    let before = setup.world.seen.take_spans();
    assert!(before.iter().all(|span| span.name != "handle" || span.events.is_empty()), "{before:#?}");
    setup.sleep(15);
    setup.max_concurrency = 1;
    setup.process((20..22).map(|n| nth_record(n, nth_body(n))).collect(), 30);
    let spans = setup.world.seen.take_spans();
    let probe = only_span(&spans, "handle");
    assert_eq!(
        probe.events,
        [SpanEvent { name: "redeliver.probe", at: probe.start, attributes: Vec::new() }]
    );
}

#[test]
fn an_attempts_span_has_its_generation_and_held_seconds() {
    let setup = traced_setup();
    let since = format_time_at(-2000);
    let held = format!(
        r#"{{"metadata":{{"message_id":"{}","redrive_generation":2,"held_since":"{since}","held_seconds":700}},"data":{{}}}}"#,
        nth_id(1)
    );
    setup.process(vec![resent_record(nth_record(1, held))], 30);
    let spans = setup.world.seen.take_spans();
    let attempt = attributes(only_span(&spans, "process source"));
    assert_eq!(
        attempt[6..],
        [
            "redeliver.retry_attempt=0",
            "redeliver.generation=2",
            "redeliver.held_seconds=700",
            "redeliver.verdict=processed"
        ]
    );
}

#[test]
fn a_function_exposes_its_observers_tracer() {
    let setup = traced_setup();
    assert!(setup.processor().tracer().is_some());
}

#[test]
fn a_message_that_came_back_is_linked_to_the_attempt_in_its_final_record() {
    let setup = traced_setup().failing(1, busy_error());
    let mut record = came_back::redriven_record(&Attributes::new());
    record.body = record.body.replace(
        r#""retry_attempt""#,
        &format!(r#""last_attempt_traceparent":"{UNSAMPLED}","retry_attempt""#),
    );
    let final_record = record.attributes["DeadLetter"]
        .text()
        .unwrap()
        .replace(r#""sqs_message_id""#, &format!(r#""last_attempt_traceparent":"{LAST}","sqs_message_id""#));
    record.attributes.insert("DeadLetter".to_owned(), Attribute::string(final_record));
    setup.process(vec![record], 30);
    let spans = setup.world.seen.take_spans();
    let attempt = only_span(&spans, "process source");
    assert_eq!(links(attempt)[0], ("last_attempt", LAST.to_owned()));
    let failure = attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE);
    assert_eq!(failure["last_attempt_traceparent"], json!(attempt.context.traceparent()));
}
