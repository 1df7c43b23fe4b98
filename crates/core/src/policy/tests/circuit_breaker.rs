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
fn each_of_its_members_is_read() {
    let policy = parse(
        r#"{"circuit_breaker":{"failure_rate":0.5,"minimum_calls":20,"window_seconds":60,"probe_interval_seconds":5,
            "probe_interval_seconds_max":300,"opens_on":["Db.*"],"hold_seconds_max":3600}}"#,
    );
    let expected = CircuitBreaker {
        failure_rate: 0.5,
        minimum_calls: 20,
        window: Duration::from_secs(60),
        probe_interval: Duration::from_secs(5),
        probe_interval_max: Duration::from_secs(300),
        opens_on: Globs::of(&["Db.*"]),
        hold_max: Duration::from_secs(3600),
    };
    assert_eq!(policy.circuit_breaker, Some(expected));
}

#[test]
fn its_numbers_have_limits() {
    for (name, least, most, below, above) in [
        ("failure_rate", "0.01", "1", "0.009", "1.01"),
        ("minimum_calls", "1", "1000", "0", "1001"),
        ("window_seconds", "1", "3600", "0", "3601"),
        ("probe_interval_seconds_max", "15", "600", "0", "601"),
        ("probe_interval_seconds", "1", "120", "0", "601"),
        ("hold_seconds_max", "60", "1209600", "59", "1209601"),
    ] {
        let with = |value: &str| format!(r#"{{"circuit_breaker":{{"{name}":{value}}}}}"#);
        for value in [least, most] {
            assert!(Policy::from_json(&with(value)).is_ok(), "{name} {value}");
        }
        for value in [below, above, "true", "\"5\""] {
            assert_eq!(culprits(&with(value)), [format!("/circuit_breaker/{name}")], "{name} {value}");
        }
    }
    assert_eq!(culprits(r#"{"circuit_breaker":{"opens_on":[]}}"#), ["/circuit_breaker/opens_on"]);
    assert_eq!(culprits(r#"{"circuit_breaker":{"failure_ratio":0.5}}"#), ["/circuit_breaker/failure_ratio"]);
}

#[test]
fn the_first_interval_is_not_longer_than_the_longest() {
    let rule_of = |breaker: &str| {
        Policy::from_json(&format!(r#"{{"circuit_breaker":{breaker}}}"#)).unwrap_err().to_string()
    };
    assert_eq!(
        rule_of(r#"{"probe_interval_seconds":121}"#),
        "is refused: /circuit_breaker/probe_interval_seconds is 121, more than probe_interval_seconds_max (120, its default)"
    );
    assert_eq!(
        rule_of(r#"{"probe_interval_seconds_max":10}"#),
        "is refused: /circuit_breaker/probe_interval_seconds_max is 10, less than probe_interval_seconds (15, its default)"
    );
    assert_eq!(
        rule_of(r#"{"probe_interval_seconds":61,"probe_interval_seconds_max":60}"#),
        "is refused: /circuit_breaker/probe_interval_seconds is 61, more than probe_interval_seconds_max (60)"
    );
}

#[test]
fn what_is_neither_settings_nor_false_is_told_how_to_turn_it_on() {
    for wrong in ["true", "null", "\"\"", "[]", "1"] {
        let error = Policy::from_json(&format!(r#"{{"circuit_breaker":{wrong}}}"#)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "is refused: /circuit_breaker must be an object, or false: {} turns it on with all defaults",
            "{wrong}"
        );
    }
}

/// A quarter of an hour after the target's return everything is done, even a message that meets an environment that has
/// not probed yet.
#[test]
fn a_held_message_waits_for_a_quarter_of_an_hour_without_the_longest_interval() {
    let longest = |text: &str| parse(text).circuit_breaker.unwrap().hold_delay_max().get();
    assert_eq!(longest("{}"), 750);
    assert_eq!(longest(r#"{"circuit_breaker":{"probe_interval_seconds_max":600}}"#), 270);
    assert_eq!(longest(r#"{"circuit_breaker":{"probe_interval_seconds_max":15}}"#), 855);
}

#[test]
fn what_sqs_moved_comes_back_twenty_times_unless_the_policy_says_otherwise() {
    assert_eq!(parse("{}").redrives_max(), 20);
    assert_eq!(parse(r#"{"max_redrives":0}"#).redrives_max(), 0);
    assert_eq!(parse(r#"{"max_redrives":1000}"#).redrives_max(), 1000);
    for wrong in ["-1", "1001", "1.5", "null"] {
        assert_eq!(culprits(&format!(r#"{{"max_redrives":{wrong}}}"#)), ["/max_redrives"], "{wrong}");
    }
}
