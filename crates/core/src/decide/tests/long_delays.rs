//! Delays above 900 s: hops.

use super::*;

/// A policy with retries exactly two hours after the failure.
fn hours() -> Policy {
    policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#)
}

/// The decision at this time on a message that failed at second 5.
fn decided_at(policy: &Policy, hop: &Waiting, second: i64, millis: i64) -> Decision {
    decide(policy, &failed(&body(""), &hop.0, hop.1), at(second) + TimeDelta::milliseconds(millis))
}

/// A hand-off, and the due time of its retry if it has hopped.
type Waiting = (HandOff, Option<Timestamp>);

fn hopping(due: i64) -> Waiting {
    (transient(), Some(at(due)))
}

fn first() -> Waiting {
    (transient(), None)
}

fn next_hop(policy: &Policy, (hand_off, due_at): &Waiting, now: Timestamp) -> Option<Timestamp> {
    super::next_hop(policy, hand_off, *due_at, now)
}

#[test]
fn a_delay_counts_from_the_failure_and_hops_until_900_seconds_remain() {
    assert_eq!(decided_at(&hours(), &first(), 10, 0), Decision::Hop(at(7205)));
    assert_eq!(next_hop(&hours(), &hopping(7205), at(910)), Some(at(7205)));
    assert_eq!(next_hop(&hours(), &hopping(7205), at(6304)), Some(at(7205)), "901 s remain");
    assert_eq!(next_hop(&hours(), &hopping(7205), at(6305)), None, "900 s remain");
    let Decision::Resend(last) = decided_at(&hours(), &hopping(7205), 6400, 0) else { panic!() };
    assert_eq!((last.delay.get(), last.waited.get()), (805, 7200));
    assert_eq!((last.retry_attempt, last.spends), (1, Budget::Attempt));
    assert!(
        last.body().contains(&format!(r#""next_retry_time":"{}""#, format_rfc3339(at(7205)))),
        "{}",
        last.body()
    );
}

#[test]
fn retries_are_never_early_and_overdue_ones_are_sent_at_once() {
    let delay = |second, millis| match decided_at(&hours(), &hopping(7205), second, millis) {
        Decision::Resend(resend) => Some(resend.delay.get()),
        _ => None,
    };
    assert_eq!(delay(7203, 500), Some(2), "1.5 s remain");
    assert_eq!(delay(6304, 999), None, "900.001 s remain");
    assert_eq!(delay(7205, 0), Some(0));
    assert_eq!(delay(9000, 0), Some(0));
}

#[test]
fn every_receive_of_a_failure_computes_the_same_due_time() {
    let policy = policy(r#"{"long_delays":true,"backoff":{"kind":"uniform","max_delay_seconds":43200}}"#);
    let due = |second| match decided_at(&policy, &first(), second, 0) {
        Decision::Hop(due) => due,
        other => panic!("{other:?}"),
    };
    assert_eq!(due(10), due(600));
    let key = JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt: 1 };
    assert_eq!(due(10), at(5 + i64::from(retry_delay(&policy, key).get())));
}

#[test]
fn a_failure_time_in_the_future_counts_as_now() {
    let delivery = Delivery { failed_at: at(1000), ..delivery() };
    let ahead = (HandOff { delivery, ..transient() }, None);
    assert_eq!(decided_at(&hours(), &ahead, 10, 0), Decision::Hop(at(7210)));
}

#[test]
fn without_long_delays_a_delay_counts_from_now() {
    let Decision::Resend(resend) = decided_at(&minutes(), &first(), 500, 0) else { panic!() };
    assert_eq!(resend.delay.get(), 60);
}

#[test]
fn a_due_time_beyond_the_longest_delay_is_ignored() {
    assert_eq!(next_hop(&hours(), &hopping(7206), at(10)), None, "7201 s after the failure");
    assert_eq!(decided_at(&hours(), &hopping(7206), 10, 0), Decision::Hop(at(7205)), "computed again");
    assert_eq!(next_hop(&minutes(), &hopping(7205), at(10)), None, "long delays were switched off");
    let Decision::Resend(resend) = decided_at(&minutes(), &hopping(7205), 10, 0) else { panic!() };
    assert_eq!(resend.delay.get(), 60);
}

#[test]
fn the_targets_own_delay_may_reach_twelve_hours() {
    let asked = |seconds| (asking_for(seconds), None);
    assert_eq!(decided_at(&hours(), &asked(86_400), 10, 0), Decision::Hop(at(43_205)));
    let hopping = (asking_for(86_400), Some(at(43_205)));
    assert_eq!(next_hop(&hours(), &hopping, at(10)), Some(at(43_205)), "beyond the backoff, but asked for");
    let Decision::Resend(short) = decided_at(&minutes(), &asked(86_400), 10, 0) else { panic!() };
    assert_eq!(short.delay.get(), 900);
}

#[test]
fn a_retry_that_would_come_too_late_is_given_up_before_it_hops() {
    let policy = policy(
        r#"{"long_delays":true,"max_age_seconds":7204,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#,
    );
    match decided_at(&policy, &first(), 10, 0) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageExpired),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_age_of_an_overdue_retry_counts_up_to_now() {
    let policy = policy(
        r#"{"long_delays":true,"max_age_seconds":8000,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#,
    );
    assert!(matches!(decided_at(&policy, &first(), 8000, 0), Decision::Resend(_)));
    match decided_at(&policy, &first(), 8001, 0) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageExpired),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_whose_metadata_will_not_fit_is_given_up_before_it_hops() {
    let body = body("");
    let failed = failed_beside(MESSAGE_BYTES_MAX - body.len(), &body, &transient());
    match decide(&hours(), &failed, at(10)) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageTooLarge),
        other => panic!("{other:?}"),
    }
}

#[test]
fn moved_and_held_messages_skip_the_long_backoff() {
    let record = ReceivedMessage { first_received_at: Some(at(3)), ..moved_by_sqs() };
    let moved = Arrival::from_record(record, at(200)).take_hand_off(at(200));
    let moved = (moved.hand_off, moved.due_at);
    let held = (budget::held_for(750.0), None);
    for (failure, bounds) in [(moved, 2..=5), (held, 750..=750)] {
        let Decision::Resend(resend) = decided_at(&hours(), &failure, 200, 0) else { panic!("it hops") };
        assert!(bounds.contains(&resend.delay.get()), "{}", resend.delay.get());
        assert_eq!(RetryDelay::from(resend.delay), resend.waited, "from now, not from its first receive");
    }
}

#[test]
fn the_producer_may_ask_for_fewer_retries_and_not_for_more() {
    let three = minutes();
    let with = |members: &str| decided(&three, &body(members), &transient());
    let exceeded = |explanation: &str| {
        Decision::GiveUp(GiveUp {
            reason: DeadLetterReason::RetryAttemptExceeded,
            explanation: explanation.to_owned(),
        })
    };
    assert_eq!(
        with(r#""max_attempts":1,"retry_attempt":1"#),
        exceeded("Max retry attempts 1 exceeded (metadata.max_attempts)")
    );
    assert!(matches!(with(r#""max_attempts":2,"retry_attempt":1"#), Decision::Resend(_)));
    assert_eq!(with(r#""max_attempts":9,"retry_attempt":3"#), exceeded("Max retry attempts 3 exceeded"));
    assert_eq!(
        with(r#""max_attempts":0"#),
        exceeded("Max retry attempts 0 exceeded (metadata.max_attempts)")
    );
}
