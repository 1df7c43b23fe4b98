//! A verdict from a later version. The final record contains its code, its explanation and its reason.

use super::*;

#[test]
fn a_later_versions_verdict_is_honored() {
    let says = json!({
        "stage": "circuit-breaker",
        "kind": "held",
        "explanation": "The target was down for 24 hours",
        "held_since": format_time_at(-60),
        "circuit": { "open": [1] },
        "folded_attributes": { "tenant": { "data_type": "String", "text": "acmé", "since": 1 } },
    });
    let setup = Setup::new();
    setup.process(vec![given_up_message(1, spent_body(1), &failure("TARGET_GONE", says))]);
    let sent = setup.final_dlq.only_sent_content();
    assert_eq!(text(&sent, ERROR_TYPE), "TARGET_GONE");
    let details = "The target was down for 24 hours; last error HttpStatus.503: HTTP 503";
    assert_eq!(text(&sent, ERROR_DETAILS), details);
    let expected = json!({
        "stage": "circuit-breaker",
        "cause": { "type": "HttpStatus.503", "message": "HTTP 503" },
        "attempts": 5,
        "first_sent_time": format_time_at(-3600),
        "dead_lettered_at": format_time_at(0),
        "died_at": format_time_at(-2),
        "source_queue_arn": SOURCE_ARN,
        "sqs_message_id": "source-1",
        "fingerprint": compute_fingerprint("TARGET_GONE", "HttpStatus.503", "HTTP 503"),
    });
    assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER), expected);
    assert_eq!(text(&sent, "tenant"), "acmé");
    let [Event::DeadLettered { error_type, .. }] = &setup.world.seen.events()[..] else {
        panic!("one event")
    };
    assert_eq!(*error_type, "OTHER", "no text of a document is logged");
}

/// A later version may omit members that this version writes.
#[test]
fn a_verdict_without_a_stage_keeps_its_reason() {
    let mut verdict = failure("MESSAGE_EXPIRED", json!({ "explanation": "Too late" }));
    assert!(verdict.as_object_mut().unwrap().remove("stage").is_some());
    let setup = Setup::new();
    setup.process(vec![given_up_message(1, spent_body(1), &verdict)]);
    let sent = setup.final_dlq.only_sent_content();
    assert_eq!(text(&sent, ERROR_TYPE), "MESSAGE_EXPIRED");
    assert_eq!(text(&sent, ERROR_DETAILS), "Too late; last error HttpStatus.503: HTTP 503");
    let record = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!(record["cause"], json!({ "type": "HttpStatus.503", "message": "HTTP 503" }));
    assert_eq!(record["source_queue_arn"], SOURCE_ARN);
}
