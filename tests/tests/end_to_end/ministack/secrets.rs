//! Secrets do not leak, even at the most verbose log level: payloads, attributes and a target's error messages stay in
//! the queues, and a target's responses and all credentials appear nowhere.

mod command_line;
mod starts;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;
use redeliver_tests::canaries::Canaries;
use redeliver_tests::http_target::RESPONSE_CANARY;
use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::settings::bundle_path;
use redeliver_tests::topology::{RunningTopology, TestTopology, TopologySetup};
use redeliver_tests::wire::{INJECTED_CANARY, Tap};
use serde_json::{Value, json};

use super::{id, new_topology};

/// Canaries in a producer's data.
const BODY: &str = "Wq7bodyK2vXt9Lm3";
const MEMBER_NAME: &str = "Hd8memberT5rNz1Cq";
const METADATA: &str = "Gf4metaR7yJw2Kp6x";
const ATTRIBUTE: &str = "Lk9attributeV3sBn5";
const BYTES: &str = "Xp2bytesM8tQh4Rd7";
const GROUP: &str = "Nc6groupF1zUe5Wj9";
/// Canaries in the operator's settings.
const KEY_ID: &str = "AKIACANARYB5K8KEYID1";
const ACCESS_KEY: &str = "Sv3accessD7wLg2Pt";
const TOKEN: &str = "Bm5sessionY4hXr8Zk";
const HEADER: &str = "Qj1headerC6nTs9Vf";
const QUERY: &str = "Rw8queryJ3pGk5Hy2";
/// Canaries in the target's data.
const ERROR_TYPE: &str = "Eu7errorTypeA2mSx";
const ERROR_TEXT: &str = "Pd4errorTextW9cNb";
const LAMBDA_ANSWER: &str = "Kt6answerZ1vRq8Fh";
const LAMBDA_LOG: &str = "Vy2logResultL5jDw";
const LAMBDA_REFUSAL: &str = "Mx9refusedG3kTc7Bp";

/// Secrets that must not appear in logs, metrics or reports to Lambda.
fn secrets() -> Canaries {
    Canaries::new([
        BODY,
        MEMBER_NAME,
        METADATA,
        ATTRIBUTE,
        BYTES,
        GROUP,
        KEY_ID,
        ACCESS_KEY,
        TOKEN,
        HEADER,
        QUERY,
        ERROR_TYPE,
        ERROR_TEXT,
        LAMBDA_ANSWER,
        LAMBDA_LOG,
        LAMBDA_REFUSAL,
        RESPONSE_CANARY,
        INJECTED_CANARY,
    ])
}

/// Secrets that must not appear in the queues either.
fn queue_canaries() -> Canaries {
    Canaries::new([
        KEY_ID,
        ACCESS_KEY,
        TOKEN,
        HEADER,
        QUERY,
        LAMBDA_ANSWER,
        LAMBDA_LOG,
        LAMBDA_REFUSAL,
        RESPONSE_CANARY,
        INJECTED_CANARY,
    ])
}

/// Returns the n-th message, with canaries in every place that a producer can set.
fn message(n: u32, more: &Value) -> String {
    let mut body = json!({
        "metadata": { "message_id": id(n), "note": METADATA },
        "data": { "text": BODY, MEMBER_NAME: [BODY, { "deep": BODY }] },
        "top": METADATA,
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        body["data"][name] = value.clone();
    }
    body.to_string()
}

async fn send(topology: &TestTopology, bodies: impl IntoIterator<Item = String>) {
    let text = MessageAttributeValue::builder().data_type("String.secret").string_value(ATTRIBUTE);
    let bytes = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new(BYTES));
    for body in bodies {
        let request = topology.client.send_message().queue_url(&topology.source.url).message_body(body);
        let request = request.message_attributes("text", text.clone().build().unwrap());
        let request = request.message_attributes("bytes", bytes.clone().build().unwrap());
        request.message_group_id(GROUP).send().await.unwrap();
    }
}

/// Adds the most verbose log settings for the functions and their dependencies, the operator's canaries, and a proxy
/// that records the requests.
fn with_verbose_output(mut setup: TopologySetup, tap: &Tap) -> TopologySetup {
    setup.variables.extend(verbose_variables());
    setup.endpoint_url = Some(tap.endpoint_url().to_owned());
    setup.timeout = Duration::from_secs(4);
    setup
}

fn verbose_variables() -> [(&'static str, String); 8] {
    [
        ("RUST_LOG", "trace"),
        ("LOG_DETAIL", "messages"),
        ("AWS_LAMBDA_LOG_LEVEL", "TRACE"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("RUST_BACKTRACE", "full"),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", ACCESS_KEY),
        ("AWS_SESSION_TOKEN", TOKEN),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

/// Searches all output, all outcomes received by Lambda, and all messages sent to the inner queues and the final DLQ.
fn assert_nothing_leaked(running: &RunningTopology, topology: &TestTopology, tap: &Tap) {
    let log = running.full_log();
    assert!(
        log.lines().filter(|line| line.contains("\"_aws\"")).count() > 3,
        "there is something to search: {log}"
    );
    secrets().assert_absent("a function's output", &log);
    let mut sent = 0;
    for queue in [&topology.source, &topology.intermediate, &topology.annotation, &topology.final_dlq] {
        for entry in tap.sent_to(&queue.url) {
            queue_canaries().assert_absent("an entry sent to a queue", &entry.to_string());
            sent += 1;
        }
    }
    assert!(sent > 3, "there is something to search: {sent}");
}

#[tokio::test]
async fn a_leak_planted_in_a_program_is_found() {
    let probe = LambdaFunction::new("probe", PathBuf::from(env!("CARGO_BIN_EXE_probe-function")), []);
    let body = json!({ "do": BODY }).to_string();
    let outcome = probe.invoke(&json!({ "Records": [{ "body": body }] }), Duration::from_secs(20)).await;
    assert!(matches!(outcome, InvocationOutcome::Error(_)), "{outcome:?}");
    let written = |is_stderr: bool| -> String {
        let lines = probe.output_lines().into_iter().filter(|line| line.is_stderr == is_stderr);
        lines.map(|line| line.text + "\n").collect()
    };
    assert_eq!(secrets().find_in(&written(true)), [BODY]);
    assert!(secrets().find_in(&written(false)).is_empty());
    let echoed = json!({ "do": "answer", "answer": { "text": METADATA } }).to_string();
    let outcome = probe.invoke(&json!({ "Records": [{ "body": echoed }] }), Duration::from_secs(20)).await;
    assert_eq!(secrets().find_in(&format!("{outcome:?}")), [METADATA]);
}

/// An event source mapping never sends such events, or sends them only when something is wrong.
#[tokio::test]
async fn an_unreadable_event_is_reported_without_its_text() {
    let topology = new_topology().await;
    let record =
        json!({ "messageId": "m-1", "body": BODY, "eventSourceARN": topology.source.arn, "attributes": {} });
    let mut nameless = record.clone();
    nameless["messageId"] = json!(null);
    let mut mistyped = record.clone();
    mistyped["attributes"] = json!({ "SentTimestamp": BODY, "ApproximateReceiveCount": BODY });
    mistyped["messageAttributes"] = json!({ "a": { "dataType": ATTRIBUTE, "stringValue": 7 } });
    let events = [
        json!(BODY),
        json!([BODY]),
        json!({ BODY: BODY }),
        json!({ "Records": BODY }),
        json!({ "Records": [BODY] }),
        json!({ "Records": [{ "body": { "data": BODY } }] }),
        json!({ "Records": [nameless] }),
        json!({ "Records": [record, mistyped] }),
    ];
    for name in ["message-processor", "failed-message-processor", "final-dlq-annotator"] {
        let queue = |url: &str| url.to_owned();
        let variables = [
            ("TARGET", format!("https://127.0.0.1:9/?key={QUERY}")),
            ("SOURCE_QUEUE_URL", queue(&topology.source.url)),
            ("INTERMEDIATE_DLQ_URL", queue(&topology.intermediate.url)),
            ("ANNOTATION_QUEUE_URL", queue(&topology.annotation.url)),
            ("FINAL_DLQ_URL", queue(&topology.final_dlq.url)),
        ];
        let variables = variables.into_iter().chain(verbose_variables());
        let function = LambdaFunction::new(
            name,
            bundle_path(name),
            variables.map(|(name, value)| (name.to_owned(), value)),
        );
        for event in &events {
            let outcome = function.invoke(event, Duration::from_secs(20)).await;
            assert!(
                matches!(outcome, InvocationOutcome::Error(_) | InvocationOutcome::Response(_)),
                "{event}: {outcome:?}"
            );
            secrets().assert_absent(name, &format!("{outcome:?}"));
        }
        for line in function.output_lines() {
            secrets().assert_absent(name, &line.text);
        }
    }
}
