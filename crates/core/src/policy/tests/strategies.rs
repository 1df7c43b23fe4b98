//! Long delays, additive jitter, immediate retries, presets, and a strategy's own defaults.

use super::*;

#[test]
fn long_delays_allow_a_delay_of_12_hours_and_an_age_of_a_year() {
    let policy = parse(
        r#"{"long_delays":true,"max_age_seconds":31536000,
            "backoff":{"kind":"schedule","delays_seconds":[901,43200],"jitter":"none"}}"#,
    );
    assert!(policy.long_delays);
    assert_eq!(policy.max_age_seconds, Some(31_536_000));
    assert_eq!(policy.backoff.longest_delay(policy.delay_limit()), RetryDelay::MAX);
    for wrong in [
        r#"{"long_delays":true,"backoff":{"kind":"uniform","max_delay_seconds":43201}}"#,
        r#"{"long_delays":false,"backoff":{"kind":"uniform","max_delay_seconds":901}}"#,
    ] {
        assert_eq!(violation_pointers(wrong), ["/backoff/max_delay_seconds"]);
    }
    assert_eq!(
        violation_pointers(r#"{"long_delays":true,"max_age_seconds":31536001}"#),
        ["/max_age_seconds"]
    );
    assert_eq!(violation_pointers(r#"{"long_delays":"yes"}"#), ["/long_delays"]);
    assert_eq!(
        violation_pointers(
            r#"{"long_delays":true,"backoff":{"kind":"exponential","initial_delay_seconds":901}}"#
        ),
        ["/backoff/initial_delay_seconds"],
        "the cap is 900 s unless it is set"
    );
    let error = Policy::from_json(r#"{"backoff":{"kind":"fixed","delay_seconds":901}}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "is refused: /backoff/delay_seconds is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true"
    );
}

#[test]
fn additive_jitter_and_offset_are_parsed() {
    let formula = r#"{"kind":"exponential","initial_delay_seconds":2,"offset_seconds":30,"jitter":{"kind":"additive","max_seconds":60}}"#;
    assert_eq!(
        backoff(formula),
        Backoff::Exponential {
            initial_delay: seconds(2),
            rate: 2.0,
            offset: seconds(30),
            max_delay: seconds(900),
            jitter: Jitter::Additive { max: seconds(60) },
        }
    );
    for (wrong, culprit) in [
        (r#"{"kind":"additive"}"#, "/backoff/jitter/max_seconds"),
        (r#"{"max_seconds":5}"#, "/backoff/jitter/kind"),
        (r#"{"kind":"full","max_seconds":5}"#, "/backoff/jitter/kind"),
        (r#"{"kind":"additive","max_seconds":5,"min_seconds":1}"#, "/backoff/jitter/min_seconds"),
        (r#"{"kind":"additive","max_seconds":901}"#, "/backoff/jitter/max_seconds"),
        ("5", "/backoff/jitter"),
    ] {
        let document = format!(r#"{{"backoff":{{"kind":"fixed","delay_seconds":1,"jitter":{wrong}}}}}"#);
        assert_eq!(violation_pointers(&document), [culprit], "{wrong}");
    }
    assert_eq!(
        violation_pointers(
            r#"{"backoff":{"kind":"exponential","initial_delay_seconds":1,"max_delay_seconds":9,"jitter":{"kind":"additive","max_seconds":10}}}"#
        ),
        ["/backoff/jitter/max_seconds"]
    );
}

#[test]
fn at_most_ten_immediate_retries_are_allowed_at_most_10_s_apart() {
    let immediate = |text: &str| parse(&format!(r#"{{"immediate":{text}}}"#)).immediate;
    assert_eq!(
        immediate(r#"{"max_attempts":2,"delay_ms":100}"#),
        Some(ImmediateRetries { max_attempts: 2, delay: Duration::from_millis(100) })
    );
    assert_eq!(
        immediate(r#"{"max_attempts":10,"delay_ms":10000}"#),
        Some(ImmediateRetries { max_attempts: 10, delay: Duration::from_secs(10) })
    );
    for (wrong, culprit) in [
        (r#"{"max_attempts":0,"delay_ms":1}"#, "/immediate/max_attempts"),
        (r#"{"max_attempts":11,"delay_ms":1}"#, "/immediate/max_attempts"),
        (r#"{"max_attempts":1,"delay_ms":10001}"#, "/immediate/delay_ms"),
        (r#"{"max_attempts":1}"#, "/immediate/delay_ms"),
        (r#"{"max_attempts":1,"delay_ms":1,"jitter":"full"}"#, "/immediate/jitter"),
        ("true", "/immediate"),
    ] {
        assert_eq!(violation_pointers(&format!(r#"{{"immediate":{wrong}}}"#)), [culprit], "{wrong}");
    }
}

#[test]
fn absent_members_use_the_given_defaults() {
    let defaults = r#"{"long_delays":true,"max_attempts":1000,"max_age_seconds":86400,"backoff":{"kind":"fixed","delay_seconds":7200}}"#;
    let parse_over = |text: &str| Policy::from_json_with_defaults(defaults, text);
    assert_eq!(parse_over("{}").unwrap(), parse(defaults));
    let policy = parse_over(r#"{"max_attempts":3,"max_age_seconds":60}"#).unwrap();
    assert_eq!((policy.max_attempts, policy.max_age_seconds), (3, Some(60)));
    assert_eq!(policy.backoff, parse(defaults).backoff);
    let preset = parse_over(r#"{"preset":"durable_transient"}"#).unwrap();
    assert_eq!((preset.max_attempts, preset.max_age_seconds), (2, Some(86_400)));
    assert_eq!(preset.backoff, parse(r#"{"preset":"durable_transient"}"#).backoff);
    let error = parse_over(r#"{"long_delays":false}"#).unwrap_err().to_string();
    assert!(error.contains("/backoff/delay_seconds is more than 900"), "{error}");
    for wrong in ["[]", "5", "{\"x\":1}"] {
        assert!(matches!(parse_over(wrong), Err(PolicyError::Refused(_))), "{wrong}");
    }
}

#[test]
fn presets_match_the_durable_execution_sdks() {
    let preset = |name: &str| parse(&format!(r#"{{"preset":"durable_{name}"}}"#));
    let attempts = |name: &str| preset(name).max_attempts;
    assert_eq!(
        ["default", "none", "transient", "resource_availability", "critical"].map(attempts),
        [5, 0, 2, 4, 9],
        "one less than the SDKs' attempts, which include the first call"
    );
    assert_eq!(
        preset("default").backoff,
        backoff(r#"{"kind":"exponential","initial_delay_seconds":5,"max_delay_seconds":60}"#)
    );
    assert_eq!(
        preset("transient").backoff,
        backoff(
            r#"{"kind":"exponential","initial_delay_seconds":5,"max_delay_seconds":300,"jitter":"half"}"#
        )
    );
    assert_eq!(
        preset("resource_availability").backoff,
        backoff(r#"{"kind":"exponential","initial_delay_seconds":5,"max_delay_seconds":300}"#)
    );
    assert_eq!(
        preset("critical").backoff,
        backoff(
            r#"{"kind":"exponential","initial_delay_seconds":1,"rate":1.5,"max_delay_seconds":60,"jitter":"none"}"#
        )
    );
    assert_eq!(parse(r#"{"preset":"durable_default","max_attempts":9}"#).max_attempts, 9);
    assert_eq!(
        violation_pointers(r#"{"preset":"durable_default","backoff":{"kind":"uniform"}}"#),
        ["/backoff"]
    );
    assert_eq!(violation_pointers(r#"{"preset":"durable"}"#), ["/preset"]);
}
