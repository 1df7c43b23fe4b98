//! `redeliver check`: its findings in messages, policies and schemas.

use super::*;

#[test]
fn check_prints_the_pointer_and_rule_of_each_violation() {
    let output = run_redeliver(&["check", EXAMPLE]);
    assert_eq!(output.status.code(), Some(3));
    let findings = String::from_utf8(output.stdout).unwrap();
    for finding in [
        ":15: INVALID_MESSAGE_FORMAT not a JSON object",
        ":17: INVALID_MESSAGE_FORMAT duplicate member /data",
        ":19: INVALID_MESSAGE_SCHEMA /metadata is missing",
        ":21: INVALID_MESSAGE_SCHEMA /metadata/retry_attempt is not an integer written in digits",
        ":22: INVALID_MESSAGE_SCHEMA /data is not of type \"object\"",
    ] {
        assert!(findings.contains(finding), "{finding} in {findings}");
    }
}

#[test]
fn check_accepts_the_shipped_policy_and_a_pretty_printed_message() {
    let policy = run_redeliver(&["check", "--policy", "examples/policy.json"]);
    assert_eq!((policy.status.code(), &*policy.stdout), (Some(0), &b"examples/policy.json: valid\n"[..]));
    let message = "{\n  \"metadata\": {\n    \"message_id\": \"0191f3a2-7b1c-7d3e-8f00-0123456789ab\"\n  },\n  \"data\": {}\n}\n";
    let file = ScratchFile::new("pretty.json", message.as_bytes());
    assert_eq!(run_redeliver(&["check", file.name()]).status.code(), Some(0));
}

#[test]
fn check_finds_valid_json_that_sqs_refuses() {
    let message = |data: &str| {
        let id = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";
        format!("{{\"metadata\":{{\"message_id\":\"{id}\"}},\"data\":{{\"d\":\"{data}\"}}}}")
    };
    let lines = [message("x"), message("\u{FFFE}"), message(&"x".repeat(1_048_576))].join("\n");
    let file = ScratchFile::new("refused.jsonl", lines.as_bytes());
    let output = run_redeliver(&["check", file.name()]);
    assert_eq!(output.status.code(), Some(3));
    let findings = String::from_utf8(output.stdout).unwrap();
    let expected = [
        format!("{}:2: the character U+FFFE at byte 79 of the body is not allowed in SQS", file.name()),
        format!("{}:3: 1048658 bytes with its attributes; the SQS limit is 1048576", file.name()),
    ];
    assert_eq!(findings.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn check_finds_policy_and_data_schema_errors() {
    let policy = ScratchFile::new(
        "wrong-policy.json",
        br#"{"backoff":{"kind":"fixed","delay_seconds":901},"jitter":"full"}"#,
    );
    let schema = ScratchFile::new("wrong-schema.json", br#"{"$ref":"https://example.com/order.json"}"#);
    let output = run_redeliver(&["check", "--policy", policy.name(), "--data-schema", schema.name()]);
    assert_eq!(output.status.code(), Some(3));
    let findings = String::from_utf8(output.stdout).unwrap();
    assert!(findings.contains("/jitter is not a known member"), "{findings}");
    assert!(findings.contains("/backoff/delay_seconds"), "{findings}");
    assert!(findings.contains("remote references are refused"), "{findings}");
}

#[test]
fn check_and_simulate_warn_about_a_policy_that_never_retries() {
    let policy = ScratchFile::new(
        "no-retry.json",
        br#"{"max_age_seconds":60,"backoff":{"kind":"fixed","delay_seconds":600,"jitter":"none"}}"#,
    );
    let warning =
        "the first retry comes after 600 s at the earliest, but max_age_seconds is 60: no retry is ever made";
    let warning = format!("warning: {}: {warning}\n", policy.name());
    for command in [
        &["check", "--policy", policy.name()][..],
        &["simulate", "--messages", "10", "--policy", policy.name()],
    ] {
        let output = run_redeliver(command);
        assert_eq!((output.status.code(), stderr_text(&output)), (Some(0), warning.clone()));
    }
}

#[test]
fn check_refuses_a_policy_from_standard_input() {
    let output = run_with_input(&["check", "--policy", "-"], b"{}");
    let refusal = "-: cannot be read: No such file or directory (os error 2); only messages are read from standard input: \
                   name a file\n";
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_text(&output).ends_with(refusal), "{}", stderr_text(&output));
}

/// Both commands print the same warning about low traffic, and neither counts errors that the policy's lists exclude.
#[test]
fn check_and_simulate_warn_about_low_traffic_and_suggest_a_remedy() {
    let remedy = "; plan more or longer retries, or name the error in opens_on\n";
    let stated = |policy: &[u8]| {
        let policy = ScratchFile::new("thin.json", policy);
        let checked = stderr_text(&run_redeliver(&["check", "--policy", policy.name()]));
        let thin = ["--messages", "10", "--outage", "12h", "--status", "500"];
        let planned =
            stderr_text(&run_redeliver(&[&["simulate", "--policy", policy.name()], &thin[..]].concat()));
        [checked, planned]
    };
    for warning in stated(b"{}") {
        assert!(warning.contains("spend") && warning.ends_with(remedy), "{warning}");
    }
    let opens_on = r#"["HttpStatus.500","Http.Timeout","Lambda.FunctionError"]"#;
    let not_now = format!(r#"{{"circuit_breaker":{{"opens_on":{opens_on}}}}}"#);
    for warning in stated(not_now.as_bytes()) {
        assert!(!warning.contains("spend"), "{warning}");
    }
}

#[test]
fn check_prints_json_and_suggests_the_intended_member() {
    let policy = ScratchFile::new("misspelt.json", br#"{"max_atempts":3}"#);
    let output = run_redeliver(&["check", "--policy", policy.name(), "--format", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding =
        format!("{}: /max_atempts is not a known member: did you mean max_attempts?", policy.name());
    let expected = serde_json::json!({
        "schema": "redeliver.check/1",
        "valid": false,
        "files": [{"name": policy.name(), "messages": null, "findings": [finding]}],
    });
    assert_eq!(report, expected);
}
