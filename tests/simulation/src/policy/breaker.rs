//! The policy members `circuit_breaker` and `max_redrives`, and the delays of re-sends that spend no attempt.

use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::{DelayKey, glob_matches, scale_to_range};

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
    pub per: CircuitPartition,
    /// Globs: more errors that say "not now".
    pub opens_on: Vec<&'static str>,
    /// In all.
    pub hold_seconds_max: u64,
}

/// The key of a message's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitPartition {
    /// Its message group.
    Group,
    /// The text of this attribute.
    Attribute(&'static str),
    /// One circuit for all.
    Target,
}

impl Default for BreakerModel {
    fn default() -> Self {
        Self { per: CircuitPartition::Group, opens_on: Vec::new(), hold_seconds_max: 86_400 }
    }
}

/// Lists of error types beside the built-in one.
const OPENS_ON: [&[&str]; 6] = [&[], &[], &[], &["*"], &["HttpStatus.*"], &["Timeout", "Db.Bus?"]];

/// The outcome of a call, as far as its target's health is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The target is there, or the error is the message's own.
    Answer,
    /// The message's fault or the target's.
    Fault,
    /// Not now.
    Unavailable,
    /// Not now: the target takes fewer calls, or has asked for a delay.
    Refusal,
    /// Not now, for this message alone, after these seconds: the target is there.
    Later(u64),
}

impl Met {
    /// True if it spends no attempt.
    #[must_use]
    pub fn is_not_now(self) -> bool {
        matches!(self, Self::Unavailable | Self::Refusal | Self::Later(_))
    }

    /// True if the target is there.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Later(_))
    }
}

/// The outcome of a call with a transient error of this type, by the table in docs/handlers.md.
pub(super) fn transient_outcome(error_type: &str) -> Met {
    let status = error_type.strip_prefix("HttpStatus.").and_then(|status| status.parse::<u16>().ok());
    if let Some(status) = status {
        return match status {
            429 => Met::Refusal,
            300..=399 | 401 | 403 | 405 | 407 | 502..=504 | 520..=530 => Met::Unavailable,
            404 | 500..=599 => Met::Fault,
            _ => Met::Answer,
        };
    }
    match error_type.split_once('.') {
        Some(("Lambda", "Throttled")) => Met::Refusal,
        Some(("Http", "Connect" | "ConnectTimeout" | "Dns" | "Proxy" | "Refused" | "Tls")) => {
            Met::Unavailable
        }
        Some(("Http", "NoCredentials" | "NotSigned")) => Met::Unavailable,
        Some(("Lambda", "AccessDenied" | "Connect" | "Kms" | "NotFound" | "Service")) => Met::Unavailable,
        Some(("Http", "InvalidResponse" | "Reset" | "Timeout")) => Met::Fault,
        Some(("Lambda", "ConnectionLost" | "FunctionError" | "Timeout") | ("Sandbox", "Timedout")) => {
            Met::Fault
        }
        None if error_type == "Timeout" => Met::Fault,
        _ => Met::Answer,
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
    pub(super) fn to_json(&self) -> Option<Value> {
        match self {
            Self::Absent => None,
            Self::Off => Some(Value::from(false)),
            Self::On(breaker) => Some(breaker.to_json()),
        }
    }
}

impl BreakerModel {
    fn random(rng: &mut impl Rng) -> Self {
        let pers = [
            CircuitPartition::Group,
            CircuitPartition::Group,
            CircuitPartition::Attribute("tenant"),
            CircuitPartition::Target,
        ];
        let longest = [300, 8000][rng.random_range(0..2)];
        Self {
            per: pers[rng.random_range(0..pers.len())],
            opens_on: OPENS_ON[rng.random_range(0..OPENS_ON.len())].to_vec(),
            hold_seconds_max: rng.random_range(60..=longest),
        }
    }

    fn to_json(&self) -> Value {
        let per = match self.per {
            CircuitPartition::Group => "group".to_owned(),
            CircuitPartition::Attribute(name) => format!("attribute:{name}"),
            CircuitPartition::Target => "target".to_owned(),
        };
        let mut document = json!({"per": per, "hold_seconds_max": self.hold_seconds_max});
        if !self.opens_on.is_empty() {
            document["opens_on"] = Value::from(self.opens_on.clone());
        }
        document
    }

    /// True if it names an error of this type.
    #[must_use]
    pub fn opens_on(&self, error_type: &str) -> bool {
        self.opens_on.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()))
    }
}

/// The delay of a message that SQS has moved for the `count`th time.
#[must_use]
pub(super) fn redrive_delay(key: DelayKey<'_>, count: u32) -> u64 {
    let base = [5, 10, 20, 40, 80, 160, 320, 640].get(count as usize - 1).copied().unwrap_or(900);
    let [spread, _] = key.random_words();
    scale_to_range(spread, base / 2, base)
}
