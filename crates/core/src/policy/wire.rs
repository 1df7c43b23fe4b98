//! The policy as it is written, turned into the policy as it is meant.

mod contradictions;
mod preset;

use std::time::Duration;

use serde_json::Value;
use wildmatch::WildMatch;

use super::{Backoff, Globs, Immediate, Jitter, POLICY_SCHEMA, Policy, PolicyError};
use crate::envelope::{Malformed, members};
use crate::limits::RetryDelay;
use crate::schema::{Violation, violations};

pub(super) fn parse(text: &str) -> Result<Policy, PolicyError> {
    let document: Value =
        serde_json::from_str(text).map_err(|error| PolicyError::NotJson(error.to_string()))?;
    let schema: Value = serde_json::from_str(POLICY_SCHEMA).expect("our own schema is JSON: a test reads it");
    let validator =
        jsonschema::draft202012::new(&schema).expect("our own schema is valid: a test compiles it");
    let mut broken = violations(&validator, &document, "");
    broken.extend(standing_twice(text));
    broken.extend(contradictions::of(&document));
    if broken.is_empty() { Ok(policy_of(&document)) } else { Err(PolicyError::Refused(broken)) }
}

/// A member that stands twice: a parser keeps the last one, but which was meant is anyone's guess.
fn standing_twice(text: &str) -> Option<Violation> {
    let found = members(text, 0..text.len(), "").and_then(|top| {
        let backoff = top.into_iter().find(|member| *member.name == *b"backoff");
        backoff.map_or(Ok(Vec::new()), |backoff| members(text, backoff.value, "/backoff"))
    });
    match found {
        Err(Malformed::DuplicateMember(pointer)) => Some(Violation::new(pointer, "stands twice")),
        _ => None,
    }
}

/// Reads a document that the schema has found valid: what is absent has its default.
fn policy_of(document: &Value) -> Policy {
    let default = document["preset"].as_str().map_or_else(Policy::default, preset::named);
    let whole = |name: &str| seconds(&document[name]).and_then(|number| u32::try_from(number).ok());
    let globs = |name: &str| {
        let globs = patterns(&document[name]).into_iter().map(WildMatch::new).collect::<Vec<_>>();
        (!globs.is_empty()).then_some(Globs(globs))
    };
    Policy {
        max_attempts: whole("max_attempts").unwrap_or(default.max_attempts),
        backoff: document.get("backoff").map_or(default.backoff, backoff_of),
        long_delays: document["long_delays"].as_bool().unwrap_or(default.long_delays),
        max_age_seconds: whole("max_age_seconds"),
        retryable: globs("retryable"),
        non_retryable: globs("non_retryable"),
        immediate: document.get("immediate").map(immediate_of),
    }
}

fn immediate_of(immediate: &Value) -> Immediate {
    let whole = |name: &str| seconds(&immediate[name]).unwrap_or_default();
    Immediate {
        max_attempts: u32::try_from(whole("max_attempts")).unwrap_or_default(),
        delay: Duration::from_millis(whole("delay_ms")),
    }
}

fn backoff_of(backoff: &Value) -> Backoff {
    let delay = |name: &str| seconds(&backoff[name]).map(RetryDelay::saturating);
    let max_delay = delay("max_delay_seconds").unwrap_or(RetryDelay::SHORT_MAX);
    let jitter = jitter_of(&backoff["jitter"]);
    match backoff["kind"].as_str() {
        Some("exponential") => {
            let rate = backoff["rate"].as_f64().unwrap_or(2.0);
            Backoff::Exponential {
                initial_delay: delay("initial_delay_seconds").unwrap_or_default(),
                rate,
                offset: delay("offset_seconds").unwrap_or_default(),
                max_delay,
                jitter,
            }
        }
        Some("fixed") => Backoff::Fixed { delay: delay("delay_seconds").unwrap_or_default(), jitter },
        Some("schedule") => {
            let delays = backoff["delays_seconds"].as_array().into_iter().flatten();
            let mut first: Vec<_> = delays.filter_map(seconds).map(RetryDelay::saturating).collect();
            let last = first.pop().unwrap_or_default();
            Backoff::Schedule { first, last, jitter }
        }
        _ => Backoff::Uniform { max_delay },
    }
}

fn jitter_of(jitter: &Value) -> Jitter {
    match (jitter.as_str(), seconds(&jitter["max_seconds"])) {
        (Some("none"), _) => Jitter::None,
        (Some("half"), _) => Jitter::Half,
        (_, Some(max)) => Jitter::Additive { max: RetryDelay::saturating(max) },
        _ => Jitter::default(),
    }
}

/// An integer, also where it is written as 5.0 or 5e0, which JSON Schema calls an integer too.
fn seconds(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the schema allows 0..=31,536,000 only"
    )]
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

fn patterns(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
