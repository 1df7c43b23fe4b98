//! The longest ways of `schemas/vectors/policies.json`, which the stack's tests read too.

use serde::Deserialize;
use serde_json::Value;

use super::{Policy, Schedule, Span};

/// The chances of a thousand retries take minutes to compute.
const RETRIES_MAX: u32 = 100;

#[derive(Deserialize)]
struct Vector {
    name: String,
    accepted: Option<Accepted>,
}

#[derive(Deserialize)]
struct Accepted {
    means: Value,
    worst_case_span_seconds: u64,
    least_retention_seconds: Option<u64>,
}

#[test]
fn the_longest_way_and_the_retention_that_it_fits_into_are_those_of_the_vectors() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/policies.json")).unwrap();
    for (name, accepted) in
        vectors.into_iter().filter_map(|Vector { name, accepted }| Some((name, accepted?)))
    {
        let policy = Policy::from_json(&accepted.means.to_string()).unwrap();
        if policy.max_attempts > RETRIES_MAX {
            continue;
        }
        let longest_seconds = Schedule::of(&policy).longest_seconds;
        let span = |retention_seconds| Span::of(&policy, longest_seconds, retention_seconds);
        assert_eq!(span(60).worst_case_seconds, accepted.worst_case_span_seconds, "{name}");
        match accepted.least_retention_seconds {
            Some(least) => assert!(span(least).fits && !span(least - 1).fits, "{name}"),
            None => assert!(span(60).fits, "{name}"),
        }
    }
}
