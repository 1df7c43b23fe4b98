//! The spans of decisions, and the last attempt recorded in a message.

use redeliver_core::trace::{Span, SpanContext, SpanValue, TRACEPARENT};

use super::*;

const ATTEMPT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const PRODUCER: &str = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
const BEFORE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced_setup(policy: &str) -> Setup {
    let mut setup = Setup::with_policy(policy);
    setup.world.seen.enable_tracing(false);
    setup
}

fn failure_with_attempt(n: usize, kind: &str) -> Value {
    with_members(busy_failure(n), json!({ "kind": kind, "last_attempt_traceparent": ATTEMPT }))
}

fn context(text: &str) -> Option<SpanContext> {
    SpanContext::from_traceparent(text)
}

fn decision<'a>(span: &'a Span<'a>) -> &'a SpanValue<'a> {
    let decision = span.attributes.iter().find(|(name, _)| *name == "redeliver.decision");
    &decision.unwrap_or_else(|| panic!("{span:#?}")).1
}

fn last_attempt(body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap();
    body["metadata"]["last_attempt_traceparent"].clone()
}

#[test]
fn a_decision_is_part_of_the_attempt_and_its_send_part_of_the_decision() {
    let long = r#"{"backoff":{"kind":"fixed","delay_seconds":1000,"jitter":"none"},"long_delays":true}"#;
    for (policy, kind, expected, delay) in [
        (FIXED, "transient", "resend", 100),
        (FIXED, "permanent", "NON_RETRYABLE_ERROR", 0),
        (long, "transient", "hop", 900),
    ] {
        let setup = traced_setup(policy);
        let body = body_with_metadata(1, &format!(r#""last_attempt_traceparent":"{BEFORE}""#));
        assert_eq!(setup.process(vec![handed_off_message(1, body, &failure_with_attempt(1, kind))]), [""; 0]);
        let spans = setup.world.seen.take_spans();
        let [decided, sent] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!((decided.parent, &*decided.name), (context(ATTEMPT), "process intermediate"));
        assert_eq!(decided.links, []);
        assert_eq!((decided.start, decided.end), (start_time(), start_time()));
        assert_eq!(decided.attributes[5], ("messaging.message.conversation_id", nth_id(1).into()));
        assert_eq!(*decision(decided), SpanValue::from(expected));
        assert_eq!(sent.parent, Some(decided.context));
        let delayed = sent.attributes.iter().find(|(name, _)| *name == "redeliver.delay_seconds");
        let delayed = delayed.map_or(SpanValue::Number(0), |(_, delay)| delay.clone());
        assert_eq!(delayed, SpanValue::Number(delay));
    }
}

#[test]
fn a_resend_records_the_last_attempt_even_without_a_tracer() {
    for failure in [failure_with_attempt(1, "transient"), failure_with_attempt(1, "snooze")] {
        let setup = Setup::with_policy(FIXED);
        let body = body_with_metadata(1, &format!(r#""last_attempt_traceparent":"{BEFORE}""#));
        setup.process(vec![handed_off_message(1, body, &failure)]);
        assert_eq!(last_attempt(&setup.source.only_sent_content().body), ATTEMPT);
    }
}

#[test]
fn a_message_without_a_call_has_no_span_and_keeps_the_previous_attempt() {
    let setup = traced_setup(FIXED);
    let not_started = with_members(busy_failure(1), json!({ "kind": "not_started", "type": "NotStarted" }));
    let body = body_with_metadata(1, &format!(r#""last_attempt_traceparent":"{BEFORE}""#));
    setup.process(vec![handed_off_message(1, body, &not_started)]);
    assert_eq!(setup.world.seen.take_spans(), []);
    assert_eq!(last_attempt(&setup.source.only_sent_content().body), BEFORE);
}

#[test]
fn the_decision_on_a_moved_message_begins_a_trace_linked_to_its_attempt() {
    let setup = traced_setup(FIXED);
    let body = body_with_metadata(1, &format!(r#""last_attempt_traceparent":"{BEFORE}""#));
    let mut record = redriven_message(1, body);
    record.attributes.insert(TRACEPARENT.to_owned(), Attribute::string(PRODUCER));
    setup.process(vec![record]);
    let spans = setup.world.seen.take_spans();
    let [decided, sent] = &spans[..] else { panic!("{spans:#?}") };
    let links: Vec<_> = decided.links.iter().map(|link| (link.role, Some(link.to))).collect();
    assert_eq!(links, [("producer", context(PRODUCER)), ("last_attempt", context(BEFORE))]);
    assert_eq!(decided.parent, None);
    assert_eq!(sent.parent, Some(decided.context));
    assert_eq!(last_attempt(&setup.source.only_sent_content().body), BEFORE, "no attempt is known");
}

#[test]
fn the_decision_on_an_unsampled_attempt_is_not_recorded() {
    let setup = traced_setup(FIXED);
    let unsampled = ATTEMPT.replace("-01", "-00");
    let failure =
        with_members(busy_failure(1), json!({ "kind": "transient", "last_attempt_traceparent": unsampled }));
    setup.process(vec![handed_off_message(1, nth_body(1), &failure)]);
    assert_eq!(setup.world.seen.take_spans(), []);
    assert_eq!(last_attempt(&setup.source.only_sent_content().body), unsampled);
}

#[test]
fn a_function_exposes_its_observers_tracer() {
    assert!(traced_setup(FIXED).processor().tracer().is_some());
}
