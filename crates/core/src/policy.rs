//! The retry policy: a JSON document, validated once, then a value that cannot be wrong.

mod backoff;
mod circuit_breaker;
mod numbers;
mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use wildmatch::WildMatch;

use crate::json::value::given;
use crate::limits::RetryDelay;
use crate::message::metadata::REDRIVES_MAX;
use crate::message::schema::{Violation, list};
pub use backoff::{Backoff, Delays, Jitter};
pub use circuit_breaker::CircuitBreaker;

/// The schema of a policy document, JSON Schema 2020-12.
pub const POLICY_SCHEMA: &str = include_str!("../schemas/retry-policy.schema.json");

/// When a failed message comes back, and when it is given up.
///
/// Serde reads each member; [`Policy::from_json`] also sees to what they say together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Retries after the first processing, 0..=1000.
    #[serde(deserialize_with = "numbers::whole::<_, _, 0, 1000>")]
    pub max_attempts: u32,
    /// How long to wait before each.
    #[serde(deserialize_with = "wire::object::<_, Backoff, _>")]
    pub backoff: Backoff,
    /// Delays above 900 s: the message hops on the intermediate DLQ until at most 900 s remain.
    pub long_delays: bool,
    /// About how many messages come back to the source queue a second, at most, if `DelaySeconds` can hold them.
    #[serde(deserialize_with = "given")]
    pub max_redelivery_per_second: Option<RedeliveryRate>,
    /// Give up when the next retry would come later than this after the message was first sent.
    #[serde(deserialize_with = "numbers::whole::<_, _, 1, 31_536_000>")]
    pub max_age_seconds: Option<u32>,
    /// Only these error types are retried.
    #[serde(deserialize_with = "given")]
    pub retryable: Option<Globs>,
    /// These error types are not retried.
    #[serde(deserialize_with = "given")]
    pub non_retryable: Option<Globs>,
    /// Further calls within the invocation, before a delayed retry is spent.
    #[serde(deserialize_with = "wire::object::<_, Immediate, _>")]
    pub immediate: Option<Immediate>,
    /// How an outage is told, and what is done in one; without it each call is made, and each that fails is an attempt.
    #[serde(deserialize_with = "circuit_breaker::or_false")]
    pub circuit_breaker: Option<CircuitBreaker>,
    /// How often a message comes back that SQS moved because nobody answered for it, 0..=1000. These are no attempts.
    /// See [`Policy::redrives_max`].
    #[serde(deserialize_with = "numbers::whole::<_, _, 0, 1000>")]
    pub max_redrives: Option<u32>,
}

/// Messages a second, 0.01..=100,000.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct RedeliveryRate(f64);

impl RedeliveryRate {
    const MIN: f64 = 0.01;
    const MAX: f64 = 100_000.0;

    /// `None` outside of the range.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&per_second).then_some(Self(per_second))
    }

    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }
}

/// Retries inside the invocation, for blips: they spend no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Immediate {
    /// Calls after the first one, 1..=10.
    #[serde(deserialize_with = "numbers::whole::<_, _, 1, 10>")]
    pub max_attempts: u32,
    /// Before each of them, at most 10 s.
    #[serde(rename = "delay_ms", deserialize_with = "numbers::milliseconds::<_, 10_000>")]
    pub delay: Duration,
}

/// Globs on error types: `*` any text, `?` one character. Each 1 to 128 characters, and no two the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Globs(Vec<WildMatch>);

impl Globs {
    /// Of our own.
    fn of(globs: &[&str]) -> Self {
        Self(globs.iter().map(|glob| WildMatch::new(glob)).collect())
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn matches(&self, error_type: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(error_type))
    }
}

impl TryFrom<Vec<String>> for Globs {
    type Error = &'static str;

    fn try_from(globs: Vec<String>) -> Result<Self, Self::Error> {
        let are_right = globs.iter().all(|glob| (1..=128).contains(&glob.chars().count()));
        let different: BTreeSet<_> = globs.iter().collect();
        if globs.is_empty() || !are_right || different.len() < globs.len() {
            return Err("a list has different globs of 1 to 128 characters");
        }
        Ok(Self(globs.iter().map(|glob| WildMatch::new(glob)).collect()))
    }
}

/// Why a policy is refused, every culprit with its JSON Pointer: what is said of it, to be put behind its name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// Broken rules and contradictions.
    #[error("is refused: {}", list(.0))]
    Refused(Vec<Violation>),
    /// Members that the strategy cannot follow.
    #[error("{}", which(.0))]
    NotForStrategy(Vec<Violation>),
}

fn which(members: &[Violation]) -> String {
    let which = members.iter().map(|Violation { pointer, rule }| format!("has {pointer}, {rule}"));
    which.collect::<Vec<_>>().join("; ")
}

impl Policy {
    /// Parses and checks a policy document.
    ///
    /// # Errors
    /// Not JSON, an unknown member, a wrong value, a contradiction: each with its JSON Pointer.
    pub fn from_json(text: &str) -> Result<Self, PolicyError> {
        wire::parse_over("{}", text)
    }

    /// Parses and checks a policy document; what is absent is taken from another document instead of our default. A `preset` stands for its
    /// own backoff.
    ///
    /// # Errors As [`Policy::from_json`].
    pub fn from_json_over(defaults: &str, text: &str) -> Result<Self, PolicyError> {
        wire::parse_over(defaults, text)
    }

    /// Of the breaker's settings; of our defaults for a message that was held before the breaker was turned off.
    pub(crate) fn with_breaker<T>(&self, read: impl FnOnce(&CircuitBreaker) -> T) -> T {
        match &self.circuit_breaker {
            Some(breaker) => read(breaker),
            None => read(&CircuitBreaker::default()),
        }
    }

    /// `max_redrives`, or 20: with delays that grow to 900 s, and what SQS waits before it moves a message, about four
    /// hours.
    #[must_use]
    pub fn redrives_max(&self) -> u32 {
        self.max_redrives.unwrap_or(20)
    }

    /// How often a message comes back that SQS has moved, whether it was answered in between or not: so the loop ends.
    #[must_use]
    pub fn redrives_in_all_max(&self) -> u32 {
        self.redrives_max().saturating_mul(5).min(REDRIVES_MAX)
    }

    /// The longest delay that the policy can have, whatever its backoff: 12 hours with long delays, else 900 s.
    #[must_use]
    pub const fn delay_limit(&self) -> RetryDelay {
        if self.long_delays { RetryDelay::MAX } else { RetryDelay::SHORT_MAX }
    }
}

impl Default for Policy {
    /// 5 retries, each after a random delay of 0..=900 s; an outage spends none.
    fn default() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::Uniform { max_delay: RetryDelay::SHORT_MAX },
            long_delays: false,
            max_redelivery_per_second: None,
            max_age_seconds: None,
            retryable: None,
            non_retryable: None,
            immediate: None,
            circuit_breaker: Some(CircuitBreaker::default()),
            max_redrives: None,
        }
    }
}

#[cfg(test)]
mod tests;
