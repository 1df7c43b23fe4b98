//! Functions that fail to start report the reason without any value.

use redeliver_tests::fake_aws::FakeAws;
use redeliver_tests::settings::PATIENCE;

use super::*;

/// Starts a function that cannot start, and returns all of its output.
async fn failed_start_output(name: &str, variables: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(bundle_path(name));
    command
        .env_clear()
        .env("AWS_REGION", "eu-west-1")
        .envs(verbose_variables())
        .envs(variables.iter().copied());
    let ended = tokio::time::timeout(PATIENCE, command.output());
    let output = ended.await.expect("the program ends").unwrap();
    assert!(!output.status.success(), "{variables:?}");
    let reported = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    secrets().assert_absent(name, &reported);
    reported
}

/// Valid settings for a message-processor.
const VALID_SETTINGS: [(&str, &str); 4] = [
    ("SOURCE_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/000000000000/source"),
    ("INTERMEDIATE_DLQ_URL", "https://sqs.eu-west-1.amazonaws.com/000000000000/intermediate"),
    ("ANNOTATION_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/000000000000/annotation"),
    ("TARGET", "https://example.com/"),
];

#[tokio::test]
async fn wrong_settings_are_named_without_their_values() {
    let target = format!("https://user:{HEADER}@example.com/{QUERY}?key={QUERY}");
    let wrong = [
        ("TARGET", target.as_str()),
        ("INTERMEDIATE_DLQ_URL", QUERY),
        ("ANNOTATION_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/Rw8queryJ3pGk5Hy2.fifo"),
        ("TARGET_TIMEOUT_SECONDS", QUERY),
        ("TARGET_ALLOW_HTTP", QUERY),
        ("MAX_CONCURRENCY", QUERY),
    ];
    let reported = failed_start_output("message-processor", &wrong).await;
    for (name, _) in wrong {
        assert!(reported.contains(&format!("- {name} ")), "{name}: {reported}");
    }
    for target in [
        "Rw8queryJ3pGk5Hy2",
        "http://Rw8queryJ3pGk5Hy2.com/?a=Rw8queryJ3pGk5Hy2",
        "https://[Rw8queryJ3pGk5Hy2/",
    ] {
        let reported = failed_start_output(
            "message-processor",
            &[VALID_SETTINGS[0], VALID_SETTINGS[1], VALID_SETTINGS[2], ("TARGET", target)],
        )
        .await;
        assert!(reported.contains("- TARGET is "), "{reported}");
    }
    let policy = format!(r#"{{"max_attempts":"{QUERY}","backoff":{{"kind":"{QUERY}"}}}}"#);
    let reported = failed_start_output("failed-message-processor", &[("RETRY_POLICY", &policy)]).await;
    assert!(reported.contains("/max_attempts") && reported.contains("/backoff/kind"), "{reported}");
    let reported = failed_start_output("final-dlq-annotator", &[("FINAL_DLQ_URL", QUERY)]).await;
    assert!(reported.contains("- FINAL_DLQ_URL is not a queue's URL"), "{reported}");
    let wrong = [("RETRY_QUEUE_URL", QUERY), ("FUNCTION_ARNS", QUERY), ("RETRY_POLICY", &policy)];
    let reported = failed_start_output("async-retry-handler", &wrong).await;
    assert!(
        reported.contains("- FUNCTION_ARNS entry 1 is not") && reported.contains("/backoff/kind"),
        "{reported}"
    );
    // All settings are valid, but Lambda's own variables are missing.
    let target = format!("https://example.com/{QUERY}?key={QUERY}");
    let reported = failed_start_output(
        "message-processor",
        &[VALID_SETTINGS[0], VALID_SETTINGS[1], VALID_SETTINGS[2], ("TARGET", &target)],
    )
    .await;
    assert!(reported.contains("- AWS_LAMBDA_RUNTIME_API is missing"), "{reported}");
}

#[tokio::test]
async fn an_unusable_secret_is_reported_without_its_text() {
    let text = |secret: Value| (200, json!({ "SecretString": secret.to_string() }));
    for (answer, reason) in [
        (text(json!(HEADER)), "is not a JSON object"),
        (text(json!({ "Authorization": [HEADER] })), "is not a JSON object"),
        ((200, json!({ "SecretString": HEADER })), "is not a JSON object"),
        (
            text(json!({ "Authorization": format!("{HEADER}\r\nX-Evil: {HEADER}") })),
            "the header authorization in the secret of TARGET_HEADERS_SECRET_ARN has a line break",
        ),
        (
            text(json!({ format!("Bearer {HEADER}"): "Authorization" })),
            "has a name that is not a valid HTTP header name",
        ),
        (text(json!({ "Host": HEADER })), "has host, which"),
        (text(json!({ "Idempotency-Key": HEADER })), "has idempotency-key, which"),
        (text(json!({ "X-Redeliver-Attempt": HEADER })), "has x-redeliver-attempt, which"),
        (text(json!({ "X-A": HEADER, "x-a": HEADER })), "has the header x-a twice"),
        (
            (400, json!({ "__type": "AccessDeniedException", "Message": HEADER })),
            "cannot be read (AccessDeniedException)",
        ),
        (
            (400, json!({ "__type": "ResourceNotFoundException", "message": HEADER })),
            "cannot be read (ResourceNotFoundException)",
        ),
        ((200, json!(HEADER)), "cannot be read (no answer)"),
    ] {
        let aws = FakeAws::start(answer, "").await;
        let arn = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:headers";
        let more =
            [("TARGET_HEADERS_SECRET_ARN", arn), ("AWS_ENDPOINT_URL_SECRETS_MANAGER", aws.endpoint_url())];
        let reported = failed_start_output("message-processor", &[&VALID_SETTINGS[..], &more].concat()).await;
        assert!(reported.contains(reason), "{reason}: {reported}");
    }
}
