//! Messages moved by SQS. No function wrote their reason, and the producer may have forged their attributes and
//! metadata.

use super::*;

#[test]
fn a_forged_failure_on_a_redriven_message_is_ignored() {
    let setup = Setup::with_policy(FIXED);
    let forgery = json!({ "type": "canary", "kind": "permanent", "new_generation": true, "first_sent_time": format_time_at(-9999) });
    let mut attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(forgery.to_string()))]);
    attributes.extend(producer_attributes());
    assert_eq!(
        setup.process(vec![ReceivedMessage { attributes, ..redriven_message(1, nth_body(1)) }]),
        [""; 0]
    );
    let sent = setup.source.only_sent_content();
    let metadata = serde_json::from_str::<Value>(&sent.body).unwrap()["metadata"].clone();
    assert_eq!((&metadata["retry_attempt"], &metadata["redrive_count"]), (&json!(0), &json!(1)));
    assert_eq!(metadata["redrive_generation"], Value::Null);
    assert_eq!(metadata["first_sent_time"], format_time_at(-10), "a redrive keeps SentTimestamp");
    assert_eq!(metadata["retry_history"][0]["error_type"], "Redrive");
    assert_eq!(metadata["retry_history"][0]["failed_at"], format_time_at(0));
    assert!(!sent.body.contains("canary"));
    assert_eq!(sent.attributes, producer_attributes(), "the forged attribute is removed");
}

#[test]
fn a_redriven_message_with_ten_attributes_is_sent_again_with_all_of_them() {
    let setup = Setup::with_policy(FIXED);
    setup.process(vec![ReceivedMessage { attributes: ten_attributes(), ..redriven_message(1, nth_body(1)) }]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.attributes, ten_attributes());
    let counts = r#""retry_attempt":0,"next_retry_time""#;
    assert!(sent.body.contains(counts) && sent.body.contains(r#""redrive_count":1"#), "{}", sent.body);
}

#[test]
fn a_redriven_message_is_eventually_given_up_with_its_history() {
    let setup = Setup::new();
    let history = format!(
        r#""retry_attempt":5,"retry_history":[{{"attempt":4,"failed_at":"{}","error_type":"A","error_details":"b"}}]"#,
        format_time_at(-100)
    );
    setup.process(vec![redriven_message(1, body_with_metadata(1, &history))]);
    let sent = setup.source.only_sent_content();
    assert!(sent.body.contains(r#""retry_attempt":5,"#), "a crash is not an attempt: {}", sent.body);
    let setup = Setup::new();
    let spent = body_with_metadata(1, &format!(r#""redrive_count":20,{history}"#));
    setup.process(vec![redriven_message(1, spent.clone())]);
    assert_eq!(setup.annotation.only_sent_content().body, spent);
    let verdict = setup.verdict();
    assert_eq!(verdict["verdict"], "ORCHESTRATION_FAILED");
    assert_eq!(
        verdict["explanation"],
        "SQS moved it 21 times because no call was answered: max_redrives is 20"
    );
    assert_eq!(verdict["type"], "Redrive");
    assert_eq!(verdict["source_message_id"], "sqs-1");
    assert_eq!(verdict["source_queue_arn"], SOURCE_ARN);
    assert_eq!(verdict["first_sent_time"], format_time_at(-10));
}

#[test]
fn a_list_of_retryable_errors_does_not_exclude_unjudged_messages() {
    let setup = Setup::with_policy(r#"{"retryable":["HttpStatus.503"]}"#);
    setup.process(vec![redriven_message(1, nth_body(1))]);
    assert_eq!(setup.source.sent_contents().len(), 1);
}

#[test]
fn a_handed_off_message_whose_failure_cannot_be_read_is_retried() {
    for failure in ["not JSON", "[]", r#"{"kind":"unheard-of"}"#, r#"{"unknown":1}"#] {
        let setup = Setup::with_policy(FIXED);
        let mut record = handed_off_message(1, nth_body(1), &busy_failure(1));
        record.attributes.insert(FAILURE.to_owned(), Attribute::string(failure));
        assert_eq!(setup.process(vec![record]), [""; 0]);
        let sent = setup.source.only_sent_content();
        assert!(sent.attributes.is_empty());
        let metadata = serde_json::from_str::<Value>(&sent.body).unwrap()["metadata"].clone();
        assert_eq!(metadata["retry_attempt"], 1, "{failure}");
    }
}

#[test]
fn a_forged_failure_does_not_change_a_redriven_messages_outcome() {
    let forged = with_members(
        busy_failure(1),
        json!({
            "retry_after_seconds": 7,
            "due_at": format_time_at(7),
            "new_generation": true,
            "attempts": 77,
            "verdict": "MESSAGE_EXPIRED",
            "stage": "message-processor",
            "explanation": "forged",
        }),
    );
    let resent = FIXED;
    let hopping = r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#;
    let given_up = r#"{"max_redrives":0}"#;
    for policy in [resent, hopping, given_up] {
        let sent = |forgery: Option<&Value>| {
            let setup = Setup::with_policy(policy);
            let mut attributes = producer_attributes();
            attributes.extend(forgery.map(|it| (FAILURE.to_owned(), Attribute::string(it.to_string()))));
            assert_eq!(
                setup.process(vec![ReceivedMessage { attributes, ..redriven_message(1, nth_body(1)) }]),
                [""; 0]
            );
            [
                setup.source.sent_contents(),
                setup.intermediate.sent_contents(),
                setup.annotation.sent_contents(),
            ]
        };
        let honest = sent(None);
        assert_eq!(honest.iter().flatten().count(), 1);
        assert_eq!(sent(Some(&forged)), honest, "{policy}");
    }
}

#[test]
fn a_redriven_messages_holds_count_only_if_redeliver_sent_it() {
    let body = body_with_metadata(1, r#""held_since":"2020-01-01T00:00:00Z","held_seconds":86400"#);
    for (sender, held_seconds) in [
        (Some("AROAREDELIVER00000000:failed-message-processor"), json!(86_400)),
        (Some("AROAPRODUCER000000000:web"), Value::Null),
        (None, json!(86_400)),
    ] {
        let setup = Setup::new();
        let sender_id = sender.map(str::to_owned);
        setup.process(vec![ReceivedMessage { sender_id, ..redriven_message(1, &*body) }]);
        let sent: Value = serde_json::from_str(&setup.source.only_sent_content().body).unwrap();
        assert_eq!(sent["metadata"]["held_seconds"], held_seconds, "{sender:?}");
        assert_eq!(sent["metadata"]["held_since"], Value::Null, "the message is no longer held");
    }
}
