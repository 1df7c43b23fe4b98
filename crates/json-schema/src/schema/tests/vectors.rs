//! Tests with the schemas in `schemas/vectors/patterns.json`, which the stack's tests also use.

use serde_json::Value;

use crate::Schema;

/// If the stack accepted a schema that is refused here, it would deploy the schema, and no function would start.
#[test]
fn patterns_are_refused_exactly_as_the_vectors_specify() {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/patterns.json")).unwrap();
    for vector in vectors {
        let error = Schema::from_value(&vector["schema"]).err().map(|error| error.to_string());
        let place = error.as_deref().map(|error| {
            let place = error.strip_prefix("not a valid JSON Schema: ").unwrap_or(error);
            place.split_once(": ").map_or(place, |(pointer, _)| pointer)
        });
        assert_eq!(place, vector["refused"].as_str(), "{}", vector["name"]);
    }
}
