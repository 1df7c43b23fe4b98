//! The retry policy: a JSON document, validated once, then a value that cannot be wrong.

mod wire;

use thiserror::Error;
use wildmatch::WildMatch;

use crate::limits::DelaySeconds;
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
    /// Give up when the next retry would come later than this after the message was first sent.
    pub max_age_seconds: Option<u32>,
    /// Only these error types are retried.
    pub retryable: Option<Globs>,
    /// These error types are not retried.
    pub non_retryable: Option<Globs>,
}

/// How long to wait before retry `n`, n ≥ 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// A random delay in 0..=max, the same range for every attempt.
    Uniform {
        /// The longest delay.
        max_delay: DelaySeconds,
    },
    /// `initial_delay * rate^(n-1)`, at most `max_delay`.
    Exponential {
        /// Before the first retry.
        initial_delay: DelaySeconds,
        /// ≥ 1.
        rate: f64,
        /// The cap.
        max_delay: DelaySeconds,
        /// Applied after the cap.
        jitter: Jitter,
    },
    /// Always the same.
    Fixed {
        /// The delay.
        delay: DelaySeconds,
        /// Applied to it.
        jitter: Jitter,
    },
    /// One delay a retry; the last one repeats.
    Schedule {
        /// The delays before the last one.
        first: Vec<DelaySeconds>,
        /// The last one.
        last: DelaySeconds,
        /// Applied to each.
        jitter: Jitter,
    },
}

/// How a delay is spread. It only shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// The delay itself.
    None,
    /// From half of it to all of it.
    Half,
    /// From 0 to all of it ("Exponential Backoff And Jitter", AWS Architecture Blog).
    #[default]
    Full,
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
}

impl Default for Policy {
    /// 5 retries, each after a random delay of 0..=900 s.
    fn default() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::Uniform { max_delay: DelaySeconds::MAX },
            max_age_seconds: None,
            retryable: None,
            non_retryable: None,
        }
    }
}

#[cfg(test)]
mod tests;
