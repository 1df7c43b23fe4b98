//! The conventions that the commands share, on a real endpoint: a queue can be named in three ways, and a missing one
//! is reported.

use std::process::Stdio;

use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::debug_binary;
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{id, new_topology, test_message};

/// Runs the program and returns the exit code, the standard output and the standard error.
async fn run_redeliver(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(debug_binary("redeliver"));
    command.args(arguments).args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), stdout, stderr)
}

#[tokio::test]
async fn a_queue_can_be_named_by_its_url_its_name_or_its_arn() {
    let topology = new_topology().await;
    let (url, arn) = (&topology.final_dlq.url, &topology.final_dlq.arn);
    let name = arn.rsplit(':').next().unwrap();
    for queue in [url.as_str(), name, arn.as_str()] {
        let (code, stdout, stderr) = run_redeliver(&["audit", "--queue", queue, "--format", "json"]).await;
        assert_eq!(code, Some(0), "{queue}: {stderr}");
        assert!(stdout.starts_with(r#"{"schema":"redeliver.audit/1","total":0,"#), "{stdout}");
        let (_, stdout, stderr) = run_redeliver(&["status", "--queue", queue, "--format", "json"]).await;
        let status: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
        assert_eq!((&status["queues"][0]["name"], &status["deployment"]), (&json!(name), &json!(null)));
    }
    let (code, _, stderr) = run_redeliver(&["audit", "--queue", "absent-queue"]).await;
    assert_eq!(code, Some(1));
    let expected = format!("error: there is no queue absent-queue in this account and region ({REGION}); ");
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[tokio::test]
async fn a_missing_message_is_reported_and_nothing_changes() {
    let topology = new_topology().await;
    let (dlq, source) = (topology.final_dlq.url.as_str(), topology.source.url.as_str());
    let request = topology.client.send_message().queue_url(dlq).message_body(test_message(1, &json!({})));
    request.send().await.unwrap();
    let audit = ["audit", "--queue", dlq];
    let redrive = ["redrive", "--queue", dlq, "--to", source];
    let purge = ["purge", "--queue", dlq, "--backup", "not-made"];
    for (command, more, named) in [
        (&audit[..], &["--show", "nope"][..], "with the id nope"),
        (&audit, &["--group", "deadbeef"], "of the group deadbeef"),
        (&redrive, &["--group", "deadbeef"], "of the group deadbeef"),
        (&redrive, &["--ids", "nope,also"], "with the id nope"),
        (&redrive, &["--ids", "nope,also"], "with the id also"),
        (&purge, &["--ids", "nope"], "with the id nope"),
    ] {
        let (code, _, stderr) = run_redeliver(&[command, more].concat()).await;
        assert_eq!(code, Some(8), "{command:?} {more:?}: {stderr}");
        assert!(stderr.contains(&format!("error: no message {named} was found\n")), "{stderr}");
    }
    let (code, _, stderr) = run_redeliver(&[&redrive[..], &["--ids", &id(1)]].concat()).await;
    let plan = format!(
        "would send back from {} to {}\nnothing was done: add --apply\n",
        topology.final_dlq.arn, topology.source.arn
    );
    assert!(code == Some(0) && stderr.starts_with("account ") && stderr.contains(&plan), "{stderr}");
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [1, 0, 0]);
}

#[tokio::test]
async fn commands_work_without_sts_and_print_the_queues_before_any_change() {
    let topology = new_topology().await;
    let (dlq, source) = (&topology.final_dlq, &topology.source);
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("redrive.jsonl");
    let redrive = ["redrive", "--queue", &dlq.url, "--to", &source.arn, "--apply", "--journal"];
    let (code, _, stderr) = run_redeliver(&[&redrive[..], &[journal.to_str().unwrap()]].concat()).await;
    assert_eq!(code, Some(0), "{stderr}");
    let first = stderr.lines().next().unwrap();
    assert_eq!(first, format!("account unknown: sending back from {} to {}", dlq.arn, source.arn));
}
