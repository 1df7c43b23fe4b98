//! Messages that the message-processor held because their target is down.

use redeliver_core::message::metadata::Holds;

use super::*;

fn held(n: usize, body: impl Into<String>) -> ReceivedMessage {
    let details = format!("not called: the target has been down since {}", moment(-600));
    handed_off(n, body, &with(busy(n), json!({ "type": "CircuitOpen", "details": details, "kind": "held" })))
}

/// With the delay that the message-processor asks for.
fn held_for(n: usize, seconds: u64) -> ReceivedMessage {
    let hand_off =
        with(busy(n), json!({ "type": "CircuitOpen", "kind": "held", "retry_after_seconds": seconds }));
    handed_off(n, body(n), &hand_off)
}

fn delays(setup: &Setup) -> Vec<u16> {
    setup.source.sent().iter().map(|sent| sent.delay.get()).collect()
}

#[test]
fn held_messages_come_back_when_the_message_processor_says_and_nobody_is_told_of_each() {
    let setup = Setup::new();
    assert_eq!(setup.process(vec![held_for(0, 1), held_for(1, 250), held_for(2, 900)]), [""; 0]);
    assert_eq!(delays(&setup), [1, 250, 900]);
    assert_eq!(setup.world.seen.events(), []);
    let second = &setup.source.sent()[1];
    assert!(second.attributes.is_empty(), "the reason stays behind");
    let metadata = MessageSchema::default().parse(&second.body).unwrap().metadata;
    let since = start() - chrono::TimeDelta::seconds(1);
    assert_eq!((metadata.retry_attempt, metadata.holds), (0, Holds::written(Some(since), 250)));
    assert_eq!(metadata.retry_history, []);
}

#[test]
fn a_held_message_that_expires_says_that_it_was_not_called() {
    let setup = Setup::with_policy(r#"{"max_age_seconds":10}"#);
    setup.process(vec![held(1, body_with(1, r#""retry_attempt":2,"held_seconds":100"#))]);
    let verdict = setup.verdict();
    assert_eq!((&verdict["verdict"], &verdict["type"]), (&json!("MESSAGE_EXPIRED"), &json!("CircuitOpen")));
}

#[test]
fn the_holds_of_a_message_from_its_producer_begin_at_zero() {
    let setup = Setup::new();
    let forged = body_with(1, r#""held_since":"2020-01-01T00:00:00Z","held_seconds":86400"#);
    let hand_off =
        json!({ "type": "CircuitOpen", "kind": "held", "retry_after_seconds": 250, "from_producer": true });
    let hand_off = with(busy(1), hand_off);
    setup.process(vec![handed_off(1, forged, &hand_off)]);
    let sent = setup.source.only();
    let metadata = MessageSchema::default().parse(&sent.body).unwrap().metadata;
    let since = start() - chrono::TimeDelta::seconds(1);
    assert_eq!(metadata.holds, Holds::written(Some(since), 250));
    assert_eq!((metadata.snooze_count, metadata.retry_attempt), (0, 0));
}
