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
    /// The messages that share a circuit.
    pub per: Per,
    /// Globs.
    pub opens_on: Vec<&'static str>,
    /// In all.
    pub hold_seconds_max: u64,
}

/// The key of a message's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Its message group.
    Group,
    /// The text of this attribute.
    Attribute(&'static str),
    /// One circuit for all.
    Target,
}

impl Default for BreakerModel {
    fn default() -> Self {
        Self { per: Per::Group, opens_on: OPENS_ON[0].to_vec(), hold_seconds_max: 86_400 }
    }
}

/// Lists of error types; the first one is the default.
const OPENS_ON: [&[&str]; 4] = [
    &["Http.*", "HttpStatus.429", "HttpStatus.5*", "Lambda.*", "Sandbox.Timedout", "Timeout"],
    &["*"],
    &["HttpStatus.*"],
    &["Timeout", "Db.Bus?"],
];

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
        let pers = [Per::Group, Per::Group, Per::Attribute("tenant"), Per::Target];
        let longest = [300, 8000][rng.random_range(0..2)];
        Self {
            per: pers[rng.random_range(0..pers.len())],
            opens_on: OPENS_ON[rng.random_range(0..OPENS_ON.len())].to_vec(),
            hold_seconds_max: rng.random_range(60..=longest),
        }
    }

    fn json(&self) -> Value {
        let per = match self.per {
            Per::Group => "group".to_owned(),
            Per::Attribute(name) => format!("attribute:{name}"),
            Per::Target => "target".to_owned(),
        };
        json!({"per": per, "opens_on": self.opens_on, "hold_seconds_max": self.hold_seconds_max})
    }

    /// True if an error of this type is an outage.
    #[must_use]
    pub fn opens_on(&self, error_type: &str) -> bool {
        self.opens_on.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()))
    }
}

/// The delay of a message that SQS has moved for the `count`th time.
#[must_use]
pub(super) fn redrive_delay(key: Key<'_>, count: u32) -> u64 {
    let base = [5, 10, 20, 40, 80, 160, 320, 640].get(count as usize - 1).copied().unwrap_or(900);
    let [spread, _] = key.words();
    within(spread, base / 2, base)
}
