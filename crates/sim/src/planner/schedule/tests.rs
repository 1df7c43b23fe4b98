use proptest::prelude::*;

use super::*;
use crate::planner::Survival;

fn schedule(policy: &str) -> Schedule {
    Schedule::for_policy(&Policy::from_json(policy).unwrap())
}

/// Returns the earliest, median and latest time of each attempt.
fn attempt_times(policy: &str) -> Vec<(u64, u64, u64)> {
    let attempts = schedule(policy).attempts;
    attempts.iter().map(|at| (at.earliest_seconds, at.median_seconds, at.latest_seconds)).collect()
}

fn survival_chances(policy: &str, outage_seconds: u64) -> (f64, f64) {
    let survival = Survival::for_outage(&schedule(policy), None, outage_seconds);
    (survival.from_its_beginning, survival.at_a_random_moment)
}

const FIXED: &str = r#"{"max_attempts":3,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;

#[test]
fn without_jitter_each_attempt_has_one_possible_time() {
    assert_eq!(attempt_times(FIXED), [(60, 60, 60), (120, 120, 120), (180, 180, 180)]);
    let doubling = r#"{"max_attempts":5,"backoff":{"kind":"exponential","initial_delay_seconds":5,"max_delay_seconds":30,"jitter":"none"}}"#;
    let at = [5, 15, 35, 65, 95];
    assert_eq!(attempt_times(doubling), at.map(|at| (at, at, at)));
}

#[test]
fn the_default_policy_is_spread_over_75_minutes() {
    let at = attempt_times("{}");
    assert_eq!(at, [(0, 450, 900), (0, 900, 1800), (0, 1350, 2700), (0, 1800, 3600), (0, 2250, 4500)]);
    // The sum of two uniform delays has a triangular distribution: 1/901² at 0.
    let two = schedule(r#"{"max_attempts":2}"#);
    assert!((two.last.chances[0] - 1.0 / (901.0 * 901.0)).abs() < 1e-15);
    assert!((two.last.chances[900] - 1.0 / 901.0).abs() < 1e-12);
    assert!((two.last.chances.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_message_survives_until_its_last_attempt() {
    assert_eq!(survival_chances(FIXED, 179), (1.0, 1.0));
    assert_eq!(survival_chances(FIXED, 180), (1.0, 1.0), "an attempt in the last second is after the outage");
    // If a message first fails at a random time during a 360 s outage, at most 180 s are left in half of the cases.
    assert_eq!(survival_chances(FIXED, 360), (0.0, 0.5));
    let none = r#"{"max_attempts":0}"#;
    assert_eq!((survival_chances(none, 1), attempt_times(none)), ((0.0, 0.0), vec![]));
    // One delay of 0..=9: 5 of 10 values are at least 5; the mean of min(delay, 5) is 3.5.
    let one = r#"{"max_attempts":1,"backoff":{"kind":"uniform","max_delay_seconds":9}}"#;
    let (from_its_beginning, at_a_random_moment) = survival_chances(one, 5);
    assert!((from_its_beginning - 0.5).abs() < 1e-12 && (at_a_random_moment - 0.7).abs() < 1e-12);
}

#[test]
fn attempts_after_the_age_limit_are_not_made() {
    let limited = r#"{"max_attempts":9,"max_age_seconds":150,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    assert_eq!(attempt_times(limited), [(60, 60, 60), (120, 120, 120)]);
    assert_eq!((survival_chances(limited, 120).0, survival_chances(limited, 121).0), (1.0, 0.0));
    // The delay is 0 to 9; delays of 0 to 4 are in time.
    let half = r#"{"max_attempts":1,"max_age_seconds":4,"backoff":{"kind":"uniform","max_delay_seconds":9}}"#;
    let attempt = schedule(half).attempts[0];
    assert_eq!((attempt.earliest_seconds, attempt.median_seconds, attempt.latest_seconds), (0, 2, 4));
    assert!((attempt.made - 0.5).abs() < 1e-12);
    // Two delays of 0 or 1, at most 1 in total: the last attempt is the second one in three of four cases.
    let two = r#"{"max_attempts":2,"max_age_seconds":1,"backoff":{"kind":"uniform","max_delay_seconds":1}}"#;
    let schedule = schedule(two);
    assert!((schedule.attempts[1].made - 0.75).abs() < 1e-12);
    assert!(
        (schedule.last.chances.iter().sum::<f64>() - 1.0).abs() < 1e-12,
        "each message has a last attempt"
    );
    assert!((schedule.last.chances[0] - 0.25).abs() < 1e-12);
}

#[test]
fn long_delays_are_also_exact() {
    let long = r#"{"long_delays":true,"max_attempts":3,"backoff":{"kind":"schedule","delays_seconds":[3600,43200],"jitter":"half"}}"#;
    assert_eq!(attempt_times(long)[2], (1800 + 2 * 21_600, 2700 + 2 * 32_400, 3600 + 2 * 43_200));
}

fn any_policy() -> impl Strategy<Value = String> {
    let backoff = prop_oneof![
        (0..=900_u16).prop_map(|max| format!(r#"{{"kind":"uniform","max_delay_seconds":{max}}}"#)),
        (1..=60_u16, 60..=900_u16, 0..3_usize).prop_map(|(initial, max, jitter)| format!(
            r#"{{"kind":"exponential","initial_delay_seconds":{initial},"max_delay_seconds":{max},"jitter":"{}"}}"#,
            ["none", "half", "full"][jitter]
        )),
        (0..=300_u16, 1..=300_u16).prop_map(|(delay, more)| format!(
            r#"{{"kind":"fixed","delay_seconds":{delay},"jitter":{{"kind":"additive","max_seconds":{more}}}}}"#
        )),
    ];
    (0..8_u32, backoff, prop::option::of(1..3000_u32)).prop_map(|(attempts, backoff, age)| {
        let age = age.map_or(String::new(), |age| format!(r#","max_age_seconds":{age}"#));
        format!(r#"{{"max_attempts":{attempts},"backoff":{backoff}{age}}}"#)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn longer_outages_are_no_easier_to_survive_and_medians_are_within_bounds(policy in any_policy()) {
        let schedule = schedule(&policy);
        let lengths = [1, 2, 30, 60, 61, 500, 1000, 3000, 10_000, 100_000];
        let survival: Vec<_> = lengths.into_iter().map(|seconds| Survival::for_outage(&schedule, None, seconds)).collect();
        for pair in survival.windows(2) {
            prop_assert!(pair[1].from_its_beginning <= pair[0].from_its_beginning + 1e-12, "{pair:?}");
            prop_assert!(pair[1].at_a_random_moment <= pair[0].at_a_random_moment + 1e-12, "{pair:?}");
        }
        for one in survival {
            prop_assert!((0.0..=1.0).contains(&one.from_its_beginning));
            prop_assert!(one.from_its_beginning <= one.at_a_random_moment + 1e-12);
        }
        let mut before = (0, 0, 0);
        for at in &schedule.attempts {
            let moments = (at.earliest_seconds, at.median_seconds, at.latest_seconds);
            prop_assert!(moments.0 <= moments.1 && moments.1 <= moments.2, "{at:?}");
            prop_assert!(moments.0 >= before.0 && moments.2 >= before.2, "{at:?}");
            prop_assert!(at.made > 0.0 && at.made <= 1.0);
            before = moments;
        }
        let last: f64 = schedule.last.chances.iter().sum();
        prop_assert!(last <= 1.0 + 1e-9);
        let made = schedule.attempts.first().map_or(0.0, |at| at.made);
        prop_assert!((last - made).abs() < 1e-9, "a message with an attempt has a last one");
    }
}
