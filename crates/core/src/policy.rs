//! The retry policy: a JSON document, validated once, then a value that cannot be wrong.

mod numbers;
mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use wildmatch::WildMatch;

use crate::limits::RetryDelay;
use crate::schema::{Violation, list};

/// The schema of a policy document, JSON Schema 2020-12.
pub const POLICY_SCHEMA: &str = include_str!("../../../schemas/retry-policy.schema.json");

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
    /// About how many messages come back to the source queue a second, at most, where `DelaySeconds` can hold them.
    #[serde(deserialize_with = "wire::given")]
    pub max_redelivery_per_second: Option<RedeliveryRate>,
    /// Give up when the next retry would come later than this after the message was first sent.
    #[serde(deserialize_with = "numbers::whole::<_, _, 1, 31_536_000>")]
    pub max_age_seconds: Option<u32>,
    /// Only these error types are retried.
    #[serde(deserialize_with = "wire::given")]
    pub retryable: Option<Globs>,
    /// These error types are not retried.
    #[serde(deserialize_with = "wire::given")]
    pub non_retryable: Option<Globs>,
    /// Further calls within the invocation, before a delayed retry is spent.
    #[serde(deserialize_with = "wire::object::<_, Immediate, _>")]
    pub immediate: Option<Immediate>,
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

    /// Messages a second.
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

/// How long to wait before retry `n`, n ≥ 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// A random delay in 0..=max, the same range for every attempt.
    Uniform {
        #[serde(rename = "max_delay_seconds", default = "RetryDelay::short_max")]
        max_delay: RetryDelay,
    },
    /// `initial_delay * rate^(n-1) + offset`, rounded up, at most `max_delay`.
    Exponential {
        #[serde(rename = "initial_delay_seconds", deserialize_with = "numbers::not_zero")]
        initial_delay: RetryDelay,
        /// 1..=100.
        #[serde(default = "twice", deserialize_with = "numbers::rate")]
        rate: f64,
        #[serde(rename = "offset_seconds", default)]
        offset: RetryDelay,
        /// Also with long delays it is 900 s unless it is set.
        #[serde(rename = "max_delay_seconds", default = "RetryDelay::short_max")]
        max_delay: RetryDelay,
        /// Applied after the cap.
        #[serde(default)]
        jitter: Jitter,
    },
    /// Always the same.
    Fixed {
        #[serde(rename = "delay_seconds")]
        delay: RetryDelay,
        #[serde(default)]
        jitter: Jitter,
    },
    /// One delay a retry; the last one repeats.
    Schedule {
        #[serde(rename = "delays_seconds")]
        delays: Delays,
        #[serde(default)]
        jitter: Jitter,
    },
}

const fn twice() -> f64 {
    2.0
}

impl Backoff {
    /// The longest delay that it can give; `limit` is the policy's.
    #[must_use]
    pub fn longest(&self, limit: RetryDelay) -> RetryDelay {
        let (base, jitter) = match self {
            Self::Uniform { max_delay } | Self::Exponential { max_delay, .. } => return *max_delay,
            Self::Fixed { delay, jitter } => (*delay, *jitter),
            Self::Schedule { delays, jitter } => (delays.longest(), *jitter),
        };
        let spread = if let Jitter::Additive { max } = jitter { u64::from(max.get()) } else { 0 };
        RetryDelay::saturating(u64::from(base.get()) + spread).min(limit)
    }
}

/// A schedule: 1 to 1000 delays.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<RetryDelay>")]
pub struct Delays {
    first: Vec<RetryDelay>,
    last: RetryDelay,
}

impl Delays {
    /// Before retry `attempt`, 1 for the first: the last one repeats.
    #[must_use]
    pub fn before(&self, attempt: u32) -> RetryDelay {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        *self.first.get(index).unwrap_or(&self.last)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = RetryDelay> {
        self.first.iter().chain([&self.last]).copied()
    }

    fn longest(&self) -> RetryDelay {
        self.iter().fold(self.last, RetryDelay::max)
    }
}

impl TryFrom<Vec<RetryDelay>> for Delays {
    type Error = &'static str;

    fn try_from(mut delays: Vec<RetryDelay>) -> Result<Self, Self::Error> {
        match delays.pop() {
            Some(last) if delays.len() < 1000 => Ok(Self { first: delays, last }),
            _ => Err("a schedule has 1 to 1000 delays"),
        }
    }
}

/// How a delay is spread. It only shrinks, except for the additive one, and none passes the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum Jitter {
    /// The delay itself.
    None,
    /// From half of it to all of it.
    Half,
    /// From 0 to all of it ("Exponential Backoff And Jitter", AWS Architecture Blog).
    #[default]
    Full,
    /// From the delay to that and so much more. The cap holds for the sum: near it the delay gives way, not the spread.
    Additive { max: RetryDelay },
}

/// Globs on error types: `*` any text, `?` one character. Each 1 to 128 characters, and no two the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Globs(Vec<WildMatch>);

impl Globs {
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

/// Why a policy is refused: every culprit with its JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The JSON parser's own words.
    #[error("the retry policy is not JSON: {0}")]
    NotJson(String),
    /// Broken rules and contradictions.
    #[error("the retry policy is refused: {}", list(.0))]
    Refused(Vec<Violation>),
}

impl Policy {
    /// Parses and checks a policy document.
    ///
    /// # Errors
    /// Not JSON, an unknown member, a wrong value, a contradiction: each with its JSON Pointer.
    pub fn from_json(text: &str) -> Result<Self, PolicyError> {
        wire::parse(text)
    }

    /// The same where what is absent is not our default but that of another document. A `preset` stands for its own backoff.
    ///
    /// # Errors
    /// As [`Policy::from_json`].
    pub fn from_json_over(defaults: &str, text: &str) -> Result<Self, PolicyError> {
        wire::parse_over(defaults, text)
    }

    /// The longest delay that the policy can have, whatever its backoff: 12 hours with long delays, else 900 s.
    #[must_use]
    pub const fn delay_limit(&self) -> RetryDelay {
        if self.long_delays { RetryDelay::MAX } else { RetryDelay::SHORT_MAX }
    }
}

impl Default for Policy {
    /// 5 retries, each after a random delay of 0..=900 s.
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
        }
    }
}

#[cfg(test)]
mod tests;
