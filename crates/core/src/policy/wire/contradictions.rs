//! Rules between members that the schema cannot express or cannot explain well.

use redeliver_json_schema::pointer_to;
use serde::Deserialize as _;
use serde_json::Value;

use super::parse_object;
use crate::limits::RetryDelay;
use crate::message::schema::Violation;
use crate::policy::{Backoff, Jitter};

/// 14 days, SQS's maximum retention ("Amazon SQS message quotas").
const RETENTION_SECONDS_MAX: u32 = 1_209_600;

/// Checks the document as written, before its preset is expanded.
pub(super) fn check_preset_and_backoff(document: &Value) -> Option<Violation> {
    let is_set = |name: &str| document.get(name).is_some();
    let rule = "conflicts with preset, which sets the backoff: remove one of them";
    (is_set("preset") && is_set("backoff")).then(|| Violation::new("/backoff", rule))
}

/// Finds all other contradictions, with a pointer to the invalid member. The schema reports parts that cannot be
/// parsed; the rest is still checked, so that one error lists every mistake.
pub(super) fn find_contradictions(document: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let has_long_delays = document["long_delays"] == true;
    if !has_long_delays {
        report_long_delays(&document["backoff"], "/backoff", &mut found);
        if exceeds(&document["max_age_seconds"], RETENTION_SECONDS_MAX) {
            let rule =
                "is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true";
            found.push(Violation::new("/max_age_seconds", rule));
        }
    }
    if let Ok(backoff) = parse_object(&document["backoff"]) {
        let limit = if has_long_delays { RetryDelay::MAX } else { RetryDelay::SHORT_MAX };
        found.extend(find_delays_above_cap(&backoff, limit));
    }
    found.extend(find_globs_in_both_lists(document));
    found
}

/// Reports delays that require hops. In a backoff, every number in a member named `…_seconds` is a delay.
fn report_long_delays(value: &Value, pointer: &str, found: &mut Vec<Violation>) {
    match value {
        Value::Object(members) => {
            members
                .iter()
                .for_each(|(name, value)| report_long_delays(value, &pointer_to(pointer, name), found));
        }
        Value::Array(items) if pointer.ends_with("_seconds") => {
            let delays = items.iter().enumerate().filter(|(_, delay)| is_too_long(delay));
            found
                .extend(delays.map(|(index, _)| Violation::new(format!("{pointer}/{index}"), TOO_LONG_RULE)));
        }
        delay if pointer.ends_with("_seconds") && is_too_long(delay) => {
            found.push(Violation::new(pointer, TOO_LONG_RULE));
        }
        _ => {}
    }
}

const TOO_LONG_RULE: &str =
    "is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true";

fn is_too_long(delay: &Value) -> bool {
    exceeds(delay, RetryDelay::SHORT_MAX.get().into())
}

fn exceeds(seconds: &Value, limit: u32) -> bool {
    seconds.as_f64().is_some_and(|seconds| seconds > limit.into())
}

/// Finds delays that exceed the backoff's own cap. Delays above `limit`, which applies to every backoff, are already
/// reported.
fn find_delays_above_cap(backoff: &Backoff, limit: RetryDelay) -> Vec<Violation> {
    let Backoff::Exponential { initial_delay, max_delay, jitter, .. } = backoff else {
        return Vec::new();
    };
    let spread = if let Jitter::Additive { max } = jitter { *max } else { RetryDelay::ZERO };
    let delays =
        [("/backoff/initial_delay_seconds", *initial_delay), ("/backoff/jitter/max_seconds", spread)];
    let above = delays.into_iter().filter(|(_, delay)| delay > max_delay && *delay <= limit);
    above
        .map(|(pointer, _)| Violation::new(pointer, "is more than max_delay_seconds (900 unless set)"))
        .collect()
}

fn find_globs_in_both_lists(document: &Value) -> Vec<Violation> {
    let globs = |name: &str| Vec::<String>::deserialize(&document[name]).unwrap_or_default();
    let retryable = globs("retryable");
    let both = globs("non_retryable").into_iter().enumerate().filter(|(_, glob)| retryable.contains(glob));
    both.map(|(index, _)| Violation::new(format!("/non_retryable/{index}"), "is also in retryable")).collect()
}
