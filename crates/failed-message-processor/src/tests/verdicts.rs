//! Verdicts: the exact document, and never another retry.

use redeliver_core::arrival::Arrival;
use redeliver_core::limits::MESSAGE_BYTES_MAX;

use super::*;

fn expected_verdict(document: Value, verdict: &str) -> Value {
    with_members(document, json!({ "verdict": verdict, "stage": "failed-message-processor" }))
}

#[test]
fn a_permanent_failure_is_given_up_immediately() {
    let setup = Setup::new();
    let failure = with_members(busy_failure(1), json!({ "kind": "permanent" }));
    assert_eq!(setup.process(vec![handed_off_message(1, nth_body(1), &failure)]), [""; 0]);
    assert_eq!(setup.verdict(), expected_verdict(failure, "NON_RETRYABLE_ERROR"));
    assert_eq!(setup.annotation.only_sent_content().body, nth_body(1));
}

#[test]
fn the_policys_lists_can_make_a_failure_permanent() {
    let setup = Setup::with_policy(r#"{"non_retryable":["Db.*"]}"#);
    setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]);
    assert_eq!(setup.verdict()["verdict"], "NON_RETRYABLE_ERROR");
    assert_eq!(setup.verdict()["kind"], "transient", "the handler's kind remains recorded");
}

#[test]
fn the_last_retry_is_followed_by_a_verdict_with_the_number_of_retries() {
    let setup = Setup::new();
    let body = body_with_metadata(1, r#""retry_attempt":5"#);
    setup.process(vec![handed_off_message(1, &*body, &busy_failure(1))]);
    let explanation = json!({ "explanation": "Max retry attempts 5 exceeded" });
    assert_eq!(
        setup.verdict(),
        with_members(expected_verdict(busy_failure(1), "RETRY_ATTEMPT_EXCEEDED"), explanation)
    );
    assert_eq!(setup.annotation.only_sent_content().body, body, "the body as last received");
}

#[test]
fn attempts_never_exceed_the_policys_maximum() {
    for (policy, attempt) in
        [(r#"{"max_attempts":0}"#, 0), (r#"{"max_attempts":2}"#, 2), (r#"{"max_attempts":2}"#, 1000)]
    {
        let setup = Setup::with_policy(policy);
        let body = body_with_metadata(1, &format!(r#""retry_attempt":{attempt}"#));
        setup.process(vec![handed_off_message(1, body, &busy_failure(1))]);
        assert_eq!(setup.verdict()["verdict"], "RETRY_ATTEMPT_EXCEEDED", "{policy}");
    }
}

#[test]
fn a_retry_that_would_come_too_late_is_not_made() {
    let policy = r#"{"max_age_seconds":109,"backoff":{"kind":"fixed","delay_seconds":100,"jitter":"none"}}"#;
    let setup = Setup::with_policy(policy);
    setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]);
    let verdict = setup.verdict();
    assert_eq!(verdict["verdict"], "MESSAGE_EXPIRED");
    let explanation = format!(
        "The next retry, at {}, would be too late: max_age_seconds ends at {}",
        format_time_at(100),
        format_time_at(99)
    );
    assert_eq!(verdict["explanation"], explanation);

    let setup = Setup::with_policy(&policy.replace("109", "110"));
    setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]);
    assert_eq!(setup.source.sent_contents().len(), 1, "110 s after the first send is still in time");
}

#[test]
fn a_producers_own_limit_also_applies_to_a_snooze() {
    for kind in ["transient", "snooze", "not_started"] {
        let setup = Setup::with_policy(FIXED);
        let body = body_with_metadata(1, &format!(r#""expires_at":"{}""#, format_time_at(99)));
        setup.process(vec![handed_off_message(
            1,
            body,
            &with_members(busy_failure(1), json!({ "kind": kind })),
        )]);
        assert_eq!(setup.verdict()["verdict"], "MESSAGE_EXPIRED", "{kind}");
    }
}

#[test]
fn an_invalid_message_is_never_sent_again() {
    for (body, code) in [
        ("canary", "INVALID_MESSAGE_FORMAT"),
        ("{}", "INVALID_MESSAGE_SCHEMA"),
        (r#"{"metadata":{"message_id":"canary"},"data":{}}"#, "INVALID_MESSAGE_SCHEMA"),
    ] {
        for record in [redriven_message(1, body), handed_off_message(1, body, &busy_failure(1))] {
            let setup = Setup::new();
            assert_eq!(setup.process(vec![record]), [""; 0]);
            let verdict = setup.verdict();
            assert_eq!((&verdict["verdict"], &verdict["type"]), (&code.into(), &code.into()));
            assert!(!verdict.to_string().contains("canary"), "{verdict}");
            assert_eq!(setup.annotation.only_sent_content().body, body);
        }
    }
}

#[test]
fn a_message_with_no_room_for_its_metadata_is_too_large() {
    for bytes in [MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX - 100] {
        let setup = Setup::new();
        let body = body_of_size(1, bytes);
        assert_eq!(setup.process(vec![redriven_message(1, &*body)]), [""; 0]);
        assert!(setup.source.sent_contents().is_empty());
        let sent = setup.annotation.only_sent_content();
        assert_eq!(sent.body, body);
        let is_full = bytes == MESSAGE_BYTES_MAX;
        assert_eq!((sent.attributes.is_empty(), sent.trace_header.is_some()), (is_full, is_full));
        let received = ReceivedMessage {
            attributes: sent.attributes,
            trace_header: sent.trace_header,
            redriven_from: None,
            ..redriven_message(1, "")
        };
        let verdict = Arrival::from_record(received, setup.world.clock.now()).take_verdict().unwrap();
        assert_eq!(verdict.code.as_str(), "MESSAGE_TOO_LARGE");
    }
}

#[test]
fn attributes_count_towards_the_size_of_a_resend() {
    let setup = Setup::new();
    let body = body_of_size(1, MESSAGE_BYTES_MAX - 1100);
    let attributes = Attributes::from([("a".to_owned(), Attribute::string("x".repeat(1000)))]);
    setup.process(vec![ReceivedMessage { attributes: attributes.clone(), ..redriven_message(1, body) }]);
    let sent = setup.annotation.only_sent_content();
    assert_eq!(strip_own_attributes(&sent.attributes), attributes);
    assert_eq!(attribute_document(&sent.attributes, FAILURE)["verdict"], "MESSAGE_TOO_LARGE");
}

#[test]
fn a_verdict_keeps_ten_attributes_group_and_trace() {
    let setup = Setup::new();
    let record = ReceivedMessage {
        attributes: ten_attributes(),
        message_group_id: Some("tenant-7".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        ..redriven_message(1, "{}")
    };
    setup.process(vec![record]);
    let sent = setup.annotation.only_sent_content();
    assert_eq!(sent.message_group_id.as_deref(), Some("tenant-7"));
    assert_eq!(sent.trace_header.as_deref(), Some("Root=1"));
    let folded = setup.verdict()["folded_attributes"].clone();
    assert_eq!(folded, json!({ "more-0": { "data_type": "String", "text": "x" } }));
    let mut all = strip_own_attributes(&sent.attributes);
    all.insert("more-0".to_owned(), Attribute::string("x"));
    assert_eq!(all, ten_attributes());
}
