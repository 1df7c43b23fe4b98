//! The worst cases in `schemas/vectors/policies.json`, which the stack's tests also read.

use serde::Deserialize;
use serde_json::Value;

use super::{Policy, Schedule, Strategy, WorstCase};

/// Policies with more retries are skipped: a schedule of a thousand retries takes minutes to compute.
const RETRIES_MAX: u32 = 100;

#[derive(Deserialize)]
struct Vector {
    name: String,
    accepted: Option<AcceptedPolicy>,
}

#[derive(Deserialize)]
struct AcceptedPolicy {
    means: Value,
    worst_case_span_seconds: u64,
    least_retention_seconds: Option<u64>,
}

#[test]
fn worst_cases_and_retentions_match_the_vectors() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/policies.json")).unwrap();
    for (name, accepted) in
        vectors.into_iter().filter_map(|Vector { name, accepted }| Some((name, accepted?)))
    {
        let policy = Policy::from_json(&accepted.means.to_string()).unwrap();
        if policy.max_attempts > RETRIES_MAX {
            continue;
        }
        let longest_seconds = Schedule::for_policy(&policy).longest_seconds;
        let strategy = Strategy::DelayedResend;
        let worst_case = |retention| WorstCase::for_policy(&policy, strategy, longest_seconds, retention);
        assert_eq!(worst_case(60).worst_case_seconds, accepted.worst_case_span_seconds, "{name}");
        match accepted.least_retention_seconds {
            Some(least) => assert!(worst_case(least).fits && !worst_case(least - 1).fits, "{name}"),
            None => assert!(worst_case(60).fits, "{name}"),
        }
    }
}
