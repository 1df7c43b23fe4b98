use std::time::Duration;

use super::*;
use crate::arrival::Arrival;
use crate::decide::tests::{body, failed_message, one_minute_policy};
use crate::failure::{Delivery, Hold, HoldReason, Outage};
use crate::message::ReceivedMessage;
use crate::message::reason::DeadLetterReason;
use crate::message::schema::MessageSchema;
use crate::testing::{at, delivery, received_message};

fn message(n: u32) -> ReceivedMessage {
    ReceivedMessage { sqs_message_id: format!("sqs-{n}"), ..received_message(None) }
}

#[test]
fn an_environment_remembers_calls_for_the_last_10_000_messages() {
    let counter = AttemptCounter::for_batch_size(10);
    for n in 0..10_000 {
        counter.record_failure(&message(n), at(n.into()));
    }
    let retries_made = |n| counter.retries_made(&message(n));
    assert!((0..10_000).all(|n| retries_made(n) == 1));

    // After this, the last call of message 0 is no longer the oldest.
    assert_eq!(counter.record_failure(&message(0), at(10_000)), Attempts { made: 2, since: at(0) });
    counter.record_failure(&message(10_000), at(10_001));
    assert_eq!([0, 1, 2, 10_000].map(retries_made), [2, 0, 1, 1]);
    assert_eq!(counter.record_failure(&message(1), at(10_002)), Attempts { made: 1, since: at(10_002) });
    assert_eq!([0, 1, 2, 3].map(retries_made), [2, 1, 0, 1]);

    counter.forget("sqs-3");
    counter.record_failure(&message(10_001), at(10_003));
    assert_eq!([0, 3, 4].map(retries_made), [2, 0, 1], "the forgotten message left room");
}

#[test]
fn calls_at_the_same_time_are_counted_separately_for_each_message() {
    let counter = AttemptCounter::for_batch_size(2);
    for made in 1..=3 {
        assert_eq!(counter.record_failure(&message(1), at(5)).made, made);
        assert_eq!(counter.record_failure(&message(2), at(5)).made, made);
    }
    counter.forget("sqs-1");
    assert_eq!([1, 2].map(|n| counter.retries_made(&message(n))), [0, 3]);
}

#[test]
fn receives_are_calls_in_batches_of_one() {
    let counter = AttemptCounter::for_batch_size(1);
    let third = ReceivedMessage {
        receive_count: 3,
        first_received_at: Some(at(7)),
        sent_at: at(1),
        ..received_message(None)
    };
    assert_eq!(counter.retries_made(&third), 2);
    assert_eq!(counter.record_failure(&third, at(9)), Attempts { made: 3, since: at(7) });
}

/// After a first call that returned "not now", a message is held for only a few seconds, regardless of how long it
/// waited behind others.
#[test]
fn all_earlier_receives_count_as_calls() {
    let queue_times =
        QueueTimes { visibility_timeout: VisibilitySeconds::ZERO, retention: Duration::from_secs(3600) };
    for batch_size in [1, 10] {
        let attempts = AttemptCounter::for_batch_size(batch_size);
        let ordered = Ordered { source_queue: (), queue_times, attempts, blocked: None };
        for (receive_count, calls_before) in [(1, 0), (2, 1), (1000, 999)] {
            let record = ReceivedMessage { receive_count, body: body(""), ..received_message(None) };
            let accepted =
                Arrival::from_record(record, at(0)).accept(&MessageSchema::default(), None).unwrap();
            assert_eq!(ordered.calls_before(&accepted), calls_before);
        }
    }
}

/// Decides, at second 10, what happens to a message that was sent at second 0, has no attempts left, and is too old.
/// The queue's visibility timeout is 180 s.
fn decide_for_exhausted_message(
    hand_off: fn(Delivery) -> HandOff,
    retention: u64,
) -> Result<u16, DeadLetterReason> {
    decide_by_policy(&one_minute_policy(), hand_off, retention)
}

fn decide_by_policy(
    policy: &Policy,
    hand_off: fn(Delivery) -> HandOff,
    retention: u64,
) -> Result<u16, DeadLetterReason> {
    let hand_off = hand_off(Delivery { sent_at: at(0), ..delivery() });
    let queue_times = QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(retention),
    };
    let attempts = Attempts { made: 1000, since: at(-1_000_000) };
    decide_ordered_visibility(
        policy,
        &failed_message(&body(""), &hand_off, None),
        attempts,
        queue_times,
        at(10),
    )
    .map(VisibilitySeconds::get)
    .map_err(|give_up| give_up.reason)
}

#[test]
fn a_message_whose_call_did_not_start_becomes_visible_immediately() {
    assert_eq!(decide_for_exhausted_message(HandOff::for_unstarted_call, 100_000), Ok(0));
    assert_eq!(decide_for_exhausted_message(HandOff::for_unstarted_call, 60), Ok(0));
}

fn hold_for_750_seconds(delivery: Delivery) -> HandOff {
    let outage = Outage { since: at(0), first_failures: 10 };
    HandOff::for_hold(Hold { reason: HoldReason::Down, outage, delay: Duration::from_secs(750) }, delivery)
}

/// If the message became visible earlier, a long `Retry-After` would take up to a thousand receives, and SQS would move
/// the message before its last call.
#[test]
fn a_message_past_its_age_limit_stays_hidden_until_its_retry_after() {
    let policy = Policy { max_age_seconds: Some(600), ..one_minute_policy() };
    let visibility_with_retention = |retention| decide_by_policy(&policy, hold_for_750_seconds, retention);
    assert_eq!([100_000, 1190, 192].map(visibility_with_retention), [Ok(750), Ok(500), Ok(1)]);
}

#[test]
fn a_held_ordered_message_is_given_up_on_only_when_its_retention_ends() {
    let visibility_with_retention = |retention| decide_for_exhausted_message(hold_for_750_seconds, retention);
    assert_eq!(visibility_with_retention(100_000), Ok(750));
    // At least 180 s, the visibility timeout, must remain for the last retry.
    assert_eq!([1690, 1190, 192, 191].map(visibility_with_retention), [Ok(750), Ok(500), Ok(1), Ok(1)]);
    assert_eq!([190, 100].map(visibility_with_retention), [Err(DeadLetterReason::MessageExpired); 2]);
}
