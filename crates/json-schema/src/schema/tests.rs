//! Violations and rejected schemas.

mod refusals;
mod vectors;
mod verdicts;

use serde_json::json;

use super::*;

fn violations(schema: &Value, instance: &Value) -> Vec<Violation> {
    Schema::new(&schema.to_string()).unwrap().violations(instance, "")
}

/// An array of `count` items.
fn array(count: usize, item: impl Fn(usize) -> String) -> Value {
    let items: Vec<_> = (0..count).map(item).collect();
    serde_json::from_str(&format!("[{}]", items.join(","))).unwrap()
}

#[test]
fn extreme_exponents_are_compared_by_value() {
    let far = array(1000, |index| format!("{index}e999999"));
    assert_eq!(violations(&json!({"items": {"multipleOf": 0.01, "minimum": 0}}), &far), []);
    let near_zero = array(1000, |_| "1e-999999999999".to_owned());
    assert_eq!(violations(&json!({"items": {"maximum": 1e300}}), &near_zero), []);
    assert_eq!(violations(&json!({"items": {"maximum": 0}}), &near_zero).len(), 100);
    assert_eq!(violations(&json!({"items": {"type": "integer"}}), &near_zero).len(), 100);
}

#[test]
fn a_const_number_is_compared_by_value() {
    let schema = json!({"items": {"const": 0.5}});
    let halves = array(4, |index| ["0.5", "5e-1", "0.50", "50E-2"][index].to_owned());
    assert_eq!(violations(&schema, &halves), []);
    let other = array(1, |_| "0.50000000000000000001".to_owned());
    assert_eq!(violations(&schema, &other), [Violation::new("/0", "0.5 was expected")]);
}

/// Each level doubles the violations of the level below.
#[test]
fn violations_of_a_recursive_anyof_schema_are_bounded() {
    let branch = |name: &str| json!({"required": [name], "properties": {"c": {"$ref": "#/$defs/n"}}});
    let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [branch("a"), branch("b")]}}});
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"c": inner}));
    let rule = "is not valid under any of the schemas listed in the 'anyOf' keyword";
    assert_eq!(violations(&schema, &nested(3)), [Violation::new("", rule)]);
    let rule = "violates the schema in too many places to list";
    assert_eq!(violations(&schema, &nested(100)), [Violation::new("", rule)]);
}

#[test]
fn violations_beyond_the_budget_are_not_reported() {
    let schema = json!({"items": {"type": "string"}, "contains": {"const": "here"}, "minItems": 5, "maxItems": 500_000});
    let found = violations(&schema, &array(500_000, |_| "0".to_owned()));
    assert_eq!(found.len(), 100);
    let is_item_violation = |violation: &Violation| violation.rule == "is not of type \"string\"";
    assert!(
        found.iter().filter(|violation| !violation.pointer.is_empty()).all(is_item_violation),
        "{found:?}"
    );
}

#[test]
fn violation_text_is_bounded_for_pointers_as_long_as_a_message() {
    let long = json!({"n".repeat(500_000): vec![0; 200_000]});
    let schema = json!({"additionalProperties": {"items": {"type": "string"}}});
    let found = violations(&schema, &long);
    assert_eq!(found.len(), 1);
    let names: serde_json::Map<_, _> =
        (0..50).map(|index| (format!("{index}{}", "n".repeat(1000)), json!(0))).collect();
    let found = violations(&json!({"additionalProperties": {"maximum": -1}}), &Value::Object(names.clone()));
    assert_eq!(found.len(), 50);
    let deep = json!({"n".repeat(10_000): names});
    let found = violations(
        &json!({"additionalProperties": {"properties": {"x": true}, "additionalProperties": false}}),
        &deep,
    );
    assert_eq!(found.len(), 6, "the first six take 66 kilobytes");
}

#[test]
fn a_divisor_with_more_than_37_digits_is_refused_at_compilation() {
    let schema = |divisor: &str| Schema::new(&format!(r#"{{"multipleOf":{divisor}}}"#)).map(drop);
    assert_eq!(schema(&"9".repeat(37)), Ok(()));
    let error = schema(&"9".repeat(38)).unwrap_err().to_string();
    assert!(error.contains("\"multipleOf\" is 0, or has more than 37 digits"), "{error}");
}

#[test]
fn a_divisor_of_zero_is_refused_even_where_the_meta_schema_is_not_applied() {
    for schema in [r#"{"multipleOf":0}"#, r##"{"$ref":"#/price","price":{"multipleOf":0.0}}"##] {
        let refused = Schema::new(schema).map(|schema| schema.violations(&json!(1), ""));
        assert!(refused.is_err(), "{schema}: {refused:?}");
    }
}

#[test]
fn exclusive_limits_of_older_drafts_are_supported() {
    let draft4 = |rule: &str| format!(r#"{{"$schema":"http://json-schema.org/draft-04/schema#",{rule}}}"#);
    for (rule, value, expected) in [
        (r#""minimum":1,"exclusiveMinimum":true"#, "1", Some("is less than or equal to the minimum of 1")),
        (r#""minimum":1,"exclusiveMinimum":false"#, "1", None),
        (
            r#""maximum":1,"exclusiveMaximum":true"#,
            "1.0",
            Some("is greater than or equal to the maximum of 1"),
        ),
        (r#""maximum":1"#, "1e0", None),
    ] {
        let value: Value = serde_json::from_str(value).unwrap();
        let found = Schema::new(&draft4(rule)).unwrap().violations(&value, "");
        assert_eq!(found.first().map(|violation| violation.rule.as_str()), expected, "{rule}");
    }
}

/// If such items counted as equal, a valid message would be given up.
#[test]
fn different_items_with_json_syntax_in_their_strings_are_unique() {
    let schema = json!({"uniqueItems": true});
    for different in [
        json!([["a", "b"], ["a\"b"]]),
        json!([{"a": "b"}, {"a\"b": ""}]),
        json!([["a"], "[\"a\"]", "a", {"a": "a"}]),
        json!([1, "1", "+1e", [1], true, "t", null, "n", "", [], {}]),
        json!([{"a": 1, "b": 2}, {"a": 2, "b": 1}, [["a", 1], ["b", 2]]]),
    ] {
        assert_eq!(violations(&schema, &different), [], "{different}");
    }
    for same in [json!([{"a": 1, "b": [2]}, {"b": [2], "a": 1}]), json!([["a\"b"], ["a\"b"]])] {
        assert_eq!(violations(&schema, &same).len(), 1, "{same}");
    }
}
