mod circuit_breaker;
mod strategies;
mod vectors;

use super::*;
use crate::decide::backoff::{JitterKey, retry_delay};

fn parse(text: &str) -> Policy {
    Policy::from_json(text).unwrap()
}

/// Returns the pointers to all invalid members, sorted.
fn violation_pointers(text: &str) -> Vec<String> {
    match Policy::from_json(text) {
        Err(PolicyError::Refused(violations)) => {
            let mut pointers: Vec<_> = violations.into_iter().map(|violation| violation.pointer).collect();
            pointers.sort();
            pointers
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn backoff(text: &str) -> Backoff {
    parse(&format!(r#"{{"backoff":{text}}}"#)).backoff
}

fn seconds(seconds: u64) -> RetryDelay {
    RetryDelay::new(seconds).unwrap()
}

fn delays(list: &[u64]) -> DelaySchedule {
    list.iter().copied().map(seconds).collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn an_empty_policy_means_five_retries_with_uniform_delays_up_to_900_s() {
    let expected = Policy {
        max_attempts: 5,
        backoff: Backoff::Uniform { max_delay: RetryDelay::SHORT_MAX },
        long_delays: false,
        max_age_seconds: None,
        retryable: None,
        non_retryable: None,
        immediate: None,
        circuit_breaker: Some(CircuitBreaker::default()),
        max_redrives: None,
        on_give_up: OnGiveUp::Continue,
    };
    assert_eq!(parse("{}"), expected);
    assert_eq!(Policy::default(), expected);
}

#[test]
fn every_member_is_read() {
    let policy = parse(
        r#"{"max_attempts":7,"backoff":{"kind":"fixed","delay_seconds":30,"jitter":"none"},"max_age_seconds":86400,
            "retryable":["HttpStatus.5*"],"non_retryable":["HttpStatus.501","Panic"],"on_give_up":"block"}"#,
    );
    assert_eq!(policy.on_give_up, OnGiveUp::Block);
    assert_eq!(policy.max_attempts, 7);
    assert_eq!(policy.max_age_seconds, Some(86_400));
    let retryable = policy.retryable.unwrap();
    assert!(retryable.matches("HttpStatus.503") && !retryable.matches("HttpStatus.404"));
    let non_retryable = policy.non_retryable.unwrap();
    assert!(non_retryable.matches("Panic") && non_retryable.matches("HttpStatus.501"));
    assert!(!non_retryable.matches("HttpStatus.502"));
}

#[test]
fn each_kind_of_backoff_is_read_with_its_defaults() {
    assert_eq!(backoff(r#"{"kind":"uniform"}"#), Backoff::Uniform { max_delay: seconds(900) });
    assert_eq!(
        backoff(r#"{"kind":"uniform","max_delay_seconds":60}"#),
        Backoff::Uniform { max_delay: seconds(60) }
    );
    assert_eq!(
        backoff(r#"{"kind":"exponential","initial_delay_seconds":3}"#),
        Backoff::Exponential {
            initial_delay: seconds(3),
            rate: 2.0,
            offset: RetryDelay::ZERO,
            max_delay: seconds(900),
            jitter: Jitter::Full,
        }
    );
    assert_eq!(
        backoff(
            r#"{"kind":"exponential","initial_delay_seconds":3,"rate":1.5,"max_delay_seconds":80,"jitter":"half"}"#
        ),
        Backoff::Exponential {
            initial_delay: seconds(3),
            rate: 1.5,
            offset: RetryDelay::ZERO,
            max_delay: seconds(80),
            jitter: Jitter::Half,
        }
    );
    assert_eq!(
        backoff(r#"{"kind":"fixed","delay_seconds":0}"#),
        Backoff::Fixed { delay: seconds(0), jitter: Jitter::Full }
    );
    assert_eq!(
        backoff(r#"{"kind":"schedule","delays_seconds":[1,20,300],"jitter":"none"}"#),
        Backoff::Schedule { delays: delays(&[1, 20, 300]), jitter: Jitter::None }
    );
}

#[test]
fn integers_can_be_written_as_5_0_or_5e0() {
    assert_eq!(parse(r#"{"max_attempts":5.0}"#).max_attempts, 5);
    assert_eq!(parse(r#"{"max_attempts":7e0}"#).max_attempts, 7);
    assert_eq!(parse(r#"{"max_age_seconds":1.2e3}"#).max_age_seconds, Some(1200));
    assert_eq!(
        backoff(r#"{"kind":"schedule","delays_seconds":[1.0,9e2]}"#),
        Backoff::Schedule { delays: delays(&[1, 900]), jitter: Jitter::Full }
    );
}

#[test]
fn max_attempts_is_0_to_1000_and_0_turns_retries_off() {
    assert_eq!(parse(r#"{"max_attempts":0}"#).max_attempts, 0);
    assert_eq!(parse(r#"{"max_attempts":1000}"#).max_attempts, 1000);
    for wrong in ["1001", "-1", "1.5", "\"5\"", "null", "1e400", "99999999999999999999"] {
        let culprits = violation_pointers(&format!(r#"{{"max_attempts":{wrong}}}"#));
        assert!(
            !culprits.is_empty() && culprits.iter().all(|pointer| pointer == "/max_attempts"),
            "{wrong}: {culprits:?}"
        );
    }
}

#[test]
fn a_delay_of_901_seconds_is_refused_in_every_member() {
    for (backoff, culprit) in [
        (r#"{"kind":"uniform","max_delay_seconds":901}"#, "/backoff/max_delay_seconds"),
        (r#"{"kind":"exponential","initial_delay_seconds":901}"#, "/backoff/initial_delay_seconds"),
        (
            r#"{"kind":"exponential","initial_delay_seconds":1,"max_delay_seconds":901}"#,
            "/backoff/max_delay_seconds",
        ),
        (r#"{"kind":"fixed","delay_seconds":901}"#, "/backoff/delay_seconds"),
        (r#"{"kind":"schedule","delays_seconds":[900,901]}"#, "/backoff/delays_seconds/1"),
    ] {
        assert_eq!(violation_pointers(&format!(r#"{{"backoff":{backoff}}}"#)), [culprit]);
    }
}

#[test]
fn unknown_members_are_named_by_json_pointer() {
    assert_eq!(
        violation_pointers(r#"{"max_atempts":3,"max_attempts":3,"a/b~c":1}"#),
        ["/a~1b~0c", "/max_atempts"]
    );
    for (backoff, culprit) in [
        (r#"{"kind":"uniform","rate":2}"#, "/backoff/rate"),
        (r#"{"kind":"fixed","delay_seconds":1,"rate":2}"#, "/backoff/rate"),
        (r#"{"kind":"exponential","initial_delay_seconds":1,"delay_seconds":2}"#, "/backoff/delay_seconds"),
        (r#"{"kind":"schedule","delays_seconds":[1],"max_delay_seconds":2}"#, "/backoff/max_delay_seconds"),
    ] {
        assert_eq!(violation_pointers(&format!(r#"{{"backoff":{backoff}}}"#)), [culprit]);
    }
}

#[test]
fn uniform_backoff_refuses_jitter() {
    assert_eq!(violation_pointers(r#"{"backoff":{"kind":"uniform","jitter":"half"}}"#), ["/backoff/jitter"]);
}

#[test]
fn a_missing_member_is_named_by_json_pointer() {
    for (backoff, culprit) in [
        (r#"{}"#, "/backoff/kind"),
        (r#"{"kind":"exponential"}"#, "/backoff/initial_delay_seconds"),
        (r#"{"kind":"fixed"}"#, "/backoff/delay_seconds"),
        (r#"{"kind":"schedule"}"#, "/backoff/delays_seconds"),
    ] {
        assert_eq!(violation_pointers(&format!(r#"{{"backoff":{backoff}}}"#)), [culprit]);
    }
}

#[test]
fn invalid_values_are_named_by_json_pointer() {
    for (document, culprit) in [
        ("[]", ""),
        ("5", ""),
        (r#"{"backoff":"uniform"}"#, "/backoff"),
        (r#"{"backoff":{"kind":"linear"}}"#, "/backoff/kind"),
        (r#"{"backoff":{"kind":"exponential","initial_delay_seconds":0}}"#, "/backoff/initial_delay_seconds"),
        (r#"{"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":0.5}}"#, "/backoff/rate"),
        (r#"{"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":1e400}}"#, "/backoff/rate"),
        (r#"{"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"some"}}"#, "/backoff/jitter"),
        (r#"{"backoff":{"kind":"schedule","delays_seconds":[]}}"#, "/backoff/delays_seconds"),
        (r#"{"max_age_seconds":0}"#, "/max_age_seconds"),
        (r#"{"max_age_seconds":1209601}"#, "/max_age_seconds"),
        (r#"{"retryable":[]}"#, "/retryable"),
        (r#"{"retryable":["A",""]}"#, "/retryable/1"),
        (r#"{"non_retryable":"A"}"#, "/non_retryable"),
        (r#"{"non_retryable":["A","A"]}"#, "/non_retryable"),
    ] {
        assert_eq!(violation_pointers(document), [culprit], "{document}");
    }
}

#[test]
fn a_misspelt_backoff_kind_is_refused_with_a_list_of_all_kinds() {
    let refused = Policy::from_json(r#"{"backoff":{"kind":"exponentail"}}"#).unwrap_err().to_string();
    let expected =
        r#"is refused: /backoff/kind is not one of "uniform", "exponential", "fixed" or "schedule""#;
    assert_eq!(refused, expected);
}

#[test]
fn contradictions_are_refused_with_a_pointer_to_the_invalid_member() {
    assert_eq!(
        violation_pointers(
            r#"{"backoff":{"kind":"exponential","initial_delay_seconds":61,"max_delay_seconds":60}}"#
        ),
        ["/backoff/initial_delay_seconds"]
    );
    assert_eq!(
        violation_pointers(r#"{"retryable":["A","HttpStatus.4*"],"non_retryable":["B","HttpStatus.4*"]}"#),
        ["/non_retryable/1"]
    );
}

#[test]
fn duplicate_policy_member_is_refused() {
    assert_eq!(violation_pointers(r#"{"max_attempts":0,"max_attempts":5}"#), ["/max_attempts"]);
    assert_eq!(
        violation_pointers(r#"{"backoff":{"kind":"uniform","k\u0069nd":"fixed","delay_seconds":1}}"#),
        ["/backoff/kind"]
    );
    assert_eq!(
        violation_pointers(r#"{"immediate":{"max_attempts":1,"max_attempts":9,"delay_ms":1}}"#),
        ["/immediate/max_attempts"]
    );
    assert_eq!(
        violation_pointers(
            r#"{"backoff":{"kind":"fixed","delay_seconds":1,"jitter":{"kind":"additive","max_seconds":1,"max_seconds":9}}}"#
        ),
        ["/backoff/jitter/max_seconds"]
    );
}

#[test]
fn all_invalid_members_are_named_in_one_message() {
    let error =
        Policy::from_json(r#"{"max_attempts":1001,"backoff":{"kind":"fixed","delay_seconds":901,"x":1}}"#);
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("is refused: "), "{text}");
    for pointer in ["/max_attempts ", "/backoff/delay_seconds ", "/backoff/x "] {
        assert!(text.contains(pointer), "{text}");
    }
}

/// `serde_json` alone would read this object as a number.
#[test]
fn policy_object_with_a_name_reserved_by_serde_json_is_not_a_number() {
    let three = r#"{"$serde_json::private::Number":"3"}"#;
    assert_eq!(violation_pointers(&format!(r#"{{"max_attempts":{three}}}"#)), ["/max_attempts"]);
    let document = r#"{"$serde_json::private::RawValue":"{\"max_attempts\":3}"}"#;
    assert_eq!(violation_pointers(document), ["/$serde_json::private::RawValue"]);
}

#[test]
fn policy_that_is_not_json_is_refused() {
    for text in ["", "{", "max_attempts: 5", "{\"max_attempts\":05}", "{}{}"] {
        assert!(matches!(Policy::from_json(text), Err(PolicyError::NotJson(_))), "{text}");
    }
}

#[test]
fn globs_match_complete_names_with_wildcards() {
    let globs = parse(r#"{"retryable":["HttpStatus.4*","Db.?","Exact"]}"#).retryable.unwrap();
    for matching in ["HttpStatus.4", "HttpStatus.429", "Db.x", "Exact"] {
        assert!(globs.matches(matching), "{matching}");
    }
    for other in ["HttpStatus.5", "xHttpStatus.4", "Db.", "Db.xy", "exact", "Exactly", ""] {
        assert!(!globs.matches(other), "{other}");
    }
}

#[test]
fn the_longest_policy_delay_is_the_longest_that_sqs_accepts() {
    let key = JitterKey { message_id: uuid::Uuid::nil(), generation: 0, attempt: 1 };
    let policy = parse(r#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#);
    assert_eq!(retry_delay(&policy, key).get(), 900);
}

/// A policy may be in a template that few people can read, but more people can read the log of a function that fails to
/// start.
#[test]
fn a_refusal_never_contains_a_value() {
    for document in [
        "CANARY",
        r#""CANARY""#,
        r#"{"max_attempts":"CANARY"}"#,
        r#"{"max_attempts":424242}"#,
        r#"{"max_age_seconds":-424242}"#,
        r#"{"backoff":"CANARY"}"#,
        r#"{"backoff":{"kind":"CANARY"}}"#,
        r#"{"backoff":{"kind":"fixed","delay_seconds":"CANARY"}}"#,
        r#"{"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"CANARY"}}"#,
        r#"{"backoff":{"kind":"schedule","delays_seconds":["CANARY",424242]}}"#,
        r#"{"retryable":"CANARY"}"#,
        r#"{"retryable":["CANARY"],"non_retryable":["CANARY"]}"#,
        r#"{"retryable":[{"CANARY":"CANARY"}]}"#,
        r#"{"max_attempts":1,"max_attempts":"CANARY"}"#,
        r#"{"max_attempts":CANARY}"#,
    ] {
        let error = Policy::from_json(document).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("CANARY") && !text.contains("4242"), "{document}: {text}");
    }
}

#[test]
#[cfg(feature = "validator")]
fn only_a_misspelt_member_gets_a_suggestion() {
    let refusal_text = |policy: &str| Policy::from_json(policy).unwrap_err().to_string();
    let attempts = refusal_text(r#"{"max_atempts":3}"#);
    assert_eq!(attempts, "is refused: /max_atempts is not a known member: did you mean max_attempts?");
    let delay = refusal_text(r#"{"backoff":{"kind":"fixed","delay_second":1,"delay_seconds":1}}"#);
    assert_eq!(delay, "is refused: /backoff/delay_second is not a known member: did you mean delay_seconds?");
    assert_eq!(refusal_text(r#"{"retries":3}"#), "is refused: /retries is not a known member");
}
