//! Messages that the message-processor held after a call with a "not now" response or an outage.

use redeliver_core::message::metadata::Holds;

use super::*;

fn held_message(n: usize, body: impl Into<String>) -> ReceivedMessage {
    handed_off_message(
        n,
        body,
        &with_members(busy_failure(n), json!({ "type": "HttpStatus.503", "kind": "held" })),
    )
}

/// Returns a held message with the delay that the message-processor requests.
fn held_message_with_delay(n: usize, seconds: u64) -> ReceivedMessage {
    let hold = json!({
        "type": "HttpStatus.503", "kind": "held", "retry_after_seconds": seconds,
        "held_since": format_time_at(-600), "outage_failures": 12,
    });
    handed_off_message(n, nth_body(n), &with_members(busy_failure(n), hold))
}

fn delays(setup: &Setup) -> Vec<u16> {
    setup.source.sent_contents().iter().map(|sent| sent.delay.get()).collect()
}

#[test]
fn held_messages_return_when_due_without_separate_log_lines() {
    let setup = Setup::new();
    assert_eq!(
        setup.process(vec![
            held_message_with_delay(0, 1),
            held_message_with_delay(1, 250),
            held_message_with_delay(2, 900)
        ]),
        [""; 0]
    );
    assert_eq!(delays(&setup), [1, 250, 900]);
    assert_eq!(setup.world.seen.events(), []);
    let second = &setup.source.sent_contents()[1];
    assert!(second.attributes.is_empty(), "the reason is not re-sent");
    let metadata = MessageSchema::default().parse_envelope(&second.body).unwrap().metadata;
    let since = start_time() - chrono::TimeDelta::seconds(600);
    assert_eq!((metadata.retry_attempt, metadata.holds), (0, Holds::from_members(Some(since), 12, 250)));
    let errors: Vec<_> = metadata.retry_history.iter().map(|past| past.error_type.as_str()).collect();
    assert_eq!(errors, ["HttpStatus.503"]);
}

#[test]
fn a_message_whose_holds_are_spent_is_given_up() {
    let setup = Setup::new();
    setup.process(vec![held_message(0, body_with_metadata(0, r#""held_seconds":86399"#))]);
    assert_eq!(delays(&setup), [1], "one last call");
    let setup = Setup::new();
    setup.process(vec![held_message(1, body_with_metadata(1, r#""held_seconds":86400"#))]);
    let verdict = setup.verdict();
    assert_eq!(
        (&verdict["verdict"], &verdict["type"]),
        (&json!("HOLD_TIME_EXCEEDED"), &json!("HttpStatus.503"))
    );
    let explanation = "Held for 86400 s without a successful call (hold_seconds_max is 86400)";
    assert_eq!(verdict["explanation"], explanation);
}

#[test]
fn an_expired_held_message_keeps_the_error_from_its_call() {
    let setup = Setup::with_policy(r#"{"max_age_seconds":10}"#);
    setup.process(vec![held_message(1, body_with_metadata(1, r#""retry_attempt":2,"held_seconds":100"#))]);
    let verdict = setup.verdict();
    assert_eq!(
        (&verdict["verdict"], &verdict["type"]),
        (&json!("MESSAGE_EXPIRED"), &json!("HttpStatus.503"))
    );
}

#[test]
fn holds_start_at_zero_for_a_message_from_a_producer() {
    let setup = Setup::new();
    let forged = body_with_metadata(1, r#""held_since":"2020-01-01T00:00:00Z","held_seconds":86400"#);
    let hand_off = json!({ "type": "HttpStatus.503", "kind": "held", "retry_after_seconds": 250, "from_producer": true });
    let hand_off = with_members(busy_failure(1), hand_off);
    setup.process(vec![handed_off_message(1, forged, &hand_off)]);
    let sent = setup.source.only_sent_content();
    let metadata = MessageSchema::default().parse_envelope(&sent.body).unwrap().metadata;
    let since = start_time() - chrono::TimeDelta::seconds(1);
    assert_eq!(metadata.holds, Holds::from_members(Some(since), 0, 250));
    assert_eq!((metadata.snooze_count, metadata.retry_attempt), (0, 0));
}
