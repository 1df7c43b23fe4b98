//! The `circuit_breaker` member, and the limits on redrives.

use super::*;

#[test]
fn the_breaker_is_on_by_default_and_false_turns_it_off() {
    assert_eq!(parse("{}").circuit_breaker, Some(CircuitBreaker::default()));
    assert_eq!(parse(r#"{"circuit_breaker":{}}"#).circuit_breaker, Some(CircuitBreaker::default()));
    assert_eq!(parse(r#"{"circuit_breaker":false}"#).circuit_breaker, None);
    for wrong in ["true", "null", "0", "[]", r#""off""#] {
        assert_eq!(
            violation_pointers(&format!(r#"{{"circuit_breaker":{wrong}}}"#)),
            ["/circuit_breaker"],
            "{wrong}"
        );
    }
}

#[test]
fn every_circuit_breaker_member_is_read() {
    let policy = parse(
        r#"{"circuit_breaker":{"per":"attribute:Tenant","opens_on":["Db.*"],"hold_seconds_max":3600}}"#,
    );
    let expected = CircuitBreaker {
        per: CircuitScope::Attribute("Tenant".to_owned()),
        opens_on: Some(Globs::built_in(&["Db.*"])),
        hold_max: Duration::from_secs(3600),
    };
    assert_eq!(policy.circuit_breaker, Some(expected));
    let circuit_scope = |text: &str| parse(text).circuit_breaker.unwrap().per;
    assert_eq!(circuit_scope(r#"{"circuit_breaker":{}}"#), CircuitScope::Group);
    assert_eq!(circuit_scope(r#"{"circuit_breaker":{"per":"group"}}"#), CircuitScope::Group);
    assert_eq!(circuit_scope(r#"{"circuit_breaker":{"per":"target"}}"#), CircuitScope::Target);
}

fn refusal(breaker: &str) -> String {
    Policy::from_json(&format!(r#"{{"circuit_breaker":{breaker}}}"#)).unwrap_err().to_string()
}

#[test]
fn an_invalid_circuit_scope_is_refused_with_a_list_of_valid_ones() {
    let long = format!(r#""attribute:{}""#, "x".repeat(257));
    for wrong in
        [r#""attribute:""#, r#""Group""#, "5", "null", r#""attribute:a b""#, r#""attribute:é""#, &long]
    {
        assert_eq!(
            refusal(&format!(r#"{{"per":{wrong}}}"#)),
            "is refused: /circuit_breaker/per must be \"group\", \"target\", or \"attribute:\" and an attribute's name \
             (up to 256 of A-Z a-z 0-9 _ - .)",
            "{wrong}"
        );
    }
}

#[test]
fn an_unknown_circuit_breaker_member_is_named() {
    assert_eq!(
        refusal(r#"{"failure_ratio":1}"#),
        "is refused: /circuit_breaker/failure_ratio is not a known member"
    );
}

#[test]
fn lists_and_numbers_in_the_circuit_breaker_have_limits() {
    let policy_text = |value: &str| format!(r#"{{"circuit_breaker":{{"hold_seconds_max":{value}}}}}"#);
    for value in ["60", "1209600"] {
        assert!(Policy::from_json(&policy_text(value)).is_ok(), "{value}");
    }
    for value in ["59", "1209601", "true", "\"60\""] {
        assert_eq!(violation_pointers(&policy_text(value)), ["/circuit_breaker/hold_seconds_max"], "{value}");
    }
    assert_eq!(violation_pointers(r#"{"circuit_breaker":{"opens_on":[]}}"#), ["/circuit_breaker/opens_on"]);
}

#[test]
fn an_invalid_circuit_breaker_is_refused_with_a_list_of_valid_values() {
    for wrong in ["true", "null", "\"\"", "[]", "1"] {
        assert_eq!(
            refusal(wrong),
            "is refused: /circuit_breaker must be an object, or false: {} turns it on with all defaults",
            "{wrong}"
        );
    }
}

#[test]
fn max_redrives_is_twenty_by_default() {
    assert_eq!(parse("{}").redrives_max(), 20);
    assert_eq!(parse(r#"{"max_redrives":0}"#).redrives_max(), 0);
    assert_eq!(parse(r#"{"max_redrives":1000}"#).redrives_max(), 1000);
    for wrong in ["-1", "1001", "1.5", "null"] {
        assert_eq!(
            violation_pointers(&format!(r#"{{"max_redrives":{wrong}}}"#)),
            ["/max_redrives"],
            "{wrong}"
        );
    }
}
