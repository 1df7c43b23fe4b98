//! Messages that the message-processor held because their target is down.

use redeliver_core::message::metadata::Holds;
use redeliver_core::message::origin::Origin;

use super::*;

fn held(n: usize, body: impl Into<String>) -> ReceivedMessage {
    let details = format!("not called: the target has been down since {}", moment(-600));
    handed_off(n, body, &with(busy(n), json!({ "type": "CircuitOpen", "details": details, "kind": "held" })))
}

#[test]
fn held_messages_come_back_spread_over_minutes_and_nobody_is_told_of_each() {
    let setup = Setup::new();
    assert_eq!(setup.process((0..10).map(|n| held(n, body(n))).collect()), [""; 0]);
    let delays: Vec<_> = setup.source.sent().iter().map(|sent| sent.delay.get()).collect();
    assert_eq!(delays, HELD_FIRST);
    assert_eq!(setup.world.seen.events(), []);
    let first = &setup.source.sent()[0];
    assert!(first.attributes.is_empty(), "the reason stays behind");
    let metadata = MessageSchema::default().parse(&first.body).unwrap().metadata;
    let since = start() - chrono::TimeDelta::seconds(1);
    assert_eq!((metadata.retry_attempt, metadata.holds), (0, Holds::written(Some(since), delays[0].into())));
    assert_eq!(metadata.retry_history, []);
}

/// Computed from the keys of their ids.
const HELD_FIRST: [u16; 10] = [182, 113, 693, 736, 452, 373, 237, 335, 393, 649];

#[test]
fn what_is_held_again_keeps_its_place_among_the_others() {
    let setup = Setup::with_policy(r#"{"circuit_breaker":{"probe_interval_seconds_max":300}}"#);
    setup.process((0..10).map(|n| held(n, body_with(n, r#""held_seconds":100"#))).collect());
    let delays: Vec<_> = setup.source.sent().iter().map(|sent| sent.delay.get()).collect();
    assert_eq!(delays, [570; 10]);
}

#[test]
fn a_held_message_that_expires_says_that_it_was_not_called() {
    let setup = Setup::with_policy(r#"{"max_age_seconds":24}"#);
    setup.process(vec![held(1, body_with(1, r#""retry_attempt":2,"held_seconds":100"#))]);
    let verdict = setup.verdict();
    assert_eq!((&verdict["verdict"], &verdict["type"]), (&json!("MESSAGE_EXPIRED"), &json!("CircuitOpen")));
}

#[test]
fn held_messages_are_paced_like_all_others() {
    let setup = Setup::with_policy(r#"{"max_redelivery_per_second":0.01}"#);
    let waiting = (0..9)
        .map(|n| {
            redeliver_core::message::OutgoingMessage::new(redeliver_core::message::Content {
                body: body(n),
                delay: DelaySeconds::MAX,
                ..Default::default()
            })
            .unwrap()
        })
        .collect();
    let (clock, queue) = (&setup.world.clock, &setup.source.queue);
    clock.block_on(redeliver_core::deliver::deliver(
        queue,
        clock,
        clock.now() + Duration::from_secs(1),
        waiting,
    ));
    setup.process(vec![held(3, body_with(3, r#""held_seconds":100"#))]);
    let sent = setup.source.only();
    assert_eq!(sent.delay.get(), 891);
    let metadata = MessageSchema::default().parse(&sent.body).unwrap().metadata;
    let held_seconds = metadata.holds.seconds(Origin::Resent);
    assert_eq!(held_seconds, 100 + u32::from(sent.delay.get()), "all of the delay counts");
}

#[test]
fn the_holds_of_a_message_from_its_producer_begin_at_zero() {
    let setup = Setup::new();
    let forged = body_with(1, r#""held_since":"2020-01-01T00:00:00Z","held_seconds":86400"#);
    let hand_off = with(busy(1), json!({ "type": "CircuitOpen", "kind": "held", "from_producer": true }));
    setup.process(vec![handed_off(1, forged, &hand_off)]);
    let sent = setup.source.only();
    let metadata = MessageSchema::default().parse(&sent.body).unwrap().metadata;
    let since = start() - chrono::TimeDelta::seconds(1);
    assert_eq!(metadata.holds, Holds::written(Some(since), HELD_FIRST[1].into()));
    assert_eq!((metadata.snooze_count, metadata.retry_attempt), (0, 0));
}
