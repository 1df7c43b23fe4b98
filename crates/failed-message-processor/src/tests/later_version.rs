//! Documents from a later version: no part of the message or reason is lost, and unknown members are passed on.

use redeliver_core::failure::FailureDocument;

use super::*;

const HOURS: &str = r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#;

fn later_document(document: Value) -> Value {
    with_members(document, json!({ "parked_since": format_time_at(-60), "circuit": { "open": [1e3, "é"] } }))
}

#[test]
fn a_hand_off_keeps_unknown_members_across_hops() {
    let setup = Setup::with_policy(HOURS);
    let hand_off = later_document(with_members(busy_failure(1), json!({ "kind": "parked" })));
    setup.process(vec![handed_off_message(1, nth_body(1), &hand_off)]);
    let hop = with_members(hand_off, json!({ "due_at": format_time_at(7199) }));
    assert_eq!(attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE), hop);

    let setup = Setup::with_policy(HOURS);
    setup.process(vec![handed_off_message(1, nth_body(1), &hop)]);
    assert_eq!(attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE), hop);
}

#[test]
fn a_verdict_keeps_unknown_members() {
    let setup = Setup::new();
    let hand_off = later_document(with_members(busy_failure(1), json!({ "kind": "permanent" })));
    setup.process(vec![handed_off_message(1, nth_body(1), &hand_off)]);
    let verdict = json!({ "verdict": "NON_RETRYABLE_ERROR", "stage": "failed-message-processor" });
    assert_eq!(setup.verdict(), with_members(hand_off, verdict));
}

#[test]
fn a_resend_adds_the_reason_to_its_history_and_keeps_unknown_metadata() {
    let past = format!(
        r#"{{"attempt":0,"failed_at":"{}","error_type":"A","error_details":"b","n":1.50e400,"a":["\u00e9"]}}"#,
        format_time_at(-100)
    );
    let body =
        body_with_metadata(1, &format!(r#""retry_attempt":1,"retry_history":[{past}],"parked_seconds":60"#));
    let setup = Setup::with_policy(FIXED);
    setup.process(vec![handed_off_message(
        1,
        body,
        &later_document(with_members(busy_failure(1), json!({ "kind": "parked" }))),
    )]);
    let sent = setup.source.only_sent_content();
    assert!(sent.body.contains(r#""parked_seconds":60"#), "{}", sent.body);
    for part in [r#""error_type":"A","error_details":"b""#, r#""n":1.50e400"#, r#""a":["\u00e9"]"#] {
        assert!(sent.body.contains(part), "{part} in {}", sent.body);
    }
    let metadata = MessageSchema::default().parse_envelope(&sent.body).unwrap().metadata;
    let history: Vec<_> =
        metadata.retry_history.iter().map(|past| (past.attempt, &*past.error_type)).collect();
    assert_eq!((metadata.retry_attempt, history), (2, vec![(0, "A"), (1, "Db.Busy")]));
}

#[test]
fn a_moved_message_with_a_dead_letter_starts_a_new_generation() {
    let dead_letter = json!({
        "stage": "circuit-breaker",
        "cause": { "type": "A", "message": "b", "code": 7 },
        "redrive_generation": 2,
        "dead_lettered_at": format_time_at(-7000),
        "sqs_message_id": "sqs-0",
        "fingerprint": "0123456789abcdef",
        "folded_attributes": { "count": { "data_type": "Number.int", "text": "7", "since": 1 } },
        "held_seconds": 60,
    });
    let mut attributes = producer_attributes();
    attributes.remove("count");
    attributes.insert("DeadLetter".to_owned(), Attribute::string(dead_letter.to_string()));
    attributes.insert("ErrorType".to_owned(), Attribute::string("CIRCUIT_OPEN"));
    let setup = Setup::with_policy(FIXED);
    setup.process(vec![ReceivedMessage { attributes, ..redriven_message(1, nth_body(1)) }]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.attributes, producer_attributes());
    let metadata = MessageSchema::default().parse_envelope(&sent.body).unwrap().metadata;
    assert_eq!(metadata.redrive_generation, Some(3));
}

/// An operator moved a later version's verdict to this queue.
#[test]
fn a_misplaced_verdict_is_decided_by_its_last_error() {
    let verdict =
        with_members(busy_failure(1), json!({ "verdict": "CIRCUIT_OPEN", "stage": "circuit-breaker" }));
    let mut arrival = Arrival::from_record(handed_off_message(1, nth_body(1), &verdict), start_time());
    assert!(matches!(arrival.document(), Some(FailureDocument::Verdict(_))));
    let HandedOffFailure { hand_off, due_at } = arrival.take_hand_off(start_time());
    assert_eq!((hand_off.error.error_type.as_str(), due_at), ("Db.Busy", None));
}
