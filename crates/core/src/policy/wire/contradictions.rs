//! Rules between members, which the schema cannot say, or not in words that help.

use serde_json::Value;

use super::{patterns, seconds};
use crate::limits::RetryDelay;
use crate::schema::Violation;

/// 14 days, the longest retention of SQS ("Amazon SQS message quotas").
const RETENTION_SECONDS_MAX: u64 = 1_209_600;

/// All of them, with the pointer of the culprit.
pub(super) fn of(document: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let backoff = &document["backoff"];
    if document.get("preset").is_some() && document.get("backoff").is_some() {
        found
            .push(Violation::new("/backoff", "stands beside preset, which is a backoff: remove one of them"));
    }
    if document["long_delays"].as_bool() != Some(true) {
        found.extend(too_long(document));
    }
    let max_delay = seconds(&backoff["max_delay_seconds"]).or_else(|| {
        // Where an exponential backoff has no cap of its own, it is 900 s, also with long delays.
        let is_default = document["long_delays"] == true && backoff["kind"] == "exponential";
        is_default.then(|| RetryDelay::SHORT_MAX.get().into())
    });
    if let (Some(initial), Some(max)) = (seconds(&backoff["initial_delay_seconds"]), max_delay)
        && initial > max
    {
        found.push(Violation::new(
            "/backoff/initial_delay_seconds",
            "is more than max_delay_seconds (900 unless set)",
        ));
    }
    if let (Some(spread), Some(max)) = (seconds(&backoff["jitter"]["max_seconds"]), max_delay)
        && spread > max
    {
        found.push(Violation::new(
            "/backoff/jitter/max_seconds",
            "is more than max_delay_seconds (900 unless set)",
        ));
    }
    let retryable = patterns(&document["retryable"]);
    for (index, pattern) in patterns(&document["non_retryable"]).iter().enumerate() {
        if retryable.contains(pattern) {
            found.push(Violation::new(format!("/non_retryable/{index}"), "stands in retryable too"));
        }
    }
    found
}

/// What only hops can wait for.
fn too_long(document: &Value) -> Vec<Violation> {
    let short = u64::from(RetryDelay::SHORT_MAX.get());
    let backoff = &document["backoff"];
    let named = ["max_delay_seconds", "initial_delay_seconds", "offset_seconds", "delay_seconds"];
    let delays = named.map(|name| (format!("/backoff/{name}"), &backoff[name]));
    let listed = backoff["delays_seconds"].as_array().into_iter().flatten().enumerate();
    let listed = listed.map(|(index, delay)| (format!("/backoff/delays_seconds/{index}"), delay));
    let spread = ("/backoff/jitter/max_seconds".to_owned(), &backoff["jitter"]["max_seconds"]);
    let delays = delays.into_iter().chain(listed).chain([spread]);
    let delays = delays.filter(|(_, delay)| seconds(delay).is_some_and(|delay| delay > short));
    let rule = "is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true";
    let mut found: Vec<_> = delays.map(|(pointer, _)| Violation::new(pointer, rule)).collect();
    if seconds(&document["max_age_seconds"]).is_some_and(|age| age > RETENTION_SECONDS_MAX) {
        let rule = "is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true";
        found.push(Violation::new("/max_age_seconds", rule));
    }
    found
}
