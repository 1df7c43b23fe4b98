//! Schemas that evaluate one value too often are refused before any document is checked; realistic ones are not.

use serde_json::{Map, Value, json};

use super::checked;
use crate::{Schema, SchemaError};

/// A schema with this many levels; each is `level` of references to the next one.
fn chain(levels: usize, level: impl Fn(Value) -> Value, last: Value) -> Value {
    let next = |index: usize| json!({"$ref": format!("#/$defs/s{index}")});
    let mut definitions: Map<_, _> =
        (0..levels).map(|index| (format!("s{index}"), level(next(index + 1)))).collect();
    definitions.insert(format!("s{levels}"), last);
    json!({"$ref": "#/$defs/s0", "$defs": definitions})
}

fn refused(schema: &Value) -> String {
    match Schema::of(schema) {
        Err(error @ (SchemaError::Repeats { .. } | SchemaError::TooDeep { .. })) => error.to_string(),
        other => panic!("{:.200}: {other:?}", schema.to_string()),
    }
}

#[test]
fn a_schema_that_doubles_its_work_at_each_level_is_refused_by_name_and_burns_no_time() {
    type Level = fn(Value) -> Value;
    let twice: [(&str, Level); 9] = [
        ("allOf", |next| json!({"allOf": [next, next]})),
        ("anyOf", |next| json!({"anyOf": [next, next]})),
        ("oneOf", |next| json!({"oneOf": [next, next]})),
        ("not", |next| json!({"not": next, "allOf": [next]})),
        ("if", |next| json!({"if": next, "then": next, "else": next})),
        ("dependentSchemas", |next| json!({"dependentSchemas": {"a": next, "b": next}})),
        ("dependencies", |next| json!({"dependencies": {"a": next, "b": next}})),
        ("beside $ref", |next| json!({"$ref": next["$ref"], "allOf": [next]})),
        ("unevaluatedProperties", |next| json!({"allOf": [next], "unevaluatedProperties": true})),
    ];
    for (name, level) in twice {
        let schema = chain(40, level, json!({"type": "object"}));
        let error = refused(&schema);
        assert!(error.contains(" /$defs/s"), "{name}: {error}");
        assert!(error.contains("more than 50000 times"), "{name}: {error}");
        // The same one level below the value.
        let mut below = schema;
        let reference = below.as_object_mut().unwrap().remove("$ref").unwrap();
        for member in ["properties", "patternProperties"] {
            below[member] = json!({"a": {"$ref": reference}});
            refused(&below);
            below.as_object_mut().unwrap().remove(member);
        }
        for member in [
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ] {
            below[member] = json!({"$ref": reference});
            refused(&below);
            below.as_object_mut().unwrap().remove(member);
        }
        below["prefixItems"] = json!([true, {"$ref": reference}]);
        refused(&below);
    }
}

#[test]
fn names_that_stand_for_schemas_are_followed_like_pointers() {
    let level = |index: usize, next: &str| {
        let name = format!("s{index}");
        json!({"$anchor": name, "$dynamicAnchor": format!("d{index}"), "allOf": [{"$ref": next}, {"$ref": next}]})
    };
    let anchors: Map<_, _> =
        (0..30).map(|index| (format!("x{index}"), level(index, &format!("#s{}", index + 1)))).collect();
    let mut anchors = json!({"$ref": "#s0", "$defs": anchors});
    anchors["$defs"]["last"] = json!({"$anchor": "s30"});
    refused(&anchors);
    let dynamic: Map<_, _> = (0..30)
        .map(|index| {
            let next = json!({"$dynamicRef": format!("#d{}", index + 1)});
            (format!("x{index}"), json!({"$dynamicAnchor": format!("d{index}"), "allOf": [next, next]}))
        })
        .collect();
    let mut dynamic = json!({"$dynamicRef": "#d0", "$defs": dynamic});
    dynamic["$defs"]["last"] = json!({"$dynamicAnchor": "d30"});
    refused(&dynamic);
    let identified: Map<_, _> = (0..30)
        .map(|index| {
            let next = json!({"$ref": format!("s{}", index + 1)});
            (
                format!("x{index}"),
                json!({"$id": format!("https://example.com/s{index}"), "anyOf": [next, next]}),
            )
        })
        .collect();
    let mut identified = json!({"$id": "https://example.com/", "$ref": "s0", "$defs": identified});
    identified["$defs"]["last"] = json!({"$id": "https://example.com/s30"});
    refused(&identified);
}

#[test]
fn whatever_a_schema_calls_itself_its_references_are_followed() {
    for (id, value) in [
        ("$id", "https://example.com/root.json"),
        ("$id", "https://example.com/root.json#"),
        ("$id", "root.json"),
        ("$id", "/schemas/root.json"),
        ("$id", "urn:example:root"),
        ("id", "http://example.com/root.json#"),
        ("id", "root"),
    ] {
        for dialect in
            ["2020-12/schema", "2019-09/schema", "draft-07/schema#", "draft-06/schema#", "draft-04/schema#"]
        {
            let scheme = if dialect.starts_with("20") { "https" } else { "http" };
            let dialect = format!(
                "{scheme}://json-schema.org/{}{dialect}",
                if scheme == "https" { "draft/" } else { "" }
            );
            let mut schema = chain(40, |next| json!({"allOf": [next, next]}), json!(true));
            // Up to draft 7, keywords beside a reference are ignored, names included.
            let reference = schema.as_object_mut().unwrap().remove("$ref").unwrap();
            schema["allOf"] = json!([{"$ref": reference}]);
            schema["$schema"] = dialect.into();
            schema[id] = value.into();
            // Either check may refuse it first.
            assert!(Schema::of(&schema).is_err(), "{schema}");
        }
    }
}

#[test]
fn references_that_go_round_in_one_value_are_refused_where_their_ways_are_many() {
    let others: Vec<_> = (0..12).map(|index| json!({"$ref": format!("#/$defs/s{index}")})).collect();
    let all: Map<_, _> = (0..12).map(|index| (format!("s{index}"), json!({"anyOf": others}))).collect();
    refused(&json!({"$ref": "#/$defs/s0", "$defs": all}));
    // A circle without branches is a mistake that costs nothing.
    let round =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}}});
    assert_eq!(checked(&round, &json!("a")).0, []);
}

#[test]
fn a_long_way_from_reference_to_reference_is_refused_and_overflows_no_stack() {
    for dialect in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
    {
        let mut schema = chain(20_000, |next| next, json!(true));
        schema["$schema"] = dialect.into();
        refused(&schema);
    }
}

/// A document whose every value takes the longest path that a schema may have. Our programs check on the main thread,
/// whose stack is 8 MiB; unoptimized programs need several times as much.
#[test]
fn the_deepest_document_and_the_longest_way_overflow_no_stack() {
    let mut schema = chain(30, |next| json!({"allOf": [next]}), json!({"items": {"$ref": "#"}}));
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    let deep = (0..126).fold(json!([]), |inner, _| json!([inner]));
    let check = move || Schema::of(&schema).unwrap().violations(&deep, "");
    let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(check).unwrap();
    assert_eq!(thread.join().unwrap(), []);
}

#[test]
fn what_is_evaluated_for_each_value_of_a_message_is_paid_for() {
    // 1,022 evaluations of each item, none of which reads it.
    let doubled = chain(9, |next| json!({"allOf": [next, next]}), json!(true));
    let items = |count: usize| Value::Array(vec![Value::Null; count]);
    for (member, value) in [("items", items(200_000)), ("unevaluatedItems", items(200_000))] {
        let mut schema = json!({"$defs": doubled["$defs"]});
        schema[member] = json!({"$ref": doubled["$ref"]});
        let found = Schema::of(&schema).unwrap().violations(&value, "");
        assert!(found[0].rule.starts_with("takes too long to check"), "{member}: {found:?}");
        let (found, steps) = checked(&schema, &items(1000));
        assert_eq!(found, []);
        assert!(steps > 1000 * 1022 * 10, "{member}: {steps}");
    }
}

#[test]
fn names_pay_for_what_they_are_checked_against() {
    let names = |count: usize, name: &str| -> Value {
        (0..count).map(|index| (format!("{name}{index}"), Value::Null)).collect::<Map<_, _>>().into()
    };
    let doubled = chain(9, |next| json!({"allOf": [next, next]}), json!(true));
    let many = json!({"propertyNames": {"$ref": doubled["$ref"]}, "$defs": doubled["$defs"]});
    let steps_back = json!({"propertyNames": {"pattern": "^(a|a)*\\1b"}});
    for (schema, names) in [(many, names(30_000, "n")), (steps_back, names(10_000, &"a".repeat(40)))] {
        let found = Schema::of(&schema).unwrap().violations(&names, "");
        assert!(found[0].rule.starts_with("takes too long to check"), "{schema}: {found:?}");
    }
    let short = json!({"propertyNames": {"pattern": "^[a-z0-9]{1,20}$", "maxLength": 20}});
    assert_eq!(checked(&short, &names(30_000, "name")).0, []);
}

/// Such errors used to take unlimited memory.
#[test]
fn once_the_budget_is_gone_nothing_more_is_found() {
    let wrong = json!({"type": "string"});
    let many: Vec<_> = (0..2000).map(|_| wrong.clone()).collect();
    let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [
        {"properties": {"c": {"$ref": "#/$defs/n"}}}, {"anyOf": many},
    ]}}});
    let deep = (0..120).fold(json!({}), |inner, _| json!({"c": inner}));
    let (found, steps) = checked(&schema, &deep);
    assert!(found[0].rule.starts_with("takes too long to check"), "{found:?}");
    assert_eq!(steps, 400_000_000);
}

#[test]
fn schemas_that_people_have_are_taken_and_their_messages_pass() {
    // FHIR: each resource may contain any of 148 others.
    let resources: Vec<_> =
        (0..148).map(|index| json!({"$ref": format!("#/definitions/R{index}")})).collect();
    let mut definitions: Map<_, _> = (0..148)
        .map(|index| {
            let name = format!("R{index}");
            let resource = json!({
                "type": "object",
                "properties": {
                    "resourceType": {"const": name},
                    "id": {"$ref": "#/definitions/id"},
                    "contained": {"items": {"$ref": "#/definitions/ResourceList"}},
                    "extension": {"items": {"$ref": "#/definitions/Extension"}},
                },
                "additionalProperties": false,
                "required": ["resourceType"],
            });
            (name, resource)
        })
        .collect();
    definitions.insert("ResourceList".to_owned(), json!({"oneOf": resources}));
    definitions.insert("id".to_owned(), json!({"type": "string", "pattern": "^[A-Za-z0-9\\-\\.]{1,64}$"}));
    definitions.insert(
        "Extension".to_owned(),
        json!({"properties": {"extension": {"items": {"$ref": "#/definitions/Extension"}}}}),
    );
    let fhir = json!({
        "$schema": "http://json-schema.org/draft-06/schema#",
        "oneOf": resources,
        "definitions": definitions,
    });
    let patients: Vec<_> =
        (0..300).map(|n| json!({"resourceType": format!("R{}", n % 148), "id": n.to_string()})).collect();
    let bundle = json!({"resourceType": "R147", "contained": patients});
    // Events: one of two hundred, each with a base that has a base, too.
    let events: Vec<_> =
        (0..200).map(|index| json!({"$ref": format!("#/components/schemas/E{index}")})).collect();
    let mut schemas: Map<_, _> = (0..200)
        .map(|index| {
            let own =
                json!({"properties": {"type": {"const": format!("E{index}")}, "n": {"type": "integer"}}});
            (format!("E{index}"), json!({"allOf": [{"$ref": "#/components/schemas/Entity"}, own]}))
        })
        .collect();
    schemas.insert(
        "Entity".to_owned(),
        json!({"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id"]}]}),
    );
    schemas.insert(
        "Base".to_owned(),
        json!({"type": "object", "required": ["type"], "properties": {"id": {"type": "string"}}}),
    );
    let openapi = json!({"items": {"oneOf": events}, "components": {"schemas": schemas}});
    let thousand: Vec<_> =
        (0..1000).map(|n| json!({"type": format!("E{}", n % 200), "id": n.to_string(), "n": n})).collect();
    // A tree, and one that is closed by its user.
    let tree = json!({
        "$id": "https://example.com/strict-tree",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "https://example.com/tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {"data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
        }},
    });
    let forest = (0..40).fold(json!({"data": 1}), |inner, _| json!({"data": 1, "children": [inner]}));
    // Rows with a rule for each kind, and one without the members that any of thirty kinds may have.
    let rule = |n: usize| {
        json!({
            "if": {"properties": {"kind": {"const": format!("k{n}")}}},
            "then": {"required": ["id"]},
        })
    };
    let by_kind = json!({"items": {"allOf": (0..40).map(rule).collect::<Vec<_>>()}});
    let any = json!({"$ref": "#/$defs/any"});
    let optional = json!({
        "items": {"properties": {"id": {"type": "integer"}, "absent": {"anyOf": vec![any; 30]}}},
        "$defs": {"any": true},
    });
    // A row has one of eighty kinds, as a chain of `else`.
    let case = |other: Value, n: usize| {
        json!({
            "if": {"properties": {"kind": {"const": format!("k{n}")}}},
            "then": {"required": ["id"]},
            "else": other,
        })
    };
    let cases = json!({"items": (0..80).fold(json!(true), case)});
    let meta = |draft: &str| json!({"$schema": draft, "$ref": draft});
    for (schema, document) in [
        (fhir.clone(), bundle),
        (openapi.clone(), json!(thousand)),
        (tree, forest),
        (by_kind, rows(18_000)),
        (optional, rows(18_000)),
        (cases, rows(1000)),
        (meta("https://json-schema.org/draft/2020-12/schema"), openapi),
        (meta("https://json-schema.org/draft/2019-09/schema"), json!({"items": {"minimum": 5}})),
        (meta("http://json-schema.org/draft-07/schema#"), fhir),
    ] {
        let (found, steps) = checked(&schema, &document);
        assert_eq!(found, [], "{:.100} after {steps} steps", schema.to_string());
    }
}

/// Only our metering rule reads the value.
#[test]
fn a_wrong_schema_is_refused_with_the_words_it_was_written_in() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": {"items": {"allOf": [{"type": "string"}, true]}, "minLength": -1},
    });
    let error = Schema::of(&schema).unwrap_err().to_string();
    assert!(error.contains(r#"{"items":{"allOf":[{"type":"string"},true]},"minLength":-1}"#), "{error}");
}

/// Rows of about 50 bytes.
fn rows(count: usize) -> Value {
    let row = |n: usize| json!({"id": n, "kind": format!("k{}", n % 40), "name": "0123456789"});
    Value::Array((0..count).map(row).collect())
}

#[test]
fn dependencies_that_are_names_cost_what_their_names_cost() {
    for draft in ["draft-04", "draft-06", "draft-07"] {
        let steps = |dependencies: Map<String, Value>| {
            let schema = json!({
                "$schema": format!("http://json-schema.org/{draft}/schema#"),
                "items": {"type": "object", "dependencies": dependencies},
            });
            let (found, steps) = checked(&schema, &rows(18_000));
            assert_eq!(found, [], "{draft}");
            steps
        };
        let none = steps(Map::new());
        let forty: Map<_, _> = (0..40).map(|n| (format!("m{n:02}"), json!(["id"]))).collect();
        // One look at the row, and forty missing names of three bytes.
        assert_eq!(steps(forty) - none, 18_000 * 40 * (30 + 30), "{draft}");
    }
}

#[test]
fn what_is_not_evaluated_costs_nothing() {
    let any = json!({"$ref": "#/$defs/any"});
    let schema = |optional: Value| {
        json!({
            "items": {"properties": {"absent": optional}},
            "$defs": {"any": true},
        })
    };
    let steps = |optional: Value| checked(&schema(optional), &rows(18_000)).1;
    assert_eq!(steps(json!({"anyOf": vec![any; 30]})), steps(json!(true)));
}

#[test]
fn data_in_a_schema_stays_as_it_is() {
    let empty = json!({});
    let by_keyword = |keyword: &str, data: Value| {
        let pointer = if data.is_array() { format!("{keyword}/0") } else { keyword.to_owned() };
        let reference = json!({"$ref": format!("#/properties/a/{pointer}")});
        json!({"properties": {"a": {keyword: data}, "b": reference, "const": {"allOf": [{}]}}})
    };
    for (keyword, data) in [("const", empty.clone()), ("enum", json!([empty]))] {
        let schema = by_keyword(keyword, data);
        let found = Schema::of(&schema).unwrap().violations(&json!({"a": {}, "b": 5, "const": 1}), "");
        assert_eq!(found, [], "{schema}");
    }
}

#[test]
fn a_metering_rule_is_none_that_a_schema_can_say() {
    let text = r#"{"const": {"$serde_json::private::Number": 60}}"#;
    assert!(Schema::new(text).is_err());
    let text = r#"{"const": {"$serde_json::private::Number": "60"}}"#;
    if let Ok(schema) = Schema::new(text) {
        assert_ne!(schema.violations(&json!("a"), ""), []);
    }
}

#[test]
fn a_chain_of_two_hundred_cases_is_taken_unless_each_level_of_a_document_goes_through_it() {
    let case = |next: Value| json!({"if": {"type": "string"}, "then": true, "else": next});
    let nested = move |levels: usize, last: Value| (0..levels).fold(last, |inner, _| case(inner));
    let check = move || {
        let taken = [json!({"items": nested(200, json!(true))}), chain(120, case, json!(true))];
        for schema in taken {
            assert_eq!(
                Schema::of(&schema).unwrap().violations(&json!([[[1]]]), ""),
                [],
                "{:.100}",
                schema.to_string()
            );
        }
        let error = refused(&nested(70, json!({"items": {"$ref": "#"}})));
        assert!(error.starts_with("too deep to check: /else/else/"), "{error}");
        assert!(
            error.contains("is reached through more than 64 schemas that check the same value"),
            "{error}"
        );
        let error = refused(&nested(300, json!(true)));
        assert!(
            error.contains("is reached through more than 256 schemas that check the same value"),
            "{error}"
        );
    };
    std::thread::Builder::new().stack_size(4 << 20).spawn(check).unwrap().join().unwrap();
}

/// The end of the chain is surveyed before its beginning.
#[test]
fn a_way_that_is_long_in_two_halves_is_refused() {
    let mut schema = chain(480, |next| next, json!(true));
    schema["properties"] = json!({"a": {"$ref": "#/$defs/s240"}});
    schema["items"] = json!({"$ref": "#/$defs/s0"});
    schema.as_object_mut().unwrap().remove("$ref");
    refused(&schema);
    let reversed = json!({"properties": {"a": schema["items"]}, "items": schema["properties"]["a"], "$defs": schema["$defs"]});
    refused(&reversed);
}
