//! A retry policy as its documentation says, written anew: the ledger must not ask the code that it audits.

use rand::{Rng, RngExt};
use serde_json::{Value, json};

/// What error types the simulated target knows, and what the functions add.
pub const ERROR_TYPES: [&str; 4] = ["HttpStatus.503", "HttpStatus.418", "Db.Busy", "Order.Unknown"];

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyModel {
    /// Retries after the first processing.
    pub max_attempts: u32,
    /// Delays before each.
    pub backoff: BackoffModel,
    /// How they are spread; `None` for the uniform backoff, which has none.
    pub jitter: Option<&'static str>,
    /// Age limit.
    pub max_age_seconds: Option<u32>,
    /// Globs.
    pub retryable: Vec<&'static str>,
    /// Globs.
    pub non_retryable: Vec<&'static str>,
}

/// See [`PolicyModel`].
#[derive(Clone, Debug, PartialEq)]
pub enum BackoffModel {
    /// 0..=max.
    Uniform(u64),
    /// initial, rate, max.
    Exponential(u64, f64, u64),
    /// Always the same.
    Fixed(u64),
    /// The last one repeats.
    Schedule(Vec<u64>),
}

/// Retryable, or not, or by what the target said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Spends an attempt.
    Transient,
    /// Ends it.
    Permanent,
    /// Spends none.
    Free,
}

impl PolicyModel {
    /// Any policy.
    pub fn random(rng: &mut impl Rng) -> Self {
        let backoff = match rng.random_range(0..4) {
            0 => BackoffModel::Uniform(rng.random_range(0..=900)),
            1 => {
                let max = rng.random_range(1..=900);
                let rates = [1.0, 1.5, 2.0, 3.25, 10.0];
                BackoffModel::Exponential(
                    rng.random_range(1..=max),
                    rates[rng.random_range(0..rates.len())],
                    max,
                )
            }
            2 => BackoffModel::Fixed(rng.random_range(0..=900)),
            _ => {
                let count = rng.random_range(1..=5);
                BackoffModel::Schedule((0..count).map(|_| rng.random_range(0..=900)).collect())
            }
        };
        let jitters = ["none", "half", "full"];
        let jitter = (!matches!(backoff, BackoffModel::Uniform(_)))
            .then(|| jitters[rng.random_range(0..jitters.len())]);
        let max_attempts = if rng.random_bool(0.05) { 0 } else { rng.random_range(1..=12) };
        let max_age_seconds = rng.random_bool(0.3).then(|| rng.random_range(60..=20_000));
        let mut globs = |choices: &[&'static str]| {
            let wanted = rng.random_bool(0.3);
            choices.iter().copied().filter(|_| wanted && rng.random_bool(0.5)).collect::<Vec<_>>()
        };
        Self {
            max_attempts,
            backoff,
            jitter,
            max_age_seconds,
            retryable: globs(&["HttpStatus.5*", "*.Busy", "Timeout", "Panic", "HttpStatus.41?"]),
            non_retryable: globs(&["HttpStatus.4*", "Order.*", "?anic", "Redrive", "*Never*"]),
        }
    }

    /// As `RETRY_POLICY` has it.
    #[must_use]
    pub fn json(&self) -> String {
        let mut backoff = match &self.backoff {
            BackoffModel::Uniform(max) => json!({"kind": "uniform", "max_delay_seconds": max}),
            BackoffModel::Exponential(initial, rate, max) => json!({
                "kind": "exponential", "initial_delay_seconds": initial, "rate": rate, "max_delay_seconds": max,
            }),
            BackoffModel::Fixed(delay) => json!({"kind": "fixed", "delay_seconds": delay}),
            BackoffModel::Schedule(delays) => json!({"kind": "schedule", "delays_seconds": delays}),
        };
        if let Some(jitter) = self.jitter {
            backoff["jitter"] = Value::from(jitter);
        }
        let mut document = json!({"max_attempts": self.max_attempts, "backoff": backoff});
        if let Some(age) = self.max_age_seconds {
            document["max_age_seconds"] = Value::from(age);
        }
        for (name, globs) in [("retryable", &self.retryable), ("non_retryable", &self.non_retryable)] {
            if !globs.is_empty() {
                document[name] = Value::from(globs.clone());
            }
        }
        document.to_string()
    }

    /// What becomes of a failure of this kind and type.
    #[must_use]
    pub fn class(&self, kind: &str, error_type: &str) -> Class {
        if kind == "snooze" || kind == "not_started" {
            return Class::Free;
        }
        let any =
            |globs: &[&str]| globs.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()));
        if any(&self.non_retryable) {
            Class::Permanent
        } else if any(&self.retryable) || (!self.retryable.is_empty() && error_type == "Redrive") {
            Class::Transient
        } else if !self.retryable.is_empty() || kind == "permanent" {
            Class::Permanent
        } else {
            Class::Transient
        }
    }

    /// The least and the most delay before retry `attempt`.
    #[must_use]
    pub fn delay_range(&self, attempt: u32) -> (u64, u64) {
        let base = match &self.backoff {
            BackoffModel::Uniform(max) => *max,
            BackoffModel::Exponential(initial, rate, max) => exponential(*initial, *rate, *max, attempt),
            BackoffModel::Fixed(delay) => *delay,
            BackoffModel::Schedule(delays) => {
                let index = (attempt as usize - 1).min(delays.len() - 1);
                delays[index]
            }
        };
        match self.jitter {
            Some("none") => (base, base),
            Some("half") => (base.div_ceil(2), base),
            _ => (0, base),
        }
    }
}

/// `Retry-After` is a floor, with up to 10 % more, within SQS's 900 s.
#[must_use]
pub fn retry_after_range(asked: u64) -> (u64, u64) {
    (asked.min(900), asked.saturating_add(asked.min(900) / 10).min(900))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "all of them are at most 900 or small"
)]
fn exponential(initial: u64, rate: f64, max: u64, attempt: u32) -> u64 {
    (initial as f64 * rate.powi(attempt as i32 - 1)).min(max as f64) as u64
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
    fn globs_are_those_of_the_contract() {
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
    fn the_model_knows_the_ranges_of_the_contract() {
        let exponential = PolicyModel {
            max_attempts: 5,
            backoff: BackoffModel::Exponential(10, 3.0, 200),
            jitter: Some("half"),
            max_age_seconds: None,
            retryable: vec![],
            non_retryable: vec![],
        };
        let ranges: Vec<_> = (1..=5).map(|attempt| exponential.delay_range(attempt)).collect();
        assert_eq!(ranges, [(5, 10), (15, 30), (45, 90), (100, 200), (100, 200)]);
        assert_eq!(retry_after_range(100), (100, 110));
        assert_eq!(retry_after_range(100_000), (900, 900));
    }
}
