use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;

fn checked(schema: &Value, instance: &Value) -> (Vec<Violation>, u64) {
    let schema = Schema::new(&schema.to_string()).unwrap();
    let meter = Meter::new(schema.names);
    let found = violation::violations(&schema.validator, instance, &meter, "");
    (found, meter.spent())
}

fn takes_too_long(schema: &Value, instance: &Value) -> bool {
    let (found, _) = checked(schema, instance);
    found.iter().any(|violation| violation.rule.starts_with("takes too long to check"))
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_long_decimal_costs_what_its_digits_cost() {
    let decimals =
        |digits: usize| read(&format!("[{}]", vec![format!("0.{}", "7".repeat(digits)); 100].join(",")));
    for rule in [
        json!({"multipleOf": 0.01}),
        json!({"minimum": 0.1}),
        json!({"exclusiveMaximum": 1.5}),
        json!({"enum": [0.1]}),
        json!({"type": "integer"}),
    ] {
        let schema = json!({"items": rule});
        let ([_, short], [_, long]) = ([999, 9_990])
            .map(|digits| checked(&schema, &decimals(digits)))
            .map(|(_, steps)| [0, steps])
            .into();
        assert!(long < 11 * short, "{rule}: {short} steps, of ten times the digits {long}");
    }
}
