//! The trace of a dead letter.

use redeliver_core::trace::{SpanContext, TRACEPARENT};

use super::*;

const ATTEMPT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const PRODUCER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn trace_id(setup: &Setup) -> Option<String> {
    let events = setup.world.seen.events();
    let [Event::DeadLettered { trace_id, .. }] = &events[..] else { panic!("{events:?}") };
    trace_id.clone()
}

/// Returns the record with the producer's `traceparent`.
fn with_producer_trace(mut record: ReceivedMessage) -> ReceivedMessage {
    record.attributes.insert(TRACEPARENT.to_owned(), Attribute::string(PRODUCER));
    record
}

#[test]
fn a_dead_letter_is_in_the_trace_of_its_last_attempt_and_names_it() {
    let verdict = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "last_attempt_traceparent": ATTEMPT }));
    for is_traced in [false, true] {
        let mut setup = Setup::new();
        if is_traced {
            setup.world.seen.enable_tracing(false);
        }
        setup.process(vec![with_producer_trace(given_up_message(1, spent_body(1), &verdict))]);
        let attributes = setup.final_dlq.only_sent_content().attributes;
        assert_eq!(attribute_document(&attributes, DEAD_LETTER)["last_attempt_traceparent"], ATTEMPT);
        assert_eq!(trace_id(&setup).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        let spans = setup.world.seen.take_spans();
        assert_eq!(spans.len(), if is_traced { 2 } else { 0 });
        if let [dead, sent] = &spans[..] {
            assert_eq!(
                (dead.parent, &*dead.name),
                (SpanContext::from_traceparent(ATTEMPT), "process annotation")
            );
            assert_eq!(dead.attributes[5], ("messaging.message.conversation_id", nth_id(1).into()));
            let (name, reason) = dead.attributes.last().unwrap();
            assert_eq!((*name, reason), ("redeliver.dead_letter", &"RETRY_ATTEMPT_EXCEEDED".into()));
            assert_eq!(sent.parent, Some(dead.context));
        }
    }
}

#[test]
fn without_a_verdict_a_dead_letter_has_the_attempt_in_its_metadata() {
    let setup = Setup::new();
    let body = spent_body(1)
        .replace(r#""retry_attempt""#, &format!(r#""last_attempt_traceparent":"{ATTEMPT}","retry_attempt""#));
    setup.process(vec![redriven_message(1, body)]);
    let attributes = setup.final_dlq.only_sent_content().attributes;
    assert_eq!(attribute_document(&attributes, DEAD_LETTER)["last_attempt_traceparent"], ATTEMPT);
}

#[test]
fn a_dead_letter_without_a_call_has_the_producers_trace() {
    let mut setup = Setup::new();
    setup.world.seen.enable_tracing(false);
    let invalid = failure("INVALID_MESSAGE_SCHEMA", json!({ "kind": null, "stage": "message-processor" }));
    setup.process(vec![with_producer_trace(given_up_message(1, "{}", &invalid))]);
    assert_eq!(trace_id(&setup).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
    let attributes = setup.final_dlq.only_sent_content().attributes;
    assert_eq!(attribute_document(&attributes, DEAD_LETTER).get("last_attempt_traceparent"), None);
    let spans = setup.world.seen.take_spans();
    let dead = &spans[0];
    assert_eq!((dead.parent, dead.links.len()), (None, 1));
    assert_eq!(
        (dead.links[0].role, Some(dead.links[0].to)),
        ("producer", SpanContext::from_traceparent(PRODUCER))
    );
}

#[test]
fn a_dead_letter_of_an_unsampled_attempt_has_its_trace_but_no_span() {
    let mut setup = Setup::new();
    setup.world.seen.enable_tracing(false);
    let unsampled = ATTEMPT.replace("-01", "-00");
    let verdict = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "last_attempt_traceparent": unsampled }));
    setup.process(vec![given_up_message(1, spent_body(1), &verdict)]);
    assert_eq!(trace_id(&setup).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(setup.world.seen.take_spans(), []);
}

#[test]
fn the_attempt_in_the_verdict_takes_precedence_over_that_in_the_metadata() {
    let setup = Setup::new();
    let verdict = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "last_attempt_traceparent": ATTEMPT }));
    let body = spent_body(1).replace(
        r#""retry_attempt""#,
        &format!(r#""last_attempt_traceparent":"{PRODUCER}","retry_attempt""#),
    );
    setup.process(vec![given_up_message(1, body, &verdict)]);
    let attributes = setup.final_dlq.only_sent_content().attributes;
    assert_eq!(attribute_document(&attributes, DEAD_LETTER)["last_attempt_traceparent"], ATTEMPT);
}

#[test]
fn a_producers_trace_may_be_in_its_cloud_event_or_its_x_ray_header() {
    let event = format!(r#"{{"specversion":"1.0","traceparent":"{PRODUCER}"}}"#);
    let xray = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1";
    let verdict = failure("INVALID_MESSAGE_SCHEMA", json!({ "kind": null, "stage": "message-processor" }));
    for (body, trace_header) in [(event.as_str(), None), ("{}", Some(xray.to_owned()))] {
        let setup = Setup::new();
        setup.process(vec![ReceivedMessage { trace_header, ..given_up_message(1, body, &verdict) }]);
        assert_eq!(trace_id(&setup).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"), "{body}");
    }
}

#[test]
fn a_function_exposes_its_observers_tracer() {
    let mut world = FunctionWorld::new();
    world.seen.enable_tracing(false);
    let queue = world.add_queue("final-dlq");
    let annotator = FinalDlqAnnotator::new(queue, world.clock.clone(), world.seen.clone());
    assert!(annotator.tracer().is_some());
}
