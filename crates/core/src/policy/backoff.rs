//! The kinds of backoff in a policy, as serde reads them. [`crate::decide::backoff`] computes the delays; the JSON
//! Schema explains violations.

use serde::Deserialize;
use serde_json::Value;

use super::{numbers, wire};
use crate::limits::RetryDelay;

/// The delay before retry `n`, n ≥ 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// A random delay in 0..=`max_delay`; the range is the same for every attempt.
    Uniform {
        #[serde(rename = "max_delay_seconds", default = "RetryDelay::short_max")]
        max_delay: RetryDelay,
    },
    /// `initial_delay * rate^(n-1) + offset`, rounded up, at most `max_delay`: with 5 s and the default rate of 2, the
    /// delays before jitter are 5, 10, 20, 40 s …
    Exponential {
        #[serde(rename = "initial_delay_seconds", deserialize_with = "numbers::parse_nonzero_delay")]
        initial_delay: RetryDelay,
        /// 1..=100.
        #[serde(default = "default_rate", deserialize_with = "numbers::parse_rate")]
        rate: f64,
        #[serde(rename = "offset_seconds", default)]
        offset: RetryDelay,
        /// 900 s by default, even with long delays.
        #[serde(rename = "max_delay_seconds", default = "RetryDelay::short_max")]
        max_delay: RetryDelay,
        /// Applied after the cap.
        #[serde(default)]
        jitter: Jitter,
    },
    /// The same delay before each retry.
    Fixed {
        #[serde(rename = "delay_seconds")]
        delay: RetryDelay,
        #[serde(default)]
        jitter: Jitter,
    },
    /// One delay per retry; the last delay repeats.
    Schedule {
        #[serde(rename = "delays_seconds")]
        delays: DelaySchedule,
        #[serde(default)]
        jitter: Jitter,
    },
}

const fn default_rate() -> f64 {
    2.0
}

impl Backoff {
    /// Returns the longest delay of this backoff, including jitter, capped at `limit`, the policy's limit.
    #[must_use]
    pub fn longest_delay(&self, limit: RetryDelay) -> RetryDelay {
        let (base, jitter) = match self {
            Self::Uniform { max_delay } | Self::Exponential { max_delay, .. } => return *max_delay,
            Self::Fixed { delay, jitter } => (*delay, *jitter),
            Self::Schedule { delays, jitter } => (delays.longest_delay(), *jitter),
        };
        let spread = if let Jitter::Additive { max } = jitter { u64::from(max.get()) } else { 0 };
        RetryDelay::saturating(u64::from(base.get()) + spread).min(limit)
    }
}

/// A schedule of 1 to 1000 delays.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<RetryDelay>")]
pub struct DelaySchedule {
    first: Vec<RetryDelay>,
    last: RetryDelay,
}

impl DelaySchedule {
    /// Returns the delay before retry number `attempt`, counted from 1; the last delay repeats.
    #[must_use]
    pub fn delay_before(&self, attempt: u32) -> RetryDelay {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        *self.first.get(index).unwrap_or(&self.last)
    }

    /// Returns all delays, in order.
    pub fn iter(&self) -> impl Iterator<Item = RetryDelay> {
        self.first.iter().chain([&self.last]).copied()
    }

    fn longest_delay(&self) -> RetryDelay {
        self.iter().fold(self.last, RetryDelay::max)
    }
}

impl TryFrom<Vec<RetryDelay>> for DelaySchedule {
    type Error = &'static str;

    fn try_from(mut delays: Vec<RetryDelay>) -> Result<Self, Self::Error> {
        match delays.pop() {
            Some(last) if delays.len() < 1000 => Ok(Self { first: delays, last }),
            _ => Err("a schedule has 1 to 1000 delays"),
        }
    }
}

/// The random spread of a delay. Only additive jitter can lengthen the delay, and no jitter exceeds the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Jitter {
    /// The exact delay.
    None,
    /// From half of the delay to the full delay.
    Half,
    /// From 0 to the full delay ("Exponential Backoff And Jitter", AWS Architecture Blog).
    #[default]
    Full,
    /// Adds up to `max`. The cap applies to the sum: near the cap, the base delay is reduced rather than the spread.
    Additive { max: RetryDelay },
}

impl TryFrom<Value> for Jitter {
    type Error = serde_json::Error;

    fn try_from(written: Value) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        enum JitterObject {
            Additive { max_seconds: RetryDelay },
        }
        match written.as_str() {
            Some("none") => Ok(Self::None),
            Some("half") => Ok(Self::Half),
            Some("full") => Ok(Self::Full),
            _ => wire::parse_object(&written)
                .map(|JitterObject::Additive { max_seconds }| Self::Additive { max: max_seconds }),
        }
    }
}
