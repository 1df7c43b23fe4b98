//! Functions that do not start say why, without a value.

use redeliver_tests::fake_aws::FakeAws;
use redeliver_tests::settings::PATIENCE;

use super::*;

/// Starts a function that cannot; all that it says.
async fn refused(name: &str, variables: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(bundle_path(name));
    command.env_clear().env("AWS_REGION", "eu-west-1").envs(loud_variables()).envs(variables.iter().copied());
    let ended = tokio::time::timeout(PATIENCE, command.output());
    let output = ended.await.expect("it ends").unwrap();
    assert!(!output.status.success(), "{variables:?}");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    secrets().assert_absent(name, &said);
    said
}

/// The settings of a message-processor that starts.
const GOOD: [(&str, &str); 4] = [
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
    let said = refused("message-processor", &wrong).await;
    for (name, _) in wrong {
        assert!(said.contains(&format!("- {name} ")), "{name}: {said}");
    }
    for target in [
        "Rw8queryJ3pGk5Hy2",
        "http://Rw8queryJ3pGk5Hy2.com/?a=Rw8queryJ3pGk5Hy2",
        "https://[Rw8queryJ3pGk5Hy2/",
    ] {
        let said = refused("message-processor", &[GOOD[0], GOOD[1], GOOD[2], ("TARGET", target)]).await;
        assert!(said.contains("- TARGET is "), "{said}");
    }
    let policy = format!(r#"{{"max_attempts":"{QUERY}","backoff":{{"kind":"{QUERY}"}}}}"#);
    let said = refused("failed-message-processor", &[("RETRY_POLICY", &policy)]).await;
    assert!(said.contains("/max_attempts") && said.contains("/backoff/kind"), "{said}");
    let said = refused("final-dlq-annotator", &[("FINAL_DLQ_URL", QUERY)]).await;
    assert!(said.contains("- FINAL_DLQ_URL is not a queue's URL"), "{said}");
    let wrong = [("RETRY_QUEUE_URL", QUERY), ("FUNCTION_ARNS", QUERY), ("RETRY_POLICY", &policy)];
    let said = refused("async-retry-handler", &wrong).await;
    assert!(said.contains("- FUNCTION_ARNS entry 1 is not") && said.contains("/backoff/kind"), "{said}");
    // Everything right, but nothing there that Lambda would set.
    let target = format!("https://example.com/{QUERY}?key={QUERY}");
    let said = refused("message-processor", &[GOOD[0], GOOD[1], GOOD[2], ("TARGET", &target)]).await;
    assert!(said.contains("- AWS_LAMBDA_RUNTIME_API is missing"), "{said}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_refused_without_its_text() {
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
        let said = refused("message-processor", &[&GOOD[..], &more].concat()).await;
        assert!(said.contains(reason), "{reason}: {said}");
    }
}
