//! The target's own delay is a floor for the policy's, and does not prevent a message's last call.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits::VisibilitySeconds;

/// A policy with these members, and retries exactly ten minutes after the failure.
fn ten_minutes(members: &str) -> Policy {
    policy(&format!(r#"{{"backoff":{{"kind":"fixed","delay_seconds":600,"jitter":"none"}}{members}}}"#))
}

/// Hides, at second 10, a message that was sent at second 0 to a queue with a visibility timeout of 180 s.
fn hidden(policy: &Policy, body: &str, hand_off: &HandOff, retention: u64) -> Result<u16, GiveUp> {
    let queue_times = QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(retention),
    };
    let failed = failed(body, hand_off, None);
    decide_on_queue(policy, &failed, Attempts::from_receives(&failed.accepted), queue_times, at(10))
        .map(VisibilitySeconds::get)
}

/// The first retry by both strategies, which must agree.
fn first_retry(policy: &Policy, hand_off: &HandOff) -> Result<u16, DeadLetterReason> {
    let resent = match decided(policy, &body(""), hand_off) {
        Decision::Resend(resend) => Ok(resend.delay.get()),
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(due) => panic!("it hops until {due}"),
    };
    let hidden = hidden(policy, &body(""), hand_off, 604_800).map_err(|give_up| give_up.reason);
    assert_eq!(hidden, resent, "both strategies wait as long");
    resent
}

fn next_retry_time(resend: &Resend) -> Timestamp {
    let body: serde_json::Value = serde_json::from_str(&resend.body().replace("1e400", "0")).unwrap();
    parse_rfc3339(body["metadata"]["next_retry_time"].as_str().unwrap()).unwrap()
}

const EXPIRED: Result<u16, DeadLetterReason> = Err(DeadLetterReason::MessageExpired);

#[test]
fn a_target_that_asks_for_less_than_the_backoff_is_not_called_sooner() {
    let after = |asked| first_retry(&ten_minutes(""), &asking_for(asked)).unwrap();
    assert_eq!([0, 1, 599].map(after), [600, 600, 626], "up to 10 % more than the target asked for");
    assert_eq!([600, 850, 86_400].map(after), [628, 889, 900]);
}

#[test]
fn a_snooze_has_the_handlers_delay_even_if_it_spends_an_attempt() {
    let after = |seconds, members: &str| {
        let snooze = HandlerError::snooze("NotYet", "later", Duration::from_secs(seconds));
        resend(&ten_minutes(""), &body(members), &failure(&snooze)).delay.get()
    };
    assert_eq!([0, 1, 300].map(|seconds| after(seconds, "")), [0, 1, 314]);
    assert_eq!([0, 1, 300].map(|seconds| after(seconds, r#""snooze_count":100"#)), [0, 1, 314]);
}

/// Decided at second 10. Five seconds are left for the message to arrive.
#[test]
fn a_retry_after_beyond_the_expiry_leads_to_a_last_call_5_s_before_it() {
    let quick = r#""backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}"#;
    let aged = |age: u32| policy(&format!(r#"{{{quick},"max_age_seconds":{age}}}"#));
    let after = |age, asked| first_retry(&aged(age), &asking_for(asked));
    // The delay is 628 s, including the addition to 600 s: due at second 638.
    assert_eq!(after(638, 600), Ok(628), "in time");
    assert_eq!(after(637, 600), Ok(622));
    assert_eq!(after(300, 600), Ok(285));
    assert_eq!(after(300, u64::MAX), Ok(285));
    assert_eq!(after(75, 600), Ok(60));
    assert_eq!(after(70, 600), Ok(60), "the policy's own delay ends at the limit");
    assert_eq!(after(69, 600), EXPIRED, "the policy's own delay is too long");

    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(200) + TimeDelta::milliseconds(300)));
    let last = resend(&minutes(), &body(&expires), &asking_for(600));
    assert_eq!((last.delay.get(), next_retry_time(&last)), (185, at(195)), "185.3 s");
}

#[test]
fn a_message_is_given_up_after_its_last_call_before_the_expiry() {
    let immediate =
        policy(r#"{"max_age_seconds":16,"backoff":{"kind":"fixed","delay_seconds":0,"jitter":"none"}}"#);
    assert_eq!(first_retry(&immediate, &asking_for(600)), Ok(1), "at second 11 of 16");
    let immediate = Policy { max_age_seconds: Some(15), ..immediate };
    assert_eq!(first_retry(&immediate, &asking_for(600)), EXPIRED, "at second 10 of 15");
    assert_eq!(
        give_up(&immediate, &body(""), &asking_for(600)).explanation,
        "The next retry at 2026-07-25T17:30:38.000000Z would come after max_age_seconds at 2026-07-25T17:20:15.000000Z"
    );
    assert_eq!(first_retry(&immediate, &asking_for(5)), Ok(5), "what it asks for is in time");
    assert_eq!(first_retry(&immediate, &transient()), Ok(0));
}

#[test]
fn the_last_call_also_comes_before_the_end_of_the_retention() {
    let long =
        policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#);
    let after = |retention| hidden(&long, &body(""), &asking_for(40_000), retention);
    // The last call is 180 s before the end, plus 5 s for delivery.
    assert_eq!(after(7200), Ok(7200 - 180 - 5 - 10));
    assert_eq!(after(250), Ok(60));
    assert_eq!(after(249).unwrap_err().reason, DeadLetterReason::MessageExpired);
}

/// Every copy and every receive computes the same time.
#[test]
fn the_last_call_of_a_long_delay_comes_at_one_moment_through_all_hops() {
    let long = policy(
        r#"{"long_delays":true,"max_age_seconds":7205,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#,
    );
    let hand_off = asking_for(u64::MAX);
    let decided_at = |due_at, second| decide(&long, &failed(&body(""), &hand_off, due_at), at(second));
    assert_eq!(decided_at(None, 10), Decision::Hop(at(7200)));
    assert_eq!(decided_at(None, 6000), Decision::Hop(at(7200)));
    assert_eq!(next_hop(&long, &hand_off, Some(at(7200)), at(6000)), Some(at(7200)));
    let Decision::Resend(last) = decided_at(Some(at(7200)), 6400) else { panic!("it is sent") };
    assert_eq!((last.delay.get(), last.waited.get()), (800, 7195));
}

/// Computed like the delays in `backoff/tests.rs`, which must not change, either.
#[test]
fn the_longer_of_backoff_and_retry_after_is_the_delay() {
    let wait = |policy: &Policy, members: String, asked| {
        match decided(policy, &body(&members), &asking_for(asked)) {
            Decision::Resend(resend) => (next_retry_time(&resend) - at(10)).num_seconds(),
            // Counted from the failure.
            Decision::Hop(due) => (due - at(5)).num_seconds(),
            Decision::GiveUp(give_up) => panic!("{give_up:?}"),
        }
    };
    let default = Policy::default();
    let after =
        |asked| [0, 1, 2, 3].map(|attempt| wait(&default, format!(r#""retry_attempt":{attempt}"#), asked));
    assert_eq!([0, 30, 850].map(after), [[601, 250, 604, 264], [601, 250, 604, 264], [889, 877, 870, 885]]);
    let second_generation = |asked| {
        let members = |attempt| format!(r#""redrive_generation":1,"retry_attempt":{attempt}"#);
        [0, 1, 2, 3].map(|attempt| wait(&default, members(attempt), asked))
    };
    assert_eq!([0, 600].map(second_generation), [[29, 532, 374, 28], [660, 620, 632, 615]]);
    let long = policy(
        r#"{"long_delays":true,"backoff":{"kind":"exponential","initial_delay_seconds":60,"max_delay_seconds":43200}}"#,
    );
    let after =
        |asked| [0, 1, 2, 3].map(|attempt| wait(&long, format!(r#""retry_attempt":{attempt}"#), asked));
    assert_eq!([3600, u64::MAX].map(after), [[3766, 3716, 3685, 3747], [43_200; 4]]);
}

/// Any policy. The jitter does not matter, since the compared delay includes it.
fn any_policy() -> impl Strategy<Value = Policy> {
    let backoff = prop_oneof![
        (0..=900_u16).prop_map(|max| format!(r#"{{"kind":"uniform","max_delay_seconds":{max}}}"#)),
        (0..=900_u16, prop::sample::select(vec!["none", "half", "full"])).prop_map(|(delay, jitter)| {
            format!(r#"{{"kind":"fixed","delay_seconds":{delay},"jitter":"{jitter}"}}"#)
        }),
        (1..=900_u16, 1..=9_u8).prop_map(|(initial, rate)| {
            format!(r#"{{"kind":"exponential","initial_delay_seconds":{initial},"rate":{rate}}}"#)
        }),
    ];
    let age = prop::option::of(prop_oneof![5..=40_u32, 5..=2000_u32]);
    (backoff, any::<bool>(), age).prop_map(|(backoff, long, age)| {
        let age = age.map(|age| format!(r#","max_age_seconds":{age}"#)).unwrap_or_default();
        policy(&format!(r#"{{"max_attempts":1000,"long_delays":{long},"backoff":{backoff}{age}}}"#))
    })
}

proptest! {
    /// Never before the policy's own delay; before the target's only at the end of the message's time.
    #[test]
    fn a_retry_waits_for_the_later_of_backoff_and_retry_after(
        policy in any_policy(),
        attempt in 0..20_u32,
        asked in prop_oneof![0..=10_u64, 0..=1000_u64, any::<u64>()],
    ) {
        let text = body(&format!(r#""retry_attempt":{attempt},"first_sent_time":"{}""#, format_rfc3339(at(0))));
        let key = JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt: attempt + 1 };
        // Long delays count from the failure at second 5.
        let from = if policy.long_delays { at(5) } else { at(10) };
        let after = |seconds| from + TimeDelta::seconds(seconds);
        let own = after(retry_delay(&policy, key).get().into());
        let floor = after(i64::try_from(asked.min(policy.delay_limit().get().into())).unwrap());
        let limit = policy.max_age_seconds.map(|age| at(age.into()));
        let due = match decided(&policy, &text, &asking_for(asked)) {
            Decision::Resend(resend) => {
                let due = next_retry_time(&resend);
                prop_assert!(at(10) + resend.delay.duration() >= due, "nothing comes early");
                due
            }
            Decision::Hop(due) => due,
            Decision::GiveUp(give_up) => {
                prop_assert_eq!(give_up.reason, DeadLetterReason::MessageExpired);
                let limit = limit.unwrap();
                // 10 % may have been added.
                let late = floor + (floor - from) / 10 > limit;
                prop_assert!(own.max(at(10)) > limit || (late && limit <= at(15)), "there was time for a call");
                return Ok(());
            }
        };
        prop_assert!(due >= own, "{due} is before the policy's own {own}");
        let last_call = limit.map(|limit| limit - TimeDelta::seconds(5));
        let least = last_call.map_or(floor, |last_call| floor.min(last_call));
        prop_assert!(due >= least, "{due} is before {least}, which the target asks for");
        prop_assert!(limit.is_none_or(|limit| due <= limit), "{due} is after the message's end");
    }
}
