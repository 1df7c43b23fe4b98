//! `cargo xtask smoke` against an emulator.

use std::path::PathBuf;
use std::process::Stdio;

use redeliver_tests::deployment::Cloud;
use redeliver_tests::settings::{debug_binary, target_dir};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::run_boto3;

#[tokio::test]
async fn the_smoke_test_passes_on_an_emulator_and_lists_its_gaps() {
    let prefix = "smoke-in-tests";
    let mut smoke = Command::new(debug_binary("smoke"));
    smoke.args(["--emulator", "--yes", "--prefix", prefix]).kill_on_drop(true);
    let run = smoke.output().await.unwrap();
    let reported = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{reported}");

    let page = report_page(prefix);
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(page.with_extension("json")).unwrap()).unwrap();
    let checks: Vec<_> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| [&check["name"], &check["outcome"]])
        .collect();
    let expected = [
        ("a message is processed", "passed"),
        ("a message that fails twice is processed", "passed"),
        ("exhausted, permanent and invalid messages are explained in the final DLQ", "passed"),
        ("a permanent failure is not retried", "not_checked_here"),
        ("a send to the final DLQ is refused", "not_checked_here"),
        ("the alarm final-dlq-not-empty fires", "not_checked_here"),
        ("a redriven dead letter is processed", "passed"),
        ("a message moved by SQS keeps its receive count, attributes and send time", "passed"),
        ("nothing is left behind", "passed"),
    ];
    assert_eq!(json!(checks), json!(expected.map(|(name, outcome)| [name, outcome])), "{reported}");
    for retry in ["seconds_to_retry_1_of_2", "seconds_to_retry_2_of_2"] {
        assert!(report["figures"][retry].as_f64().unwrap() >= 2.0, "early: {report}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("| passed | nothing is left behind |"));
    remove_report(prefix);
}

#[tokio::test]
async fn the_smoke_test_creates_nothing_without_consent() {
    let mut smoke = Command::new(debug_binary("smoke"));
    smoke.args(["--emulator", "--prefix", "smoke-unconfirmed"]).stdin(Stdio::null()).kill_on_drop(true);
    let run = smoke.output().await.unwrap();
    assert_eq!(run.status.code(), Some(1));
    let reported = [run.stdout, run.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        reported[0].contains("account 000000000000, region eu-west-1")
            && reported[0].contains("costs about $0.04"),
        "{reported:?}"
    );
    assert_eq!(reported[1], "error: nothing was created\n");
}

/// With a profile, as for a real account; the environment variables set the emulator's endpoint.
#[tokio::test]
async fn an_interrupted_smoke_test_cleans_up_and_duplicates_are_refused() {
    let cloud = Cloud::start().await.unwrap();
    let prefix = "smoke-interrupted";
    let mut first = command_with_profile(&cloud, prefix).stderr(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(first.stderr.take().unwrap()).lines();
    while let Some(line) = reported.next_line().await.unwrap() {
        if line.starts_with("passed: a message is processed") {
            break;
        }
    }
    let second = command_with_profile(&cloud, prefix).output().await.unwrap();
    let refusal = String::from_utf8(second.stderr).unwrap();
    assert!(
        refusal.starts_with("error: the stack smoke-interrupted already exists (CREATE_COMPLETE)"),
        "{refusal}"
    );

    let interrupt = format!("kill -INT {}", first.id().unwrap());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().await.unwrap().success());
    let mut ends = Vec::new();
    while let Some(line) = reported.next_line().await.unwrap() {
        ends.push(line);
    }
    assert_eq!(first.wait().await.unwrap().code(), Some(1));
    // A check may have finished at the same moment.
    let last = &ends[ends.len() - 3..];
    assert_eq!(
        last,
        ["FAILED: the run completes: interrupted", "destroying ...", "passed: nothing is left behind"],
        "{ends:?}"
    );
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
    remove_report(prefix);
}

fn command_with_profile(cloud: &Cloud, prefix: &str) -> Command {
    let config = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("smoke-config");
    let profile = format!(
        "[profile smoke]\nregion = {REGION}\naws_access_key_id = test\naws_secret_access_key = test\n"
    );
    std::fs::write(&config, profile).unwrap();
    let mut smoke = Command::new(debug_binary("smoke"));
    smoke.args(["--profile", "smoke", "--yes", "--prefix", prefix]).kill_on_drop(true);
    smoke.env("AWS_CONFIG_FILE", config);
    smoke.envs(["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"].map(|name| (name, cloud.endpoint_url())));
    smoke
}

fn report_page(prefix: &str) -> PathBuf {
    target_dir().join("smoke").join(format!("{prefix}.md"))
}

fn remove_report(prefix: &str) {
    for file in [report_page(prefix), report_page(prefix).with_extension("json")] {
        std::fs::remove_file(file).unwrap();
    }
}
