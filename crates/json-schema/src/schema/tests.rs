//! The documents that the meter lets pass.

mod evaluations;
mod refusals;
mod verdicts;

use serde_json::json;

use super::*;

fn checked(schema: &Value, instance: &Value) -> (Vec<Violation>, u64) {
    let schema = Schema::new(&schema.to_string()).unwrap();
    let meter = schema.meter();
    let found = check::violations(&schema.validator, instance, &meter, "");
    (found, meter.spent())
}

fn takes_too_long(schema: &Value, instance: &Value) -> bool {
    let (found, _) = checked(schema, instance);
    found.iter().any(|violation| violation.rule.starts_with("takes too long to check"))
}

/// An array of `count` items.
fn array(count: usize, item: impl Fn(usize) -> String) -> Value {
    let items: Vec<_> = (0..count).map(item).collect();
    serde_json::from_str(&format!("[{}]", items.join(","))).unwrap()
}

#[test]
fn a_long_decimal_costs_what_its_digits_cost() {
    let decimals = |digits: usize| array(100, |_| format!("0.{}", "7".repeat(digits)));
    for rule in [
        json!({"multipleOf": 0.01}),
        json!({"multipleOf": 0.07}),
        json!({"minimum": 0.8}),
        json!({"exclusiveMaximum": 1.5}),
        json!({"enum": [0.1]}),
        json!({"type": "integer"}),
    ] {
        let schema = json!({"items": rule});
        let (_, short) = checked(&schema, &decimals(999));
        let (_, long) = checked(&schema, &decimals(9_990));
        assert!(long < 11 * short, "{rule}: {short} steps, and {long} of ten times the digits");
        assert!(!takes_too_long(&schema, &decimals(9_990)), "{rule}");
    }
}

#[test]
fn exponents_cost_nothing() {
    let far = array(90_000, |index| format!("{index}e999999"));
    assert!(checked(&json!({"items": {"multipleOf": 0.01, "minimum": 0}}), &far).0.is_empty());
    let found = checked(&json!({"items": {"maximum": 1e300}}), &array(1, |_| "1e-999999999999".to_owned())).0;
    assert_eq!(found, []);
}

#[test]
fn what_is_ordinary_passes() {
    let prices = json!({"items": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 100_000}});
    let price = |index: usize| format!("{}.{:02}", index % 1000, index % 100);
    let forty = |index: usize| format!("0.{index:040}");
    for (schema, document) in [
        (prices, array(100_000, price)),
        (json!({"items": {"minimum": 0, "exclusiveMaximum": 1}}), array(20_000, forty)),
        (json!({"uniqueItems": true}), array(100_000, |index| index.to_string())),
        (json!({"uniqueItems": true}), array(30_000, |index| format!("{{\"id\":\"order-{index}\"}}"))),
        (
            json!({"items": {"maxLength": 1_000_000, "minLength": 1}}),
            array(1, |_| format!("\"{}\"", "é".repeat(500_000))),
        ),
        (
            json!({"items": {"pattern": "^[A-Z]{2}-[0-9]+$"}}),
            array(80_000, |index| format!("\"DE-{index}\"")),
        ),
        (
            json!({"items": {"pattern": "^[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\\.[a-zA-Z0-9-.]+$"}}),
            array(40_000, |index| format!("\"user.{index}@example.com\"")),
        ),
        (
            json!({"items": {"pattern": "\\border\\b"}}),
            array(10_000, |index| format!("\"the order of Müller, {index}\"")),
        ),
        (json!({"items": {"pattern": "[0-9a-f]{64}"}}), array(2_000, |index| format!("\"{index:064x}\""))),
        (
            json!({"items": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}),
            array(25_000, |index| format!("\"{index:08x}-0000-0000-0000-000000000000\"")),
        ),
        (
            json!({"items": {"pattern": "^(?!\\s*$).+"}}),
            array(20_000, |index| format!("\"a line of text {index}\"")),
        ),
        (
            json!({"items": {"pattern": "^(?!\\s*$).+"}}),
            array(1, |_| format!("\"{}\"", "text ".repeat(100_000))),
        ),
        (
            json!({"items": {"pattern": "^(?=.*[a-z])(?=.*\\d).{8,}$"}}),
            array(5_000, |index| format!("\"password{index}\"")),
        ),
        (
            json!({"items": {"pattern": "foo(?!bar)"}}),
            array(1, |_| format!("\"{} foo\"", "a".repeat(10_000))),
        ),
        (
            json!({"items": {"patternProperties": {"^(?!x-)": true}, "additionalProperties": false}}),
            array(2_000, |index| format!("{{\"name{index}\":0}}")),
        ),
        (
            json!({"items": {"enum": (0..100).collect::<Vec<_>>()}}),
            array(10_000, |index| (index % 100).to_string()),
        ),
    ] {
        let (found, steps) = checked(&schema, &document);
        assert_eq!(found, [], "{schema} after {steps} steps");
    }
}

#[test]
fn what_would_burn_the_time_of_a_batch_is_refused_and_its_place_is_named() {
    let tree = |way: &str| {
        let branch = |name: &str| json!({"required": [name], "properties": {"c": {"$ref": "#/$defs/n"}}});
        json!({"$ref": "#/$defs/n", "$defs": {"n": {way: [branch("a"), branch("b")]}}})
    };
    let nested = (0..100).fold(json!({}), |inner, _| json!({"c": inner}));
    let nest = |levels: usize, inner: Value| (0..levels).fold(inner, |inner, _| Value::Array(vec![inner]));
    for (schema, document) in [
        (tree("anyOf"), nested.clone()),
        (
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"uniqueItems": true, "items": {"$ref": "#/$defs/n"}}}}),
            nest(120, array(140_000, |index| index.to_string())),
        ),
        (json!({"items": {"pattern": "^(a|a)*\\1b"}}), array(30_000, |_| format!("\"{}!\"", "a".repeat(30)))),
        (json!({"items": {"pattern": "(?=.*x)y"}}), array(1, |_| format!("\"{}\"", "a".repeat(100_000)))),
        (
            json!({"items": {"pattern": "(?:a|b)*a(?:a|b){200}c"}}),
            array(1, |_| format!("\"{}\"", "ab".repeat(500_000))),
        ),
        (
            json!({"items": {"patternProperties": {"^(a|a)*\\1b": true}}}),
            array(30_000, |_| format!("{{\"{}!\":0}}", "a".repeat(25))),
        ),
    ] {
        let schema = Schema::new(&schema.to_string()).unwrap();
        let found = schema.violations(&document, "/data");
        let [Violation { pointer, rule }] = &found[..] else { panic!("{found:?} for {schema:?}") };
        assert_eq!(pointer, "/data");
        assert!(rule.starts_with("takes too long to check"), "{rule}");
    }
    // Violations found earlier are reported instead.
    let candidates: Vec<_> = (100..1100).collect();
    let (found, steps) =
        checked(&json!({"items": {"enum": candidates}}), &array(500_000, |_| "1".to_owned()));
    assert_eq!((found.len(), steps), (100, 400_000_000), "all of the budget");
    assert_eq!(found[0].pointer, "/0");
    assert!(takes_too_long(&tree("anyOf"), &nested));
    assert!(!takes_too_long(&tree("anyOf"), &json!({"c": {"c": {}}})));
}

#[test]
fn what_was_found_before_the_meter_ran_out_is_told_and_nothing_else() {
    let schema =
        json!({"type": "array", "items": {"type": "string"}, "contains": {"const": "here"}, "minItems": 5});
    let (found, _) = checked(&schema, &array(500_000, |_| "0".to_owned()));
    assert_eq!(found.len(), 100);
    let told = |violation: &Violation| violation.rule.as_str() == "is not of type \"string\"";
    assert!(found.iter().filter(|violation| !violation.pointer.is_empty()).all(told), "{found:?}");
    assert!(found.iter().all(|violation| !violation.rule.contains("takes too long")));
}

#[test]
fn the_text_of_violations_is_bounded_where_a_place_is_as_long_as_a_message() {
    let long = json!({"n".repeat(500_000): vec![0; 200_000]});
    let schema = json!({"additionalProperties": {"items": {"type": "string"}}});
    let (found, _) = checked(&schema, &long);
    assert_eq!(found.len(), 1);
    let names: serde_json::Map<_, _> =
        (0..50).map(|index| (format!("{index}{}", "n".repeat(1000)), json!(0))).collect();
    let (found, _) =
        checked(&json!({"additionalProperties": {"maximum": -1}}), &Value::Object(names.clone()));
    assert_eq!(found.len(), 50);
    let deep = json!({"n".repeat(10_000): names});
    let (found, _) = checked(
        &json!({"additionalProperties": {"properties": {"x": true}, "additionalProperties": false}}),
        &deep,
    );
    assert_eq!(found.len(), 6, "the first six are 66 kilobytes");
}

#[test]
fn a_divisor_of_more_than_37_digits_is_refused_when_the_schema_is_read() {
    let schema = |divisor: &str| Schema::new(&format!(r#"{{"multipleOf":{divisor}}}"#)).map(drop);
    assert_eq!(schema(&"9".repeat(37)), Ok(()));
    let error = schema(&"9".repeat(38)).unwrap_err().to_string();
    assert!(error.contains("\"multipleOf\" is 0, or has more than 37 digits"), "{error}");
}

#[test]
fn a_divisor_of_zero_is_refused_also_where_the_meta_schema_does_not_look() {
    for schema in [r#"{"multipleOf":0}"#, r##"{"$ref":"#/price","price":{"multipleOf":0.0}}"##] {
        let refused = Schema::new(schema).map(|schema| schema.violations(&json!(1), ""));
        assert!(refused.is_err(), "{schema}: {refused:?}");
    }
}

#[test]
fn the_older_drafts_exclusive_ends_are_kept() {
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

/// Otherwise a valid message would be given up.
#[test]
fn different_items_are_unique_whatever_signs_their_texts_have() {
    let schema = json!({"uniqueItems": true});
    for different in [
        json!([["a", "b"], ["a\"b"]]),
        json!([{"a": "b"}, {"a\"b": ""}]),
        json!([["a"], "[\"a\"]", "a", {"a": "a"}]),
        json!([1, "1", "+1e", [1], true, "t", null, "n", "", [], {}]),
        json!([{"a": 1, "b": 2}, {"a": 2, "b": 1}, [["a", 1], ["b", 2]]]),
    ] {
        assert_eq!(checked(&schema, &different).0, [], "{different}");
    }
    for same in [json!([{"a": 1, "b": [2]}, {"b": [2], "a": 1}]), json!([["a\"b"], ["a\"b"]])] {
        assert_eq!(checked(&schema, &same).0.len(), 1, "{same}");
    }
}

#[test]
fn names_cost_what_the_dearest_pattern_takes_wherever_it_stands() {
    let names: serde_json::Map<_, _> =
        (0..10).map(|n| (format!("{n}{}", "ab".repeat(500)), json!(0))).collect();
    let dear = || json!({"patternProperties": {"(?:a|b){200}c": true}});
    let steps = |schema: Value| checked(&schema, &Value::Object(names.clone())).1;
    // 200 steps for a byte, and 40 for each of some 200 states.
    let direct = steps(dear());
    assert!(direct > 10 * 1000 * 8000, "{direct}");
    for nested in
        [json!({"allOf": [dear()]}), json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [dear()]}}})]
    {
        let nested_steps = steps(nested.clone());
        assert!(
            nested_steps >= direct,
            "{nested}: {nested_steps} steps, and {direct} where nothing is around it"
        );
    }
}

#[test]
fn a_look_at_a_member_and_a_violation_have_their_price() {
    let steps = |schema: Value, document: &Value| checked(&schema, document).1;
    let many: serde_json::Map<_, _> = (0..100).map(|n| (n.to_string(), json!(0))).collect();
    let many = Value::Object(many);
    let looked_up = |name: String| steps(json!({"properties": {name: {"type": "string"}}}), &many);
    assert_eq!(
        looked_up("n".repeat(1001)) - looked_up("n".to_owned()),
        10_000,
        "names are compared byte by byte"
    );
    let violated = steps(json!({"items": {"type": "string"}}), &json!([0]));
    assert!(violated > 30_000, "{violated} steps for a violation, which takes half a kilobyte");
}

#[test]
fn a_byte_costs_as_many_looks_as_an_attempt_has_states_and_attempts_begin_where_they_may() {
    let of = pattern::cost_of_byte;
    // After ^ there is one attempt, and the DFA has few states.
    assert_eq!((of("^[0-9a-f]{64}$"), of("^a|b"), of(r"^\w+$")), (0, 0, 0));
    // An alternative without ^ begins anywhere: 200 repetitions, one class and one bar.
    assert_eq!(of("^x|[ab]{200}c"), 200 + 40 * 202);
    assert_eq!(of("^[ab]{3,}[ab]{200}"), 200 + 40 * 205);
    // Nested repetitions multiply their states.
    assert_eq!(of("((a|b){30}){30}c"), 200 + 40 * 900);
    assert_eq!(of(r"\border\b"), 200, "in Unicode it cannot be known");
    // In a long pattern each character may be a state, with or without ^.
    assert_eq!(of(&"a".repeat(256)), 0);
    assert_eq!(of(&format!("^{}", "x?y?".repeat(100))), 200 + 40 * 145);
    // After ^ one repetition is in one state at a time; two that overlap, or one of a group, may be in many.
    assert_eq!((of("^.{1,10000}$"), of(r"^\p{L}{1,1000}$")), (0, 0));
    assert_eq!((of("^[a-z.]{1,64}@[a-z.]{1,255}$"), of("^(?:[a-z]{1,30}-){10}[0-9]{4}$")), (0, 0));
    assert_eq!(of("^[ab]{0,1000}[ab]{0,1000}c"), 200 + 40 * 2002);
    // Optional letters of a repeated group are states, too.
    assert_eq!(of("^(?:x?y?w?){1000}[zq]"), 200 + 40 * 4000);
    assert_eq!(of("^(?:[a-z0-9]{1,40}-?){3}$"), 0);
}

/// The engine compares each character with each state, and keeps the positions of each group for each state.
#[test]
fn a_long_pattern_on_a_long_text_takes_too_long() {
    for (pattern, text) in [
        ("a".repeat(5000) + "z", "a".repeat(4000)),
        ("(x*y*)".repeat(1500) + "z", "xy".repeat(700)),
        ("^(?:x?y?w?){1000}[zq]".to_owned(), "xyw".repeat(5000)),
        ("^[ab]{0,1000}[ab]{0,1000}c".to_owned(), "ab".repeat(5000)),
    ] {
        assert!(takes_too_long(&json!({ "pattern": pattern }), &json!(text)), "{pattern:.20}");
    }
}
