//! Errors for invalid schemas, which users see at deployment.

use crate::{Schema, SchemaError};

#[test]
fn an_invalid_schema_is_refused_with_the_location_and_the_rule() {
    for (schema, message) in [
        (
            r#"{"type":"strin"}"#,
            r#"/type: "strin" is not valid under any of the schemas listed in the 'anyOf' keyword"#,
        ),
        (r#"{"type":5}"#, "/type: 5 is not valid under any of the schemas listed in the 'anyOf' keyword"),
        (r#"{"properties":{"a":{"minimum":"1"}}}"#, r#"/properties/a/minimum: "1" is not of type "number""#),
        (r#"{"required":["a","a"]}"#, r#"/required: ["a","a"] has non-unique elements"#),
        (r#"{"items":{"minLength":-1}}"#, "/items/minLength: -1 is less than the minimum of 0"),
        (r#"{"multipleOf":0}"#, "/multipleOf: 0 is less than or equal to the minimum of 0"),
        (r#"{"properties":[]}"#, r#"/properties: [] is not of type "object""#),
        ("[]", r#"[] is not of types "boolean", "object""#),
        ("5", r#"5 is not of types "boolean", "object""#),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":{"minLength":-1}}"#,
            r#"/items: {"minLength":-1} is not valid under any of the schemas listed in the 'anyOf' keyword"#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-04/schema#","exclusiveMinimum":1}"#,
            r#"/exclusiveMinimum: 1 is not of type "boolean""#,
        ),
        (
            r#"{"$recursiveRef":{"minItems":1},"multipleOf":[]}"#,
            r#"/$recursiveRef: {"minItems":1} is not of type "string""#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-06/schema#","pattern":"["}"#,
            r#"/pattern: "[" is not a "regex""#,
        ),
        (
            r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","$defs":{"a":{"enum":1}}}"#,
            r#"/$defs/a/enum: 1 is not of type "array""#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"a b"}"#,
            r#"/$ref: "a b" is not a "uri-reference""#,
        ),
        (r#"{"pattern":"["}"#, r#"/pattern: "[" is not a "regex""#),
        (
            r#"{"$defs":{"a":{"$id":"https://example.com/a","$schema":"http://json-schema.org/draft-07/schema#","minLength":"1"}}}"#,
            r#"/$defs/a/minLength: "1" is not of type "integer""#,
        ),
        (r#"{"anyOf":[]}"#, "/anyOf: [] has less than 1 item"),
        (r#"{"allOf":[{"if":3}]}"#, r#"/allOf/0/if: 3 is not of types "boolean", "object""#),
        (
            r#"{"$schema":"https://example.com/mine"}"#,
            "Unknown meta-schema: 'https://example.com/mine'. Custom meta-schemas must be registered in the registry before use",
        ),
        (r#"{"patternProperties":{"[":true}}"#, r#"/patternProperties/[: "[" is not a "regex""#),
    ] {
        let error = Schema::new(schema).unwrap_err();
        assert_eq!(error, SchemaError::NotASchema(message.to_owned()), "{schema}");
    }
}

/// A function that fails to start must log the reason.
#[test]
fn a_pattern_that_is_too_large_is_refused_with_the_limit() {
    let why = "it needs more than 10 MiB when compiled; write long counts as maxLength";
    let refused = |schema: serde_json::Value| Schema::from_value(&schema).unwrap_err().to_string();
    let refusal = |rule: String| SchemaError::NotASchema(rule).to_string();
    assert_eq!(
        refused(serde_json::json!({ "pattern": "^.{1,20000}$" })),
        refusal(format!(r#"/pattern: "^.{{1,20000}}$" is not a "regex": {why}"#))
    );
    let long = "[a-z]?".repeat(200_000);
    let quoted = &long[..199];
    assert_eq!(
        refused(serde_json::json!({ "properties": { "id": { "pattern": long } } })),
        refusal(format!(r#"/properties/id/pattern: "{quoted}…" is not a "regex": {why}"#))
    );
}

/// Without truncation, the error would be a single line as long as the schema.
#[test]
fn a_long_value_in_an_invalid_schema_is_truncated_in_the_error() {
    let long = "é".repeat(200_000);
    let refused =
        Schema::from_value(&serde_json::json!({ "properties": { &long: { "type": &long } } })).unwrap_err();
    let rule = "is not valid under any of the schemas listed in the 'anyOf' keyword";
    let (place, quoted) = ("é".repeat(94), "é".repeat(99));
    assert_eq!(refused, SchemaError::NotASchema(format!("/properties/{place}…: \"{quoted}…\" {rule}")));
}
