//! Compares our verdicts with those of the unmodified validator.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::{Schema, Violation};

/// Generates small documents with some equal values and names.
fn any_document() -> impl Strategy<Value = Value> {
    let number = select(vec![
        "0",
        "-0.0",
        "1",
        "1.0",
        "10e-1",
        "2",
        "0.3",
        "0.1",
        "-7",
        "1e2",
        "100",
        "12345678901234567890",
    ]);
    let leaf = prop_oneof![
        3 => number.prop_map(|text| serde_json::from_str(text).unwrap()),
        2 => select(vec!["", "a", "b", "aé", "foo", "foobar", "a1"]).prop_map(Value::from),
        1 => select(vec![json!(null), json!(true), json!(false), json!([]), json!({})]),
    ];
    leaf.prop_recursive(4, 60, 20, |inner| {
        let name = select(vec!["a", "b", "c", "x-1", "foo"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Rules that together cover almost all keywords.
const RULES: [&str; 30] = [
    r#""type":"integer""#,
    r#""type":["number","null"]"#,
    r#""multipleOf":0.1"#,
    r#""multipleOf":2"#,
    r#""minimum":1"#,
    r#""maximum":1.0"#,
    r#""exclusiveMinimum":0,"exclusiveMaximum":100"#,
    r#""enum":[1,"a",[],{"a":1},null]"#,
    r#""const":{"a":[1,2]}"#,
    r#""const":0.0"#,
    r#""uniqueItems":true"#,
    r#""minItems":1,"maxItems":3"#,
    r#""minLength":1,"maxLength":2"#,
    r#""pattern":"^a""#,
    r#""pattern":"[a-z]\\d""#,
    r#""required":["a"]"#,
    r#""minProperties":1,"maxProperties":2"#,
    r#""propertyNames":{"pattern":"^[a-c]$"}"#,
    r#""patternProperties":{"^x-":{"type":"number"}},"additionalProperties":{"minimum":1}"#,
    r#""patternProperties":{"^[^x]":{"type":"number"}}"#,
    r#""additionalProperties":false,"properties":{"a":true,"b":{"minimum":1}}"#,
    r#""contains":{"type":"number"},"maxContains":2"#,
    r#""prefixItems":[{"type":"number"}],"items":{"type":"string"}"#,
    r#""prefixItems":[true],"unevaluatedItems":{"minimum":1}"#,
    r#""anyOf":[{"minimum":1},{"type":"string"}]"#,
    r#""oneOf":[{"multipleOf":2},{"minimum":2},{"type":"array"}]"#,
    r#""not":{"type":"array"}"#,
    r#""if":{"type":"number"},"then":{"minimum":1},"else":{"minLength":1}"#,
    r#""dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"maxProperties":1}}"#,
    r#""anyOf":[{"properties":{"a":{"type":"number"}}},{"required":["c"]}],"unevaluatedProperties":false"#,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn our_keywords_change_no_verdict(
        document in any_document(),
        rules in prop::collection::vec(select(&RULES[..]), 1..4),
        join in select(vec![r#""allOf""#, r#""anyOf""#, r#""oneOf""#]),
    ) {
        let rules: Vec<_> = rules.into_iter().map(|rule| format!("{{{rule}}}")).collect();
        // Each rule applies to the document and to all its values.
        let schema = format!(
            r##"{{"$ref":"#/$defs/each","$defs":{{"here":{{{join}:[{}]}},"each":{{"allOf":[{{"$ref":"#/$defs/here"}}],
                "items":{{"$ref":"#/$defs/each"}},"properties":{{"a":{{"$ref":"#/$defs/each"}}}}}}}}}}"##,
            rules.join(",")
        );
        let value: Value = serde_json::from_str(&schema).unwrap();
        let plain = jsonschema::validator_for(&value).unwrap();
        let ours = Schema::new(&schema).unwrap();
        let found = ours.violations(&document, "");
        prop_assert_eq!(found.is_empty(), plain.is_valid(&document), "{:?}", found);
        let expected: Vec<_> = plain.iter_errors(&document).map(|error| error.instance_path().as_str().to_owned()).collect();
        let is_at = |violation: &Violation| expected.iter().any(|pointer| violation.pointer.starts_with(pointer.as_str()));
        prop_assert!(found.iter().all(is_at), "{:?} for {:?}", found, expected);
    }
}
