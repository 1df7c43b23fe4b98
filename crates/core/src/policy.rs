//! The retry policy: a JSON document that is validated once, so a [`Policy`] is always valid.

mod backoff;
mod circuit_breaker;
mod numbers;
mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use wildmatch::WildMatch;

use crate::json::value::parse_non_null;
use crate::limits::RetryDelay;
use crate::message::metadata::REDRIVES_MAX;
use crate::message::schema::{Violation, join_violations};
pub use backoff::{Backoff, DelaySchedule, Jitter};
pub use circuit_breaker::{CircuitBreaker, CircuitScope};

/// The schema of a policy document, JSON Schema 2020-12.
pub const POLICY_SCHEMA: &str = include_str!("../schemas/retry-policy.schema.json");

/// The conditions and delays for retries, and the limits after which redeliver gives up on a message.
///
/// Serde parses each member; [`Policy::from_json`] also checks the rules between members.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Maximum number of retries after the first call, 0..=1000; 5 by default, 0 turns retries off.
    #[serde(deserialize_with = "numbers::parse_integer::<_, _, 0, 1000>")]
    pub max_attempts: u32,
    /// The delay before each retry: random in 0..=900 s by default.
    #[serde(deserialize_with = "wire::parse_object::<_, Backoff, _>")]
    pub backoff: Backoff,
    /// Allows delays of up to 12 hours instead of 900 s: the message hops on the intermediate DLQ until 900 s or less
    /// remain. False by default.
    pub long_delays: bool,
    /// Limit on a message's age at a retry, counted from the first send: redeliver gives up on a message whose next
    /// retry would exceed it. No limit by default; at most 14 days, or a year with `long_delays`.
    #[serde(deserialize_with = "numbers::parse_integer::<_, _, 1, 31_536_000>")]
    pub max_age_seconds: Option<u32>,
    /// If set, only these error types are retried.
    #[serde(deserialize_with = "parse_non_null")]
    pub retryable: Option<Globs>,
    /// These error types are not retried.
    #[serde(deserialize_with = "parse_non_null")]
    pub non_retryable: Option<Globs>,
    /// Immediate retries in the same invocation, before a delayed retry is used; none by default.
    #[serde(deserialize_with = "wire::parse_object::<_, ImmediateRetries, _>")]
    pub immediate: Option<ImmediateRetries>,
    /// Detection and handling of outages. Without a circuit breaker, every call is made and every failed call is an
    /// attempt.
    #[serde(deserialize_with = "circuit_breaker::parse_settings_or_false")]
    pub circuit_breaker: Option<CircuitBreaker>,
    /// Limit on re-sends of a message that SQS moved after unanswered receives, 0..=1000; 20 by default. These re-sends
    /// are not attempts. See [`Policy::redrives_max`].
    #[serde(deserialize_with = "numbers::parse_integer::<_, _, 0, 1000>")]
    pub max_redrives: Option<u32>,
    /// Determines whether a group on an ordered queue continues or is blocked after redeliver gives up on one of its
    /// messages; by default it continues.
    pub on_give_up: OnGiveUp,
}

/// The handling of a group's remaining messages after redeliver has given up on one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnGiveUp {
    /// The group continues without that message.
    #[default]
    Continue,
    /// The group waits until a person decides what to do.
    Block,
}

/// Retries in the same invocation, for blips: they spend no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImmediateRetries {
    /// Number of calls after the first one, 1..=10.
    #[serde(deserialize_with = "numbers::parse_integer::<_, _, 1, 10>")]
    pub max_attempts: u32,
    /// Delay before each of these calls, at most 10 s.
    #[serde(rename = "delay_ms", deserialize_with = "numbers::parse_milliseconds::<_, 10_000>")]
    pub delay: Duration,
}

/// Globs for error types: `*` matches any string, `?` any character. Each has 1 to 128 characters; all are distinct.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Globs(Vec<WildMatch>);

impl Globs {
    /// Creates redeliver's own globs.
    pub(crate) fn built_in(globs: &[&str]) -> Self {
        Self(globs.iter().map(|glob| WildMatch::new(glob)).collect())
    }

    /// True if a glob matches the error type or only its status: `HttpStatus.422` in `HttpStatus.422:no_stock`.
    #[must_use]
    pub fn matches(&self, error_type: &str) -> bool {
        let status = status_without_code(error_type);
        self.0.iter().any(|glob| glob.matches(error_type) || status != error_type && glob.matches(status))
    }
}

/// Returns `HttpStatus.422` for `HttpStatus.422:no_stock`, and any other error type unchanged.
#[must_use]
pub fn status_without_code(error_type: &str) -> &str {
    match error_type.split_once(':') {
        Some((status, _)) if status.starts_with("HttpStatus.") => status,
        _ => error_type,
    }
}

impl TryFrom<Vec<String>> for Globs {
    type Error = &'static str;

    fn try_from(globs: Vec<String>) -> Result<Self, Self::Error> {
        let have_valid_lengths = globs.iter().all(|glob| (1..=128).contains(&glob.chars().count()));
        let distinct_globs: BTreeSet<_> = globs.iter().collect();
        if globs.is_empty() || !have_valid_lengths || distinct_globs.len() < globs.len() {
            return Err("a list needs distinct globs of 1 to 128 characters");
        }
        Ok(Self(globs.iter().map(|glob| WildMatch::new(glob)).collect()))
    }
}

/// The reason why a policy is refused, with a JSON Pointer to each invalid member. The message continues a sentence
/// that starts with the policy's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// Broken rules and contradictions.
    #[error("is refused: {}", join_violations(.0))]
    Refused(Vec<Violation>),
    /// Members that the strategy does not support.
    #[error("{}", describe_members(.0))]
    NotForStrategy(Vec<Violation>),
}

fn describe_members(members: &[Violation]) -> String {
    let descriptions = members.iter().map(|Violation { pointer, rule }| format!("has {pointer}, {rule}"));
    descriptions.collect::<Vec<_>>().join("; ")
}

impl Policy {
    /// Parses and checks a policy document.
    ///
    /// # Errors
    /// The text is not JSON; or it has unknown members, invalid values or contradictions, each reported with its JSON
    /// Pointer.
    pub fn from_json(text: &str) -> Result<Self, PolicyError> {
        wire::parse_with_defaults("{}", text)
    }

    /// Parses and checks a policy document. `defaults` overrides our defaults for absent members, but a `preset` sets
    /// its own backoff.
    ///
    /// # Errors
    /// Same as [`Policy::from_json`].
    pub fn from_json_with_defaults(defaults: &str, text: &str) -> Result<Self, PolicyError> {
        wire::parse_with_defaults(defaults, text)
    }

    /// Reads the breaker's settings, or our defaults if the breaker is off, for messages that were held earlier.
    pub(crate) fn with_breaker<T>(&self, read: impl FnOnce(&CircuitBreaker) -> T) -> T {
        match &self.circuit_breaker {
            Some(breaker) => read(breaker),
            None => read(&CircuitBreaker::default()),
        }
    }

    /// Returns `max_redrives`, or the default of 20, which lasts about four hours: the delays grow to 900 s, and SQS
    /// moves each message only after some time.
    #[must_use]
    pub fn redrives_max(&self) -> u32 {
        self.max_redrives.unwrap_or(20)
    }

    /// Returns the limit on all re-sends of a message after SQS moved it, including those before the last answer, so
    /// that the loop ends.
    #[must_use]
    pub fn total_redrives_max(&self) -> u32 {
        self.redrives_max().saturating_mul(5).min(REDRIVES_MAX)
    }

    /// Returns the maximum delay of any backoff: 12 hours with `long_delays`, otherwise 900 s.
    #[must_use]
    pub const fn delay_limit(&self) -> RetryDelay {
        if self.long_delays { RetryDelay::MAX } else { RetryDelay::SHORT_MAX }
    }
}

impl Default for Policy {
    /// Returns a policy with 5 retries, each after a random delay of 0..=900 s; outages spend no attempts.
    fn default() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::Uniform { max_delay: RetryDelay::SHORT_MAX },
            long_delays: false,
            max_age_seconds: None,
            retryable: None,
            non_retryable: None,
            immediate: None,
            circuit_breaker: Some(CircuitBreaker::default()),
            max_redrives: None,
            on_give_up: OnGiveUp::Continue,
        }
    }
}

#[cfg(test)]
mod tests;
