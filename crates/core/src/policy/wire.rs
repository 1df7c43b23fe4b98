//! The policy as it is written, turned into the policy as it is meant.

mod contradictions;
mod plain;
mod preset;

use std::time::Duration;

use redeliver_json_schema::Schema;
use serde_json::Value;
use wildmatch::WildMatch;

use super::{Backoff, Globs, Immediate, Jitter, POLICY_SCHEMA, Policy, PolicyError, RedeliveryRate};
use crate::envelope::{Malformed, Member, members};
use crate::limits::RetryDelay;
use crate::schema::Violation;

pub(super) fn parse(text: &str) -> Result<Policy, PolicyError> {
    parse_over("{}", text)
}

pub(super) fn parse_over(defaults: &str, text: &str) -> Result<Policy, PolicyError> {
    let read = |text: &str| serde_json::from_str::<Value>(text);
    let mut document = read(text).map_err(|error| PolicyError::NotJson(error.to_string()))?;
    if let (Some(written), Ok(Value::Object(mut defaults))) = (document.as_object_mut(), read(defaults)) {
        if written.contains_key("preset") {
            defaults.remove("backoff");
            defaults.remove("max_attempts");
        }
        for (name, value) in defaults {
            written.entry(name).or_insert(value);
        }
    }
    let mut broken = if plain::is_valid(&document) { Vec::new() } else { by_schema(&document) };
    broken.extend(standing_twice(text));
    broken.extend(contradictions::of(&document));
    if broken.is_empty() { Ok(policy_of(&document)) } else { Err(PolicyError::Refused(broken)) }
}

fn by_schema(document: &Value) -> Vec<Violation> {
    let schema = Schema::new(POLICY_SCHEMA).expect("our own schema is valid: a test compiles it");
    schema.violations(document, "")
}

/// A member that stands twice: a parser keeps the last one, but which was meant is anyone's guess.
fn standing_twice(text: &str) -> Option<Violation> {
    let duplicate = |(at, pointer)| match members(text, at, pointer) {
        Err(Malformed::DuplicateMember(pointer)) => Err(Violation::new(pointer, "stands twice")),
        // What is no object has no members; the schema says what it should be.
        found => Ok(found.unwrap_or_default()),
    };
    let value = |of: &[Member<'_>], name: &str| {
        of.iter().find(|member| *member.name == *name.as_bytes()).map(|member| member.value.clone())
    };
    let find = || {
        let top = duplicate((0..text.len(), ""))?;
        let backoff = value(&top, "backoff").map_or(Ok(Vec::new()), |at| duplicate((at, "/backoff")))?;
        let inner =
            [(value(&top, "immediate"), "/immediate"), (value(&backoff, "jitter"), "/backoff/jitter")];
        inner.into_iter().try_for_each(|(at, pointer)| match at {
            Some(at) => duplicate((at, pointer)).map(drop),
            None => Ok(()),
        })
    };
    find().err()
}

/// Reads a document that is valid by the schema: what is absent has its default.
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
        max_redelivery_per_second: document["max_redelivery_per_second"]
            .as_f64()
            .and_then(RedeliveryRate::new),
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
