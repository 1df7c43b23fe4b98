//! A new generation: a message that was redriven from the final DLQ starts over.

use super::*;

/// Returns body 1 after a redrive: in generation 2, after five retries and some snoozes.
fn spent_body() -> String {
    let past = r#"{"attempt":4,"failed_at":"2026-07-25T10:00:00Z","error_type":"A","error_details":"b"}"#;
    let (first, next) = (format_time_at(-9000), format_time_at(-8000));
    body_with_metadata(
        1,
        &format!(
            r#""retry_attempt":5,"next_retry_time":"{next}","first_sent_time":"{first}","retry_history":[{past}],"snooze_count":3,"redrive_generation":2"#
        ),
    )
}

/// Returns the metadata of body 1 after the first retry of generation 3.
fn new_generation_metadata(failure_type: &str, failed_at: i64) -> Value {
    json!({
        "message_id": nth_id(1),
        "retry_attempt": 1,
        "next_retry_time": format_time_at(100),
        "first_sent_time": format_time_at(-10),
        "redrive_generation": 3,
        "retry_history": [{ "attempt": 0, "failed_at": format_time_at(failed_at), "error_type": failure_type }],
    })
}

/// Returns the metadata of the only re-send, without variable strings.
fn sent_metadata(setup: &Setup) -> Value {
    let mut body: Value = serde_json::from_str(&setup.source.only_sent_content().body).unwrap();
    body["metadata"]["retry_history"][0].as_object_mut().unwrap().remove("error_details");
    body["metadata"].take()
}

#[test]
fn a_new_generation_starts_at_zero() {
    let setup = Setup::with_policy(FIXED);
    let failure = with_members(busy_failure(1), json!({ "new_generation": true }));
    assert_eq!(setup.process(vec![handed_off_message(1, spent_body(), &failure)]), [""; 0]);
    assert_eq!(sent_metadata(&setup), new_generation_metadata("Db.Busy", -1));
}

/// Returns the body of message 1, which was given up in generation 2 without a re-send: it does not contain the
/// generation.
fn body_without_generation() -> String {
    spent_body().replace(r#","redrive_generation":2"#, "")
}

#[test]
fn a_new_generation_continues_the_count_in_the_final_record() {
    let failure = with_members(busy_failure(1), json!({ "new_generation": true, "generation_before": 2 }));
    let setup = Setup::with_policy(FIXED);
    setup.process(vec![handed_off_message(1, body_without_generation(), &failure)]);
    assert_eq!(sent_metadata(&setup), new_generation_metadata("Db.Busy", -1));

    let setup = Setup::new();
    let failure = with_members(failure, json!({ "kind": "permanent" }));
    setup.process(vec![handed_off_message(1, body_without_generation(), &failure)]);
    assert_eq!(setup.verdict()["generation_before"], 2, "the verdict also has it");
}

#[test]
fn a_new_generation_has_its_own_delays() {
    let setup = Setup::new();
    let failure = with_members(busy_failure(1), json!({ "new_generation": true }));
    setup.process(vec![handed_off_message(1, spent_body(), &failure)]);
    assert_eq!(
        RetryDelay::from(setup.source.only_sent_content().delay),
        retry_delay(&Policy::default(), key(1, 3, 1))
    );
}

#[test]
fn a_message_that_came_back_and_crashed_the_function_starts_at_zero() {
    let setup = Setup::with_policy(FIXED);
    let record = json!({
        "stage": "failed-message-processor",
        "cause": { "type": "A", "message": "b" },
        "redrive_generation": 2,
        "dead_lettered_at": format_time_at(-7000),
        "sqs_message_id": "sqs-0",
        "fingerprint": "0123456789abcdef",
        "folded_attributes": { "count": { "data_type": "Number.int", "text": "7" } },
    });
    let mut attributes = producer_attributes();
    let folded = attributes.remove("count").unwrap();
    attributes.insert("DeadLetter".to_owned(), Attribute::string(record.to_string()));
    attributes.insert("ErrorType".to_owned(), Attribute::string("RETRY_ATTEMPT_EXCEEDED"));
    attributes.insert("ErrorDetails".to_owned(), Attribute::string("Max retry attempts 5 exceeded"));
    assert_eq!(
        setup.process(vec![ReceivedMessage { attributes, ..redriven_message(1, body_without_generation()) }]),
        [""; 0]
    );
    let crashed = json!({ "retry_attempt": 0, "redrive_count": 1, "next_retry_time": format_time_at(5) });
    assert_eq!(sent_metadata(&setup), with_members(new_generation_metadata("Redrive", 0), crashed));
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.attributes["count"], folded);
    assert_eq!(sent.attributes, producer_attributes(), "the next failure does not start a new generation");
}

#[test]
fn a_verdict_on_a_permanent_failure_records_the_new_generation() {
    let setup = Setup::new();
    let failure = with_members(busy_failure(1), json!({ "kind": "permanent", "new_generation": true }));
    setup.process(vec![handed_off_message(1, spent_body(), &failure)]);
    let verdict = setup.verdict();
    assert_eq!(
        (&verdict["verdict"], &verdict["new_generation"]),
        (&json!("NON_RETRYABLE_ERROR"), &json!(true))
    );
}
