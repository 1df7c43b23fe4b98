//! Named policies: the retry presets of AWS's durable execution SDKs (`RetryPresets` in the Python SDK has all five;
//! the others have only `default` and `no retry`). Their `max_attempts` includes the first call; ours does not.

use serde_json::{Map, Value, json};

/// Expands a preset; the schema reports an unknown name.
pub(super) fn expand_preset(policy: &mut Map<String, Value>) {
    if let Some(preset) = policy.get("preset").and_then(Value::as_str).and_then(preset_members) {
        policy.remove("preset");
        super::add_defaults(policy, preset);
    }
}

fn preset_members(name: &str) -> Option<Map<String, Value>> {
    let (calls, initial, max, rate, jitter) = match name {
        "durable_default" => (6, 5, 60, 2.0, "full"),
        "durable_none" => (1, 5, 60, 2.0, "full"),
        "durable_transient" => (3, 5, 300, 2.0, "half"),
        "durable_resource_availability" => (5, 5, 300, 2.0, "full"),
        "durable_critical" => (10, 1, 60, 1.5, "none"),
        _ => return None,
    };
    let backoff = json!({
        "kind": "exponential",
        "initial_delay_seconds": initial,
        "max_delay_seconds": max,
        "rate": rate,
        "jitter": jitter,
    });
    Some(Map::from_iter([
        ("max_attempts".to_owned(), Value::from(calls - 1)),
        ("backoff".to_owned(), backoff),
    ]))
}
