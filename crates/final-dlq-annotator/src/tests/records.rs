//! The exact final record for each verdict.

use super::*;

/// Returns the `DeadLetter` for `spent_body(1)` after the failed-message-processor has given up on it.
fn dead_letter(reason: &str, more: Value) -> Value {
    let record = json!({
        "stage": "failed-message-processor",
        "cause": { "type": "HttpStatus.503", "message": "HTTP 503" },
        "attempts": 5,
        "first_sent_time": format_time_at(-3600),
        "dead_lettered_at": format_time_at(0),
        "died_at": format_time_at(-2),
        "source_queue_arn": SOURCE_ARN,
        "sqs_message_id": "source-1",
        "fingerprint": compute_fingerprint(reason, "HttpStatus.503", "HTTP 503"),
    });
    with_members(record, more)
}

/// Checks the final record for `spent_body(1)` with this verdict.
fn assert_record(reason: &str, failure: &Value, details: &str, dead_letter: &Value) {
    let sent = final_record(given_up_message(1, spent_body(1), failure));
    assert_eq!(sent.body, spent_body(1), "the body as last received");
    assert_eq!(text(&sent, ERROR_TYPE), reason);
    assert_eq!(text(&sent, ERROR_DETAILS), details);
    assert_eq!(&attribute_document(&sent.attributes, DEAD_LETTER), dead_letter);
    let names: Vec<_> = sent.attributes.keys().collect();
    assert_eq!(names, [DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE], "the Failure is removed");
}

#[test]
fn an_exhausted_message_has_its_retries_and_its_last_error() {
    let reason = "RETRY_ATTEMPT_EXCEEDED";
    let failure = failure(reason, json!({ "explanation": "Max retry attempts 5 exceeded" }));
    let details = "Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503";
    assert_record(reason, &failure, details, &dead_letter(reason, json!({})));
}

#[test]
fn a_record_has_its_held_seconds_and_redrive_count() {
    let reason = "MESSAGE_EXPIRED";
    let recorded = |members: &str| {
        let body = format!(r#"{{"metadata":{{"message_id":"{}"{members}}},"data":{{}}}}"#, nth_id(1));
        let sent = final_record(given_up_message(1, body, &failure(reason, json!({}))));
        let document = attribute_document(&sent.attributes, DEAD_LETTER);
        (document.get("held_seconds").cloned(), document.get("redrive_count").cloned())
    };
    assert_eq!(recorded(""), (None, None));
    assert_eq!(recorded(r#","held_seconds":0,"redrive_count":0"#), (None, None));
    assert_eq!(recorded(r#","held_seconds":1,"redrive_count":1"#), (Some(json!(1)), Some(json!(1))));
    assert_eq!(
        recorded(r#","held_seconds":86400,"redrive_count":20"#),
        (Some(json!(86_400)), Some(json!(20)))
    );
}

#[test]
fn a_record_names_the_version_of_the_function_that_failed() {
    let reason = "RETRY_ATTEMPT_EXCEEDED";
    let failure = failure(reason, json!({ "function": "orders:7" }));
    let cause = json!({ "type": "HttpStatus.503", "message": "HTTP 503", "function": "orders:7" });
    assert_record(
        reason,
        &failure,
        "HttpStatus.503: HTTP 503",
        &dead_letter(reason, json!({ "cause": cause })),
    );
}

/// The location is in the record and in the log line, so that the call's logs can be found from both.
#[test]
fn a_record_has_the_log_location_of_its_last_call() {
    let reason = "RETRY_ATTEMPT_EXCEEDED";
    let place = json!({ "request_id": "7b1c", "log_group": "/aws/lambda/orders", "log_stream": "2026/[7]a" });
    let mut logs = place.clone();
    logs["started_at"] = format_time_at(-3).into();
    logs["ended_at"] = format_time_at(-2).into();
    let failure = failure(reason, json!({ "last_attempt_logs": logs }));
    let setup = Setup::new();
    setup.process(vec![given_up_message(1, nth_body(1), &failure)]);
    let sent = setup.final_dlq.sent_contents();
    assert_eq!(attribute_document(&sent[0].attributes, DEAD_LETTER)["last_attempt_logs"], logs);
    let event = serde_json::to_value(&setup.world.seen.events()[0]).unwrap();
    for (name, value) in place.as_object().unwrap() {
        assert_eq!(&event[name], value);
    }
}

/// Without the member `from_producer`, the sender is unknown, and the message's own value is the only one.
#[test]
fn a_final_record_omits_a_producers_forged_holds() {
    let body = nth_body(1).replacen('}', r#","held_seconds":86400}"#, 1);
    let recorded = |more: Value| {
        let sent = final_record(given_up_message(1, &*body, &failure("RETRY_ATTEMPT_EXCEEDED", more)));
        attribute_document(&sent.attributes, DEAD_LETTER).get("held_seconds").cloned()
    };
    assert_eq!(recorded(json!({ "from_producer": true })), None);
    assert_eq!(recorded(json!({})), Some(json!(86_400)));
}

#[test]
fn a_permanent_failure_is_explained_by_its_error() {
    let reason = "NON_RETRYABLE_ERROR";
    let failure = failure(reason, json!({ "kind": "permanent" }));
    assert_record(reason, &failure, "HttpStatus.503: HTTP 503", &dead_letter(reason, json!({})));
}

#[test]
fn a_record_of_an_expired_message_names_the_retry_that_would_be_too_late() {
    let reason = "MESSAGE_EXPIRED";
    let explanation = "The next retry, at A, would be too late: max_age_seconds ends at B";
    let failure = failure(reason, json!({ "explanation": explanation }));
    let details = format!("{explanation}; last error HttpStatus.503: HTTP 503");
    assert_record(reason, &failure, &details, &dead_letter(reason, json!({})));
}

#[test]
fn an_oversized_message_is_recorded_with_its_reason() {
    let reason = "MESSAGE_TOO_LARGE";
    let explanation = "With its retry metadata, the message is 1048577 bytes long; the SQS limit is 1048576";
    let failure = failure(reason, json!({ "explanation": explanation }));
    let details = format!("{explanation}; last error HttpStatus.503: HTTP 503");
    assert_record(reason, &failure, &details, &dead_letter(reason, json!({})));
}

#[test]
fn a_record_of_an_invalid_message_names_its_flaw_without_the_body() {
    for (reason, stage, body, details) in [
        ("INVALID_MESSAGE_FORMAT", "message-processor", "canary", "not JSON: at line 1"),
        ("INVALID_MESSAGE_SCHEMA", "message-processor", "{}", "/metadata: is missing"),
        ("INVALID_MESSAGE_SCHEMA", "failed-message-processor", "{}", "/metadata: is missing"),
    ] {
        let failure = json!({
            "type": reason,
            "details": details,
            "failed_at": format_time_at(-2),
            "source_message_id": "source-1",
            "source_queue_arn": SOURCE_ARN,
            "first_sent_time": format_time_at(-100),
            "verdict": reason,
            "stage": stage,
        });
        let sent = final_record(given_up_message(1, body, &failure));
        assert_eq!(sent.body, body);
        assert_eq!((text(&sent, ERROR_TYPE), text(&sent, ERROR_DETAILS)), (reason, details));
        let expected = json!({
            "stage": stage,
            "cause": { "type": reason, "message": details },
            "first_sent_time": format_time_at(-100),
            "dead_lettered_at": format_time_at(0),
            "died_at": format_time_at(-2),
            "source_queue_arn": SOURCE_ARN,
            "sqs_message_id": "source-1",
            "fingerprint": compute_fingerprint(reason, reason, details),
        });
        assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER), expected);
    }
}

#[test]
fn a_verdict_reduced_to_its_code_still_makes_a_record() {
    let sent = final_record(given_up_message(1, nth_body(1), &json!({ "verdict": "MESSAGE_TOO_LARGE" })));
    assert_eq!(text(&sent, ERROR_TYPE), "MESSAGE_TOO_LARGE");
    assert!(!text(&sent, ERROR_DETAILS).is_empty());
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!(document["sqs_message_id"], "sqs-1", "the known members");
    assert_eq!(document["first_sent_time"], format_time_at(-1));
}

#[test]
fn a_redriven_generation_is_recorded() {
    let body = spent_body(1).replace(r#""retry_attempt":5"#, r#""retry_attempt":2,"redrive_generation":3"#);
    let sent = final_record(given_up_message(1, body, &failure("NON_RETRYABLE_ERROR", json!({}))));
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!((&document["attempts"], &document["redrive_generation"]), (&json!(2), &json!(3)));
}

#[test]
fn a_permanent_failure_after_a_redrive_has_no_retries() {
    let body = spent_body(1).replace(r#""retry_attempt":5"#, r#""retry_attempt":5,"redrive_generation":3"#);
    let failure = failure("NON_RETRYABLE_ERROR", json!({ "kind": "permanent", "new_generation": true }));
    let setup = Setup::new();
    setup.process(vec![given_up_message(1, &*body, &failure)]);
    let sent = setup.final_dlq.only_sent_content();
    assert_eq!(sent.body, body, "the body as last received");
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!((&document["attempts"], &document["redrive_generation"]), (&json!(0), &json!(4)));
    assert_eq!(
        document["first_sent_time"],
        format_time_at(-100),
        "the time of the first send of this generation"
    );
    let [Event::DeadLettered { retry_attempt, age_seconds, .. }] = &setup.world.seen.events()[..] else {
        panic!("one event")
    };
    assert_eq!((*retry_attempt, *age_seconds), (0, 100.0));
}

#[test]
fn a_twice_redriven_message_continues_the_count_in_its_final_record() {
    let says = json!({ "kind": "permanent", "new_generation": true, "generation_before": 1 });
    // Its body has no generation, since the message was not re-sent.
    let sent = final_record(given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", says)));
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!((&document["attempts"], &document["redrive_generation"]), (&json!(0), &json!(2)));
}

/// An operator chose the annotation queue as the destination of a redrive.
#[test]
fn a_misplaced_final_record_starts_the_next_generation() {
    let says = json!({ "new_generation": true, "generation_before": 1 });
    let attributes =
        final_record(given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", says))).attributes;
    let again = ReceivedMessage { attributes, ..given_up_message(1, spent_body(1), &json!({})) };
    let document = attribute_document(&final_record(again).attributes, DEAD_LETTER);
    assert_eq!(document["redrive_generation"], 3);
}

#[test]
fn a_message_without_a_verdict_is_still_explained() {
    for failure in [None, Some("not JSON"), Some(r#"{"verdict":"Any text"}"#), Some("[]")] {
        let mut record = given_up_message(1, nth_body(1), &json!({}));
        record.attributes.clear();
        record.attributes.extend(failure.map(|text| (FAILURE.to_owned(), Attribute::string(text))));
        let sent = final_record(record);
        assert_eq!(text(&sent, ERROR_TYPE), "ORCHESTRATION_FAILED");
        assert_eq!(text(&sent, ERROR_DETAILS), "The message reached the annotation queue without a verdict");
        let document = attribute_document(&sent.attributes, DEAD_LETTER);
        assert_eq!(document["stage"], "final-dlq-annotator");
        assert_eq!(document["attempts"], 0);
    }
}

#[test]
fn the_event_has_exact_values_and_no_text_from_the_target() {
    let setup = Setup::new();
    let canary = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "type": "canary", "details": "canary" }));
    setup.process(vec![
        given_up_message(1, spent_body(1).replace('é', "canary"), &canary),
        given_up_message(2, "canary", &canary),
    ]);
    let dead_lettered = |n: usize, message_id, retry_attempt, age_seconds| {
        let sqs_message_id = format!("source-{n}");
        let error_type = "RETRY_ATTEMPT_EXCEEDED";
        Event::DeadLettered {
            trace_id: None,
            message_id,
            sqs_message_id,
            error_type,
            retry_attempt,
            age_seconds,
            logs: LogLocation::default(),
        }
    };
    let expected = [dead_lettered(1, Some(nth_id(1)), 5, 3600.0), dead_lettered(1, None, 0, 100.0)];
    assert_eq!(setup.world.seen.events(), expected);
}

/// The annotator does not have the setting `ENVELOPE`, but the message has a `Redeliver` attribute.
#[test]
fn a_plain_message_is_explained_like_an_envelope() {
    let redeliver =
        format!(r#"{{"message_id":"{}","retry_attempt":5,"held_seconds":7,"redrive_count":2}}"#, nth_id(1));
    let attributes = |count: usize| {
        let small = (0..count).map(|n| (format!("a{n}"), Attribute::string("x")));
        let ours = [
            ("Redeliver".to_owned(), Attribute::string(&*redeliver)),
            (FAILURE.to_owned(), Attribute::string(failure("RETRY_ATTEMPT_EXCEEDED", json!({})).to_string())),
        ];
        small.chain(ours).collect::<Attributes>()
    };
    for producers in [0, 8] {
        let setup = Setup::new();
        let given_up = ReceivedMessage { attributes: attributes(producers), ..nth_record(1, "no envelope") };
        assert_eq!(setup.process(vec![given_up]), [""; 0]);
        let sent = setup.final_dlq.only_sent_content();
        assert_eq!(sent.body, "no envelope");
        let explained = attribute_document(&sent.attributes, DEAD_LETTER);
        assert_eq!(explained["attempts"], json!(5));
        assert_eq!((&explained["held_seconds"], &explained["redrive_count"]), (&json!(7), &json!(2)));
        let whole = redeliver_core::arrival::split_producer_attributes(sent.attributes).attributes;
        assert_eq!((whole.len(), whole["Redeliver"].text()), (producers + 1, Some(redeliver.as_str())));
        let [Event::DeadLettered { message_id, .. }] = &*setup.world.seen.events() else {
            panic!("one event")
        };
        assert_eq!(message_id.as_deref(), Some(nth_id(1).as_str()));
    }
}
