//! Delays above 900 s, which require hops.

use super::*;

/// Returns a policy with retries exactly two hours after the failure.
fn two_hour_policy() -> Policy {
    policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#)
}

/// Decides, at this time, what happens to a message that failed at second 5.
fn decide_at(policy: &Policy, hop: &WaitingFailure, second: i64, millis: i64) -> Decision {
    decide(policy, &failed_message(&body(""), &hop.0, hop.1), at(second) + TimeDelta::milliseconds(millis))
}

/// A hand-off, and the due time of its retry if the message has hopped.
type WaitingFailure = (HandOff, Option<Timestamp>);

fn hopped_failure(due: i64) -> WaitingFailure {
    (transient_failure(), Some(at(due)))
}

fn first_failure() -> WaitingFailure {
    (transient_failure(), None)
}

fn next_hop(policy: &Policy, (hand_off, due_at): &WaitingFailure, now: Timestamp) -> Option<Timestamp> {
    super::next_hop(policy, hand_off, *due_at, now)
}

#[test]
fn a_delay_counts_from_the_failure_and_hops_until_900_seconds_remain() {
    assert_eq!(decide_at(&two_hour_policy(), &first_failure(), 10, 0), Decision::Hop(at(7205)));
    assert_eq!(next_hop(&two_hour_policy(), &hopped_failure(7205), at(910)), Some(at(7205)));
    assert_eq!(next_hop(&two_hour_policy(), &hopped_failure(7205), at(6304)), Some(at(7205)), "901 s remain");
    assert_eq!(next_hop(&two_hour_policy(), &hopped_failure(7205), at(6305)), None, "900 s remain");
    let Decision::Resend(last) = decide_at(&two_hour_policy(), &hopped_failure(7205), 6400, 0) else {
        panic!()
    };
    assert_eq!((last.delay.get(), last.total_delay.get()), (805, 7200));
    assert_eq!((last.retry_attempt, last.budget), (1, Budget::Attempt));
    assert!(
        last.body().contains(&format!(r#""next_retry_time":"{}""#, format_rfc3339(at(7205)))),
        "{}",
        last.body()
    );
}

#[test]
fn retries_are_never_early_and_overdue_ones_are_sent_immediately() {
    let delay = |second, millis| match decide_at(&two_hour_policy(), &hopped_failure(7205), second, millis) {
        Decision::Resend(resend) => Some(resend.delay.get()),
        _ => None,
    };
    assert_eq!(delay(7203, 500), Some(2), "1.5 s remain");
    assert_eq!(delay(6304, 999), None, "900.001 s remain");
    assert_eq!(delay(7205, 0), Some(0));
    assert_eq!(delay(9000, 0), Some(0));
}

#[test]
fn every_receive_of_a_failed_message_computes_the_same_due_time() {
    let policy = policy(r#"{"long_delays":true,"backoff":{"kind":"uniform","max_delay_seconds":43200}}"#);
    let due = |second| match decide_at(&policy, &first_failure(), second, 0) {
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
    let ahead = (HandOff { delivery, ..transient_failure() }, None);
    assert_eq!(decide_at(&two_hour_policy(), &ahead, 10, 0), Decision::Hop(at(7210)));
}

#[test]
fn without_long_delays_a_delay_counts_from_now() {
    let Decision::Resend(resend) = decide_at(&one_minute_policy(), &first_failure(), 500, 0) else {
        panic!()
    };
    assert_eq!(resend.delay.get(), 60);
}

#[test]
fn a_due_time_beyond_the_longest_delay_is_ignored() {
    assert_eq!(next_hop(&two_hour_policy(), &hopped_failure(7206), at(10)), None, "7201 s after the failure");
    assert_eq!(
        decide_at(&two_hour_policy(), &hopped_failure(7206), 10, 0),
        Decision::Hop(at(7205)),
        "computed again"
    );
    assert_eq!(
        next_hop(&one_minute_policy(), &hopped_failure(7205), at(10)),
        None,
        "long delays were switched off"
    );
    let Decision::Resend(resend) = decide_at(&one_minute_policy(), &hopped_failure(7205), 10, 0) else {
        panic!()
    };
    assert_eq!(resend.delay.get(), 60);
}

#[test]
fn a_requested_delay_can_reach_twelve_hours() {
    let failure_requesting = |seconds| (failure_with_retry_after(seconds), None);
    assert_eq!(decide_at(&two_hour_policy(), &failure_requesting(86_400), 10, 0), Decision::Hop(at(43_205)));
    let hopped_failure = (failure_with_retry_after(86_400), Some(at(43_205)));
    assert_eq!(
        next_hop(&two_hour_policy(), &hopped_failure, at(10)),
        Some(at(43_205)),
        "beyond the backoff, but requested"
    );
    let Decision::Resend(short) = decide_at(&one_minute_policy(), &failure_requesting(86_400), 10, 0) else {
        panic!()
    };
    assert_eq!(short.delay.get(), 900);
}

#[test]
fn a_message_whose_retry_would_be_too_late_is_given_up_on_before_it_hops() {
    let policy = policy(
        r#"{"long_delays":true,"max_age_seconds":7204,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#,
    );
    match decide_at(&policy, &first_failure(), 10, 0) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageExpired),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_age_of_an_overdue_retry_counts_up_to_now() {
    let policy = policy(
        r#"{"long_delays":true,"max_age_seconds":8000,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#,
    );
    assert!(matches!(decide_at(&policy, &first_failure(), 8000, 0), Decision::Resend(_)));
    match decide_at(&policy, &first_failure(), 8001, 0) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageExpired),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_whose_metadata_will_not_fit_is_given_up_on_before_it_hops() {
    let body = body("");
    let failed = failed_message_with_attributes(MESSAGE_BYTES_MAX - body.len(), &body, &transient_failure());
    match decide(&two_hour_policy(), &failed, at(10)) {
        Decision::GiveUp(give_up) => assert_eq!(give_up.reason, DeadLetterReason::MessageTooLarge),
        other => panic!("{other:?}"),
    }
}

#[test]
fn moved_and_held_messages_skip_the_long_backoff() {
    let record = ReceivedMessage { first_received_at: Some(at(3)), ..record_moved_by_sqs() };
    let moved = Arrival::from_record(record, at(200)).take_hand_off(at(200));
    let moved = (moved.hand_off, moved.due_at);
    let held = (budget::hand_off_held_for(750.0), None);
    for (failure, bounds) in [(moved, 2..=5), (held, 750..=750)] {
        let Decision::Resend(resend) = decide_at(&two_hour_policy(), &failure, 200, 0) else {
            panic!("must not hop")
        };
        assert!(bounds.contains(&resend.delay.get()), "{}", resend.delay.get());
        assert_eq!(
            RetryDelay::from(resend.delay),
            resend.total_delay,
            "from now, not from its first receive"
        );
    }
}

#[test]
fn a_producer_can_request_fewer_retries_but_not_more() {
    let three_attempts = one_minute_policy();
    let decide_with_members =
        |members: &str| decide_after_failure(&three_attempts, &body(members), &transient_failure());
    let attempts_exceeded = |explanation: &str| {
        Decision::GiveUp(GiveUp {
            reason: DeadLetterReason::RetryAttemptExceeded,
            explanation: explanation.to_owned(),
        })
    };
    assert_eq!(
        decide_with_members(r#""max_attempts":1,"retry_attempt":1"#),
        attempts_exceeded("Max retry attempts 1 exceeded (metadata.max_attempts)")
    );
    assert!(matches!(decide_with_members(r#""max_attempts":2,"retry_attempt":1"#), Decision::Resend(_)));
    assert_eq!(
        decide_with_members(r#""max_attempts":9,"retry_attempt":3"#),
        attempts_exceeded("Max retry attempts 3 exceeded")
    );
    assert_eq!(
        decide_with_members(r#""max_attempts":0"#),
        attempts_exceeded("Max retry attempts 0 exceeded (metadata.max_attempts)")
    );
}
