//! `redeliver work` with the real program: the complete loop in one process, its health endpoint, and its shutdown.

mod image;
mod manifests;
mod ordered;
mod otlp;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{PATIENCE, debug_binary, venv_file};
use redeliver_tests::sqs::REGION;
use redeliver_tests::topology::{QUICK_POLICY, TestTopology};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, sleep};

use super::rotation::Rotation;
use super::{AnnotatedRecord, final_records, id, new_topology, test_message};

const ALL: [&str; 3] = ["message-processor", "failed-message-processor", "final-dlq-annotator"];

fn command(topology: &TestTopology, target: &str, arguments: &[&str]) -> Command {
    let mut command = command_without_endpoint(topology, target, arguments);
    command.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    command
}

/// Returns a command without `--endpoint-url`, so that the environment can set the endpoint.
fn command_without_endpoint(topology: &TestTopology, target: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(debug_binary("redeliver"));
    command.arg("work").args(arguments).env_clear();
    set_up(&mut command, topology, target);
    command
}

/// Sets the queues, the policy and the target, and pipes the output.
fn set_up(command: &mut Command, topology: &TestTopology, target: &str) {
    command.env("SOURCE_QUEUE_URL", &topology.source.url);
    command.env("INTERMEDIATE_DLQ_URL", &topology.intermediate.url);
    command.env("ANNOTATION_QUEUE_URL", &topology.annotation.url);
    command.env("FINAL_DLQ_URL", &topology.final_dlq.url);
    command.env("RETRY_POLICY", QUICK_POLICY).env("TARGET", target).env("LOG_DETAIL", "messages");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
}

/// A running worker.
struct RunningWorker {
    process: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    health: String,
}

impl RunningWorker {
    /// Starts a worker and waits until it polls.
    async fn start(mut command: Command) -> Self {
        let mut process = command.args(["--health", "127.0.0.1:0"]).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap()).lines();
        let started = next_line(&mut stderr).await;
        assert_eq!(started["event"], "started", "{started}");
        let health = format!("http://{}", started["health"].as_str().unwrap());
        Self { process, stderr, health }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = reqwest::get(format!("{}{path}", self.health)).await.unwrap();
        (answer.status().as_u16(), serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }

    async fn metrics(&self) -> String {
        reqwest::get(format!("{}/metrics", self.health)).await.unwrap().text().await.unwrap()
    }

    /// Sends a signal, and waits until the worker has acknowledged it.
    async fn signal(&mut self, name: &str, reported: &str) {
        let process = self.process.id().unwrap().to_string();
        let kill = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().await;
        assert!(kill.unwrap().success());
        assert_eq!(next_line(&mut self.stderr).await["event"], reported);
    }

    /// Waits until the worker has exited, and returns its exit code and the remaining events.
    async fn wait_for_exit(self) -> (Option<i32>, Vec<Value>) {
        let ended = tokio::time::timeout(PATIENCE, self.process.wait_with_output());
        let output = ended.await.expect("the program ends").unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

async fn next_line(stderr: &mut Lines<BufReader<ChildStderr>>) -> Value {
    let line = tokio::time::timeout(PATIENCE, stderr.next_line()).await.expect("a line").unwrap().unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
}

/// Waits until the three inner queues have been empty for a while.
async fn wait_until_settled(topology: &TestTopology) {
    let (give_up, mut quiet) = (Instant::now() + PATIENCE, 0);
    while quiet < 3 {
        let mut waiting = 0;
        for queue in [&topology.source, &topology.intermediate, &topology.annotation] {
            waiting += queue.message_counts(&topology.client).await.iter().sum::<u64>();
        }
        quiet = if waiting == 0 { quiet + 1 } else { 0 };
        assert!(Instant::now() < give_up, "{waiting} messages are waiting");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn wait_until_called(target: &HttpTargetServer) {
    let give_up = Instant::now() + PATIENCE;
    while target.request_count() == 0 {
        assert!(Instant::now() < give_up, "the target is not called");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_worker_settles_every_message_and_stops_on_sigterm() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(1), [Reply::Status(410)]);
    target.script_replies(&id(2), [Reply::Status(500)]);
    let mut working = RunningWorker::start(command(
        &topology,
        target.url(),
        &[&ALL[..], &["--wait", "2s", "--name", "orders"]].concat(),
    ))
    .await;
    topology.send_batch([0, 1, 2].map(|n| test_message(n, &json!({ "n": n })))).await;
    topology.send_batch(["nonsense".to_owned()]).await;
    wait_until_settled(&topology).await;

    let (status, report) = working.get("/healthz").await;
    assert_eq!((status, &report["healthy"]), (200, &json!(true)), "{report}");
    let names: Vec<_> = report["functions"].as_array().unwrap().iter().map(|one| &one["function"]).collect();
    assert_eq!(names, ALL.map(|name| format!("orders-{name}")).each_ref(), "{report}");
    let metrics = working.metrics().await;
    for line in [
        r#"redeliver_processed_total{function="orders-message-processor"} 2"#,
        r#"redeliver_handed_off_total{function="orders-message-processor",failure_kind="permanent"} 1"#,
        r#"redeliver_retries_scheduled_total{function="orders-failed-message-processor",retry_attempt="1"} 1"#,
        r#"redeliver_dead_lettered_total{function="orders-final-dlq-annotator",error_type="NON_RETRYABLE_ERROR"} 1"#,
        r#"redeliver_batches_in_flight{function="orders-message-processor"} 0"#,
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line} in\n{metrics}");
    }
    assert_eq!(working.get("/readyz").await, (200, json!({ "ready": true })));
    working.signal("TERM", "stopping").await;
    let (code, events) = working.wait_for_exit().await;

    assert_eq!(code, Some(0));
    assert_eq!([0, 1, 2].map(|n| target.requests_for(&id(n)).len()), [1, 1, 2]);
    let records = final_records(&topology).await;
    let ends: Vec<_> = records.iter().map(|record| (&record.text[..8], record.error_type.as_str())).collect();
    assert_eq!(ends, [("nonsense", "INVALID_MESSAGE_FORMAT"), ("{\"data\":", "NON_RETRYABLE_ERROR")]);
    assert_eq!(records[1].body["metadata"]["message_id"], id(1));
    let count = |function: &str, event: &str| {
        events
            .iter()
            .filter(|line| line["Function"] == format!("orders-{function}") && line["event"] == event)
            .count()
    };
    assert_eq!(count(ALL[0], "processed"), 2, "{events:?}");
    assert_eq!(count(ALL[0], "handed_off"), 2, "{events:?}");
    assert_eq!(count(ALL[1], "retry_scheduled"), 1, "{events:?}");
    assert_eq!(count(ALL[2], "dead_lettered"), 2, "{events:?}");
    let message_events = events.iter().filter(|line| line["event"] != "batch").count();
    assert_eq!(message_events, 9, "with two messages given up: {events:?}");
}

#[tokio::test]
async fn a_function_started_with_exec_exits_with_its_worker() {
    const APP: &str = r#"
import json, os
def handler(event, context):
    [record] = event["Records"]
    body = json.loads(record["body"])
    with open("calls", "a") as calls:
        calls.write(f"{os.getpid()} {body['data']['n']} {context.function_name}\n")
    if body["data"]["n"] == 1:
        return {"redeliver": {"outcome": "permanent", "type": "Order.Unknown"}}
    if body["data"]["n"] == 2 and "retry_attempt" not in body["metadata"]:
        os._exit(3)
"#;
    let topology = new_topology().await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.py"), APP).unwrap();
    let exec = format!("{} -B -m awslambdaric app.handler", venv_file("bin/python").display());
    let arguments = [&ALL[..], &["--wait", "2s", "--concurrency", "1", "--exec", &exec]].concat();
    let mut command = command(&topology, "", &arguments);
    command.current_dir(folder.path());
    let mut working = RunningWorker::start(command).await;
    topology.send_batch([0, 1, 2].map(|n| test_message(n, &json!({ "n": n })))).await;
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    assert_eq!(working.wait_for_exit().await.0, Some(0));

    let records = final_records(&topology).await;
    let causes: Vec<_> = records.iter().map(|record| &record.dead_letter["cause"]["type"]).collect();
    assert_eq!(causes, ["Order.Unknown"]);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let mut called: Vec<_> = calls.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let processes: BTreeSet<_> = called.iter().map(|(process, _)| *process).collect();
    assert_eq!(processes.len(), 2, "one that exited, and its replacement: {calls}");
    assert!(processes.iter().all(|process| !Path::new("/proc").join(process).exists()), "{calls}");
    called.sort_by_key(|(_, call)| *call);
    let called: Vec<_> = called.into_iter().map(|(_, call)| call).collect();
    assert_eq!(
        called,
        ["0 message-processor", "1 message-processor", "2 message-processor", "2 message-processor"]
    );
}

#[tokio::test]
async fn a_signal_during_a_call_lets_the_batch_finish() {
    for (signal, ends_with) in [("TERM", 0), ("INT", 130)] {
        let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
        target.script_replies(&id(0), [Reply::Hang]);
        topology.send_batch([test_message(0, &json!({}))]).await;
        let arguments = ["message-processor", "--wait", "1s", "--invocation", "9s"];
        let mut working = RunningWorker::start(command(&topology, target.url(), &arguments)).await;
        wait_until_called(&target).await;
        working.signal(signal, "stopping").await;
        assert_eq!(working.get("/healthz").await.1["functions"][0]["batches_in_flight"], 1);
        assert_eq!(working.get("/readyz").await, (503, json!({ "ready": false })));
        let (code, events) = working.wait_for_exit().await;

        assert_eq!(code, Some(ends_with), "{signal}");
        let reported: Vec<_> = events.iter().map(|line| &line["event"]).collect();
        assert_eq!(reported, ["handed_off", "batch"], "{events:?}");
        assert_eq!(
            topology.source.message_counts(&topology.client).await,
            [0, 0, 0],
            "handed off, and deleted"
        );
        assert_eq!(topology.intermediate.message_counts(&topology.client).await, [1, 0, 0]);
    }
}

#[tokio::test]
async fn a_second_signal_or_the_grace_period_ends_a_worker_immediately() {
    for (more, reason) in [(&["--shutdown", "1s"][..], None), (&[], Some("INT"))] {
        let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
        target.script_replies(&id(0), [Reply::Hang]);
        topology.send_batch([test_message(0, &json!({}))]).await;
        let arguments = [&["message-processor", "--wait", "1s"], more].concat();
        let mut working = RunningWorker::start(command(&topology, target.url(), &arguments)).await;
        wait_until_called(&target).await;
        working.signal("TERM", "stopping").await;
        match reason {
            Some(second) => working.signal(second, "broken_off").await,
            None => assert_eq!(next_line(&mut working.stderr).await["by"], "--shutdown"),
        }
        let (code, events) = working.wait_for_exit().await;

        assert_eq!((code, events), (Some(5), Vec::new()));
        assert_eq!(topology.source.message_counts(&topology.client).await, [0, 1, 0], "it comes back");
    }
}

#[tokio::test]
async fn a_queue_with_too_short_a_visibility_timeout_is_refused() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    topology.send_batch([test_message(0, &json!({}))]).await;
    let arguments = [&ALL[..], &["--invocation", "31s"]].concat();
    let output = command(&topology, target.url(), &arguments).output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    let url = &topology.source.url;
    assert!(
        error.contains(&format!("{url}: its visibility timeout is 30 s, and a batch may take 31 s")),
        "{error}"
    );
    assert!(error.contains("set it to 186 s, six times the time of a batch"), "{error}");
    assert_eq!(topology.source.message_counts(&topology.client).await, [1, 0, 0], "nothing was received");
}

/// A message that bypassed the annotator would be in the final DLQ without a reason, and a message received from the
/// final DLQ would be sent to the target again.
#[tokio::test]
async fn miswired_queues_are_refused_before_any_receive() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    topology.send_batch([test_message(0, &json!({}))]).await;
    let (source, last) = (&topology.source.url, &topology.final_dlq.url);
    let same = format!("- SOURCE_QUEUE_URL and FINAL_DLQ_URL name the same queue ({source})");
    let another = format!("which is not the queue of INTERMEDIATE_DLQ_URL ({last}-2)");
    for (variable, value, expected) in
        [("FINAL_DLQ_URL", source.clone(), same), ("INTERMEDIATE_DLQ_URL", format!("{last}-2"), another)]
    {
        let mut command = command(&topology, target.url(), &["message-processor"]);
        let output = command.env(variable, value).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let line: Value = serde_json::from_str(&error).expect("one JSON line");
        assert_eq!((&line["level"], &line["event"]), (&json!("ERROR"), &json!("not_started")));
        assert!(line["error"].as_str().unwrap().contains(&expected), "{error}");
    }
    assert_eq!(topology.source.message_counts(&topology.client).await, [1, 0, 0], "nothing was received");
}

/// A log collector drops lines that are not JSON, or even the whole batch.
#[tokio::test]
async fn worker_warnings_are_json_lines() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let mut command =
        command(&topology, target.url(), &["message-processor", "--health", "127.0.0.1:0", "--verbose"]);
    let mut process =
        command.env("SOURCE_QUEUE_URL", &topology.final_dlq.url).env_remove("FINAL_DLQ_URL").spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap()).lines();
    let warning = next_line(&mut stderr).await;
    assert_eq!((&warning["level"], &warning["event"]), (&json!("WARN"), &json!("queue")));
    assert!(warning["remark"].as_str().unwrap().contains("has no redrive policy"), "{warning}");
    assert_eq!(next_line(&mut stderr).await["event"], "started");
    process.kill().await.unwrap();
}

#[tokio::test]
async fn a_key_rotated_during_worker_traffic_spends_no_attempt() {
    let (topology, rotation) = (new_topology().await, Rotation::start().await);
    let mut command =
        command_without_endpoint(&topology, rotation.target.url(), &[&ALL[..], &["--wait", "2s"]].concat());
    command.env("AWS_ENDPOINT_URL", Ministack::shared().endpoint_url()).env("AWS_REGION", REGION);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command.envs(rotation.variables());
    let mut working = RunningWorker::start(command).await;
    rotation.rotate_during_traffic(&topology).await;
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    let (code, events) = working.wait_for_exit().await;

    assert_eq!(code, Some(0));
    let log: String = events.iter().map(|event| format!("{event}\n")).collect();
    rotation.assert_no_attempt_was_spent(&topology, &log).await;
}
