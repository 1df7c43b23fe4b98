//! Random delays: limits in time are compared with the message's actual delay, not with the longest or shortest
//! possible one.

use std::time::Duration;

use super::*;
use crate::limits::VisibilitySeconds;

/// A policy with delays uniform in 0..=900 s. This message's first retry is due after 601 s, and in generation 1 after
/// 29 s.
fn uniform(members: &str) -> Policy {
    policy(&format!(r#"{{"max_attempts":1000{members}}}"#))
}

fn micros(count: i64) -> TimeDelta {
    TimeDelta::microseconds(count)
}

/// The delay of the first retry of a message first sent at `sent_at` that fails at `now`, by both strategies.
fn first_retry(
    policy: &Policy,
    body: &str,
    sent_at: Timestamp,
    now: Timestamp,
) -> Result<u16, DeadLetterReason> {
    let failure = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient() };
    let record = ReceivedMessage { body: body.to_owned(), sent_at, ..received(None) };
    let failed = failed_record(record, &failure, None);
    let resent = match decide(policy, &failed, now) {
        Decision::Resend(resend) => Ok(resend.delay.get()),
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(_) => panic!("no delay is long"),
    };
    let hidden = decide_on_queue(policy, &failed, Attempts::from_receives(&failed.accepted), a_week(), now)
        .map(VisibilitySeconds::get);
    assert_eq!(hidden.map_err(|give_up| give_up.reason), resent, "both strategies keep the same limits");
    resent
}

/// A queue with a visibility timeout of 180 s and a retention of a week.
fn a_week() -> QueueTimes {
    let visibility_timeout = VisibilitySeconds::new(180).unwrap();
    QueueTimes { visibility_timeout, retention: Duration::from_secs(7 * 24 * 3600) }
}

const EXPIRED: Result<u16, DeadLetterReason> = Err(DeadLetterReason::MessageExpired);

#[test]
fn max_age_is_kept_to_the_microsecond() {
    let aged = |age: u32, sent_at, now| {
        first_retry(&uniform(&format!(r#","max_age_seconds":{age}"#)), &body(""), sent_at, now)
    };
    // Decided at second 10: the retry is due at second 611.
    assert_eq!(aged(612, at(0), at(10)), Ok(601));
    assert_eq!(aged(611, at(0), at(10)), Ok(601));
    assert_eq!(aged(610, at(0), at(10)), EXPIRED);
    assert_eq!(aged(611, at(0) + micros(1), at(10)), Ok(601));
    assert_eq!(aged(611, at(0) - micros(1), at(10)), EXPIRED);
    assert_eq!(aged(611, at(0), at(10) - micros(1)), Ok(601));
    assert_eq!(aged(611, at(0), at(10) + micros(1)), EXPIRED);
    assert_eq!(aged(611, at(0) + micros(1), at(10) + micros(1)), Ok(601));
}

#[test]
fn expires_at_is_kept_to_the_microsecond() {
    let expires = |members: &str, limit| {
        let body = body(&format!(r#"{members}"expires_at":"{}""#, format_rfc3339(limit)));
        first_retry(&uniform(""), &body, at(0), at(10))
    };
    for (members, delay) in [("", 601), (r#""redrive_generation":1,"#, 29)] {
        let due = at(10 + i64::from(delay));
        for limit in [due, due + micros(1), due + TimeDelta::seconds(1)] {
            assert_eq!(expires(members, limit), Ok(delay), "{limit}");
        }
        for limit in [due - micros(1), due - TimeDelta::seconds(1)] {
            assert_eq!(expires(members, limit), EXPIRED, "{limit}");
        }
    }
}

#[test]
fn a_hop_that_is_overdue_comes_now_and_expires_now() {
    let hours = |members: &str| {
        policy(&format!(
            r#"{{"long_delays":true,"backoff":{{"kind":"uniform","max_delay_seconds":43200}}{members}}}"#
        ))
    };
    // It failed at second 5, was due at second 7205, and is received later.
    let decided =
        |policy: &Policy, now| match decide(policy, &failed(&body(""), &transient(), Some(at(7205))), now) {
            Decision::Resend(resend) => {
                let next = serde_json::from_str::<serde_json::Value>(resend.body()).unwrap();
                let next = next["metadata"]["next_retry_time"].as_str().unwrap().to_owned();
                Ok((resend.delay.get(), resend.waited.get(), next))
            }
            Decision::GiveUp(give_up) => Err(give_up.reason),
            Decision::Hop(due) => panic!("{due}"),
        };
    assert_eq!(decided(&hours(""), at(9000)), Ok((0, 7200, format_rfc3339(at(9000)))));
    let aged = hours(r#","max_age_seconds":8000"#);
    assert_eq!(decided(&aged, at(8000)), Ok((0, 7200, format_rfc3339(at(8000)))));
    for late in [micros(1), TimeDelta::seconds(1)] {
        assert_eq!(decided(&aged, at(8000) + late), Err(DeadLetterReason::MessageExpired));
    }
}

#[test]
fn a_hidden_message_has_the_delay_of_its_generation_and_receive_count() {
    let policy = uniform("");
    let hidden = |generation: u32, receive_count| {
        let body = body(&format!(r#""redrive_generation":{generation}"#));
        let record = ReceivedMessage { body, receive_count, ..received(None) };
        let failed = failed_record(record, &transient(), None);
        decide_on_queue(&policy, &failed, Attempts::from_receives(&failed.accepted), a_week(), at(10))
            .map(VisibilitySeconds::get)
            .unwrap()
    };
    assert_eq!([1, 2, 3].map(|receive| hidden(0, receive)), [601, 250, 604]);
    assert_eq!([1, 2, 3].map(|receive| hidden(1, receive)), [29, 532, 374]);
    let message_id = ID.parse().unwrap();
    for receive in [9, 10, 11, 12, 100, 1000] {
        let key = JitterKey { message_id, generation: 1, attempt: receive };
        assert_eq!(hidden(1, receive), retry_delay(&policy, key).get(), "receive {receive}");
    }
}

#[test]
fn a_hidden_message_ages_from_its_first_send_and_expires_by_its_last() {
    let decided = |policy: &Policy, sent_at, retention| {
        let hand_off = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient() };
        let record = ReceivedMessage { body: body(""), sent_at: at(-100), ..received(None) };
        let failed = failed_record(record, &hand_off, None);
        decide_on_queue(
            policy,
            &failed,
            Attempts::from_receives(&failed.accepted),
            QueueTimes { retention, ..a_week() },
            at(10),
        )
        .map(VisibilitySeconds::get)
        .map_err(|give_up| give_up.reason)
    };
    let week = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(decided(&uniform(r#","max_age_seconds":711"#), at(0), week), Ok(601));
    assert_eq!(decided(&uniform(r#","max_age_seconds":710"#), at(0), week), EXPIRED);
    // Visible at second 611, and then held by the function for 180 s.
    let keeping = |sent_at, seconds| decided(&uniform(""), sent_at, Duration::from_secs(seconds));
    assert_eq!(keeping(at(0), 791), Ok(601));
    assert_eq!(keeping(at(0), 790), EXPIRED);
    assert_eq!(keeping(at(0) + micros(1), 791), Ok(601));
    assert_eq!(keeping(at(0) - micros(1), 791), EXPIRED);
}
