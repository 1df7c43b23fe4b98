//! An independent implementation of the documented retry policy: the ledger must not use the code that it audits.

mod breaker;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde_json::{Value, json};

pub use breaker::{BreakerKnob, BreakerModel, CallOutcome, CircuitPartition};

/// The error types of the simulated target, and those that the functions add.
pub const ERROR_TYPES: [&str; 6] =
    ["HttpStatus.503", "HttpStatus.418", "Db.Busy", "Order.Unknown", "HttpStatus.500", "HttpStatus.404"];
/// The error type of a target that currently accepts no more calls.
pub const TOO_MANY: &str = "HttpStatus.429";
/// The longest delay that SQS supports, in seconds.
pub const DELAY_SECONDS_MAX: u64 = 900;

#[derive(Clone, Debug, PartialEq)]
pub struct PolicyModel {
    /// Retries after the first attempt.
    pub max_attempts: u32,
    /// Delays before each retry.
    pub backoff: BackoffModel,
    /// The spread of the delays.
    pub jitter: JitterModel,
    /// True if delays can exceed 900 s.
    pub long_delays: bool,
    /// Number of immediate retries after a blip, and the delay before each in milliseconds.
    pub immediate: Option<(u32, u64)>,
    /// Age limit.
    pub max_age_seconds: Option<u32>,
    /// Globs for retryable error types.
    pub retryable: Vec<&'static str>,
    /// Globs for permanent error types.
    pub non_retryable: Vec<&'static str>,
    /// The circuit breaker's setting.
    pub breaker: BreakerKnob,
    /// Limit on the number of times that SQS moves a message.
    pub max_redrives: Option<u32>,
}

/// See [`PolicyModel`].
#[derive(Clone, Debug, PartialEq)]
pub enum BackoffModel {
    /// Uniform in `0..=max`.
    Uniform(u64),
    /// Initial delay, rate, offset, maximum.
    Exponential(u64, f64, u64, u64),
    /// Constant delay.
    Fixed(u64),
    /// Listed delays; the last one repeats.
    Schedule(Vec<u64>),
}

/// See [`PolicyModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterModel {
    /// The only jitter for uniform backoff.
    Uniform,
    /// A jitter identified by name.
    Named(&'static str),
    /// Adds up to this many seconds.
    Additive(u64),
}

/// The key that a delay is derived from, as specified in `core::decide::backoff`.
#[derive(Clone, Copy, Debug)]
pub struct DelayKey<'a> {
    /// The message id exactly as written.
    pub message_id: &'a str,
    /// `redrive_generation`.
    pub generation: u32,
    /// Number of the retry; 1 for the first.
    pub attempt: u32,
}

impl DelayKey<'_> {
    fn random_words(self) -> [u64; 2] {
        let mut digits = self.message_id.chars().filter(|character| *character != '-');
        let id =
            digits.try_fold(0_u128, |id, digit| Some(id.checked_mul(16)? + u128::from(digit.to_digit(16)?)));
        let id = id.unwrap_or_default().to_be_bytes();
        let mut seed = [0; 32];
        let numbers = [self.generation.to_le_bytes(), self.attempt.to_le_bytes()];
        let parts = id.into_iter().chain(numbers.into_iter().flatten()).chain(*b"redelivr");
        seed.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        let mut generator = ChaCha8Rng::from_seed(seed);
        [generator.next_u64(), generator.next_u64()]
    }
}

/// Maps a random word uniformly to `least..=most`.
fn scale_to_range(word: u64, least: u64, most: u64) -> u64 {
    let above = (u128::from(word) * u128::from(most - least + 1)) >> 64;
    least + u64::try_from(above).unwrap_or(0)
}

/// A delay requested by the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetDelay {
    /// A lower bound: the retry waits at least this long, and at least as long as the policy's delay.
    Floor(u64),
    /// The delay of a snooze, which replaces the policy's delay.
    Snooze(u64),
}

impl TargetDelay {
    /// Returns the delay that a failure of this kind requests.
    #[must_use]
    pub fn from_failure(kind: &str, after: Option<u64>) -> Option<Self> {
        after.map(if kind == "snooze" { Self::Snooze } else { Self::Floor })
    }
}

/// The classification of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Spends an attempt.
    Transient,
    /// Not retried.
    Permanent,
    /// Spends no attempt.
    Free,
    /// Held back because the target is down.
    Held,
    /// The message was moved by SQS.
    Moved,
}

impl PolicyModel {
    /// Draws a policy. Long delays are up to `longest` seconds.
    pub fn random(rng: &mut impl Rng, longest: u64) -> Self {
        let long_delays = rng.random_bool(0.3);
        let longest = if long_delays { longest } else { 900 };
        let backoff = match rng.random_range(0..4) {
            0 => BackoffModel::Uniform(rng.random_range(0..=longest)),
            1 => {
                let max = rng.random_range(1..=longest);
                let rates = [1.0, 1.5, 2.0, 3.25, 10.0];
                BackoffModel::Exponential(
                    rng.random_range(1..=max),
                    rates[rng.random_range(0..rates.len())],
                    if rng.random_bool(0.3) { rng.random_range(0..=60) } else { 0 },
                    max,
                )
            }
            2 => BackoffModel::Fixed(rng.random_range(0..=longest)),
            _ => {
                let count = rng.random_range(1..=5);
                BackoffModel::Schedule((0..count).map(|_| rng.random_range(0..=longest)).collect())
            }
        };
        let jitters = ["none", "half", "full"];
        let cap = if let BackoffModel::Exponential(.., max) = backoff { max } else { longest };
        let jitter = match &backoff {
            BackoffModel::Uniform(_) => JitterModel::Uniform,
            _ if rng.random_bool(0.2) => JitterModel::Additive(rng.random_range(0..=cap)),
            _ => JitterModel::Named(jitters[rng.random_range(0..jitters.len())]),
        };
        let max_attempts = if rng.random_bool(0.05) { 0 } else { rng.random_range(1..=12) };
        // An age limit that allows only a few delays is often reached; a much higher one, only in a long outage.
        let far = if long_delays { 500_000 } else { 20_000 };
        let farthest =
            if rng.random_bool(0.5) { 60 + 2 * u32::try_from(longest).unwrap_or(far) } else { far };
        let max_age_seconds = rng.random_bool(0.4).then(|| rng.random_range(60..=farthest));
        let immediate =
            rng.random_bool(0.25).then(|| (rng.random_range(1..=10), rng.random_range(0..=10_000)));
        // These draws are unused. They keep the seeds in planted/bugs.toml tied to the runs that found the bugs.
        if rng.random_bool(0.3) {
            rng.random_range(0..5_usize);
        }
        let mut globs = |choices: &[&'static str]| {
            let wanted = rng.random_bool(0.3);
            choices.iter().copied().filter(|_| wanted && rng.random_bool(0.5)).collect::<Vec<_>>()
        };
        Self {
            max_attempts,
            backoff,
            jitter,
            long_delays,
            immediate,
            max_age_seconds,
            retryable: globs(&["HttpStatus.5*", "*.Busy", "Timeout", "Panic", "HttpStatus.41?"]),
            non_retryable: globs(&["HttpStatus.4*", "Order.*", "?anic", "Redrive", "*Never*"]),
            breaker: BreakerKnob::random(rng),
            max_redrives: rng.random_bool(0.4).then(|| rng.random_range(0..=4)),
        }
    }

    /// Renders the document for `RETRY_POLICY`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut backoff = match &self.backoff {
            BackoffModel::Uniform(max) => json!({"kind": "uniform", "max_delay_seconds": max}),
            BackoffModel::Exponential(initial, rate, offset, max) => json!({
                "kind": "exponential", "initial_delay_seconds": initial, "rate": rate, "offset_seconds": offset,
                "max_delay_seconds": max,
            }),
            BackoffModel::Fixed(delay) => json!({"kind": "fixed", "delay_seconds": delay}),
            BackoffModel::Schedule(delays) => json!({"kind": "schedule", "delays_seconds": delays}),
        };
        match self.jitter {
            JitterModel::Uniform => {}
            JitterModel::Named(name) => backoff["jitter"] = Value::from(name),
            JitterModel::Additive(max) => backoff["jitter"] = json!({"kind": "additive", "max_seconds": max}),
        }
        let mut document = json!({"max_attempts": self.max_attempts, "backoff": backoff});
        if self.long_delays {
            document["long_delays"] = Value::from(true);
        }
        if let Some((max_attempts, delay_ms)) = self.immediate {
            document["immediate"] = json!({"max_attempts": max_attempts, "delay_ms": delay_ms});
        }
        if let Some(age) = self.max_age_seconds {
            document["max_age_seconds"] = Value::from(age);
        }
        for (name, globs) in [("retryable", &self.retryable), ("non_retryable", &self.non_retryable)] {
            if !globs.is_empty() {
                document[name] = Value::from(globs.clone());
            }
        }
        if let Some(breaker) = self.breaker.to_json() {
            document["circuit_breaker"] = breaker;
        }
        if let Some(max_redrives) = self.max_redrives {
            document["max_redrives"] = Value::from(max_redrives);
        }
        document.to_string()
    }

    /// Classifies a failure by its kind and error type.
    #[must_use]
    pub fn failure_class(&self, kind: &str, error_type: &str) -> FailureClass {
        match kind {
            "snooze" | "not_started" => return FailureClass::Free,
            "held" => return FailureClass::Held,
            _ => {}
        }
        let any =
            |globs: &[&str]| globs.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()));
        if any(&self.non_retryable) {
            FailureClass::Permanent
        } else if kind == "unanswered" {
            FailureClass::Moved
        } else if any(&self.retryable) || (!self.retryable.is_empty() && error_type == "Redrive") {
            FailureClass::Transient
        } else if !self.retryable.is_empty() || kind == "permanent" {
            FailureClass::Permanent
        } else {
            FailureClass::Transient
        }
    }

    /// Classifies the outcome of a call that ended with this error. `unavailable` is true if the handler itself
    /// reported that its target is unavailable.
    #[must_use]
    pub fn call_outcome(
        &self,
        kind: &str,
        error_type: &str,
        after: Option<u64>,
        unavailable: bool,
    ) -> CallOutcome {
        if kind.is_empty() || self.failure_class(kind, error_type) != FailureClass::Transient {
            return CallOutcome::Answer;
        }
        let names = |breaker: &BreakerModel| breaker.opens_on(error_type);
        let is_named = matches!(&self.breaker, BreakerKnob::On(breaker) if names(breaker));
        let outcome = match breaker::transient_outcome(error_type) {
            CallOutcome::Refusal => CallOutcome::Refusal,
            _ if unavailable || is_named => CallOutcome::Unavailable,
            outcome => outcome,
        };
        match (outcome, after.filter(|after| *after > 0)) {
            (CallOutcome::Unavailable | CallOutcome::Fault, Some(_)) => CallOutcome::Refusal,
            (CallOutcome::Answer, Some(after)) if error_type.starts_with("HttpStatus.") => {
                CallOutcome::Later(after)
            }
            _ => outcome,
        }
    }

    /// Returns the shortest and the longest delay before retry `attempt`.
    #[must_use]
    pub fn delay_range(&self, attempt: u32) -> (u64, u64) {
        let base = match &self.backoff {
            BackoffModel::Uniform(max) => *max,
            BackoffModel::Exponential(initial, rate, offset, max) => {
                exponential_delay(*initial, *rate, *offset, *max, attempt)
            }
            BackoffModel::Fixed(delay) => *delay,
            BackoffModel::Schedule(delays) => {
                let index = (attempt as usize - 1).min(delays.len() - 1);
                delays[index]
            }
        };
        match self.jitter {
            JitterModel::Named("none") => (base, base),
            JitterModel::Named("half") => (base.div_ceil(2), base),
            JitterModel::Additive(more) => {
                let cap = match &self.backoff {
                    BackoffModel::Exponential(.., max) => *max,
                    _ => self.longest_delay(),
                };
                let least = base.min(cap - more);
                (least, least + more)
            }
            JitterModel::Named(_) | JitterModel::Uniform => (0, base),
        }
    }

    /// Returns the exact delay of this retry in seconds. A delay requested by the target is extended by up to 10 %, but
    /// not beyond the policy's limit.
    #[must_use]
    pub fn exact_delay(&self, key: DelayKey<'_>, asked: Option<TargetDelay>) -> u64 {
        let [spread, extra] = key.random_words();
        let (least, most) = self.delay_range(key.attempt);
        let own = scale_to_range(spread, least, most);
        let limit = self.longest_delay();
        let with_more =
            |asked: u64| asked.saturating_add(scale_to_range(extra, 0, asked.min(limit) / 10)).min(limit);
        match asked {
            None => own,
            Some(TargetDelay::Floor(asked)) => own.max(with_more(asked)),
            Some(TargetDelay::Snooze(asked)) => with_more(asked),
        }
    }

    /// Returns the delay for a message that SQS has moved for the `count`th time.
    #[must_use]
    pub fn redrive_delay(&self, key: DelayKey<'_>, count: u32) -> u64 {
        breaker::redrive_delay(key, count)
    }

    /// Returns the limit on the total time that a message is held.
    #[must_use]
    pub fn hold_seconds_max(&self) -> u64 {
        match &self.breaker {
            BreakerKnob::On(breaker) => breaker.hold_seconds_max,
            BreakerKnob::Absent | BreakerKnob::Off => BreakerModel::default().hold_seconds_max,
        }
    }

    /// Returns the maximum number of re-sends after moves by SQS, counted since the last answered call.
    #[must_use]
    pub fn redrives_max(&self) -> u32 {
        self.max_redrives.unwrap_or(20)
    }

    /// Returns the longest delay of any kind.
    #[must_use]
    pub fn longest_delay(&self) -> u64 {
        if self.long_delays { 43_200 } else { 900 }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "all of them are at most 43,200 or small"
)]
fn exponential_delay(initial: u64, rate: f64, offset: u64, max: u64, attempt: u32) -> u64 {
    (initial as f64 * rate.powi(attempt as i32 - 1) + offset as f64).ceil().min(max as f64) as u64
}

fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    match (glob.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            glob_matches(&glob[1..], text) || (!text.is_empty() && glob_matches(glob, &text[1..]))
        }
        (Some(b'?'), Some(_)) => glob_matches(&glob[1..], &text[1..]),
        (Some(one), Some(other)) if one == other => glob_matches(&glob[1..], &text[1..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_matches_globs_as_documented() {
        for (glob, text, matches) in [
            ("HttpStatus.4*", "HttpStatus.418", true),
            ("HttpStatus.41?", "HttpStatus.4180", false),
            ("*.Busy", "Db.Busy", true),
            ("?anic", "Panic", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(glob_matches(glob.as_bytes(), text.as_bytes()), matches, "{glob} {text}");
        }
    }

    #[test]
    fn the_model_classifies_errors_as_documented() {
        for (error_type, outcome) in [
            ("HttpStatus.503", CallOutcome::Unavailable),
            ("HttpStatus.302", CallOutcome::Unavailable),
            ("HttpStatus.401", CallOutcome::Unavailable),
            ("HttpStatus.525", CallOutcome::Unavailable),
            ("Http.Refused", CallOutcome::Unavailable),
            ("Http.Tls", CallOutcome::Unavailable),
            ("Http.InvalidResponse", CallOutcome::Fault),
            ("Http.Reset", CallOutcome::Fault),
            ("Lambda.NotFound", CallOutcome::Unavailable),
            ("HttpStatus.429", CallOutcome::Refusal),
            ("Lambda.Throttled", CallOutcome::Refusal),
            ("HttpStatus.500", CallOutcome::Fault),
            ("HttpStatus.404", CallOutcome::Fault),
            ("Timeout", CallOutcome::Fault),
            ("Lambda.FunctionError", CallOutcome::Fault),
            ("HttpStatus.418", CallOutcome::Answer),
            ("Panic", CallOutcome::Answer),
        ] {
            assert_eq!(breaker::transient_outcome(error_type), outcome, "{error_type}");
        }
    }

    #[test]
    fn the_model_computes_documented_delay_ranges() {
        let exponential = PolicyModel {
            max_attempts: 5,
            backoff: BackoffModel::Exponential(10, 3.0, 0, 200),
            jitter: JitterModel::Named("half"),
            long_delays: false,
            immediate: None,
            max_age_seconds: None,
            retryable: vec![],
            non_retryable: vec![],
            breaker: BreakerKnob::Absent,
            max_redrives: None,
        };
        let ranges: Vec<_> = (1..=5).map(|attempt| exponential.delay_range(attempt)).collect();
        assert_eq!(ranges, [(5, 10), (15, 30), (45, 90), (100, 200), (100, 200)]);
        let key = DelayKey { message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001", generation: 0, attempt: 1 };
        assert!((100..=110).contains(&exponential.exact_delay(key, Some(TargetDelay::Floor(100)))));
        assert_eq!(exponential.exact_delay(key, Some(TargetDelay::Floor(100_000))), 900);
        assert_eq!(
            exponential.exact_delay(key, Some(TargetDelay::Floor(0))),
            exponential.exact_delay(key, None)
        );
        assert_eq!(exponential.exact_delay(key, Some(TargetDelay::Snooze(0))), 0);
        let additive = PolicyModel {
            backoff: BackoffModel::Exponential(2, 2.0, 30, 100),
            jitter: JitterModel::Additive(60),
            long_delays: true,
            ..exponential
        };
        let ranges: Vec<_> = (1..=4).map(|attempt| additive.delay_range(attempt)).collect();
        assert_eq!(ranges, [(32, 92), (34, 94), (38, 98), (40, 100)]);
        assert_eq!(additive.exact_delay(key, Some(TargetDelay::Floor(100_000))), 43_200);
    }
}
