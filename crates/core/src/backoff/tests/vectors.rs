//! The delays of `schemas/vectors/backoff.json`, which the stack's tests read too.

use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Deserialize)]
struct Vector {
    name: String,
    policy: Value,
    message_id: String,
    generation: u32,
    retries: Vec<Retry>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Retry {
    attempt: u32,
    shortest_seconds: u16,
    longest_seconds: u16,
    delay_seconds: u16,
}

#[test]
fn every_delay_of_the_vectors_is_computed_to_the_second() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/backoff.json")).unwrap();
    for Vector { name, policy, message_id, generation, retries } in vectors {
        let policy = Policy::from_json(&policy.to_string()).unwrap();
        let message_id = Uuid::parse_str(&message_id).unwrap();
        let computed = retries.iter().map(|&Retry { attempt, .. }| {
            let (shortest, longest) = bounds(&policy, attempt).into_inner();
            let delay = delay(&policy, Key { message_id, generation, attempt });
            Retry {
                attempt,
                shortest_seconds: shortest.get(),
                longest_seconds: longest.get(),
                delay_seconds: delay.get(),
            }
        });
        assert_eq!(computed.collect::<Vec<_>>(), retries, "{name}");
    }
}
