//! The user's schema for `data`.

use redeliver_json_schema::SchemaError;

use super::*;

fn find_violations(schema: &str, data: &str) -> Vec<Violation> {
    let schema = MessageSchema::new(Some(DataSchema::new(schema).unwrap()));
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{data}}}"#);
    match schema.parse_envelope(&body) {
        Ok(_) => Vec::new(),
        Err(InvalidMessage::Schema(violations)) => violations,
        Err(invalid @ InvalidMessage::Format(_)) => panic!("{data}: {invalid}"),
    }
}

fn violation_pointers(schema: &str, data: &str) -> Vec<String> {
    find_violations(schema, data).into_iter().map(|violation| violation.pointer).collect()
}

#[test]
fn violations_of_the_data_schema_are_reported_under_data() {
    let schema = r#"{"type":"object","required":["id"],"additionalProperties":false,
        "properties":{"id":{"type":"string"},"a/b~c":{"type":"array","items":{"minimum":1}}}}"#;
    assert!(violation_pointers(schema, r#"{"id":"x"}"#).is_empty());
    assert_eq!(violation_pointers(schema, "{}"), ["/data/id"]);
    assert_eq!(violation_pointers(schema, r#"{"id":5}"#), ["/data/id"]);
    assert_eq!(violation_pointers(schema, r#"{"id":"x","y/z":1}"#), ["/data/y~1z"]);
    assert_eq!(violation_pointers(schema, r#"{"id":"x","a/b~c":[1,0]}"#), ["/data/a~1b~0c/1"]);
    assert_eq!(find_violations(schema, "{}")[0].to_string(), "/data/id is missing");
}

#[test]
fn data_and_message_violations_are_reported_together() {
    let schema = MessageSchema::new(Some(DataSchema::new(r#"{"required":["id"]}"#).unwrap()));
    let invalid = schema.parse_envelope(r#"{"metadata":{},"data":{}}"#).unwrap_err();
    assert_eq!(invalid.to_string(), "/metadata/message_id is missing; /data/id is missing");
}

#[test]
fn a_violation_never_shows_the_value() {
    let canaries = [
        r#"{"v":"canary"}"#,
        r#"{"v":["canary","canary"]}"#,
        r#"{"v":{"k":"canary"}}"#,
        r#"{"v":424242424242}"#,
        r#"{"v":[424242424242]}"#,
        r#"{"v":424242424242.5e300}"#,
        r#"{"v":-424242424242}"#,
    ];
    for rule in [
        r#""type":"boolean""#,
        r#""type":["boolean","null"]"#,
        r#""enum":["a",1]"#,
        r#""const":7"#,
        r#""const":{"k":1}"#,
        r#""minLength":99"#,
        r#""maxLength":1"#,
        r#""pattern":"^x$""#,
        r#""format":"email""#,
        r#""maximum":1"#,
        r#""minimum":1e400"#,
        r#""exclusiveMaximum":1"#,
        r#""exclusiveMinimum":1e300"#,
        r#""multipleOf":0.7"#,
        r#""minItems":9"#,
        r#""maxItems":0"#,
        r#""uniqueItems":true"#,
        r#""contains":{"type":"boolean"}"#,
        r#""contains":true,"maxContains":0"#,
        r#""prefixItems":[{"type":"boolean"}]"#,
        r#""items":false"#,
        r#""unevaluatedItems":false"#,
        r#""maxProperties":0"#,
        r#""minProperties":9"#,
        r#""propertyNames":{"maxLength":0}"#,
        r#""additionalProperties":{"type":"boolean"}"#,
        r#""unevaluatedProperties":{"type":"boolean"}"#,
        r#""patternProperties":{"k":false}"#,
        r#""properties":{"k":false}"#,
        r#""dependentRequired":{"k":["l"]}"#,
        r#""dependentSchemas":{"k":false}"#,
        r#""not":{}"#,
        r#""allOf":[{"type":"boolean"}]"#,
        r#""anyOf":[{"type":"boolean"},{"const":1}]"#,
        r#""oneOf":[{"type":"boolean"},{"const":1}]"#,
        r#""oneOf":[{},{}]"#,
        r#""if":{},"then":false"#,
        r##""$ref":"#/$defs/b""##,
    ] {
        let schema = format!(r#"{{"properties":{{"v":{{{rule}}}}},"$defs":{{"b":{{"type":"boolean"}}}}}}"#);
        let mut broken = 0;
        for data in canaries {
            for violation in find_violations(&schema, data) {
                broken += 1;
                let text = violation.to_string();
                assert!(!text.contains("canary") && !text.contains("4242"), "{rule} on {data}: {text}");
                assert!(text.starts_with("/data/v"), "{rule} on {data}: {text}");
                assert!(!violation.rule.is_empty(), "{rule} on {data}");
            }
        }
        // `format` is only an annotation in 2020-12, so it never fails.
        assert!(broken > 0 || rule.contains("format"), "{rule} refuses nothing");
    }
}

#[test]
fn a_violation_in_an_older_draft_never_shows_the_value() {
    let canaries = [
        r#"{"v":"canary {"}"#,
        r#"{"v":"Y2FuYXJ5/w=="}"#,
        r#"{"v":["a",4242,"canary"]}"#,
        r#"{"v":{"k":"canary"}}"#,
        r#"{"v":424242424242}"#,
    ];
    for rule in [
        r#""format":"date-time""#,
        r#""format":"ipv4""#,
        r#""contentEncoding":"base64""#,
        r#""contentEncoding":"base64","contentMediaType":"application/json""#,
        r#""contentMediaType":"application/json""#,
        r#""items":[{"type":"string"}],"additionalItems":false"#,
        r#""items":[{"type":"string"}],"additionalItems":{"type":"null"}"#,
        r#""dependencies":{"k":["l"]}"#,
        r#""dependencies":{"k":false}"#,
        r#""contains":{"type":"boolean"}"#,
        r#""pattern":"^(x+x+)+y$""#,
    ] {
        let schema = format!(
            r#"{{"$schema":"http://json-schema.org/draft-07/schema#","properties":{{"v":{{{rule}}}}}}}"#
        );
        let mut broken = 0;
        for violation in canaries.iter().flat_map(|data| find_violations(&schema, data)) {
            broken += 1;
            let text = format!("{violation} {violation:?}");
            assert!(!text.contains("canary") && !text.contains("4242") && !text.contains("Y2Fu"), "{text}");
        }
        assert!(broken > 0, "{rule} refuses nothing");
    }
}

#[test]
fn a_members_name_is_in_the_pointer_but_not_in_the_rule() {
    for (rule, expected) in [
        (r#""maxLength":3"#, "has a name that is longer than 3 characters"),
        (r#""pattern":"^x""#, "has a name that does not match \"^x\""),
        (r#""enum":["a"]"#, "has a name that is not one of \"a\""),
    ] {
        let schema = format!(r#"{{"propertyNames":{{{rule}}}}}"#);
        let violations = find_violations(&schema, r#"{"can/ary":1}"#);
        assert_eq!(violations, [Violation::new("/data/can~1ary", expected)]);
    }
}

#[test]
fn the_false_schema_refuses_a_value_without_showing_it() {
    let violations = find_violations("false", r#"{"v":"canary"}"#);
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].pointer, "/data");
    assert!(!violations[0].rule.contains("canary"));
}

#[test]
fn remote_references_are_refused() {
    for reference in [
        "http://127.0.0.1:1/canary.json",
        "https://example.com/schema.json",
        "file:///etc/hostname",
        "other.json",
        "urn:example:other",
        "//example.com/x",
        "json-schema:///other.json",
    ] {
        for schema in [
            format!(r#"{{"$ref":"{reference}"}}"#),
            format!(r#"{{"properties":{{"a":{{"items":{{"$ref":"{reference}#/x"}}}}}}}}"#),
            format!(r#"{{"$dynamicRef":"{reference}"}}"#),
            format!(r#"{{"$id":"https://example.com/base.json","$ref":"{reference}"}}"#),
        ] {
            let error = DataSchema::new(&schema);
            assert!(matches!(error, Err(DataSchemaError(SchemaError::NotASchema(_)))), "{schema}: {error:?}");
        }
    }
    let text = DataSchema::new(r#"{"$ref":"https://example.com/s.json"}"#).unwrap_err().to_string();
    assert!(text.contains("remote references are refused"), "{text}");
}

#[test]
fn local_references_are_followed() {
    let schema = r##"{"$id":"https://example.com/order.json","properties":{"a":{"$ref":"#/$defs/positive"},
        "b":{"$ref":"positive.json"},"c":{"$ref":"#named"}},
        "$defs":{"positive":{"$id":"positive.json","minimum":1},"named":{"$anchor":"named","minimum":1}}}"##;
    assert_eq!(violation_pointers(schema, r#"{"a":1,"b":1,"c":1}"#), [""; 0]);
    assert_eq!(violation_pointers(schema, r#"{"a":0,"b":0,"c":0}"#), ["/data/a", "/data/b", "/data/c"]);
}

#[test]
fn a_dangling_reference_is_refused() {
    let error = DataSchema::new(r##"{"$ref":"#/$defs/absent"}"##);
    assert!(matches!(error, Err(DataSchemaError(SchemaError::NotASchema(_)))), "{error:?}");
}

#[test]
fn invalid_data_schema_is_refused() {
    assert!(matches!(DataSchema::new("{"), Err(DataSchemaError(SchemaError::NotJson(_)))));
    for wrong in ["5", "[]", r#"{"type":"objekt"}"#, r#"{"minimum":"1"}"#, r#"{"pattern":"("}"#] {
        let error = DataSchema::new(wrong);
        assert!(matches!(error, Err(DataSchemaError(SchemaError::NotASchema(_)))), "{wrong}: {error:?}");
    }
}

#[test]
fn big_numbers_are_validated_exactly() {
    let integer = r#"{"properties":{"n":{"type":"integer"}}}"#;
    for whole in ["12345678901234567890", "123456789012345678901234567890", "1e400", "-1e400"] {
        assert_eq!(violation_pointers(integer, &format!(r#"{{"n":{whole}}}"#)), [""; 0], "{whole}");
    }
    assert_eq!(violation_pointers(integer, r#"{"n":12345678901234567890.5}"#), ["/data/n"]);
    let maximum = r#"{"properties":{"n":{"maximum":12345678901234567890}}}"#;
    assert_eq!(violation_pointers(maximum, r#"{"n":12345678901234567890}"#), [""; 0]);
    assert_eq!(violation_pointers(maximum, r#"{"n":12345678901234567891}"#), ["/data/n"]);
    assert_eq!(violation_pointers(maximum, r#"{"n":1e400}"#), ["/data/n"]);
    let multiple = r#"{"properties":{"n":{"multipleOf":3}}}"#;
    assert_eq!(violation_pointers(multiple, r#"{"n":12345678901234567890}"#), [""; 0]);
    assert_eq!(violation_pointers(multiple, r#"{"n":12345678901234567891}"#), ["/data/n"]);
}

#[test]
fn data_nested_to_the_limit_is_validated() {
    let deep = format!(r#"{{"n":{}{}}}"#, "[".repeat(126), "]".repeat(126));
    assert_eq!(violation_pointers(r#"{"required":["n"]}"#, &deep), [""; 0]);
    assert_eq!(violation_pointers(r#"{"required":["m"]}"#, &deep), ["/data/m"]);
}

#[test]
fn a_lone_surrogate_cannot_be_checked_against_a_schema() {
    assert_eq!(
        find_violations("{}", r#"{"s":"\ud800"}"#),
        [Violation::new("/data", "has a lone surrogate in a string, so no schema can check it")]
    );
}

#[test]
fn long_decimals_and_extreme_exponents_are_checked_exactly() {
    let schema = r#"{"properties":{"n":{"items":{"multipleOf":0.01}}}}"#;
    let broken = |number: &str, count: usize| {
        find_violations(schema, &format!(r#"{{"n":[{}]}}"#, vec![number; count].join(",")))
    };
    let hundredths = format!("{}.25", "7".repeat(990));
    for right in [hundredths.as_str(), "1e400", "-1e+9999", "1e1000000", "1e99999999999999999999"] {
        assert_eq!(broken(right, 100), [], "{right}");
    }
    for wrong in [format!("0.{}", "7".repeat(990)).as_str(), "1.5E-400", "1e-9999", "1e-999999999"] {
        let violations = broken(wrong, 100);
        assert_eq!(violations.len(), 100, "{wrong}");
        assert_eq!(violations[0], Violation::new("/data/n/0", "is not a multiple of 0.01"));
    }
}

#[test]
fn a_document_too_large_to_check_has_a_single_violation() {
    let list = |part: &str, count: usize| format!(r#"{{"n":[{}]}}"#, vec![part; count].join(" ,\n"));
    // The document and its list count as values. An empty array or object counts as one value.
    for part in ["0", "{}", r#""[,\",""#, "[ ]", "true", "-1e-9"] {
        assert_eq!(find_violations("{}", &list(part, 99_998)), [], "{part}");
        let rule = "has more than 100000 values, too much to check against a schema";
        assert_eq!(find_violations("{}", &list(part, 99_999)), [Violation::new("/data", rule)], "{part}");
    }
    assert_eq!(find_violations("{}", &list(r#"{"a":[]}"#, 33_332)), []);
    assert_eq!(find_violations("{}", &list(r#"{"a":[0]}"#, 33_333)).len(), 1);
    let number = |length: usize| format!(r#"{{"n":[1, -{}, 2]}}"#, "7".repeat(length - 1));
    assert_eq!(find_violations("{}", &number(1000)), []);
    let rule = "has a number of more than 1000 characters, too much to check against a schema";
    assert_eq!(find_violations("{}", &number(1001)), [Violation::new("/data", rule)]);
    assert_eq!(find_violations("{}", &format!(r#"{{"n":"{}"}}"#, "7".repeat(1001))), [], "a string");
    let without_schema = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{}}}"#, number(1001));
    assert!(MessageSchema::default().parse_envelope(&without_schema).is_ok());
}

#[test]
fn a_pattern_that_may_backtrack_is_refused_with_its_location() {
    for pattern in ["^(?!x-)", "^(?=.*a)", r"^(a|b)\\1$"] {
        let refused = DataSchema::new(&format!(r#"{{"items":{{"pattern":"{pattern}"}}}}"#)).unwrap_err();
        assert!(refused.to_string().contains("/items/pattern: "), "{refused}");
        assert!(refused.to_string().contains("look-around"), "{refused}");
    }
}

/// Ten nested schemas at each level, on a thread whose stack is no larger than in any of our Lambda functions.
#[test]
fn a_deep_document_does_not_overflow_the_stack() {
    let check = || {
        let level = (0..9).fold(r##""items":{"$ref":"#/$defs/n"}"##.to_owned(), |inner, _| {
            format!(r#""anyOf":[{{{inner}}}]"#)
        });
        let schema =
            format!(r##"{{"properties":{{"n":{{"$ref":"#/$defs/n"}}}},"$defs":{{"n":{{{level}}}}}}}"##);
        let deep = |inner: &str| format!(r#"{{"n":{}{inner}{}}}"#, "[".repeat(125), "]".repeat(125));
        assert_eq!(find_violations(&schema, &deep("")), []);
        let wrong = schema.replace(r#""items""#, r#""type":"array","items""#);
        assert_eq!(find_violations(&wrong, &deep("0")).len(), 1);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}

#[test]
fn a_hostile_message_has_at_most_a_hundred_violations() {
    let schema = r#"{"properties":{"n":{"items":{"type":"string"}}}}"#;
    let many = vec!["0"; 10_000].join(",");
    assert_eq!(find_violations(schema, &format!(r#"{{"n":[{many}]}}"#)).len(), 100);
    let names: Vec<_> = (0..1000).map(|name| format!("\"{name}\":0")).collect();
    assert_eq!(
        find_violations(
            r#"{"properties":{"x":true},"additionalProperties":false}"#,
            &format!("{{{}}}", names.join(","))
        )
        .len(),
        100
    );
}

#[test]
fn names_in_pointers_are_escaped() {
    assert_eq!(violation_pointers(r#"{"required":["a/b~c"]}"#, "{}"), ["/data/a~1b~0c"]);
    assert_eq!(
        violation_pointers(r#"{"properties":{"x":true},"additionalProperties":false}"#, r#"{"a/b~c":1}"#),
        ["/data/a~1b~0c"]
    );
}

#[test]
fn a_data_object_with_a_name_reserved_by_serde_json_stays_an_object() {
    let schema = r#"{"properties":{"v":{"type":"object"},"n":{"type":"number"}}}"#;
    for name in [
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
        "\\u0024serde_json::private::Number",
    ] {
        assert_eq!(violation_pointers(schema, &format!(r#"{{"v":{{"{name}":"1"}}}}"#)), [""; 0], "{name}");
        assert_eq!(
            violation_pointers(schema, &format!(r#"{{"n":{{"{name}":"1"}}}}"#)),
            ["/data/n"],
            "{name}"
        );
        assert_eq!(
            violation_pointers(schema, &format!(r#"{{"v":{{"{name}":[{{"é":1e400}}, null]}}}}"#)),
            [""; 0],
            "{name}"
        );
    }
    let three = r#"{"const":{"$serde_json::private::Number":"3"}}"#;
    assert_eq!(
        violation_pointers(three, r#"{"$serde_json::private::Number":"3"}"#),
        [""; 0],
        "the same in the schema"
    );
    assert_eq!(violation_pointers(three, "3"), ["/data"]);
    // The slow path must return the same result for everything else.
    let all = r#"{"\u0024":[1e400,"\u00e9\ud83d\ude00",{"a":1,"a":2}],"":{},"e":[],"t":true,"n":null}"#;
    let expected = r#"{"const":{"$":[1e400,"é😀",{"a":2}],"":{},"e":[],"t":true,"n":null}}"#;
    assert_eq!(violation_pointers(expected, all), [""; 0]);
    assert_eq!(violation_pointers("{}", r#"{"\u0024":"\ud800"}"#), ["/data"]);
    assert_eq!(violation_pointers("{}", r#"{"\u0024":1,"\ud800":1}"#), ["/data"]);
}
