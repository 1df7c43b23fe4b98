//! Every kind of success and failure, with every kind of target.

use redeliver_tests::fake_aws::{FakeAws, FakeInvocation};
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtimes::Language;
use redeliver_tests::sqs::unique_name;

use super::super::{final_records, new_journal};
use super::*;

const FUNCTION: &str = "arn:aws:lambda:eu-west-1:000000000000:function:orders";

async fn start_tap() -> Tap {
    Tap::start(&Ministack::shared().endpoint_url()).await
}

/// Returns invalid bodies, each with canaries.
fn invalid_bodies() -> Vec<String> {
    vec![
        format!("no JSON: {BODY}"),
        format!(r#"{{"metadata":{{"message_id":"{METADATA}"}},"data":{{"text":"{BODY}"}}}}"#),
        format!(
            r#"{{"metadata":{{"message_id":"{}","retry_attempt":"{METADATA}"}},"data":"{BODY}"}}"#,
            id(90)
        ),
        format!(r#"{{"metadata":{{}},"data":{{}},"{MEMBER_NAME}":1,"{MEMBER_NAME}":2}}"#),
        message(91, &json!({ "n": BODY })),
    ]
}

/// Returns a schema that the last body of [`invalid_bodies`] violates.
fn data_schema() -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("data-schema"));
    std::fs::write(&path, r#"{"properties":{"n":{"type":"integer"}}}"#).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn http_target_secrets_stay_out_of_logs() {
    let (topology, target, tap) = (new_topology().await, HttpTargetServer::start().await, start_tap().await);
    let secret = json!({ "Authorization": format!("Bearer {HEADER}"), "X-Api-Key": HEADER }).to_string();
    let aws = FakeAws::with_secret(&secret).await;
    for (n, replies) in [
        (1, vec![Reply::Status(500)]),
        (2, vec![Reply::Status(500); 3]),
        (3, vec![Reply::Status(410)]),
        (4, vec![Reply::RetryAfter(429, 1)]),
        (5, vec![Reply::Hang]),
        (6, vec![Reply::Status(302); 3]),
    ] {
        target.script_replies(&id(n), replies);
    }
    send(&topology, (0..=6).map(|n| message(n, &json!({})))).await;
    send(&topology, invalid_bodies()).await;
    let mut setup =
        with_verbose_output(TopologySetup::for_http_target(&format!("{}?key={QUERY}", target.url())), &tap);
    setup.processor_variables.extend([
        ("TARGET_TIMEOUT_SECONDS", "1".to_owned()),
        (
            "TARGET_HEADERS_SECRET_ARN",
            "arn:aws:secretsmanager:eu-west-1:000000000000:secret:headers".to_owned(),
        ),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", aws.endpoint_url().to_owned()),
    ]);
    setup.variables.push(("DATA_SCHEMA_PATH", data_schema()));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_nothing_leaked(&running, &topology, &tap);
    let request = &target.requests_for(&id(0))[0];
    assert_eq!(request.headers["authorization"], format!("Bearer {HEADER}"), "the canary was in use");
    let records = final_records(&topology).await;
    let mut types: Vec<_> = records.iter().map(|record| record.error_type.as_str()).collect();
    types.sort_unstable();
    let expected = [
        "INVALID_MESSAGE_FORMAT",
        "INVALID_MESSAGE_FORMAT",
        "INVALID_MESSAGE_SCHEMA",
        "INVALID_MESSAGE_SCHEMA",
        "INVALID_MESSAGE_SCHEMA",
        "NON_RETRYABLE_ERROR",
        "RETRY_ATTEMPT_EXCEEDED",
    ];
    assert_eq!(types, expected, "{}", running.full_log());
    for record in &records {
        let ours = format!("{} {}", record.error_details, record.dead_letter);
        Canaries::new([BODY, METADATA, ATTRIBUTE, BYTES, GROUP]).assert_absent("an explanation", &ours);
    }
}

#[tokio::test]
async fn lambda_target_secrets_stay_out_of_logs() {
    let (topology, tap) = (new_topology().await, start_tap().await);
    let aws = FakeAws::start((500, json!({})), LAMBDA_LOG).await;
    let error = FakeInvocation::FunctionError(ERROR_TYPE, ERROR_TEXT);
    let refused = |status, code| FakeInvocation::Refused(status, code, LAMBDA_REFUSAL);
    for (n, invocations) in [
        (0, vec![FakeInvocation::Answered(LAMBDA_ANSWER)]),
        (1, vec![error.clone()]),
        (2, vec![error.clone(), error.clone(), error]),
        (3, vec![refused(429, "TooManyRequestsException")]),
        (4, vec![refused(403, "AccessDeniedException"), refused(404, "ResourceNotFoundException")]),
        (5, vec![refused(413, "RequestTooLargeException")]),
        (6, vec![refused(500, "ServiceException"), refused(502, "KMSDisabledException")]),
    ] {
        aws.script_invocations(&id(n), invocations);
    }
    send(&topology, (0..=6).map(|n| message(n, &json!({})))).await;
    let mut setup = with_verbose_output(TopologySetup::for_http_target(FUNCTION), &tap);
    setup.processor_variables.push(("AWS_ENDPOINT_URL_LAMBDA", aws.endpoint_url().to_owned()));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_nothing_leaked(&running, &topology, &tap);
    let records = final_records(&topology).await;
    let types: Vec<_> = records.iter().map(|record| record.error_type.as_str()).collect();
    assert_eq!(types.len(), 2, "{types:?} {}", running.full_log());
    // The function's own error message is for the DLQ's readers.
    let exhausted = records.iter().find(|record| record.error_type == "RETRY_ATTEMPT_EXCEEDED").unwrap();
    assert_eq!(exhausted.dead_letter["cause"], json!({ "type": ERROR_TYPE, "message": ERROR_TEXT }));
    let too_large = records.iter().find(|record| record.error_type == "NON_RETRYABLE_ERROR").unwrap();
    assert_eq!(too_large.dead_letter["cause"]["type"], "Lambda.RequestTooLarge");
}

#[tokio::test]
async fn rust_handler_secrets_stay_out_of_logs() {
    let (topology, tap, journal) = (new_topology().await, start_tap().await, new_journal());
    let scripts = [
        json!(["ok"]),
        json!(["panic"]),
        json!(["panic", "panic", "panic"]),
        json!(["transient"]),
        json!(["permanent"]),
        json!(["snooze"]),
        json!(["no such action: Wq7bodyK2vXt9Lm3"]),
    ];
    let bodies =
        (0..).zip(scripts).map(|(n, script)| message(n, &json!({ "script": script, "text": ERROR_TEXT })));
    send(&topology, bodies).await;
    let running = topology
        .start_functions(&with_verbose_output(TopologySetup::for_script(Language::Rust, &journal), &tap));
    topology.wait_until_settled(&running).await;

    assert_nothing_leaked(&running, &topology, &tap);
    let records = final_records(&topology).await;
    let permanent = records.iter().find(|record| record.error_type == "NON_RETRYABLE_ERROR").unwrap();
    assert_eq!(permanent.dead_letter["cause"]["message"], format!("\"{ERROR_TEXT}\""), "its own message");
    let panicked = records.iter().find(|record| record.error_type == "RETRY_ATTEMPT_EXCEEDED").unwrap();
    assert_eq!(panicked.dead_letter["cause"]["type"], "Panic");
    let ours = format!("{} {}", panicked.error_details, panicked.dead_letter);
    Canaries::new([ERROR_TEXT, BODY]).assert_absent("the explanation of a panic", &ours);
}

#[tokio::test]
async fn secrets_stay_out_of_logs_while_sqs_fails() {
    let (topology, target, tap) = (new_topology().await, HttpTargetServer::start().await, start_tap().await);
    tap.fail_sends_to(&topology.intermediate.url);
    target.script_replies(&id(0), [Reply::Status(500)]);
    send(&topology, [message(0, &json!({})), message(1, &json!({}))]).await;
    let running =
        topology.start_functions(&with_verbose_output(TopologySetup::for_http_target(target.url()), &tap));
    while running.processor.invocations().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tap.stop_faults();
    topology.wait_until_settled(&running).await;

    let log = running.full_log();
    assert!(log.contains("\"not_confirmed\"") && log.contains("\"arrived_by_redrive\""), "{log}");
    secrets().assert_absent("a function's output", &log);
}
