//! The member `circuit_breaker`, and the limits on redrives.

use super::*;

#[test]
fn the_breaker_is_on_and_false_turns_it_off() {
    assert_eq!(parse("{}").circuit_breaker, Some(CircuitBreaker::default()));
    assert_eq!(parse(r#"{"circuit_breaker":{}}"#).circuit_breaker, Some(CircuitBreaker::default()));
    assert_eq!(parse(r#"{"circuit_breaker":false}"#).circuit_breaker, None);
    for wrong in ["true", "null", "0", "[]", r#""off""#] {
        assert_eq!(culprits(&format!(r#"{{"circuit_breaker":{wrong}}}"#)), ["/circuit_breaker"], "{wrong}");
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
    let per = |text: &str| parse(text).circuit_breaker.unwrap().per;
    assert_eq!(per(r#"{"circuit_breaker":{}}"#), CircuitScope::Group);
    assert_eq!(per(r#"{"circuit_breaker":{"per":"group"}}"#), CircuitScope::Group);
    assert_eq!(per(r#"{"circuit_breaker":{"per":"target"}}"#), CircuitScope::Target);
}

fn refusal(breaker: &str) -> String {
    Policy::from_json(&format!(r#"{{"circuit_breaker":{breaker}}}"#)).unwrap_err().to_string()
}

#[test]
fn a_circuit_is_one_groups_one_attributes_or_the_targets() {
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
fn unknown_circuit_breaker_member_is_refused_by_name() {
    assert_eq!(
        refusal(r#"{"failure_ratio":1}"#),
        "is refused: /circuit_breaker/failure_ratio is not a known member"
    );
}

#[test]
fn circuit_breaker_lists_and_numbers_have_limits() {
    let with = |value: &str| format!(r#"{{"circuit_breaker":{{"hold_seconds_max":{value}}}}}"#);
    for value in ["60", "1209600"] {
        assert!(Policy::from_json(&with(value)).is_ok(), "{value}");
    }
    for value in ["59", "1209601", "true", "\"60\""] {
        assert_eq!(culprits(&with(value)), ["/circuit_breaker/hold_seconds_max"], "{value}");
    }
    assert_eq!(culprits(r#"{"circuit_breaker":{"opens_on":[]}}"#), ["/circuit_breaker/opens_on"]);
}

#[test]
fn invalid_circuit_breaker_value_names_the_accepted_ones() {
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
        assert_eq!(culprits(&format!(r#"{{"max_redrives":{wrong}}}"#)), ["/max_redrives"], "{wrong}");
    }
}
