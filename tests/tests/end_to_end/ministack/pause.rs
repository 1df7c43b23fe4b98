//! `redeliver pause`, `resume` and `preflight`, with an event source mapping in an emulator's Lambda.

use std::process::Stdio;

use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::debug_binary;
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};
use tokio::process::Command;

use super::status::run_boto3;

/// Runs the program and returns the exit code and the report.
async fn run_redeliver(emulator: &Ministack, arguments: &[&str]) -> (i32, Value) {
    let mut command = Command::new(debug_binary("redeliver"));
    command.args(arguments).args(["--prefix", "orders", "--format", "json"]).env_clear();
    command.env("AWS_ENDPOINT_URL", emulator.endpoint_url()).env("AWS_REGION", REGION);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    let printed = printed.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), printed)
}

#[tokio::test]
async fn a_deployment_is_paused_and_resumed_and_a_preflight_reports_its_state() {
    let emulator = Ministack::with_all_services();
    for queue in ["source", "intermediate-dlq", "annotation"] {
        run_boto3(&emulator, &["read", &format!("orders-prod-{queue}"), &format!("reader-of-{queue}")]).await;
    }
    run_boto3(&emulator, &["polls", "orders-prod-final-dlq", "60"]).await;
    let change = async |command: &str| {
        let (exit_code, done) = run_redeliver(&emulator, &[command, "--apply"]).await;
        assert_eq!(exit_code, 0, "{done}");
        let mappings = done["mappings"].as_array().unwrap().iter();
        let change = |entry: &Value| json!([entry["queue"], entry["from"], entry["to"], entry["error"]]);
        mappings.map(change).collect::<Vec<_>>()
    };
    let resumed = |queue: &str| json!([format!("orders-prod-{queue}"), "Disabled", "Enabled", null]);
    assert_eq!(change("resume").await, ["source", "intermediate-dlq", "annotation"].map(resumed));
    assert_eq!(change("pause").await, [json!(["orders-prod-source", "Enabled", "Disabled", null])]);

    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.json");
    let mapping = json!({
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": { "ScalingConfig": { "MaximumConcurrency": 7 } },
    });
    std::fs::write(&template, json!({ "Resources": { "Mapping": mapping } }).to_string()).unwrap();
    let (exit_code, found) =
        run_redeliver(&emulator, &["preflight", "--template", template.to_str().unwrap()]).await;
    let paused = json!([
        { "queue": "orders-prod-source", "function": "reader-of-source", "state": "Disabled" },
    ]);
    assert_eq!((exit_code, &found["paused"]), (3, &paused), "{found}");
    assert_eq!(found["concurrency"]["wanted"], 7, "{found}");
    assert!(found["concurrency"]["quota"].is_u64(), "{found}");
}
