//! The circuit breaker's settings, named as in Resilience4j. [`crate::decide::breaker`] implements them.

use std::time::Duration;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use super::{Globs, numbers, wire};
use crate::limits::RetryDelay;

/// Controls when calls stop, how often the target is probed, and how long messages are held.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreaker {
    /// It opens if this share of the recent calls met an outage, 0.01..=1 …
    #[serde(deserialize_with = "numbers::share")]
    pub failure_rate: f64,
    /// … of at least this many, 1..=1000 …
    #[serde(deserialize_with = "numbers::whole::<_, _, 1, 1000>")]
    pub minimum_calls: u32,
    /// … within this time, at most an hour; outages not followed by an answer count for longer.
    #[serde(rename = "window_seconds", deserialize_with = "numbers::seconds::<_, 1, 3600>")]
    pub window: Duration,
    /// While open, one call in this time; the interval doubles after each failed probe …
    #[serde(rename = "probe_interval_seconds", deserialize_with = "numbers::seconds::<_, 1, 600>")]
    pub probe_interval: Duration,
    /// … up to this.
    #[serde(rename = "probe_interval_seconds_max", deserialize_with = "numbers::seconds::<_, 1, 600>")]
    pub probe_interval_max: Duration,
    /// Error types that count as an outage.
    pub opens_on: Globs,
    /// Limit on the total time that a message is held, a minute to 14 days.
    #[serde(rename = "hold_seconds_max", deserialize_with = "numbers::seconds::<_, 60, 1_209_600>")]
    pub hold_max: Duration,
}

impl CircuitBreaker {
    /// The longest delay of a held message. The message is called within a quarter of an hour of the target's return:
    /// it may meet an environment that has not probed since, and be held once more.
    #[must_use]
    pub fn hold_delay_max(&self) -> RetryDelay {
        // For the time that receives, calls and sends take.
        const SLACK_SECONDS: u64 = 30;
        let quarter_of_an_hour = u64::from(RetryDelay::SHORT_MAX.get());
        RetryDelay::saturating(quarter_of_an_hour - SLACK_SECONDS - self.probe_interval_max.as_secs())
    }

    /// The interval after a failed probe.
    pub(crate) fn doubled(&self, interval: Duration) -> Duration {
        (interval * 2).min(self.probe_interval_max)
    }
}

impl Default for CircuitBreaker {
    /// With ten environments an outage of ten minutes costs some hundred calls, one of twelve hours some thousand
    /// (docs/performance.md).
    fn default() -> Self {
        Self {
            failure_rate: 0.8,
            minimum_calls: 10,
            window: Duration::from_secs(30),
            probe_interval: Duration::from_secs(15),
            probe_interval_max: Duration::from_secs(120),
            opens_on: Globs::of(&[
                "Http.*",
                "HttpStatus.429",
                "HttpStatus.5*",
                "Lambda.*",
                "Sandbox.Timedout",
                "Timeout",
            ]),
            hold_max: Duration::from_secs(86_400),
        }
    }
}

/// The settings, or `false` for no breaker.
pub(super) fn or_false<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CircuitBreaker>, D::Error> {
    match Value::deserialize(from)? {
        Value::Bool(false) => Ok(None),
        written => wire::object(written)
            .map(Some)
            .map_err(|error: serde_json::Error| serde::de::Error::custom(error)),
    }
}
