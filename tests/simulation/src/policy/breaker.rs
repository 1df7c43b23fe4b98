//! The policy members `circuit_breaker` and `max_redrives`, and the delays before re-sends that spend no attempt.

use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::{DelayKey, glob_matches, scale_to_range};

/// The policy's member `circuit_breaker`.
#[derive(Clone, Debug, PartialEq)]
pub enum BreakerKnob {
    /// Absent: the strategy's default.
    Absent,
    /// `false`.
    Off,
    /// The settings of an enabled breaker.
    On(BreakerModel),
}

/// The settings of the circuit breaker.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerModel {
    /// The messages that share a circuit.
    pub per: CircuitPartition,
    /// Globs for additional error types that mean "not now".
    pub opens_on: Vec<&'static str>,
    /// Limit on the total time that a message is held.
    pub hold_seconds_max: u64,
}

/// The key of a message's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitPartition {
    /// The message group.
    Group,
    /// The string value of this attribute.
    Attribute(&'static str),
    /// One circuit for all messages.
    Target,
}

impl Default for BreakerModel {
    fn default() -> Self {
        Self { per: CircuitPartition::Group, opens_on: Vec::new(), hold_seconds_max: 86_400 }
    }
}

/// Lists of error types in addition to the built-in list.
const OPENS_ON: [&[&str]; 6] = [&[], &[], &[], &["*"], &["HttpStatus.*"], &["Timeout", "Db.Bus?"]];

/// The outcome of a call, with regard to the target's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The target is available: it succeeded, or the message itself caused the error.
    Answer,
    /// Either the message or the target might have caused the error.
    Fault,
    /// "Not now": the target is down.
    Unavailable,
    /// "Not now": the target accepts fewer calls, or has requested a delay.
    Refusal,
    /// "Not now" for this message alone, with a delay in seconds: the target is available.
    Later(u64),
}

impl CallOutcome {
    /// Returns true if the outcome spends no attempt.
    #[must_use]
    pub fn means_not_now(self) -> bool {
        matches!(self, Self::Unavailable | Self::Refusal | Self::Later(_))
    }

    /// Returns true if the target is available.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Later(_))
    }
}

/// Returns the outcome of a call with a transient error of this type, according to the table in docs/handlers.md.
pub(super) fn transient_outcome(error_type: &str) -> CallOutcome {
    let status = error_type.strip_prefix("HttpStatus.").and_then(|status| status.parse::<u16>().ok());
    if let Some(status) = status {
        return match status {
            429 => CallOutcome::Refusal,
            300..=399 | 401 | 403 | 405 | 407 | 502..=504 | 520..=530 => CallOutcome::Unavailable,
            404 | 500..=599 => CallOutcome::Fault,
            _ => CallOutcome::Answer,
        };
    }
    match error_type.split_once('.') {
        Some(("Lambda", "Throttled")) => CallOutcome::Refusal,
        Some(("Http", "Connect" | "ConnectTimeout" | "Dns" | "Proxy" | "Refused" | "Tls")) => {
            CallOutcome::Unavailable
        }
        Some(("Http", "NoCredentials" | "NotSigned")) => CallOutcome::Unavailable,
        Some(("Lambda", "AccessDenied" | "Connect" | "Kms" | "NotFound" | "Service")) => {
            CallOutcome::Unavailable
        }
        Some(("Http", "InvalidResponse" | "Reset" | "Timeout")) => CallOutcome::Fault,
        Some(("Lambda", "ConnectionLost" | "FunctionError" | "Timeout") | ("Sandbox", "Timedout")) => {
            CallOutcome::Fault
        }
        None if error_type == "Timeout" => CallOutcome::Fault,
        _ => CallOutcome::Answer,
    }
}

impl BreakerKnob {
    /// Draws the setting, with small numbers, so that the breaker often comes into play.
    pub fn random(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..10) {
            0..3 => Self::Absent,
            3 => Self::Off,
            _ => Self::On(BreakerModel::random(rng)),
        }
    }

    /// Renders the member, unless absent.
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

    /// Returns true if `opens_on` matches this error type.
    #[must_use]
    pub fn opens_on(&self, error_type: &str) -> bool {
        self.opens_on.iter().any(|glob| glob_matches(glob.as_bytes(), error_type.as_bytes()))
    }
}

/// Returns the delay for a message that SQS has moved for the `count`th time.
#[must_use]
pub(super) fn redrive_delay(key: DelayKey<'_>, count: u32) -> u64 {
    let base = [5, 10, 20, 40, 80, 160, 320, 640].get(count as usize - 1).copied().unwrap_or(900);
    let [spread, _] = key.random_words();
    scale_to_range(spread, base / 2, base)
}
