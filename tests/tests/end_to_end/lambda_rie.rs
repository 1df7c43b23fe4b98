//! Each program responds to an invocation under AWS's own Runtime Interface Emulator.

use std::process::Stdio;
use std::time::Duration;

use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{PATIENCE, bundle_path, epoch_millis, free_address, venv_file};
use redeliver_tests::sqs::REGION;
use redeliver_tests::topology::TestTopology;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const ID: &str = "00000000-0000-4000-8000-000000000000";

/// The emulator, with one function.
struct LambdaEmulator {
    process: Child,
    url: String,
}

impl LambdaEmulator {
    fn start(program: &str, variables: &[(&str, &str)]) -> Self {
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
        let site_packages = site_packages();
        let emulator =
            venv_file(&format!("{site_packages}/samcli/local/rapid/aws-lambda-rie-{architecture}"));
        let (address, runtime_api) = (free_address(), free_address());
        let process = Command::new(emulator)
            .args(["--runtime-interface-emulator-address", &address.to_string()])
            .args(["--runtime-api-address", &runtime_api.to_string()])
            .arg(bundle_path(program))
            .env_clear()
            .env("AWS_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_ENDPOINT_URL", Ministack::shared().endpoint_url())
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", "20")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the emulator runs");
        Self { process, url: format!("http://{address}/2015-03-31/functions/function/invocations") }
    }

    async fn invoke(&mut self, event: &Value) -> Value {
        let client = reqwest::Client::new();
        for _ in 0..600 {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("the emulator has ended: {status}");
            }
            if let Ok(answer) = client.post(&self.url).body(event.to_string()).send().await {
                return serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the emulator does not answer at {}", self.url);
    }

    /// Terminates the emulator gracefully, so that it also ends its function.
    async fn stop(mut self) {
        let id = self.process.id().expect("the command runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        tokio::time::timeout(PATIENCE, self.process.wait()).await.expect("the program ends").unwrap();
    }
}

/// Returns the relative path of the folder `site-packages`; the path contains the Python version.
fn site_packages() -> String {
    let libraries = std::fs::read_dir(venv_file("lib")).unwrap();
    let names = libraries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let python = names.into_iter().find(|name| name.starts_with("python")).expect("a venv has a Python");
    format!("lib/{python}/site-packages")
}

fn sqs_event(queue_arn: &str, body: &str) -> Value {
    json!({ "Records": [{
        "messageId": "11111111-0000-4000-8000-000000000000",
        "receiptHandle": "handle",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1735689600000",
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": "1735689600001",
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }]})
}

fn test_message() -> String {
    json!({"metadata": {"message_id": ID}, "data": {}}).to_string()
}

async fn new_topology() -> TestTopology {
    TestTopology::create(&Ministack::shared().endpoint_url(), "rie").await
}

fn success_response() -> Value {
    json!({"batchItemFailures": []})
}

#[tokio::test]
async fn the_message_processor_calls_its_target() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let mut emulator = LambdaEmulator::start(
        "message-processor",
        &[
            ("TARGET", target.url()),
            ("SOURCE_QUEUE_URL", &topology.source.url),
            ("INTERMEDIATE_DLQ_URL", &topology.intermediate.url),
            ("ANNOTATION_QUEUE_URL", &topology.annotation.url),
        ],
    );
    assert_eq!(emulator.invoke(&sqs_event(&topology.source.arn, &test_message())).await, success_response());
    assert_eq!(target.requests_for(ID).len(), 1);
    emulator.stop().await;
}

#[tokio::test]
async fn the_failed_message_processor_sends_to_the_source_queue() {
    let topology = new_topology().await;
    let mut emulator = LambdaEmulator::start(
        "failed-message-processor",
        &[
            ("SOURCE_QUEUE_URL", &topology.source.url),
            ("INTERMEDIATE_DLQ_URL", &topology.intermediate.url),
            ("ANNOTATION_QUEUE_URL", &topology.annotation.url),
            ("RETRY_POLICY", r#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#),
        ],
    );
    assert_eq!(
        emulator.invoke(&sqs_event(&topology.intermediate.arn, &test_message())).await,
        success_response()
    );
    assert_eq!(topology.source.message_counts(&topology.client).await, [0, 0, 1], "delayed");
    emulator.stop().await;
}

#[tokio::test]
async fn the_async_retry_handler_delays_a_record() {
    let topology = new_topology().await;
    let orders = format!("arn:aws:lambda:{REGION}:000000000000:function:orders");
    let mut emulator = LambdaEmulator::start(
        "async-retry-handler",
        &[
            ("RETRY_QUEUE_URL", &topology.intermediate.url),
            ("ANNOTATION_QUEUE_URL", &topology.annotation.url),
            ("FUNCTION_ARNS", &orders),
            ("RETRY_POLICY", r#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#),
        ],
    );
    let now = chrono::DateTime::from_timestamp_millis(epoch_millis().try_into().unwrap()).unwrap();
    let record = json!({
        "version": "1.0",
        "timestamp": now.to_rfc3339(),
        "requestContext": { "requestId": ID, "functionArn": orders, "condition": "EventAgeExceeded" },
        "requestPayload": null,
    });
    let event = sqs_event(&topology.intermediate.arn, &record.to_string());
    assert_eq!(emulator.invoke(&event).await, success_response());
    assert_eq!(topology.intermediate.message_counts(&topology.client).await, [0, 0, 1], "delayed");
    emulator.stop().await;
}

#[tokio::test]
async fn the_annotator_writes_a_final_record() {
    let topology = new_topology().await;
    let mut emulator =
        LambdaEmulator::start("final-dlq-annotator", &[("FINAL_DLQ_URL", &topology.final_dlq.url)]);
    assert_eq!(
        emulator.invoke(&sqs_event(&topology.annotation.arn, &test_message())).await,
        success_response()
    );
    let records = topology.final_records().await;
    assert_eq!(records.len(), 1);
    assert!(records[0].message_attributes().unwrap().contains_key("ErrorType"));
    emulator.stop().await;
}
