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

/// The n-th record of the producer's span.
fn produced(mut record: ReceivedMessage) -> ReceivedMessage {
    record.attributes.insert(TRACEPARENT.to_owned(), Attribute::string(PRODUCER));
    record
}

#[test]
fn a_dead_letter_is_in_the_trace_of_its_last_attempt_and_names_it() {
    let verdict = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "last_attempt_traceparent": ATTEMPT }));
    for is_traced in [false, true] {
        let mut setup = Setup::new();
        if is_traced {
            setup.world.seen.trace(false);
        }
        setup.process(vec![produced(given_up(1, spent(1), &verdict))]);
        let attributes = setup.final_dlq.only().attributes;
        assert_eq!(document(&attributes, DEAD_LETTER)["last_attempt_traceparent"], ATTEMPT);
        assert_eq!(trace_id(&setup).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        let spans = setup.world.seen.spans();
        assert_eq!(spans.len(), if is_traced { 2 } else { 0 });
        if let [dead, sent] = &spans[..] {
            assert_eq!(
                (dead.parent, &*dead.name),
                (SpanContext::of_traceparent(ATTEMPT), "process annotation")
            );
            let (name, reason) = dead.attributes.last().unwrap();
            assert_eq!((*name, reason), ("redeliver.dead_letter", &"RETRY_ATTEMPT_EXCEEDED".into()));
            assert_eq!(sent.parent, Some(dead.context));
        }
    }
}

#[test]
fn without_a_verdict_it_has_the_attempt_of_its_metadata() {
    let setup = Setup::new();
    let body = spent(1)
        .replace(r#""retry_attempt""#, &format!(r#""last_attempt_traceparent":"{ATTEMPT}","retry_attempt""#));
    setup.process(vec![redriven(1, body)]);
    let attributes = setup.final_dlq.only().attributes;
    assert_eq!(document(&attributes, DEAD_LETTER)["last_attempt_traceparent"], ATTEMPT);
}

#[test]
fn a_message_that_was_never_called_has_the_producers_trace() {
    let mut setup = Setup::new();
    setup.world.seen.trace(false);
    let invalid = failure("INVALID_MESSAGE_SCHEMA", json!({ "kind": null, "stage": "message-processor" }));
    setup.process(vec![produced(given_up(1, "{}", &invalid))]);
    assert_eq!(trace_id(&setup).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
    let attributes = setup.final_dlq.only().attributes;
    assert_eq!(document(&attributes, DEAD_LETTER).get("last_attempt_traceparent"), None);
    let spans = setup.world.seen.spans();
    let dead = &spans[0];
    assert_eq!((dead.parent, dead.links.len()), (None, 1));
    assert_eq!(
        (dead.links[0].role, Some(dead.links[0].to)),
        ("producer", SpanContext::of_traceparent(PRODUCER))
    );
}
