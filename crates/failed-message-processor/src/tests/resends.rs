//! Re-sends, with the exact body and delay, and all other parts unchanged.

use super::*;

#[test]
fn a_first_failure_is_retried_with_the_policys_exact_delay_and_metadata() {
    let setup = Setup::with_policy(FIXED);
    assert_eq!(setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.delay.get(), 100);
    assert_eq!(
        sent.body,
        body_with_metadata(
            1,
            concat!(
                r#""retry_attempt":1,"next_retry_time":"2026-07-25T17:21:40.000000Z","#,
                r#""first_sent_time":"2026-07-25T17:19:50.000000Z","retry_history":[{"attempt":0,"#,
                r#""failed_at":"2026-07-25T17:19:59.000000Z","error_type":"Db.Busy","error_details":"come later"}]"#,
            )
        )
    );
    assert!(sent.attributes.is_empty(), "the Failure is removed");
    assert!(setup.annotation.sent_contents().is_empty());
    assert_eq!(setup.world.sqs.next_due_at(), Some(start_time() + chrono::TimeDelta::seconds(100)));
}

#[test]
fn the_default_policys_delay_is_keyed_by_message_and_attempt() {
    for (n, metadata, attempt) in [(1, "", 1), (2, "", 1), (1, r#","retry_attempt":4"#, 5)] {
        let setup = Setup::new();
        let body = format!(r#"{{"metadata":{{"message_id":"{}"{metadata}}},"data":{{}}}}"#, nth_id(n));
        setup.process(vec![handed_off_message(n, body, &busy_failure(n))]);
        assert_eq!(
            RetryDelay::from(setup.source.only_sent_content().delay),
            retry_delay(&Policy::default(), key(n, 0, attempt))
        );
    }
}

#[test]
fn the_same_record_is_re_sent_identically_twice() {
    let setup = Setup::new();
    for _ in 0..2 {
        setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]);
    }
    let sent = setup.source.sent_contents();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
}

#[test]
fn a_later_failure_keeps_first_sent_time_and_extends_the_history() {
    let setup = Setup::with_policy(FIXED);
    let past = r#"{"attempt":0,"failed_at":"2026-07-25T17:00:00Z","error_type":"A","error_details":"b"}"#;
    let metadata = |first: &str, history: &str, attempt: u32, next: &str| {
        format!(
            r#""first_sent_time":"{first}","retry_history":[{history}],"own":1e400,"retry_attempt":{attempt},"next_retry_time":"{next}""#
        )
    };
    let received = metadata("2026-07-25T19:00:00+02:00", past, 1, "2026-07-25T17:18:00Z");
    setup.process(vec![handed_off_message(1, body_with_metadata(1, &received), &busy_failure(1))]);
    let failed_at = format_time_at(-1);
    let newest = format!(
        r#"{{"attempt":1,"failed_at":"{failed_at}","error_type":"Db.Busy","error_details":"come later"}}"#
    );
    let expected =
        metadata("2026-07-25T17:00:00.000000Z", &format!("{past},{newest}"), 2, &format_time_at(100));
    assert_eq!(
        setup.source.only_sent_content().body,
        body_with_metadata(1, &expected),
        "members keep their positions"
    );
}

#[test]
fn a_resend_keeps_the_bytes_attributes_group_and_trace() {
    let setup = Setup::with_policy(FIXED);
    let body = format!(
        "\n{{ \"data\" :{{\"é\":\"\\u00e9\",\"n\":1e400}},\t\"metadata\":{{ \"message_id\":\"{}\" }},\"x\":[1.0] }} ",
        nth_id(1)
    );
    let mut record = handed_off_message(1, &*body, &busy_failure(1));
    record.attributes.extend(producer_attributes());
    let intermediate = setup.world.add_queue("intermediate");
    let record = send_and_receive(
        &intermediate,
        Content {
            body: record.body,
            attributes: record.attributes,
            message_group_id: Some("tenant-7".to_owned()),
            deduplication_id: None,
            trace_header: Some("Root=1".to_owned()),
            delay: DelaySeconds::ZERO,
        },
    );
    assert_eq!(setup.process(vec![record]), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.attributes, producer_attributes());
    assert_eq!(sent.message_group_id.as_deref(), Some("tenant-7"));
    assert_eq!(sent.trace_header.as_deref(), Some("Root=1"));
    let (before, after) = body.split_once(&nth_id(1)).unwrap();
    assert!(sent.body.starts_with(&format!("{before}{}\"", nth_id(1))), "{}", sent.body);
    assert!(sent.body.ends_with(after.trim_start_matches('"').trim_start_matches(' ')), "{}", sent.body);
}

#[test]
fn a_targets_own_delay_is_a_floor_for_the_backoff() {
    for asked in [0, 30, 100, 600, 100_000] {
        let setup = Setup::with_policy(FIXED);
        let failure = with_members(busy_failure(1), json!({ "retry_after_seconds": asked }));
        setup.process(vec![handed_off_message(1, nth_body(1), &failure)]);
        let delay = setup.source.only_sent_content().delay;
        let floor = retry_after_delay(asked, RetryDelay::SHORT_MAX, key(1, 0, 1)).get();
        assert_eq!(delay.get(), floor.max(100), "{asked}");
    }
}

#[test]
fn a_snooze_and_a_message_not_started_spend_no_attempt() {
    for (kind, after) in [("snooze", Some(60)), ("not_started", None)] {
        let setup = Setup::with_policy(FIXED);
        let mut failure = with_members(busy_failure(1), json!({ "kind": kind }));
        if let Some(after) = after {
            failure["retry_after_seconds"] = after.into();
        }
        // All retries are already spent, but the message is still postponed.
        setup.process(vec![handed_off_message(1, body_with_metadata(1, r#""retry_attempt":5"#), &failure)]);
        let sent = setup.source.only_sent_content();
        let metadata = serde_json::from_str::<Value>(&sent.body).unwrap()["metadata"].clone();
        assert_eq!((&metadata["retry_attempt"], &metadata["snooze_count"]), (&json!(5), &json!(1)), "{kind}");
        let delay =
            after.map_or(100, |after| retry_after_delay(after, RetryDelay::SHORT_MAX, key(1, 0, 6)).get());
        assert_eq!(sent.delay.get(), delay);
    }
}

#[test]
fn the_hundred_and_first_snooze_spends_an_attempt() {
    let setup = Setup::with_policy(FIXED);
    let failure = with_members(busy_failure(1), json!({ "kind": "snooze", "retry_after_seconds": 60 }));
    setup.process(vec![handed_off_message(
        1,
        body_with_metadata(1, r#""retry_attempt":4,"snooze_count":100"#),
        &failure,
    )]);
    let metadata =
        serde_json::from_str::<Value>(&setup.source.only_sent_content().body).unwrap()["metadata"].clone();
    assert_eq!((&metadata["retry_attempt"], &metadata["snooze_count"]), (&json!(5), &json!(100)));

    let setup = Setup::with_policy(FIXED);
    setup.process(vec![handed_off_message(
        1,
        body_with_metadata(1, r#""retry_attempt":5,"snooze_count":100"#),
        &failure,
    )]);
    assert_eq!(setup.verdict()["verdict"], "RETRY_ATTEMPT_EXCEEDED", "the loop of snoozes ends");
}
