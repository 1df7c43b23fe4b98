//! A delay requested by the target is a floor for the policy's delay, and does not prevent a message's last call.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits::VisibilitySeconds;

/// Returns a policy with these members and a fixed delay of ten minutes.
fn ten_minute_policy(members: &str) -> Policy {
    policy(&format!(r#"{{"backoff":{{"kind":"fixed","delay_seconds":600,"jitter":"none"}}{members}}}"#))
}

/// Returns the visibility timeout, chosen at second 10, of a message that was sent at second 0 to a queue with a
/// visibility timeout of 180 s.
fn visibility_after_failure(
    policy: &Policy,
    body: &str,
    hand_off: &HandOff,
    retention: u64,
) -> Result<u16, GiveUp> {
    let queue_times = QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(retention),
    };
    let failed = failed_message(body, hand_off, None);
    decide_visibility_timeout(policy, &failed, Attempts::from_receives(&failed.accepted), queue_times, at(10))
        .map(VisibilitySeconds::get)
}

/// Returns the delay of the first retry in both strategies, which must agree.
fn first_retry_delay(policy: &Policy, hand_off: &HandOff) -> Result<u16, DeadLetterReason> {
    let resent = match decide_after_failure(policy, &body(""), hand_off) {
        Decision::Resend(resend) => Ok(resend.delay.get()),
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(due) => panic!("unexpected hop, due at {due}"),
    };
    let visibility =
        visibility_after_failure(policy, &body(""), hand_off, 604_800).map_err(|give_up| give_up.reason);
    assert_eq!(visibility, resent, "both strategies must have the same delay");
    resent
}

fn next_retry_time(resend: &Resend) -> Timestamp {
    let body: serde_json::Value = serde_json::from_str(&resend.body().replace("1e400", "0")).unwrap();
    parse_rfc3339(body["metadata"]["next_retry_time"].as_str().unwrap()).unwrap()
}

const EXPIRED: Result<u16, DeadLetterReason> = Err(DeadLetterReason::MessageExpired);

#[test]
fn a_requested_delay_below_the_backoff_does_not_shorten_it() {
    let first_delay =
        |requested| first_retry_delay(&ten_minute_policy(""), &failure_with_retry_after(requested)).unwrap();
    assert_eq!([0, 1, 599].map(first_delay), [600, 600, 626], "up to 10 % more than requested");
    assert_eq!([600, 850, 86_400].map(first_delay), [628, 889, 900]);
}

#[test]
fn a_snooze_has_the_handlers_delay_even_if_it_spends_an_attempt() {
    let snooze_delay = |seconds, members: &str| {
        let snooze = HandlerError::snooze("NotYet", "later", Duration::from_secs(seconds));
        resend(&ten_minute_policy(""), &body(members), &failure(&snooze)).delay.get()
    };
    assert_eq!([0, 1, 300].map(|seconds| snooze_delay(seconds, "")), [0, 1, 314]);
    assert_eq!([0, 1, 300].map(|seconds| snooze_delay(seconds, r#""snooze_count":100"#)), [0, 1, 314]);
}

/// Decided at second 10. Five seconds are left for the message to arrive.
#[test]
fn a_retry_after_past_the_expiry_is_cut_to_end_5_s_before_it() {
    let quick = r#""backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}"#;
    let policy_with_max_age = |age: u32| policy(&format!(r#"{{{quick},"max_age_seconds":{age}}}"#));
    let first_delay =
        |age, requested| first_retry_delay(&policy_with_max_age(age), &failure_with_retry_after(requested));
    // The delay is 628 s, including the extra time: due at second 638.
    assert_eq!(first_delay(638, 600), Ok(628), "in time");
    assert_eq!(first_delay(637, 600), Ok(622));
    assert_eq!(first_delay(300, 600), Ok(285));
    assert_eq!(first_delay(300, u64::MAX), Ok(285));
    assert_eq!(first_delay(75, 600), Ok(60));
    assert_eq!(first_delay(70, 600), Ok(60), "the policy's own delay ends at the limit");
    assert_eq!(first_delay(69, 600), EXPIRED, "the policy's own delay is too long");

    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(200) + TimeDelta::milliseconds(300)));
    let last = resend(&one_minute_policy(), &body(&expires), &failure_with_retry_after(600));
    assert_eq!((last.delay.get(), next_retry_time(&last)), (185, at(195)), "185.3 s");
}

#[test]
fn a_message_is_given_up_on_after_its_last_call_before_the_expiry() {
    let immediate =
        policy(r#"{"max_age_seconds":16,"backoff":{"kind":"fixed","delay_seconds":0,"jitter":"none"}}"#);
    assert_eq!(first_retry_delay(&immediate, &failure_with_retry_after(600)), Ok(1), "at second 11 of 16");
    let immediate = Policy { max_age_seconds: Some(15), ..immediate };
    assert_eq!(first_retry_delay(&immediate, &failure_with_retry_after(600)), EXPIRED, "at second 10 of 15");
    assert_eq!(
        give_up(&immediate, &body(""), &failure_with_retry_after(600)).explanation,
        "The next retry, at 2026-07-25T17:30:38.000000Z, would be too late: max_age_seconds ends at 2026-07-25T17:20:15.000000Z"
    );
    assert_eq!(
        first_retry_delay(&immediate, &failure_with_retry_after(5)),
        Ok(5),
        "the requested delay ends before the age limit"
    );
    assert_eq!(first_retry_delay(&immediate, &transient_failure()), Ok(0));
}

#[test]
fn the_last_call_is_made_before_the_retention_ends() {
    let long =
        policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#);
    let visibility_with_retention =
        |retention| visibility_after_failure(&long, &body(""), &failure_with_retry_after(40_000), retention);
    // The last call is 180 s before the end, plus 5 s for delivery.
    assert_eq!(visibility_with_retention(7200), Ok(7200 - 180 - 5 - 10));
    assert_eq!(visibility_with_retention(250), Ok(60));
    assert_eq!(visibility_with_retention(249).unwrap_err().reason, DeadLetterReason::MessageExpired);
}

/// Every copy and every receive computes the same time.
#[test]
fn the_last_call_after_a_long_delay_keeps_its_time_across_hops() {
    let long = policy(
        r#"{"long_delays":true,"max_age_seconds":7205,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#,
    );
    let hand_off = failure_with_retry_after(u64::MAX);
    let decide_at = |due_at, second| decide(&long, &failed_message(&body(""), &hand_off, due_at), at(second));
    assert_eq!(decide_at(None, 10), Decision::Hop(at(7200)));
    assert_eq!(decide_at(None, 6000), Decision::Hop(at(7200)));
    assert_eq!(next_hop(&long, &hand_off, Some(at(7200)), at(6000)), Some(at(7200)));
    let Decision::Resend(last) = decide_at(Some(at(7200)), 6400) else { panic!("must be re-sent") };
    assert_eq!((last.delay.get(), last.total_delay.get()), (800, 7195));
}

/// Computed like the delays in `backoff/tests.rs`, which must not change either.
#[test]
fn the_longer_of_backoff_and_retry_after_is_the_delay() {
    let delay_seconds = |policy: &Policy, members: String, requested| {
        match decide_after_failure(policy, &body(&members), &failure_with_retry_after(requested)) {
            Decision::Resend(resend) => (next_retry_time(&resend) - at(10)).num_seconds(),
            // Counted from the failure.
            Decision::Hop(due) => (due - at(5)).num_seconds(),
            Decision::GiveUp(give_up) => panic!("{give_up:?}"),
        }
    };
    let default = Policy::default();
    let delays = |requested| {
        [0, 1, 2, 3]
            .map(|attempt| delay_seconds(&default, format!(r#""retry_attempt":{attempt}"#), requested))
    };
    assert_eq!([0, 30, 850].map(delays), [[601, 250, 604, 264], [601, 250, 604, 264], [889, 877, 870, 885]]);
    let second_generation_delays = |requested| {
        let members = |attempt| format!(r#""redrive_generation":1,"retry_attempt":{attempt}"#);
        [0, 1, 2, 3].map(|attempt| delay_seconds(&default, members(attempt), requested))
    };
    assert_eq!([0, 600].map(second_generation_delays), [[29, 532, 374, 28], [660, 620, 632, 615]]);
    let long = policy(
        r#"{"long_delays":true,"backoff":{"kind":"exponential","initial_delay_seconds":60,"max_delay_seconds":43200}}"#,
    );
    let delays = |requested| {
        [0, 1, 2, 3].map(|attempt| delay_seconds(&long, format!(r#""retry_attempt":{attempt}"#), requested))
    };
    assert_eq!([3600, u64::MAX].map(delays), [[3766, 3716, 3685, 3747], [43_200; 4]]);
}

/// Generates any policy. Its jitter does not matter, since the compared delay includes it.
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
    /// A retry is never made before the policy's own delay has passed. It is made before the target's delay has passed
    /// only if the message is about to expire.
    #[test]
    fn a_retry_waits_for_the_later_of_backoff_and_retry_after(
        policy in any_policy(),
        attempt in 0..20_u32,
        requested in prop_oneof![0..=10_u64, 0..=1000_u64, any::<u64>()],
    ) {
        let text = body(&format!(r#""retry_attempt":{attempt},"first_sent_time":"{}""#, format_rfc3339(at(0))));
        let key = JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt: attempt + 1 };
        // Long delays count from the failure at second 5.
        let from = if policy.long_delays { at(5) } else { at(10) };
        let time_after = |seconds| from + TimeDelta::seconds(seconds);
        let policy_due = time_after(retry_delay(&policy, key).get().into());
        let floor = time_after(i64::try_from(requested.min(policy.delay_limit().get().into())).unwrap());
        let limit = policy.max_age_seconds.map(|age| at(age.into()));
        let due = match decide_after_failure(&policy, &text, &failure_with_retry_after(requested)) {
            Decision::Resend(resend) => {
                let due = next_retry_time(&resend);
                prop_assert!(at(10) + resend.delay.duration() >= due, "a retry must not be early");
                due
            }
            Decision::Hop(due) => due,
            Decision::GiveUp(give_up) => {
                prop_assert_eq!(give_up.reason, DeadLetterReason::MessageExpired);
                let limit = limit.unwrap();
                // Up to 10 % may have been added.
                let late = floor + (floor - from) / 10 > limit;
                prop_assert!(policy_due.max(at(10)) > limit || (late && limit <= at(15)), "there was time for a call");
                return Ok(());
            }
        };
        prop_assert!(due >= policy_due, "{due} is before the policy's own {policy_due}");
        let last_call = limit.map(|limit| limit - TimeDelta::seconds(5));
        let earliest = last_call.map_or(floor, |last_call| floor.min(last_call));
        prop_assert!(due >= earliest, "{due} is before {earliest}, the earliest time that the target allows");
        prop_assert!(limit.is_none_or(|limit| due <= limit), "{due} is after the message expires");
    }
}
