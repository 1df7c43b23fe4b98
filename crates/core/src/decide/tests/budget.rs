//! Re-sends that spend no attempt: held messages, and messages that SQS moved.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::decide::breaker::{Hold, HoldReason, Outage};
use crate::decide::budget::{HoldTimes, hold_delay, redrive_bounds};

fn hold(reason: HoldReason, seconds: f64) -> Hold {
    Hold { reason, outage: outage(), delay: Duration::from_secs_f64(seconds) }
}

fn outage() -> Outage {
    Outage { since: at(-600), first_failures: 12 }
}

/// Returns a message that was held for this many seconds without a call.
pub(super) fn hand_off_held_for(seconds: f64) -> HandOff {
    HandOff::for_hold(hold(HoldReason::Down, seconds), delivery())
}

fn held_hand_off() -> HandOff {
    hand_off_held_for(100.0)
}

fn moved_hand_off() -> HandOff {
    Arrival::from_record(record_moved_by_sqs(), at(10)).take_hand_off(at(10)).hand_off
}

fn key(attempt: u32) -> JitterKey {
    JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt }
}

#[test]
fn a_held_message_spends_no_attempt_and_carries_its_outage() {
    let policy = policy(r#"{"max_attempts":0,"retryable":["A"],"non_retryable":["*"]}"#);
    let resend = resend(&policy, &body(r#""retry_attempt":3"#), &held_hand_off());
    assert_eq!((resend.retry_attempt, resend.budget), (3, Budget::Hold));
    let Metadata { holds, snooze_count, redrive_count, retry_history, .. } = metadata(&resend);
    assert_eq!(holds, holds_after_first_hold(&resend));
    assert_eq!((snooze_count, redrive_count), (0, 0));
    assert_eq!(retry_history, [], "the message has not failed");
    assert_eq!(resend.first_sent, at(0));
}

#[test]
fn a_hold_lasts_as_long_as_requested_up_to_900_s() {
    for (requested, delay) in [(0.0, 1), (0.2, 1), (1.0, 1), (749.2, 750), (900.0, 900), (5000.0, 900)] {
        let resend = resend(&Policy::default(), &body(""), &hand_off_held_for(requested));
        assert_eq!(resend.delay.get(), delay, "{requested}");
        assert_eq!(RetryDelay::from(resend.delay), resend.total_delay);
    }
    let first = resend(&Policy::default(), &body(""), &hand_off_held_for(250.0));
    let second = resend(&Policy::default(), first.body(), &hand_off_held_for(500.0));
    let after = metadata(&second);
    assert_eq!(after.holds, Holds::from_members(Some(at(-600)), 12, 750));
    assert_eq!(after.first_sent(at(500)), at(0), "the first send time of a held message is trusted");
}

/// Without the history, environments started during an outage would treat the message as one that never failed, and
/// would probe the target with a poison message.
#[test]
fn a_held_messages_call_is_in_its_history_but_spends_no_attempt() {
    let error = HandlerError::transient("HttpStatus.503", "HTTP 503");
    let probe_failure = || HandOff::for_hold_after_call(&error, hold(HoldReason::Down, 7.0), delivery());
    let first = resend(&one_minute_policy(), &body(r#""retry_attempt":1"#), &probe_failure());
    assert_eq!((first.retry_attempt, first.budget, first.delay.get()), (1, Budget::Hold, 7));
    let past = PastFailure::new(1, at(5), "HttpStatus.503", "HTTP 503");
    assert_eq!(metadata(&first).holds, Holds::from_members(Some(at(-600)), 12, 7));
    let second = metadata(&resend(&one_minute_policy(), first.body(), &probe_failure()));
    assert_eq!((second.retry_attempt, second.failed_calls()), (1, 2));
    assert_eq!(second.retry_history, [past.clone(), past]);
}

/// A rate limit is not an outage, so other environments must not treat it as one.
#[test]
fn a_rate_limited_message_carries_no_outage_but_its_hold_counts() {
    let rate_limited = || HandOff::for_hold(hold(HoldReason::RateLimited, 7.0), delivery());
    let first = resend(&one_minute_policy(), &body(""), &rate_limited());
    assert_eq!((first.retry_attempt, first.budget, first.delay.get()), (0, Budget::Hold, 7));
    assert_eq!(metadata(&first).holds, Holds::from_members(None, 0, 7));
    assert_eq!(metadata(&first).retry_history, []);
    let members = format!(r#""held_since":"{}","held_seconds":4000"#, format_rfc3339(at(-4000)));
    let after = metadata(&resend(&one_minute_policy(), &body(&members), &rate_limited()));
    assert_eq!(after.holds, Holds::from_members(None, 0, 4007), "the outage is over");
}

/// If the name alone counted, the message would be held forever and its error would be lost.
#[test]
fn a_handlers_error_may_have_the_same_name_as_a_hold() {
    let error = HandlerError::unavailable("RateLimited", "wait");
    let called = HandOff::for_hold_after_call(&error, hold(HoldReason::NotNow, 7.0), delivery());
    assert_eq!(called.was_called(), Some(true));
    let history = metadata(&resend(&Policy::default(), &body(""), &called)).retry_history;
    assert_eq!(history, [PastFailure::new(0, at(5), "RateLimited", "wait")]);
    let given_up = give_up(&Policy::default(), &body(r#""held_seconds":86400"#), &called);
    assert_eq!(given_up.reason, DeadLetterReason::HoldTimeExceeded);
}

#[test]
fn a_failure_after_a_hold_ends_it_but_keeps_the_held_time() {
    let members =
        format!(r#""held_since":"{}","held_seconds":4000,"redrive_count":2"#, format_rfc3339(at(-4000)));
    for failure in [transient_failure(), snooze(), HandOff::for_unstarted_call(delivery()), moved_hand_off()]
    {
        let after = metadata(&resend(&one_minute_policy(), &body(&members), &failure));
        assert_eq!(after.holds, Holds::from_members(None, 0, 4000));
    }
    let history = r#""retry_attempt":1,"retry_history":[{"attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"T","error_details":"d"}]"#;
    assert_eq!(
        metadata(&resend(&one_minute_policy(), &body(history), &held_hand_off())).retry_history.len(),
        1,
        "the earlier history is kept"
    );
}

/// At its hold limit, a message that was held without a call may wait up to 900 s longer. One that was held after a
/// call may not: redeliver gives up on it.
#[test]
fn a_message_past_its_hold_limit_and_grace_period_is_given_up_on() {
    let policy = policy(r#"{"circuit_breaker":{"hold_seconds_max":60},"max_attempts":1}"#);
    let last = resend(&policy, &body(r#""held_seconds":30"#), &held_hand_off());
    assert_eq!((last.budget, held_seconds(&last)), (Budget::Hold, 60), "no longer than the limit");
    let last = resend(&policy, &body(r#""held_seconds":59"#), &held_hand_off());
    assert_eq!((last.budget, held_seconds(&last)), (Budget::Hold, 60));
    let after = resend(&policy, &body(r#""held_seconds":60"#), &held_hand_off());
    assert_eq!((after.budget, held_seconds(&after)), (Budget::Hold, 160));
    assert_eq!(held_seconds(&resend(&policy, &body(r#""held_seconds":959"#), &held_hand_off())), 1059);
    let given_up = give_up(&policy, &body(r#""held_seconds":960"#), &held_hand_off());
    let explanation = "Held for 960 s without a successful call (hold_seconds_max is 60)".to_owned();
    assert_eq!(given_up, GiveUp { reason: DeadLetterReason::HoldTimeExceeded, explanation });
    let error = HandlerError::transient("HttpStatus.503", "HTTP 503");
    let called = HandOff::for_hold_after_call(&error, hold(HoldReason::NotNow, 100.0), delivery());
    assert_eq!(resend(&policy, &body(r#""held_seconds":59"#), &called).budget, Budget::Hold);
    let given_up = give_up(&policy, &body(r#""held_seconds":60"#), &called);
    let explanation = "Held for 60 s without a successful call (hold_seconds_max is 60)".to_owned();
    assert_eq!(given_up, GiveUp { reason: DeadLetterReason::HoldTimeExceeded, explanation });
    let without_breaker = super::policy(r#"{"circuit_breaker":false}"#);
    let resend = resend(&without_breaker, &body(""), &held_hand_off());
    assert_eq!(resend.budget, Budget::Hold, "held before the breaker was turned off");
}

#[test]
fn only_holds_longer_than_a_minute_end_together() {
    let hold_seconds = |requested| {
        let times = HoldTimes { requested_seconds: Some(requested), held_seconds: 0, left: None };
        let now = at(13);
        assert_eq!(now.timestamp() % 10, 3);
        hold_delay(&Policy::default(), times, now).get()
    };
    let requested = [1, 59, 60, 61, 67, 68, 890, 900];
    assert_eq!(requested.map(hold_seconds), [1, 59, 60, 67, 67, 77, 897, 900]);
}

/// Counted from the hold limit, not from the last hold: otherwise, each wait would start another one.
#[test]
fn a_message_waits_at_most_900_s_beyond_its_hold_limit() {
    let policy = policy(r#"{"circuit_breaker":{"hold_seconds_max":60}}"#);
    let grace = |held_seconds| hold_grace(&policy, held_seconds).as_secs();
    assert_eq!([0, 60, 61, 500, 959, 960, 5000].map(grace), [900, 900, 899, 460, 1, 0, 0]);
}

#[test]
fn a_hold_ends_before_the_message_expires() {
    // Sent at second 0, decided at second 10.
    let decide_with = |age: u32, members: &str| {
        decide_after_failure(
            &policy(&format!(r#"{{"max_age_seconds":{age}}}"#)),
            &body(members),
            &held_hand_off(),
        )
    };
    let delay = |decision| match decision {
        Decision::Resend(resend) => resend.delay.get(),
        other => panic!("{other:?}"),
    };
    for (age, half_of_remaining) in [(300, 100), (100, 45), (40, 15), (25, 7), (13, 1), (11, 1)] {
        assert_eq!(delay(decide_with(age, r#""held_seconds":100"#)), half_of_remaining, "{age}");
        assert_eq!(delay(decide_with(age, "")), half_of_remaining, "{age}");
    }
    let Decision::GiveUp(given_up) = decide_with(10, r#""held_seconds":100"#) else {
        panic!("a hold of 1 s must be too long")
    };
    assert_eq!(given_up.reason, DeadLetterReason::MessageExpired);
    let members_with_expiry =
        |second| format!(r#""held_seconds":100,"expires_at":"{}""#, format_rfc3339(at(second)));
    assert_eq!(
        resend(&Policy::default(), &body(&members_with_expiry(700)), &hand_off_held_for(750.0)).delay.get(),
        345
    );
    let given_up = give_up(&Policy::default(), &body(&members_with_expiry(10)), &held_hand_off());
    assert_eq!(given_up.reason, DeadLetterReason::MessageExpired);
}

#[test]
fn a_message_sent_back_from_the_final_dlq_has_full_budgets() {
    let delivery =
        Delivery { came_back: Some(DlqReturn { last_attempt: None, generation_before: None }), ..delivery() };
    let members =
        format!(r#""held_since":"{}","held_seconds":86400,"redrive_count":20"#, format_rfc3339(at(-4000)));
    let held = resend(
        &Policy::default(),
        &body(&members),
        &HandOff { delivery: delivery.clone(), ..held_hand_off() },
    );
    assert_eq!((held.budget, metadata(&held).holds), (Budget::Hold, holds_after_first_hold(&held)));
    let moved = resend(&Policy::default(), &body(&members), &HandOff { delivery, ..moved_hand_off() });
    assert_eq!((moved.budget, metadata(&moved).redrive_count), (Budget::Redrive, 1));
}

#[test]
fn redrive_delays_double_from_seconds_to_15_minutes() {
    let (mut body, mut shortest, mut longest) = (body(""), Vec::new(), 0);
    for count in 1..=20 {
        let resend = resend(&policy(r#"{"max_attempts":0}"#), &body, &moved_hand_off());
        assert_eq!((resend.budget, resend.retry_attempt), (Budget::Redrive, 0));
        assert_eq!(metadata(&resend).redrive_count, count);
        let bounds = redrive_bounds(count);
        assert!(bounds.contains(&resend.total_delay.get().into()), "{count}");
        shortest.push(*bounds.start());
        longest += bounds.end();
        body = resend.body().to_owned();
    }
    assert_eq!(shortest[..10], [2, 5, 10, 20, 40, 80, 160, 320, 450, 450]);
    assert_eq!(longest, 12_075);
    assert_eq!(
        give_up(&Policy::default(), &body, &moved_hand_off()),
        GiveUp {
            reason: DeadLetterReason::OrchestrationFailed,
            explanation: "SQS moved it 21 times because no call was answered: max_redrives is 20".to_owned()
        }
    );
    let without_redrives = policy(r#"{"max_redrives":0}"#);
    assert_eq!(
        give_up(&without_redrives, &super::body(""), &moved_hand_off()).reason,
        DeadLetterReason::OrchestrationFailed
    );
    assert_eq!(redrive_bounds(u32::MAX), 450..=900);
}

#[test]
fn a_message_moved_after_a_crash_ages_from_its_first_send() {
    let policy = policy(r#"{"max_age_seconds":3600}"#);
    let moved_once = resend(&policy, &body(""), &moved_hand_off());
    assert_eq!(metadata(&moved_once).first_sent(at(500)), at(0));
    let delivery = Delivery { sent_at: at(500), ..delivery() };
    let moved_again = resend(&policy, moved_once.body(), &HandOff { delivery, ..moved_hand_off() });
    assert_eq!(metadata(&moved_again).first_sent(at(1000)), at(0));
    let given_up = give_up(&super::policy(r#"{"max_age_seconds":11}"#), &body(""), &moved_hand_off());
    assert_eq!(given_up.reason, DeadLetterReason::MessageExpired, "at least 2 s at second 10");
}

#[test]
fn crashes_and_failed_calls_spend_separate_budgets() {
    let crashed =
        resend(&one_minute_policy(), &body(r#""retry_attempt":3,"redrive_count":19"#), &moved_hand_off());
    assert_eq!((crashed.budget, crashed.retry_attempt), (Budget::Redrive, 3));
    let failed =
        resend(&one_minute_policy(), &body(r#""retry_attempt":2,"redrive_count":20"#), &transient_failure());
    assert_eq!((failed.budget, failed.retry_attempt), (Budget::Attempt, 3));
    assert_eq!(metadata(&failed).redrive_count, 20);
}

#[test]
fn an_answer_resets_a_messages_redrive_budget() {
    for answered in [transient_failure(), snooze()] {
        let resent = resend(&one_minute_policy(), &body(r#""redrive_count":20"#), &answered);
        assert_eq!((metadata(&resent).redrive_count, metadata(&resent).redrive_count_at_answer), (20, 20));
        let moved_again = resend(&one_minute_policy(), resent.body(), &moved_hand_off());
        assert_eq!((moved_again.budget, metadata(&moved_again).redrive_count), (Budget::Redrive, 21));
        assert_eq!(metadata(&moved_again).redrives_since_answer(), 1);
        let first = budget::redrive_delay(1, key(metadata(&resent).retry_attempt + 1));
        assert_eq!(moved_again.total_delay, first, "starts at seconds again");
    }
    // No call was made for these messages.
    for class in [FailureClass::Held, FailureClass::NotStarted] {
        let unanswered =
            HandOff { classification: Classification::without_delay(class), ..transient_failure() };
        let resent = resend(&Policy::default(), &body(r#""redrive_count":20"#), &unanswered);
        assert_eq!(metadata(&resent).redrives_since_answer(), 20, "{class:?}");
    }
}

#[test]
fn the_explanation_for_too_many_redrives_names_the_limit() {
    let explanation =
        |members: &str| give_up(&Policy::default(), &body(members), &moved_hand_off()).explanation;
    assert_eq!(
        explanation(r#""redrive_count":30,"redrive_count_at_answer":10"#),
        "SQS moved it 21 times since its last answer because no call was answered: max_redrives is 20"
    );
    assert_eq!(
        explanation(r#""redrive_count":100,"redrive_count_at_answer":100"#),
        "SQS moved it 101 times in all because no call was answered: with max_redrives 20 the limit in all is 100"
    );
    let last = r#""redrive_count":99,"redrive_count_at_answer":99"#;
    assert_eq!(metadata(&resend(&Policy::default(), &body(last), &moved_hand_off())).redrive_count, 100);
    let most = policy(r#"{"max_redrives":1000}"#);
    assert_eq!(most.total_redrives_max(), 1000, "the highest count that the member can express");
    let given_up =
        give_up(&most, &body(r#""redrive_count":1000,"redrive_count_at_answer":999"#), &moved_hand_off());
    assert_eq!(given_up.reason, DeadLetterReason::OrchestrationFailed);
}

/// A producer may write any values.
#[test]
fn a_redrive_count_at_answer_above_the_total_is_treated_as_zero() {
    let resent = resend(
        &one_minute_policy(),
        &body(r#""redrive_count":3,"redrive_count_at_answer":9"#),
        &moved_hand_off(),
    );
    let after = metadata(&resent);
    assert_eq!(
        (after.redrive_count, after.redrive_count_at_answer, after.redrives_since_answer()),
        (4, 0, 4)
    );
}

proptest! {
    /// Failed calls, snoozes, unstarted calls and moves by SQS, in any order.
    #[test]
    fn a_loop_of_crashes_and_answers_ends(
        outcomes in prop::collection::vec(0..4_u8, 1..40),
        max_redrives in 0..6_u32,
    ) {
        let policy = policy(&format!(r#"{{"max_attempts":4,"max_redrives":{max_redrives}}}"#));
        let (mut message, mut deliveries, mut moves) = (body(""), 0, 0);
        for outcome in outcomes.iter().cycle() {
            let failed = match outcome {
                0 => transient_failure(),
                1 => snooze(),
                2 => HandOff { classification: Classification::without_delay(FailureClass::NotStarted), ..transient_failure() },
                _ => moved_hand_off(),
            };
            let Decision::Resend(resend) = decide_after_failure(&policy, &message, &failed) else { break };
            deliveries += 1;
            moves += u32::from(resend.budget == Budget::Redrive);
            prop_assert_eq!(metadata(&resend).redrive_count, moves);
            prop_assert!(metadata(&resend).redrives_since_answer() <= max_redrives);
            message = resend.body().to_owned();
        }
        prop_assert!(moves <= 5 * max_redrives);
        prop_assert!(deliveries <= 4 + 100 + 5 * max_redrives);
    }
}

#[test]
fn a_hold_forged_by_a_producer_is_ignored() {
    for forged in [
        format!(r#""held_since":"{}""#, format_rfc3339(at(-4000))),
        format!(r#""held_since":"{}","held_seconds":100"#, format_rfc3339(at(1))),
        r#""held_since":"9999-12-31T23:59:59-01:00","held_seconds":100"#.to_owned(),
    ] {
        let after = metadata(&resend(&Policy::default(), &body(&forged), &held_hand_off()));
        assert_eq!(after.holds.trusted_outage(Origin::Resent, at(1000)), Some(outage()), "{forged}");
    }
    let forged = format!(r#""held_since":"{}","held_seconds":86400"#, format_rfc3339(at(-86_400)));
    let producer_delivery = || Delivery { origin: Origin::Producer, ..delivery() };
    let held = resend(
        &Policy::default(),
        &body(&forged),
        &HandOff { delivery: producer_delivery(), ..held_hand_off() },
    );
    assert_eq!((held.budget, metadata(&held).holds), (Budget::Hold, holds_after_first_hold(&held)));
    // Nor does another kind of re-send make it trusted.
    for failure in [transient_failure(), snooze(), moved_hand_off()] {
        let failure = HandOff { delivery: producer_delivery(), ..failure };
        assert_eq!(metadata(&resend(&one_minute_policy(), &body(&forged), &failure)).holds, Holds::default());
    }
}

/// Returns the holds of a message after its first hold.
fn holds_after_first_hold(resend: &Resend) -> Holds {
    Holds::from_members(Some(at(-600)), 12, u32::from(resend.delay.get()))
}

fn held_seconds(resend: &Resend) -> u32 {
    metadata(resend).holds.trusted_seconds(Origin::Unknown)
}
