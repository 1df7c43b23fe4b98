//! Sends, and the events that report them.

use super::*;
use crate::events::Event;
use crate::log_location::LogLocation;
use crate::message::{Receipt, ReceivedMessage};
use crate::ports::Observer;
use crate::testing::received_message;
use crate::trace::Tracer;

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<Event>>);

impl Observer for RecordingObserver {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// Returns the event for a confirmed send, identified by the record's id.
fn confirmed_event(record: &str) -> Event {
    Event::DeadLettered {
        trace_id: None,
        message_id: None,
        sqs_message_id: record.to_owned(),
        error_type: "NON_RETRYABLE_ERROR",
        retry_attempt: 0,
        age_seconds: 0.0,
        logs: LogLocation::default(),
    }
}

fn not_confirmed_event(record: &str, code: &str) -> Event {
    Event::NotConfirmed { sqs_message_id: record.to_owned(), send: "final record", code: code.to_owned() }
}

/// Sends messages with these bodies for the records `r-BODY`. Returns the confirmed records and the events.
fn send_and_collect_events(queue: &FakeQueue, bodies: &[&str]) -> (Vec<String>, Vec<Event>) {
    let outgoing = bodies
        .iter()
        .map(|body| {
            let record = format!("r-{body}");
            let content = Content { body: (*body).to_owned(), ..Content::default() };
            PendingSend::new(receipt(&record), content, confirmed_event(&record))
        })
        .collect();
    let observer = RecordingObserver::default();
    let outbox = Outbox::new(&queue.clock, &observer, at(10));
    let done = queue.clock.block_on(outbox.send(queue, "final record", outgoing));
    let done = done.iter().map(|record| record.sqs_message_id().to_owned()).collect();
    (done, observer.0.into_inner().unwrap())
}

fn receipt(sqs_message_id: &str) -> Receipt {
    ReceivedMessage { sqs_message_id: sqs_message_id.to_owned(), ..received_message(None) }.into_receipt()
}

#[test]
fn a_reserve_takes_at_most_half_of_the_remaining_time() {
    let reserve = Duration::from_secs(5);
    assert_eq!(stop_time(reserve, at(0), at(30)), at(25));
    assert_eq!(stop_time(reserve, at(0), at(10)), at(5));
    assert_eq!(stop_time(reserve, at(0), at(4)), at(2));
    assert_eq!(stop_time(reserve, at(4), at(0)), at(0), "a past deadline is not changed");
}

#[test]
fn a_confirmed_send_confirms_its_record_and_is_observed_once() {
    let queue = FakeQueue::new([ScriptedResponse::All]);
    let (done, events) = send_and_collect_events(&queue, &["a", "b"]);
    assert_eq!(
        (done, events),
        (vec!["r-a".to_owned(), "r-b".to_owned()], vec![confirmed_event("r-a"), confirmed_event("r-b")])
    );
}

#[test]
fn a_record_confirmed_on_the_second_try_is_observed_once() {
    let queue =
        FakeQueue::new([ScriptedResponse::Failing(vec![("a", Fault::Throttled)]), ScriptedResponse::All]);
    let (done, events) = send_and_collect_events(&queue, &["a", "b"]);
    assert_eq!(done, ["r-a", "r-b"]);
    assert_eq!(events, [confirmed_event("r-a"), confirmed_event("r-b")]);
}

#[test]
fn each_entry_is_confirmed_by_its_own_outcome_alone() {
    let queue = FakeQueue::new([ScriptedResponse::Failing(vec![("b", Fault::Sender)])]);
    assert_eq!(
        send_and_collect_events(&queue, &["a", "b", "c"]),
        (
            vec!["r-a".to_owned(), "r-c".to_owned()],
            vec![confirmed_event("r-a"), not_confirmed_event("r-b", "SenderCode"), confirmed_event("r-c")]
        )
    );
}

#[test]
fn a_queue_that_never_answers_confirms_nothing() {
    let queue = FakeQueue::new([ScriptedResponse::Hang]);
    let (done, events) = send_and_collect_events(&queue, &["a", "b"]);
    assert_eq!(done, [""; 0]);
    assert_eq!(
        events,
        [
            not_confirmed_event("r-a", "NoAnswerBeforeDeadline"),
            not_confirmed_event("r-b", "NoAnswerBeforeDeadline")
        ]
    );
}

#[test]
fn an_unsendable_message_is_reported_and_the_others_are_sent() {
    let queue = FakeQueue::new([ScriptedResponse::All]);
    let (done, events) = send_and_collect_events(&queue, &["a", "\u{FFFE}", "", "b"]);
    assert_eq!(done, ["r-a", "r-b"]);
    assert_eq!(queue.requests(), [["a", "b"]]);
    assert_eq!(
        events,
        [
            not_confirmed_event("r-\u{FFFE}", "IllegalCharacter"),
            not_confirmed_event("r-", "EmptyBody"),
            confirmed_event("r-a"),
            confirmed_event("r-b"),
        ]
    );
}

#[test]
fn the_error_code_for_an_unsendable_message_has_no_attribute_name() {
    let attributes = [("secret".to_owned(), crate::message::Attribute::string(""))].into();
    let content = Content { body: "b".to_owned(), attributes, ..Content::default() };
    let outgoing = PendingSend::new(receipt("r"), content, confirmed_event("r"));
    assert_eq!(outgoing.message.unwrap_err().code(), "EmptyAttribute");
}

struct TracingObserver(Tracer);

impl Observer for TracingObserver {
    fn observe(&self, _: &Event) {}

    fn tracer(&self) -> Option<&Tracer> {
        Some(&self.0)
    }
}

#[test]
fn each_send_has_one_span_for_all_its_tries() {
    let queue = FakeQueue::new([ScriptedResponse::After(
        2,
        Box::new(ScriptedResponse::Failing(vec![("b", Fault::Sender)])),
    )]);
    let parent = |span_id| SpanContext { trace_id: 1, span_id, is_sampled: true };
    let bodies = ["\u{FFFE}", "a", "b", "not traced"];
    let outgoing = bodies.iter().zip(1..).map(|(body, number)| {
        let content = Content { body: (*body).to_owned(), ..Content::default() };
        PendingSend::new(receipt(body), content, None).with_span((number < 4).then(|| parent(number)))
    });
    let observer = TracingObserver(Tracer::new(|| [1; 32], false));
    let outbox = Outbox::new(&queue.clock, &observer, at(10));
    let done = queue.clock.block_on(outbox.send(&queue, "final record", outgoing.collect()));
    assert_eq!(done.len(), 2);

    let spans = observer.0.take_ended().spans;
    let seen: Vec<_> = spans
        .iter()
        .map(|span| (span.parent, span.start, span.end, span.error.as_deref(), &span.attributes[4..]))
        .collect();
    let named = ("redeliver.send", "final record".into());
    let sent = [named.clone(), ("messaging.message.id", "id of a".into())];
    assert_eq!(
        seen,
        [
            (Some(parent(2)), at(0), at(2), None, &sent[..]),
            (Some(parent(3)), at(0), at(2), Some("SenderCode"), &[named][..])
        ]
    );
}
