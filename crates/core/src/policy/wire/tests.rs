use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use redeliver_json_schema::Schema;

use super::*;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(POLICY_SCHEMA).unwrap());

/// True if serde accepts the document.
fn serde_accepts(document: &Value) -> bool {
    super::parse_object::<_, Policy, Policy>(document).is_ok()
}

fn serde_accepts_text(text: &str) -> bool {
    serde_accepts(&text.parse().unwrap())
}

#[test]
fn policies_of_every_kind_are_read() {
    for text in [
        "{}",
        r#"{"max_attempts":0,"max_age_seconds":31536000,"long_delays":true}"#,
        r#"{"immediate":{"max_attempts":10,"delay_ms":0},"retryable":["HttpStatus.5*"],"non_retryable":["A","B"]}"#,
        r#"{"circuit_breaker":false,"max_redrives":0}"#,
        r#"{"circuit_breaker":{},"max_redrives":1000}"#,
        r#"{"circuit_breaker":{"per":"attribute:a-B_0.","opens_on":["*"],"hold_seconds_max":1209600}}"#,
        r#"{"backoff":{"kind":"uniform"}}"#,
        r#"{"backoff":{"kind":"uniform","max_delay_seconds":900}}"#,
        r#"{"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":2,"offset_seconds":0,"max_delay_seconds":43200,"jitter":"half"}}"#,
        r#"{"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":1.5}}"#,
        r#"{"backoff":{"kind":"fixed","delay_seconds":0,"jitter":"none"}}"#,
        r#"{"backoff":{"kind":"schedule","delays_seconds":[0,43200],"jitter":"full"}}"#,
    ] {
        assert!(serde_accepts_text(text), "{text}");
        assert_eq!(SCHEMA.violations(&text.parse().unwrap(), ""), [], "{text}");
    }
}

#[test]
fn a_refusal_always_has_a_reason() {
    let [number, list] = ["/max_attempts", "/retryable"].map(|pointer| Violation::new(pointer, "is wrong"));
    let both = explain_refusal(vec![number.clone()], vec![list.clone()], &"of serde");
    assert_eq!(both, [number, list]);
    let refused =
        PolicyError::Refused(explain_refusal(Vec::new(), Vec::new(), &"invalid type: null, expected a map"));
    assert_eq!(
        refused.to_string(),
        "is refused: (whole document) cannot be read: invalid type: null, expected a map"
    );
}

#[test]
fn policy_without_a_required_member_is_not_read() {
    for text in [
        r#"{"backoff":{}}"#,
        r#"{"backoff":{"kind":"exponential"}}"#,
        r#"{"backoff":{"kind":"fixed"}}"#,
        r#"{"backoff":{"kind":"schedule","delays_seconds":[]}}"#,
        r#"{"immediate":{"max_attempts":1}}"#,
        r#"{"retryable":[]}"#,
        r#"{"circuit_breaker":{"opens_on":[]}}"#,
    ] {
        assert!(!serde_accepts_text(text), "{text}");
    }
}

#[test]
fn a_member_that_belongs_to_another_backoff_kind_is_refused() {
    let members = [
        ("initial_delay_seconds", "1"),
        ("rate", "2"),
        ("offset_seconds", "0"),
        ("max_delay_seconds", "9"),
        ("delay_seconds", "1"),
        ("delays_seconds", "[1]"),
        ("jitter", r#""half""#),
    ];
    let required = ["", r#","initial_delay_seconds":1"#, r#","delay_seconds":1"#, r#","delays_seconds":[1]"#];
    for (kind, required) in ["uniform", "exponential", "fixed", "schedule"].into_iter().zip(required) {
        for (name, value) in members.into_iter().filter(|(name, _)| !required.contains(name)) {
            let text = format!(r#"{{"backoff":{{"kind":"{kind}"{required},"{name}":{value}}}}}"#);
            let is_valid = SCHEMA.violations(&text.parse().unwrap(), "").is_empty();
            assert_eq!(serde_accepts_text(&text), is_valid, "{text}");
        }
    }
}

/// Each limit, its neighbors, and similar values.
const VALUES: [&str; 70] = [
    "0",
    "1",
    "2",
    "10",
    "11",
    "100",
    "101",
    "900",
    "1000",
    "1001",
    "59",
    "60",
    "600",
    "601",
    "3600",
    "3601",
    "1209600",
    "1209601",
    "10000",
    "10001",
    "43200",
    "43201",
    "31536000",
    "31536001",
    "-1",
    "-0",
    "0.0",
    "1.0",
    "1e2",
    "2e0",
    "2.5",
    "0.01",
    "0.00999999999999999999999999",
    "0.99999999999999999999999999",
    "100.00000000000000000000001",
    "99999.99",
    "100000.00000000000000000001",
    "1e400",
    "null",
    "true",
    "false",
    "0.8",
    "1.00000000000000000000000001",
    r#""half""#,
    r#""target""#,
    r#""targets""#,
    r#""Group""#,
    r#""group\n""#,
    r#""attribute:""#,
    r#""attribute:A.b-c_9""#,
    r#""attribute:a b""#,
    r#""attribute:é""#,
    r#""additive""#,
    r#""durable_none""#,
    r#"{"durable_none":null}"#,
    r#"{"half":null}"#,
    r#"["additive",1]"#,
    "[1,1]",
    r#""""#,
    "[]",
    "[0,900]",
    "[43201]",
    "[1.0]",
    r#"["A*","B"]"#,
    r#"["A","A"]"#,
    r#"["A",""]"#,
    r#"["A",1]"#,
    "{}",
    r#"{"kind":"additive","max_seconds":1}"#,
    r#"{"max_attempts":1,"delay_ms":1}"#,
];

fn any_value() -> impl Strategy<Value = String> {
    let glob = (120..135_usize, select(vec!["x", "é"]))
        .prop_map(|(count, character)| format!(r#"["{}"]"#, character.repeat(count)));
    let name = (250..260_usize).prop_map(|count| format!(r#""attribute:{}""#, "x".repeat(count)));
    let schedule = (995..1005_usize).prop_map(|count| format!("[{}]", vec!["1"; count].join(",")));
    prop_oneof![
        10 => select(&VALUES[..]).prop_map(str::to_owned),
        1 => glob,
        1 => name,
        1 => schedule,
    ]
}

/// Generates an object with some of these members, and possibly an unknown one.
fn any_object(
    names: &'static [&'static str],
    value: impl Fn(&'static str) -> BoxedStrategy<String> + 'static,
) -> impl Strategy<Value = String> {
    subsequence(names, 0..=names.len().min(5)).prop_flat_map(move |names| {
        let members: Vec<_> = names
            .into_iter()
            .map(|name| value(name).prop_map(move |value| format!(r#""{name}":{value}"#)))
            .collect();
        members.prop_map(|members| format!("{{{}}}", members.join(",")))
    })
}

/// Generates one of these valid objects, with the value of one member changed.
fn any_object_with_one_change(
    sound: &'static [&'static [(&'static str, &'static str)]],
) -> impl Strategy<Value = String> {
    (select(sound), any::<prop::sample::Index>(), any_value()).prop_map(|(members, changed, value)| {
        let changed = changed.index(members.len());
        let members = members.iter().enumerate().map(|(index, (name, sound))| {
            format!(r#""{name}":{}"#, if index == changed { value.as_str() } else { sound })
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

fn any_immediate_retries() -> impl Strategy<Value = String> {
    const VALID: &[&[(&str, &str)]] = &[&[("max_attempts", "1"), ("delay_ms", "0")]];
    prop_oneof![
        any_object_with_one_change(VALID),
        any_object(&["max_attempts", "delay_ms", "foreign"], |_| any_value().boxed())
    ]
}

const BREAKER_MEMBERS: [&str; 4] = ["per", "opens_on", "hold_seconds_max", "foreign"];

fn any_circuit_breaker() -> impl Strategy<Value = String> {
    const VALID: &[&[(&str, &str)]] =
        &[&[("per", r#""group""#), ("opens_on", r#"["A*","B"]"#), ("hold_seconds_max", "100")]];
    let single = (select(&BREAKER_MEMBERS[..]), any_value())
        .prop_map(|(name, value)| format!(r#"{{"{name}":{value}}}"#));
    let several = any_object(&BREAKER_MEMBERS, |_| any_value().boxed());
    prop_oneof![2 => any_object_with_one_change(VALID), 4 => single, 1 => several, 1 => any_value()]
}

fn any_backoff() -> impl Strategy<Value = String> {
    const VALID: &[&[(&str, &str)]] = &[
        &[("kind", r#""uniform""#), ("max_delay_seconds", "9")],
        &[
            ("kind", r#""exponential""#),
            ("initial_delay_seconds", "1"),
            ("rate", "2"),
            ("offset_seconds", "0"),
            ("max_delay_seconds", "9"),
            ("jitter", r#""half""#),
        ],
        &[("kind", r#""fixed""#), ("delay_seconds", "1"), ("jitter", r#""none""#)],
        &[("kind", r#""schedule""#), ("delays_seconds", "[1]"), ("jitter", r#""full""#)],
    ];
    const MEMBERS: &[&str] = &[
        "kind",
        "initial_delay_seconds",
        "rate",
        "offset_seconds",
        "max_delay_seconds",
        "delay_seconds",
        "delays_seconds",
        "jitter",
        "foreign",
    ];
    const KINDS: &[&str] =
        &[r#""uniform""#, r#""exponential""#, r#""fixed""#, r#""schedule""#, r#""foreign""#, "1"];
    let any = any_object(MEMBERS, |name| match name {
        "kind" => select(KINDS).prop_map(str::to_owned).boxed(),
        _ => any_value().boxed(),
    });
    prop_oneof![2 => any_object_with_one_change(VALID), 1 => any]
}

fn any_document() -> impl Strategy<Value = String> {
    const MEMBERS: &[&str] = &[
        "preset",
        "max_attempts",
        "backoff",
        "max_age_seconds",
        "long_delays",
        "immediate",
        "retryable",
        "non_retryable",
        "circuit_breaker",
        "max_redrives",
        "foreign",
    ];
    let single = prop_oneof![
        any_circuit_breaker().prop_map(|breaker| format!(r#"{{"circuit_breaker":{breaker}}}"#)),
        any_backoff().prop_map(|backoff| format!(r#"{{"backoff":{backoff}}}"#)),
        any_immediate_retries().prop_map(|immediate| format!(r#"{{"immediate":{immediate}}}"#)),
        any_backoff().prop_map(|backoff| format!(r#"{{"preset":"durable_critical","backoff":{backoff}}}"#)),
        (select(MEMBERS), any_value()).prop_map(|(name, value)| format!(r#"{{"{name}":{value}}}"#)),
    ];
    let several = any_object(MEMBERS, move |name| match name {
        "backoff" => prop_oneof![any_backoff(), any_value()].boxed(),
        "immediate" => prop_oneof![any_immediate_retries(), any_value()].boxed(),
        "circuit_breaker" => any_circuit_breaker().boxed(),
        _ => any_value().boxed(),
    });
    prop_oneof![8 => single, 2 => several, 1 => any_value()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16_384, ..ProptestConfig::default() })]

    #[test]
    fn serde_and_schema_accept_the_same_policies(text in any_document()) {
        let mut document: Value = text.parse().unwrap();
        if let Some(members) = document.as_object_mut() {
            preset::expand_preset(members);
        }
        prop_assert_eq!(serde_accepts(&document), SCHEMA.violations(&document, "").is_empty(), "{}", text);
    }
}
