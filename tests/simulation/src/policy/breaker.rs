//! The policy members `circuit_breaker` and `max_redrives`, and the delays of re-sends that spend no attempt.

use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::{Key, glob_matches, within};

/// The policy's member `circuit_breaker`.
#[derive(Clone, Debug, PartialEq)]
pub enum BreakerKnob {
    /// Absent: the default of the strategy.
    Absent,
    /// `false`.
    Off,
    /// Its settings.
    On(BreakerModel),
}

/// Its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerModel {
    /// Share of the last calls.
    pub failure_rate: f64,
    /// Calls before it opens.
    pub minimum_calls: u32,
    /// Maximum age of a call that counts.
    pub window_seconds: u64,
    /// The first interval.
    pub probe_interval_seconds: u64,
    /// The longest interval.
    pub probe_interval_seconds_max: u64,
    /// Globs.
    pub opens_on: Vec<&'static str>,
    /// In all.
    pub hold_seconds_max: u64,
}

impl Default for BreakerModel {
    fn default() -> Self {
        Self {
            failure_rate: 0.8,
            minimum_calls: 10,
            window_seconds: 30,
            probe_interval_seconds: 15,
            probe_interval_seconds_max: 120,
            opens_on: vec![
                "Http.*",
                "HttpStatus.429",
                "HttpStatus.5*",
                "Lambda.*",
                "Sandbox.Timedout",
                "Timeout",
            ],
            hold_seconds_max: 86_400,
        }
    }
}

impl BreakerKnob {
    /// Any settings; with small numbers, so that much happens.
    pub fn random(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..10) {
            0..3 => Self::Absent,
            3 => Self::Off,
            _ => Self::On(BreakerModel::random(rng)),
        }
    }

    /// The member, unless absent.
    pub(super) fn json(&self) -> Option<Value> {
        match self {
            Self::Absent => None,
            Self::Off => Some(Value::from(false)),
            Self::On(breaker) => Some(breaker.json()),
        }
    }
}

impl BreakerModel {
    fn random(rng: &mut impl Rng) -> Self {
        let rates = [0.05, 0.25, 0.5, 0.8, 1.0];
        let most = [5, 30, 120, 600][rng.random_range(0..4)];
        let opens_on: &[&[&'static str]] = &[
            &["Http.*", "HttpStatus.429", "HttpStatus.5*", "Lambda.*", "Sandbox.Timedout", "Timeout"],
            &["*"],
            &["HttpStatus.*"],
            &["Timeout", "Db.Bus?"],
        ];
        Self {
            failure_rate: rates[rng.random_range(0..rates.len())],
            minimum_calls: rng.random_range(1..=12),
            window_seconds: rng.random_range(1..=120),
            probe_interval_seconds: rng.random_range(1..=most),
            probe_interval_seconds_max: most,
            opens_on: opens_on[rng.random_range(0..opens_on.len())].to_vec(),
            hold_seconds_max: rng.random_range(60..=8000),
        }
    }

    fn json(&self) -> Value {
        json!({
            "failure_rate": self.failure_rate,
            "minimum_calls": self.minimum_calls,
            "window_seconds": self.window_seconds,
            "probe_interval_seconds": self.probe_interval_seconds,
            "probe_interval_seconds_max": self.probe_interval_seconds_max,
            "opens_on": self.opens_on,
            "hold_seconds_max": self.hold_seconds_max,
        })
    }

    /// True if an error of this type is an outage.
    #[must_use]
    pub fn opens_on(&self, error_type: &str) -> bool {
        self.opens_on.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()))
    }

    /// The delay of a held message: a quarter of an hour less half a minute and the longest probe interval. The first
    /// one is drawn from the range up to it.
    #[must_use]
    pub fn hold_delay(&self, key: Key<'_>, held_seconds: u64) -> u64 {
        let longest = 870 - self.probe_interval_seconds_max;
        let [spread, _] = key.words();
        let drawn = if held_seconds == 0 { within(spread, 15, longest) } else { longest };
        // Never past its hold limit.
        drawn.min(self.hold_seconds_max.saturating_sub(held_seconds).max(15))
    }
}

/// The delay of a message that SQS has moved for the `count`th time.
#[must_use]
pub(super) fn redrive_delay(key: Key<'_>, count: u32) -> u64 {
    let base = [5, 10, 20, 40, 80, 160, 320, 640].get(count as usize - 1).copied().unwrap_or(900);
    let [spread, _] = key.words();
    within(spread, base / 2, base)
}
