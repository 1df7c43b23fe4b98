//! The retry policy: a JSON document, validated once, then a value that cannot be wrong.

mod wire;

use std::time::Duration;

use thiserror::Error;
use wildmatch::WildMatch;

use crate::limits::RetryDelay;
use crate::schema::{Violation, list};

/// The schema of a policy document, JSON Schema 2020-12.
pub const POLICY_SCHEMA: &str = include_str!("../../../schemas/retry-policy.schema.json");

/// When a failed message comes back, and when it is given up.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Retries after the first processing, 0..=1000.
    pub max_attempts: u32,
    /// How long to wait before each.
    pub backoff: Backoff,
    /// Delays above 900 s: the message hops on the intermediate DLQ until at most 900 s remain.
    pub long_delays: bool,
    /// About how many messages come back to the source queue a second, at most, where `DelaySeconds` can hold them.
    pub max_redelivery_per_second: Option<RedeliveryRate>,
    /// Give up when the next retry would come later than this after the message was first sent.
    pub max_age_seconds: Option<u32>,
    /// Only these error types are retried.
    pub retryable: Option<Globs>,
    /// These error types are not retried.
    pub non_retryable: Option<Globs>,
    /// Further calls within the invocation, before a delayed retry is spent.
    pub immediate: Option<Immediate>,
}

/// Messages a second, 0.01..=100,000.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct RedeliveryRate(f64);

impl RedeliveryRate {
    /// `None` outside of the range.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (0.01..=100_000.0).contains(&per_second).then_some(Self(per_second))
    }

    /// Messages a second.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }
}

/// Retries inside the invocation, for blips: they spend no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Calls after the first one, 1..=10.
    pub max_attempts: u32,
    /// Before each of them, at most 10 s.
    pub delay: Duration,
}

/// How long to wait before retry `n`, n ≥ 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// A random delay in 0..=max, the same range for every attempt.
    Uniform {
        /// The longest delay.
        max_delay: RetryDelay,
    },
    /// `initial_delay * rate^(n-1) + offset`, rounded up, at most `max_delay`.
    Exponential {
        /// Before the first retry.
        initial_delay: RetryDelay,
        /// ≥ 1.
        rate: f64,
        /// Added to each.
        offset: RetryDelay,
        /// The cap.
        max_delay: RetryDelay,
        /// Applied after the cap.
        jitter: Jitter,
    },
    /// Always the same.
    Fixed {
        /// The delay.
        delay: RetryDelay,
        /// Applied to it.
        jitter: Jitter,
    },
    /// One delay a retry; the last one repeats.
    Schedule {
        /// The delays before the last one.
        first: Vec<RetryDelay>,
        /// The last one.
        last: RetryDelay,
        /// Applied to each.
        jitter: Jitter,
    },
}

impl Backoff {
    /// The longest delay that it can give; `limit` is the policy's.
    #[must_use]
    pub fn longest(&self, limit: RetryDelay) -> RetryDelay {
        let (base, jitter) = match self {
            Self::Uniform { max_delay } | Self::Exponential { max_delay, .. } => return *max_delay,
            Self::Fixed { delay, jitter } => (*delay, *jitter),
            Self::Schedule { first, last, jitter } => {
                (first.iter().copied().max().unwrap_or_default().max(*last), *jitter)
            }
        };
        let spread = if let Jitter::Additive { max } = jitter { u64::from(max.get()) } else { 0 };
        RetryDelay::saturating(u64::from(base.get()) + spread).min(limit)
    }
}

/// How a delay is spread. It only shrinks, but for the additive one, and none passes the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// The delay itself.
    None,
    /// From half of it to all of it.
    Half,
    /// From 0 to all of it ("Exponential Backoff And Jitter", AWS Architecture Blog).
    #[default]
    Full,
    /// From the delay to that and so much more. The cap holds for the sum: near it the delay gives way, not the spread.
    Additive {
        /// The longest addition.
        max: RetryDelay,
    },
}

/// Globs on error types: `*` any text, `?` one character.
#[derive(Clone, Debug, PartialEq)]
pub struct Globs(Vec<WildMatch>);

impl Globs {
    /// Whether one of them matches.
    #[must_use]
    pub fn matches(&self, error_type: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(error_type))
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
