//! Compares the retry strategies of AWS's durable execution SDK for Rust with ours: the same settings give the same
//! delays.
#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod distribution;
mod ours;
mod settings;
mod theirs;

use std::ops::RangeInclusive;

use aws_durable_execution_sdk::builders::{JitterStrategy, RetryStrategyConfig};
use distribution::Distribution;
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::handler::HandlerError;
use redeliver_core::policy::Policy;
use settings::RetrySettings;

/// The number of samples from each side, for each retry.
const SAMPLES: usize = 2000;
/// The maximum distance of an SDK sample from the documented distribution. A sample of 2,000 exceeds it with a
/// probability of at most 2 exp(-2 * 2000 * 0.08^2) = 1.6e-11 (Dvoretzky, Kiefer, Wolfowitz, Massart); 12 are compared,
/// so one run in 5,000,000,000 fails by chance.
const THEIR_DISTANCE_MAX: f64 = 0.08;
/// The maximum distance of our samples. They are keyed by the messages' ids, so they are the same in every run.
const OUR_DISTANCE_MAX: f64 = 0.04;
/// Every delay with at least this probability must be in a sample. A sample lacks such a delay with a probability of
/// 0.98^2000 = 3e-18.
const LIKELY_PROBABILITY: f64 = 0.02;

#[tokio::test]
async fn unjittered_delays_and_attempts_match_the_durable_sdk() {
    let grid = settings_grid(
        &[1, 2, 3, 6, 10],
        &[1, 2, 5, 30, 300],
        &[1, 7, 60, 300, 900, 43_200],
        &[1.0, 1.5, 2.0, 2.5, 10.0],
    );
    for (settings, ours, theirs) in delays_from_both_sides(grid).await {
        assert_eq!(ours, theirs, "{settings:?}");
        assert_eq!(ours.len(), settings.calls as usize - 1, "{settings:?}");
    }
}

/// The SDK computes a power, and redeliver multiplies repeatedly. A product such as 1.3 * 1.3 * 100 is not exact in
/// binary; where it should be an integer and one of the two results is slightly larger, it is rounded up to the next
/// second.
#[tokio::test]
async fn inexact_binary_rates_shift_delays_by_a_second_at_most() {
    let rates: Vec<_> = (11..=33).map(|tenths| f64::from(tenths) / 10.0).collect();
    let mut differences = Vec::new();
    for (settings, ours, theirs) in
        delays_from_both_sides(settings_grid(&[10], &[1, 5, 10, 30, 100], &[43_200], &rates)).await
    {
        assert_eq!(ours.len(), theirs.len(), "{settings:?}");
        differences.extend(ours.into_iter().zip(theirs).map(|(ours, theirs)| ours.abs_diff(theirs)));
    }
    assert!(differences.iter().all(|seconds| *seconds <= 1));
    let equal = differences.iter().filter(|seconds| **seconds == 0).count();
    assert!(equal * 100 >= differences.len() * 99, "{equal} of {}", differences.len());
}

#[tokio::test]
async fn half_jitter_matches_the_durable_sdk() {
    compare_jitter(JitterStrategy::Half).await;
}

#[tokio::test]
async fn full_jitter_matches_the_durable_sdk() {
    compare_jitter(JitterStrategy::Full).await;
}

/// The documented figures, for a base of 10 s. The samples confirm both distributions.
#[test]
fn durable_sdk_jitter_rounds_where_ours_draws_integers() {
    let shares = |from_base: fn(f64, JitterStrategy) -> Distribution, jitter| -> Vec<_> {
        let distribution = from_base(10.0, jitter);
        let percent = |delay| (distribution.probability(delay) * 1000.0).round() / 10.0;
        distribution.range().map(|delay| (delay, percent(delay))).collect()
    };
    let even =
        |range: RangeInclusive<u32>, percent| -> Vec<_> { range.map(|delay| (delay, percent)).collect() };
    assert_eq!(shares(Distribution::for_redeliver, JitterStrategy::Full), even(0..=10, 9.1));
    let theirs = [vec![(1, 15.0)], even(2..=9, 10.0), vec![(10, 5.0)]].concat();
    assert_eq!(shares(Distribution::for_durable_sdk, JitterStrategy::Full), theirs);
    assert_eq!(shares(Distribution::for_redeliver, JitterStrategy::Half), even(5..=10, 16.7));
    let theirs = [vec![(5, 0.0)], even(6..=10, 20.0)].concat();
    assert_eq!(shares(Distribution::for_durable_sdk, JitterStrategy::Half), theirs);
}

#[tokio::test]
async fn presets_match_the_durable_sdk() {
    let preset = |name| Policy::from_json(&format!(r#"{{"preset":"{name}"}}"#)).unwrap();
    let default = RetryStrategyConfig::default();
    assert_eq!(preset("durable_default"), RetrySettings::from_strategy(&default).to_policy());

    let none = RetryStrategyConfig::builder().max_attempts(1).build();
    assert_eq!(preset("durable_none"), RetrySettings::from_strategy(&none).to_policy());
    assert!(ours::redeliver_delays(&preset("durable_none"), 0).is_empty());
    assert_eq!(theirs::durable_delays([none]).await, [Vec::<u32>::new()]);
}

/// The SDK's equivalent is a user's function that inspects the error.
#[test]
fn only_the_given_errors_are_retried() {
    let policy = Policy::from_json(r#"{"preset":"durable_default","retryable":["Db.*"]}"#).unwrap();
    let retry = |error| ours::decide_retry(&policy, &ours::test_message(0), &error);
    for error in [HandlerError::transient("Db.Timeout", ""), HandlerError::permanent("Db.Locked", "")] {
        let retry = retry(error).unwrap();
        assert!(retry.total_delay.get() <= 5, "{retry:?}");
    }
    let given_up = retry(HandlerError::transient("Auth.Denied", "")).unwrap_err();
    assert_eq!(given_up.reason, DeadLetterReason::NonRetryableError);
}

/// Returns every combination, without jitter, except initial delays above the cap: the SDK truncates them, and our
/// policy refuses them.
fn settings_grid(calls: &[u32], initials: &[u32], maxima: &[u32], rates: &[f64]) -> Vec<RetrySettings> {
    let mut grid = Vec::new();
    for &calls in calls {
        for &initial_seconds in initials {
            for &max_seconds in maxima {
                for &rate in rates {
                    let jitter = JitterStrategy::None;
                    grid.push(RetrySettings { calls, initial_seconds, max_seconds, rate, jitter });
                }
            }
        }
    }
    grid.retain(|settings| settings.initial_seconds <= settings.max_seconds);
    grid
}

/// Returns the delays from both sides.
async fn delays_from_both_sides(
    all: Vec<RetrySettings>,
) -> impl Iterator<Item = (RetrySettings, Vec<u32>, Vec<u32>)> {
    let theirs = theirs::durable_delays(all.iter().copied().map(RetrySettings::to_strategy)).await;
    all.into_iter()
        .zip(theirs)
        .map(|(settings, theirs)| (settings, ours::redeliver_delays(&settings.to_policy(), 0), theirs))
}

/// Compares both sides for small ranges, fractional bases, the cap, and long delays.
async fn compare_jitter(jitter: JitterStrategy) {
    for (calls, initial_seconds, rate, max_seconds) in [(5, 1, 2.5, 10), (3, 900, 20.0, 43_200)] {
        let settings = RetrySettings { calls, initial_seconds, max_seconds, rate, jitter };
        compare_samples(&settings).await;
    }
}

/// Checks that each side's delays have the documented distribution, and that the two differ only by rounding.
async fn compare_samples(settings: &RetrySettings) {
    let policy = settings.to_policy();
    let all_ours: Vec<_> = (0..SAMPLES).map(|message| ours::redeliver_delays(&policy, message)).collect();
    let all_theirs = theirs::durable_delays(vec![settings.to_strategy(); SAMPLES]).await;
    for (retry, base) in settings.base_delays().into_iter().enumerate() {
        let sample = |all: &[Vec<u32>]| -> Vec<_> { all.iter().map(|delays| delays[retry]).collect() };
        let documented =
            |from_base: fn(f64, JitterStrategy) -> Distribution| from_base(base, settings.jitter);
        let (ours, theirs) =
            (documented(Distribution::for_redeliver), documented(Distribution::for_durable_sdk));
        let our_sample = checked_distribution(&sample(&all_ours), &ours, OUR_DISTANCE_MAX);
        let their_sample = checked_distribution(&sample(&all_theirs), &theirs, THEIR_DISTANCE_MAX);

        let by_rounding = ours.distance(&theirs);
        // With an integer base, the two differ by at most the probability of a single second on our side.
        let one = 1.0 / f64::from(u32::try_from(ours.range().len()).unwrap());
        let seconds = if base.fract() == 0.0 { 1.0 } else { 1.5 };
        assert!(by_rounding <= one * seconds + f64::EPSILON, "{settings:?} {base}: {by_rounding}");
        let distance = our_sample.distance(&their_sample);
        assert!(
            distance < by_rounding + OUR_DISTANCE_MAX + THEIR_DISTANCE_MAX,
            "{settings:?} {base}: {distance}"
        );
    }
}

/// Returns the distribution of a sample, after checking that it is close to the documented one.
fn checked_distribution(sample: &[u32], documented: &Distribution, distance_max: f64) -> Distribution {
    let range = documented.range();
    assert!(sample.iter().all(|delay| range.contains(delay)), "{range:?}: {sample:?}");
    let mut likely = range.filter(|delay| documented.probability(*delay) >= LIKELY_PROBABILITY);
    assert!(likely.all(|delay| sample.contains(&delay)), "{sample:?}");
    let found = Distribution::from_sample(sample);
    let distance = found.distance(documented);
    assert!(distance < distance_max, "{distance}: {sample:?}");
    found
}
