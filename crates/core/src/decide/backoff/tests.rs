//! The expected numbers were computed with an independent ChaCha8 implementation, using only the module's
//! documentation. They must never change: during a deployment, different versions of these functions process copies of
//! the same message.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::policy::{DelaySchedule, Policy};

const MESSAGE: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

fn key(generation: u32, attempt: u32) -> JitterKey {
    JitterKey { message_id: Uuid::parse_str(MESSAGE).unwrap(), generation, attempt }
}

fn policy(backoff: &str) -> Policy {
    Policy::from_json(&format!(r#"{{"backoff":{backoff}}}"#)).unwrap()
}

/// Returns the delays before the first retries of generation 0.
fn delays(backoff: &str, count: u32) -> Vec<u16> {
    let policy = policy(backoff);
    (1..=count).map(|attempt| retry_delay(&policy, key(0, attempt)).get()).collect()
}

#[test]
fn the_default_delay_is_uniform_between_0_and_900() {
    let default = Policy::default();
    let first_delays = |generation| {
        (1..=6).map(|attempt| retry_delay(&default, key(generation, attempt)).get()).collect::<Vec<_>>()
    };
    assert_eq!(first_delays(0), [601, 250, 604, 264, 314, 390]);
    assert_eq!(first_delays(1), [29, 532, 374, 28, 809, 586], "another generation, other delays");
    let last_id = |attempt| JitterKey { message_id: Uuid::max(), generation: 100, attempt };
    assert_eq!([1, 2, 1000].map(|attempt| retry_delay(&default, last_id(attempt)).get()), [850, 740, 502]);
}

#[test]
fn an_exponential_delay_grows_by_its_rate_up_to_its_cap() {
    let exact = r#"{"kind":"exponential","initial_delay_seconds":2,"rate":3,"max_delay_seconds":100,"jitter":"none"}"#;
    assert_eq!(delays(exact, 6), [2, 6, 18, 54, 100, 100]);
    let doubling = r#"{"kind":"exponential","initial_delay_seconds":1,"jitter":"none"}"#;
    assert_eq!(delays(doubling, 12), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    let fraction = r#"{"kind":"exponential","initial_delay_seconds":10,"rate":1.5,"jitter":"none"}"#;
    assert_eq!(delays(fraction, 13), [10, 15, 23, 34, 51, 76, 114, 171, 257, 385, 577, 865, 900]);
}

#[test]
fn an_offset_is_added_before_the_cap() {
    let offset = r#"{"kind":"exponential","initial_delay_seconds":2,"offset_seconds":30,"max_delay_seconds":100,"jitter":"none"}"#;
    assert_eq!(delays(offset, 7), [32, 34, 38, 46, 62, 94, 100]);
}

#[test]
fn additive_jitter_extends_the_delay_up_to_the_cap() {
    let formula = r#"{"kind":"exponential","initial_delay_seconds":2,"offset_seconds":30,"max_delay_seconds":100,"jitter":{"kind":"additive","max_seconds":60}}"#;
    // `2^n + 30 + random(0..=60)`, and 40 to 100 from the fourth retry on.
    assert_eq!(delays(formula, 6), [72, 50, 78, 57, 61, 66]);
    let ranges = (1..=5).map(|attempt| delay_bounds(&policy(formula), attempt).into_inner());
    let ranges: Vec<_> = ranges.map(|(low, high)| (low.get(), high.get())).collect();
    assert_eq!(ranges, [(32, 92), (34, 94), (38, 98), (40, 100), (40, 100)]);
    assert_eq!(
        delays(r#"{"kind":"fixed","delay_seconds":900,"jitter":{"kind":"additive","max_seconds":0}}"#, 2),
        [900; 2]
    );
    let near = r#"{"kind":"fixed","delay_seconds":890,"jitter":{"kind":"additive","max_seconds":100}}"#;
    assert_eq!(delays(near, 6), [867, 828, 867, 829, 835, 843]);
}

#[test]
fn a_long_delay_can_reach_12_hours() {
    let long_delays = |backoff: &str, count| {
        let policy = Policy::from_json(&format!(r#"{{"long_delays":true,"backoff":{backoff}}}"#)).unwrap();
        (1..=count).map(|attempt| retry_delay(&policy, key(0, attempt)).get()).collect::<Vec<_>>()
    };
    let exponential = r#"{"kind":"exponential","initial_delay_seconds":60,"max_delay_seconds":43200}"#;
    assert_eq!(
        long_delays(exponential, 12),
        [40, 33, 161, 141, 334, 833, 2739, 5761, 6846, 15_041, 16_254, 15_207]
    );
    let schedule =
        r#"{"kind":"schedule","delays_seconds":[1,43190],"jitter":{"kind":"additive","max_seconds":60}}"#;
    assert_eq!(long_delays(schedule, 3), [41, 43_156, 43_180]);
}

#[test]
fn the_exponential_delay_before_retry_1000_is_its_cap() {
    let steep = policy(
        r#"{"kind":"exponential","initial_delay_seconds":1,"rate":100,"max_delay_seconds":700,"jitter":"none"}"#,
    );
    assert_eq!(retry_delay(&steep, key(0, 1000)).get(), 700);
    assert_eq!(retry_delay(&steep, key(0, u32::MAX)).get(), 700);
    let flat = policy(r#"{"kind":"exponential","initial_delay_seconds":7,"rate":1,"jitter":"none"}"#);
    assert_eq!(retry_delay(&flat, key(0, u32::MAX)).get(), 7);
}

#[test]
fn full_jitter_is_the_default_and_spreads_from_0_to_the_capped_base() {
    let without_jitter =
        r#"{"kind":"exponential","initial_delay_seconds":2,"rate":3,"max_delay_seconds":100}"#;
    let full = r#"{"kind":"exponential","initial_delay_seconds":2,"rate":3,"max_delay_seconds":100,"jitter":"full"}"#;
    assert_eq!(delays(full, 6), [2, 1, 12, 16, 35, 43]);
    assert_eq!(delays(without_jitter, 6), delays(full, 6));
    assert_eq!(delays(r#"{"kind":"fixed","delay_seconds":60}"#, 6), [40, 16, 40, 17, 21, 26]);
}

#[test]
fn half_jitter_spreads_from_half_to_the_full_capped_base() {
    let half = r#"{"kind":"exponential","initial_delay_seconds":2,"rate":3,"max_delay_seconds":100,"jitter":"half"}"#;
    assert_eq!(delays(half, 6), [2, 4, 15, 35, 67, 72]);
    let odd_delay = r#"{"kind":"fixed","delay_seconds":101,"jitter":"half"}"#;
    assert_eq!(delays(odd_delay, 6), [85, 65, 85, 65, 68, 73]);
}

#[test]
fn a_fixed_delay_is_the_same_before_every_retry() {
    assert_eq!(delays(r#"{"kind":"fixed","delay_seconds":60,"jitter":"none"}"#, 4), [60; 4]);
}

#[test]
fn the_last_delay_of_a_schedule_repeats() {
    let schedule = r#"{"kind":"schedule","delays_seconds":[10,60,0,900],"jitter":"none"}"#;
    assert_eq!(delays(schedule, 6), [10, 60, 0, 900, 900, 900]);
    let half = r#"{"kind":"schedule","delays_seconds":[10,60,900],"jitter":"half"}"#;
    assert_eq!(delays(half, 4), [9, 38, 752, 582]);
}

/// A row of `schemas/vectors/backoff.json`, which the stack's tests also read.
#[derive(Deserialize)]
struct Vector {
    name: String,
    policy: Value,
    /// The longest delays, by the number of the retry that follows the delay.
    longest_seconds: BTreeMap<u32, u16>,
}

#[test]
fn the_longest_delays_match_the_stacks_vectors() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/backoff.json")).unwrap();
    for Vector { name, policy, longest_seconds } in vectors {
        let policy = Policy::from_json(&policy.to_string()).unwrap();
        for (attempt, longest) in longest_seconds {
            assert_eq!(delay_bounds(&policy, attempt).end().get(), longest, "{name}: retry {attempt}");
        }
    }
}

#[test]
fn a_requested_delay_is_a_floor_plus_up_to_ten_percent() {
    let requested_delays = |requested| {
        (1..=6)
            .map(|attempt| retry_after_delay(requested, RetryDelay::SHORT_MAX, key(0, attempt)).get())
            .collect::<Vec<_>>()
    };
    assert_eq!(requested_delays(30), [31, 31, 30, 31, 33, 33]);
    assert_eq!(requested_delays(600), [628, 619, 614, 624, 657, 648]);
    assert_eq!(requested_delays(0), [0; 6]);
}

#[test]
fn a_requested_delay_is_capped_at_900_seconds() {
    let requested_delays = |requested| {
        (1..=6)
            .map(|attempt| retry_after_delay(requested, RetryDelay::SHORT_MAX, key(0, attempt)).get())
            .collect::<Vec<_>>()
    };
    assert_eq!(requested_delays(850), [889, 877, 870, 885, 900, 900]);
    assert_eq!(requested_delays(900), [900; 6]);
    assert_eq!(requested_delays(86_400), [900; 6]);
    assert_eq!(requested_delays(u64::MAX), [900; 6]);
}

fn any_key() -> impl Strategy<Value = JitterKey> {
    (any::<u128>(), 0..=100_u32, 1..=1001_u32).prop_map(|(id, generation, attempt)| JitterKey {
        message_id: Uuid::from_u128(id),
        generation,
        attempt,
    })
}

fn seconds(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = RetryDelay> {
    range.prop_map(RetryDelay::saturating)
}

/// Returns a backoff with each of the three jitters, and its cap.
fn any_backoff() -> impl Strategy<Value = ([Backoff; 3], RetryDelay)> {
    let jitters = [Jitter::None, Jitter::Half, Jitter::Full];
    prop_oneof![
        seconds(0..=900).prop_map(|max_delay| ([(); 3].map(|()| Backoff::Uniform { max_delay }), max_delay)),
        (seconds(1..=900), 1.0..100.0_f64, seconds(0..=900)).prop_map(
            move |(initial_delay, rate, max_delay)| (
                jitters.map(|jitter| Backoff::Exponential {
                    initial_delay,
                    rate,
                    offset: RetryDelay::ZERO,
                    max_delay,
                    jitter
                }),
                max_delay,
            )
        ),
        seconds(0..=900)
            .prop_map(move |delay| (jitters.map(|jitter| Backoff::Fixed { delay, jitter }), delay)),
        prop::collection::vec(seconds(0..=900), 1..6).prop_map(move |delays| {
            let cap = delays.iter().copied().max().unwrap();
            let delays = DelaySchedule::try_from(delays).unwrap();
            (jitters.map(|jitter| Backoff::Schedule { delays: delays.clone(), jitter }), cap)
        }),
    ]
}

proptest! {
    #[test]
    fn a_delay_never_exceeds_its_cap_and_jitter_only_shrinks_it(
        (backoffs, cap) in any_backoff(),
        key in any_key(),
    ) {
        let uniform = matches!(backoffs[0], Backoff::Uniform { .. });
        for backoff in backoffs.clone() {
            let policy = Policy { backoff, ..Policy::default() };
            prop_assert!(delay_bounds(&policy, key.attempt).contains(&retry_delay(&policy, key)), "{policy:?}");
        }
        let [base, half, full] = backoffs.map(|backoff| {
            retry_delay(&Policy { backoff, ..Policy::default() }, key)
        });
        for delay in [base, half, full] {
            prop_assert!(delay <= cap, "{delay} above {cap}");
        }
        if !uniform {
            prop_assert!(half <= base && 2 * half.get() >= base.get(), "half jitter made {half} of {base}");
            prop_assert!(full <= base, "full jitter made {full} of {base}");
        }
    }

    #[test]
    fn a_requested_delay_is_exceeded_by_at_most_ten_percent(
        requested in prop_oneof![0..=1000_u64, any::<u64>()],
        key in any_key(),
    ) {
        let delay = u64::from(retry_after_delay(requested, RetryDelay::SHORT_MAX, key).get());
        prop_assert!(delay >= requested.min(900));
        prop_assert!(delay <= 900);
        prop_assert!(delay <= requested.saturating_mul(11) / 10);
    }
}
