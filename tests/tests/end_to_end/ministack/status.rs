//! `redeliver status` with an emulator's CloudWatch, filled by boto3.

use std::process::Stdio;

use chrono::{DateTime, Utc};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{debug_binary, venv_file, workspace_root};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};
use tokio::process::Command;

/// Returns the state reported for the target of the queue `orders`.
async fn target_state(emulator: &Ministack) -> Value {
    query_status(emulator, "orders").await["target"].take()
}

async fn query_status(emulator: &Ministack, queue: &str) -> Value {
    let mut command = Command::new(debug_binary("redeliver"));
    command.args(["status", "--queue", queue, "--format", "json", "--region", REGION]);
    command.args(["--endpoint-url", &emulator.endpoint_url()]);
    let output = command.env_clear().stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(super) async fn run_boto3(emulator: &Ministack, arguments: &[&str]) {
    let mut command = Command::new(venv_file("bin/python"));
    command.arg(workspace_root().join("tests/support/boto3_outage.py")).args(arguments).env_clear();
    command.env("AWS_ENDPOINT_URL", emulator.endpoint_url()).env("AWS_DEFAULT_REGION", REGION);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).status().await.unwrap();
    assert!(ended.success(), "{arguments:?}");
}

#[tokio::test]
async fn status_reports_a_down_target_and_when_it_went_down() {
    let emulator = Ministack::with_all_services();
    let function = "orders-prod-message-processor";
    run_boto3(&emulator, &["read", "orders", function]).await;
    run_boto3(&emulator, &["circuit-open", "another-function", "3"]).await;
    run_boto3(&emulator, &["circuit-open", function, "100", "95"]).await;
    assert_eq!(target_state(&emulator).await, json!({ "state": "no_outage_seen" }), "the target is back");

    run_boto3(&emulator, &["circuit-open", function, "62", "50", "40", "30", "18", "6"]).await;
    let seen = target_state(&emulator).await;
    assert_eq!((&seen["state"], &seen["or_longer"]), (&json!("down"), &json!(false)), "{seen}");
    let moment = |name: &str| seen[name].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let (since, last_sign) = (moment("down_since"), moment("last_sign"));
    assert_eq!((since.timestamp() % 300, last_sign.timestamp() % 300), (0, 0), "{seen}");
    // From 62 minutes ago to 6 minutes ago, each rounded down to its period of five minutes.
    assert!([55, 60].contains(&(last_sign - since).num_minutes()), "{seen}");
    let seconds = seen["seconds"].as_i64().unwrap();
    // Since the start of that period, with a margin for this test's duration.
    assert!((62 * 60..62 * 60 + 300 + 600).contains(&seconds), "{seen}");
}

#[tokio::test]
async fn a_queue_polled_without_a_mapping_is_reported_as_having_a_reader() {
    let emulator = Ministack::with_all_services();
    run_boto3(&emulator, &["polls", "unread", "60"]).await;
    run_boto3(&emulator, &["polls", "polled", "3", "5", "60"]).await;
    let readers = async |queue: &str| query_status(&emulator, queue).await["queues"][0]["readers"].take();
    let expected = json!({
        "state": "something_else",
        "mappings_known": true,
        "messages_received": 0,
        "empty_receives": 6,
        "minutes": 15,
        "minutes_with_receives": 2,
    });
    assert_eq!(readers("polled").await, expected);
    let why = "CloudWatch has no data for the last 15 minutes";
    assert_eq!(readers("unread").await, json!({ "state": "not_known", "why": why }));
}
