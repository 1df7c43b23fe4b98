//! The circuit breaker's settings. [`crate::decide::breaker`] implements them.

use std::time::Duration;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use super::{Globs, numbers, wire};
use crate::json::value::parse_non_null;
use crate::message::{Attribute, Attributes};

/// Settings for the errors that count as an outage, the messages that an outage holds, and the time limit on holds. By
/// default, each message group has its own circuit, and a message is held for at most 24 hours in total.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreaker {
    /// The scope of a circuit. An open circuit holds only its own messages.
    pub per: CircuitScope,
    /// Your own error types that mean "not now", in addition to those in [`crate::decide::call_outcome`].
    #[serde(deserialize_with = "parse_non_null")]
    pub opens_on: Option<Globs>,
    /// Limit on the total time for which a message is held: 1 minute to 14 days.
    #[serde(rename = "hold_seconds_max", deserialize_with = "numbers::parse_seconds::<_, 60, 1_209_600>")]
    pub hold_max: Duration,
}

/// The messages that share a circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CircuitScope {
    /// `"group"`: the `MessageGroupId`.
    #[default]
    Group,
    /// `"attribute:NAME"`: a String or Number attribute.
    Attribute(String),
    /// `"target"`: one circuit for all messages.
    Target,
}

impl TryFrom<String> for CircuitScope {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match (text.as_str(), text.strip_prefix("attribute:")) {
            ("group", _) => Ok(Self::Group),
            ("target", _) => Ok(Self::Target),
            (_, Some(name)) if is_attribute_name(name) => Ok(Self::Attribute(name.to_owned())),
            _ => Err(Self::RULE),
        }
    }
}

/// Returns true for the usual attribute names. SQS also accepts non-ASCII letters.
fn is_attribute_name(text: &str) -> bool {
    (1..=256).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

impl CircuitScope {
    /// The accepted values, as a rule for error messages.
    pub(super) const RULE: &'static str = "must be \"group\", \"target\", or \"attribute:\" and an attribute's name (up to 256 of A-Z a-z 0-9 _ - .)";

    /// Returns the string that is hashed into the message's key; `None` if the message has no key.
    #[must_use]
    pub fn key_text<'a>(&self, group: Option<&'a str>, attributes: &'a Attributes) -> Option<&'a str> {
        match self {
            Self::Group => group,
            Self::Attribute(name) => attributes.get(name).and_then(Attribute::text),
            Self::Target => None,
        }
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self { per: CircuitScope::Group, opens_on: None, hold_max: Duration::from_secs(86_400) }
    }
}

/// Parses the settings; `false` disables the breaker.
pub(super) fn parse_settings_or_false<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<CircuitBreaker>, D::Error> {
    match Value::deserialize(from)? {
        Value::Bool(false) => Ok(None),
        written => wire::parse_object(written)
            .map(Some)
            .map_err(|error: serde_json::Error| serde::de::Error::custom(error)),
    }
}
