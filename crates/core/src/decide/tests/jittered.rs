//! Random delays: time limits are compared with the message's actual delay, not with the longest or shortest possible
//! delay.

use std::time::Duration;

use super::*;
use crate::limits::VisibilitySeconds;

/// Returns a policy with delays uniform in 0..=900 s. This message's first retry has a delay of 601 s, or 29 s in
/// generation 1.
fn uniform_policy(members: &str) -> Policy {
    policy(&format!(r#"{{"max_attempts":1000{members}}}"#))
}

fn microseconds(count: i64) -> TimeDelta {
    TimeDelta::microseconds(count)
}

/// Returns the delay of the first retry in both strategies, for a message first sent at `sent_at` that fails at `now`.
fn first_retry_delay(
    policy: &Policy,
    body: &str,
    sent_at: Timestamp,
    now: Timestamp,
) -> Result<u16, DeadLetterReason> {
    let failure = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient_failure() };
    let record = ReceivedMessage { body: body.to_owned(), sent_at, ..received_message(None) };
    let failed = failed_record(record, &failure, None);
    let resent = match decide(policy, &failed, now) {
        Decision::Resend(resend) => Ok(resend.delay.get()),
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(_) => panic!("there are no long delays"),
    };
    let visibility = decide_visibility_timeout(
        policy,
        &failed,
        Attempts::from_receives(&failed.accepted),
        one_week_queue_times(),
        now,
    )
    .map(VisibilitySeconds::get);
    assert_eq!(
        visibility.map_err(|give_up| give_up.reason),
        resent,
        "both strategies must enforce the same limits"
    );
    resent
}

/// Returns the settings of a queue with a visibility timeout of 180 s and a retention of a week.
fn one_week_queue_times() -> QueueTimes {
    let visibility_timeout = VisibilitySeconds::new(180).unwrap();
    QueueTimes { visibility_timeout, retention: Duration::from_secs(7 * 24 * 3600) }
}

const EXPIRED: Result<u16, DeadLetterReason> = Err(DeadLetterReason::MessageExpired);

#[test]
fn max_age_is_enforced_to_the_microsecond() {
    let delay_with_max_age = |age: u32, sent_at, now| {
        first_retry_delay(&uniform_policy(&format!(r#","max_age_seconds":{age}"#)), &body(""), sent_at, now)
    };
    // Decided at second 10: the retry is due at second 611.
    assert_eq!(delay_with_max_age(612, at(0), at(10)), Ok(601));
    assert_eq!(delay_with_max_age(611, at(0), at(10)), Ok(601));
    assert_eq!(delay_with_max_age(610, at(0), at(10)), EXPIRED);
    assert_eq!(delay_with_max_age(611, at(0) + microseconds(1), at(10)), Ok(601));
    assert_eq!(delay_with_max_age(611, at(0) - microseconds(1), at(10)), EXPIRED);
    assert_eq!(delay_with_max_age(611, at(0), at(10) - microseconds(1)), Ok(601));
    assert_eq!(delay_with_max_age(611, at(0), at(10) + microseconds(1)), EXPIRED);
    assert_eq!(delay_with_max_age(611, at(0) + microseconds(1), at(10) + microseconds(1)), Ok(601));
}

#[test]
fn expires_at_is_enforced_to_the_microsecond() {
    let delay_with_expiry = |members: &str, limit| {
        let body = body(&format!(r#"{members}"expires_at":"{}""#, format_rfc3339(limit)));
        first_retry_delay(&uniform_policy(""), &body, at(0), at(10))
    };
    for (members, delay) in [("", 601), (r#""redrive_generation":1,"#, 29)] {
        let due = at(10 + i64::from(delay));
        for limit in [due, due + microseconds(1), due + TimeDelta::seconds(1)] {
            assert_eq!(delay_with_expiry(members, limit), Ok(delay), "{limit}");
        }
        for limit in [due - microseconds(1), due - TimeDelta::seconds(1)] {
            assert_eq!(delay_with_expiry(members, limit), EXPIRED, "{limit}");
        }
    }
}

#[test]
fn an_overdue_hop_is_due_now_and_ages_until_now() {
    let long_delay_policy = |members: &str| {
        policy(&format!(
            r#"{{"long_delays":true,"backoff":{{"kind":"uniform","max_delay_seconds":43200}}{members}}}"#
        ))
    };
    // The message failed at second 5, was due at second 7205, and is received later.
    let decide_overdue = |policy: &Policy, now| match decide(
        policy,
        &failed_message(&body(""), &transient_failure(), Some(at(7205))),
        now,
    ) {
        Decision::Resend(resend) => {
            let next = serde_json::from_str::<serde_json::Value>(resend.body()).unwrap();
            let next = next["metadata"]["next_retry_time"].as_str().unwrap().to_owned();
            Ok((resend.delay.get(), resend.total_delay.get(), next))
        }
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(due) => panic!("{due}"),
    };
    assert_eq!(decide_overdue(&long_delay_policy(""), at(9000)), Ok((0, 7200, format_rfc3339(at(9000)))));
    let aged = long_delay_policy(r#","max_age_seconds":8000"#);
    assert_eq!(decide_overdue(&aged, at(8000)), Ok((0, 7200, format_rfc3339(at(8000)))));
    for late in [microseconds(1), TimeDelta::seconds(1)] {
        assert_eq!(decide_overdue(&aged, at(8000) + late), Err(DeadLetterReason::MessageExpired));
    }
}

#[test]
fn a_hidden_messages_delay_depends_on_generation_and_receive_count() {
    let policy = uniform_policy("");
    let visibility_seconds = |generation: u32, receive_count| {
        let body = body(&format!(r#""redrive_generation":{generation}"#));
        let record = ReceivedMessage { body, receive_count, ..received_message(None) };
        let failed = failed_record(record, &transient_failure(), None);
        decide_visibility_timeout(
            &policy,
            &failed,
            Attempts::from_receives(&failed.accepted),
            one_week_queue_times(),
            at(10),
        )
        .map(VisibilitySeconds::get)
        .unwrap()
    };
    assert_eq!([1, 2, 3].map(|receive| visibility_seconds(0, receive)), [601, 250, 604]);
    assert_eq!([1, 2, 3].map(|receive| visibility_seconds(1, receive)), [29, 532, 374]);
    let message_id = ID.parse().unwrap();
    for receive in [9, 10, 11, 12, 100, 1000] {
        let key = JitterKey { message_id, generation: 1, attempt: receive };
        assert_eq!(visibility_seconds(1, receive), retry_delay(&policy, key).get(), "receive {receive}");
    }
}

#[test]
fn a_hidden_message_ages_from_its_first_send_but_is_retained_from_its_last() {
    let decide_visibility = |policy: &Policy, sent_at, retention| {
        let hand_off = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient_failure() };
        let record = ReceivedMessage { body: body(""), sent_at: at(-100), ..received_message(None) };
        let failed = failed_record(record, &hand_off, None);
        decide_visibility_timeout(
            policy,
            &failed,
            Attempts::from_receives(&failed.accepted),
            QueueTimes { retention, ..one_week_queue_times() },
            at(10),
        )
        .map(VisibilitySeconds::get)
        .map_err(|give_up| give_up.reason)
    };
    let week = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(decide_visibility(&uniform_policy(r#","max_age_seconds":711"#), at(0), week), Ok(601));
    assert_eq!(decide_visibility(&uniform_policy(r#","max_age_seconds":710"#), at(0), week), EXPIRED);
    // Visible at second 611, then processed by the function for up to 180 s.
    let decide_with_retention =
        |sent_at, seconds| decide_visibility(&uniform_policy(""), sent_at, Duration::from_secs(seconds));
    assert_eq!(decide_with_retention(at(0), 791), Ok(601));
    assert_eq!(decide_with_retention(at(0), 790), EXPIRED);
    assert_eq!(decide_with_retention(at(0) + microseconds(1), 791), Ok(601));
    assert_eq!(decide_with_retention(at(0) - microseconds(1), 791), EXPIRED);
}
