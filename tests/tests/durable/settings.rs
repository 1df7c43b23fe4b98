//! Retry settings, converted to each side's form.

use std::time::Duration;

use aws_durable_execution_sdk::builders::{JitterStrategy, RetryStrategyConfig};
use redeliver_core::limits::RetryDelay;
use redeliver_core::policy::Policy;
use serde_json::json;

/// A retry strategy from AWS's SDK that can be converted to an equivalent policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetrySettings {
    /// The first call and its retries.
    pub(crate) calls: u32,
    pub(crate) initial_seconds: u32,
    pub(crate) max_seconds: u32,
    pub(crate) rate: f64,
    pub(crate) jitter: JitterStrategy,
}

impl RetrySettings {
    /// Returns the settings in a strategy from AWS's SDK.
    pub(crate) fn from_strategy(strategy: &RetryStrategyConfig) -> Self {
        let seconds = |delay: Duration| u32::try_from(delay.as_secs()).unwrap();
        Self {
            calls: strategy.max_attempts(),
            initial_seconds: seconds(strategy.initial_delay()),
            max_seconds: seconds(strategy.max_delay()),
            rate: strategy.backoff_rate(),
            jitter: strategy.jitter(),
        }
    }

    pub(crate) fn to_strategy(self) -> RetryStrategyConfig {
        RetryStrategyConfig::builder()
            .max_attempts(self.calls)
            .initial_delay(Duration::from_secs(self.initial_seconds.into()))
            .max_delay(Duration::from_secs(self.max_seconds.into()))
            .backoff_rate(self.rate)
            .jitter(self.jitter)
            .build()
    }

    /// Converts the settings to a policy. The SDK's `max_attempts` counts the first call; ours does not.
    pub(crate) fn to_policy(self) -> Policy {
        let jitter = match self.jitter {
            JitterStrategy::None => "none",
            JitterStrategy::Half => "half",
            JitterStrategy::Full => "full",
            other => panic!("{other:?}"),
        };
        let policy = json!({
            "max_attempts": self.calls - 1,
            "long_delays": self.max_seconds > RetryDelay::SHORT_MAX.get().into(),
            "backoff": {
                "kind": "exponential",
                "initial_delay_seconds": self.initial_seconds,
                "rate": self.rate,
                "max_delay_seconds": self.max_seconds,
                "jitter": jitter,
            },
        });
        Policy::from_json(&policy.to_string()).unwrap()
    }

    /// Returns the delay before each retry as both sides document it, before jitter and rounding.
    pub(crate) fn base_delays(&self) -> Vec<f64> {
        let grown = |retry: u32| f64::from(self.initial_seconds) * self.rate.powf(retry.into());
        (0..self.calls - 1).map(|retry| grown(retry).min(self.max_seconds.into())).collect()
    }
}
