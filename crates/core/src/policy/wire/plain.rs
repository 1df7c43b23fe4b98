//! Policies as people write them, found valid without the schema: to compile it is a good part of a function's start.
//!
//! What is found valid here is valid by the schema: a test compares the two on documents that are nearly sound. Of what looks
//! unusual nothing is said: then the schema decides, and says what is wrong.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::limits::RetryDelay;

/// `false` where it is for the schema to say.
pub(super) fn is_valid(document: &Value) -> bool {
    each(document, |name, value| match name {
        "max_attempts" => whole(value, 0..=1000),
        "backoff" => is_backoff(value),
        "max_age_seconds" => whole(value, 1..=31_536_000),
        "long_delays" => value.is_boolean(),
        "max_redelivery_per_second" => number(value, 0.01, 100_000.0),
        "immediate" => is_immediate(value),
        "retryable" | "non_retryable" => is_globs(value),
        _ => false,
    })
}

fn is_backoff(backoff: &Value) -> bool {
    let (required, optional): (_, &[_]) = match backoff["kind"].as_str() {
        Some("uniform") => ("kind", &["max_delay_seconds"]), // nothing else is required
        Some("exponential") => {
            ("initial_delay_seconds", &["rate", "offset_seconds", "max_delay_seconds", "jitter"])
        }
        Some("fixed") => ("delay_seconds", &["jitter"]),
        Some("schedule") => ("delays_seconds", &["jitter"]),
        _ => return false,
    };
    let is_known = |name: &str| name == "kind" || name == required || optional.contains(&name);
    let is_right = |name: &str, value: &Value| match name {
        "initial_delay_seconds" => delay(value) && value.as_u64() != Some(0),
        "delays_seconds" => list(value).is_some_and(|all| all.len() <= 1000 && all.iter().all(delay)),
        "rate" => number(value, 1.0, 100.0),
        "jitter" => matches!(value.as_str(), Some("none" | "half" | "full")),
        "kind" => true,
        _ => delay(value),
    };
    !backoff[required].is_null() && each(backoff, |name, value| is_known(name) && is_right(name, value))
}

fn is_immediate(immediate: &Value) -> bool {
    immediate.as_object().is_some_and(|members| members.len() == 2)
        && whole(&immediate["max_attempts"], 1..=10)
        && whole(&immediate["delay_ms"], 0..=10_000)
}

fn is_globs(globs: &Value) -> bool {
    // The schema counts characters: 128 bytes are no more.
    let is_glob = |glob: &&str| (1..=128).contains(&glob.len());
    list(globs).is_some_and(|all| {
        let different: BTreeSet<_> = all.iter().filter_map(Value::as_str).filter(is_glob).collect();
        different.len() == all.len()
    })
}

fn each(object: &Value, is_valid: impl Fn(&str, &Value) -> bool) -> bool {
    object.as_object().is_some_and(|members| members.iter().all(|(name, value)| is_valid(name, value)))
}

/// An array that is not empty.
fn list(value: &Value) -> Option<&[Value]> {
    value.as_array().map(Vec::as_slice).filter(|all| !all.is_empty())
}

fn delay(value: &Value) -> bool {
    whole(value, 0..=RetryDelay::MAX.get().into())
}

/// In digits: what is written as 5.0 is an integer to the schema.
fn whole(value: &Value, range: RangeInclusive<u64>) -> bool {
    value.as_u64().is_some_and(|number| range.contains(&number))
}

/// Off the limits, which a number that is not quite one of them is rounded to, and in digits, perhaps with a point.
fn number(value: &Value, min: f64, max: f64) -> bool {
    value.as_f64().is_some_and(|number| min < number && number < max)
        && !value.to_string().contains(['e', 'E'])
}

#[cfg(test)]
mod tests;
