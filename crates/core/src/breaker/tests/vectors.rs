//! The steps of `schemas/vectors/breaker.json`, which the libraries' tests read too.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Vector {
    name: String,
    circuit_breaker: Box<RawValue>,
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Step {
    at_ms: i64,
    #[serde(flatten)]
    operation: Operation,
    #[serde(default)]
    expect: Value,
    #[serde(default)]
    open_since_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Ask(String),
    Record {
        permit: String,
        met: Ending,
        message_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        tenant: Option<String>,
    },
    GiveBack(String),
    Learn {
        down_since_ms: i64,
        told_at_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Answer,
    Outage,
}

/// 2026-01-01T00:00:00Z.
const BEGINNING_MS: i64 = 1_767_225_600_000;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/vectors/breaker.json");

fn moment_of(milliseconds: i64) -> Timestamp {
    Timestamp::from_timestamp_millis(BEGINNING_MS + milliseconds).unwrap()
}

fn told(change: Option<Change>) -> Value {
    match change {
        None => Value::Null,
        Some(Change::Opened { calls, outages, probe_in }) => {
            json!({"opened": {"calls": calls, "outages": outages, "probe_in_ms": probe_in.as_millis()}})
        }
        Some(Change::ProbeFailed { probe_in }) => {
            json!({"probe_failed": {"probe_in_ms": probe_in.as_millis()}})
        }
        Some(Change::Closed { open_for, probes }) => {
            json!({"closed": {"open_for_ms": open_for.as_millis(), "probes": probes}})
        }
    }
}

/// The same steps, with what the breaker says to each.
fn walked(Vector { name, circuit_breaker, steps }: &Vector) -> Vec<Step> {
    let policy = Policy::from_json(&format!(r#"{{"circuit_breaker":{circuit_breaker}}}"#)).unwrap();
    let mut breaker = Breaker::new(policy.circuit_breaker.unwrap());
    let mut permits = BTreeMap::new();
    let walked = |&Step { at_ms, ref operation, .. }: &Step| {
        let now = moment_of(at_ms);
        let mut taken =
            |permit: &str| permits.remove(permit).unwrap_or_else(|| panic!("{name}: no permit {permit}"));
        let expect = match operation {
            Operation::Ask(permit_name) => match breaker.ask(now) {
                Permission::Call(permit) => {
                    let is_probe = permit.is_probe();
                    let namesake = permits.insert(permit_name.clone(), permit);
                    assert!(namesake.is_none(), "{name}: two permits {permit_name}");
                    json!(if is_probe { "probe" } else { "call" })
                }
                Permission::Wait => json!("wait"),
                Permission::Hold => json!("hold"),
            },
            Operation::Record { permit, met, message_id, tenant } => {
                let met = match met {
                    Ending::Answer => Met::Answer,
                    Ending::Outage => Met::Outage,
                };
                told(breaker.record(
                    taken(permit),
                    met,
                    Uuid::parse_str(message_id).unwrap(),
                    tenant.as_deref().map(Tenant::of),
                    now,
                ))
            }
            Operation::GiveBack(permit) => {
                breaker.give_back(taken(permit));
                Value::Null
            }
            &Operation::Learn { down_since_ms, told_at_ms } => {
                breaker.learn(moment_of(down_since_ms), moment_of(told_at_ms), now);
                Value::Null
            }
        };
        let open_since_ms = breaker.open_since().map(|since| since.timestamp_millis() - BEGINNING_MS);
        Step { at_ms, operation: operation.clone(), expect, open_since_ms }
    };
    steps.iter().map(walked).collect()
}

/// A step a line.
fn written(vectors: &[Vector]) -> String {
    let vector = |vector: &Vector| {
        let steps =
            walked(vector).iter().map(|step| serde_json::to_string(step).unwrap()).collect::<Vec<_>>();
        format!(
            "  {{\n    \"name\": {},\n    \"circuit_breaker\": {},\n    \"steps\": [\n      {}\n    ]\n  }}",
            json!(vector.name),
            vector.circuit_breaker,
            steps.join(",\n      ")
        )
    };
    format!("[\n{}\n]\n", vectors.iter().map(vector).collect::<Vec<_>>().join(",\n"))
}

/// `cargo test --workspace --lib fill_in_the_steps_of_the_vectors -- --ignored`, after a step was added. Read what it
/// has filled in.
#[test]
#[ignore = "writes what the breaker says instead of comparing it"]
#[expect(clippy::disallowed_methods, reason = "a file of the repository")]
fn fill_in_the_steps_of_the_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    fs::write(FILE, written(&vectors)).unwrap();
}

#[test]
fn every_step_of_the_vectors_meets_what_they_say() {
    let file = fs::read_to_string(FILE).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&file).unwrap();
    for vector in &vectors {
        for (number, (is, should_be)) in walked(vector).iter().zip(&vector.steps).enumerate() {
            assert_eq!(is, should_be, "{}: step {number}", vector.name);
        }
    }
    assert!(
        written(&vectors) == file,
        "it has members that nothing reads, or another layout: fill it in anew"
    );
}
