//! Compares the time that `redeliver audit` takes for 10,000 messages with that of a straightforward boto3 loop on the
//! same endpoint.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{release_binary, venv_file, workspace_root};
use redeliver_tests::sqs::{REGION, TestQueue, emulator_client, unique_name};
use serde_json::Value;

const MESSAGES: usize = 10_000;
const ROUNDS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let emulator = Ministack::start();
    let queue = fill_queue(&emulator).await;
    println!("{MESSAGES} messages; seconds of each of {ROUNDS} rounds, in turn");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time_command(&mut audit_command(&emulator, &queue)));
        theirs.push(time_command(&mut boto3_command(&emulator, &queue)));
    }
    let show = |name: &str, times: &[Duration]| {
        let times: Vec<_> = times.iter().map(|time| format!("{:.2}", time.as_secs_f64())).collect();
        println!("{name:<16} {}", times.join("  "));
    };
    show("redeliver audit", &ours);
    show("boto3 loop", &theirs);
    let (ours, theirs) = (median(ours), median(theirs));
    println!("ratio of the medians: {:.1}", theirs.as_secs_f64() / ours.as_secs_f64());
}

async fn fill_queue(emulator: &Ministack) -> TestQueue {
    let client = emulator_client(&emulator.endpoint_url());
    let queue = TestQueue::create(&client, &unique_name("bench-audit"), None).await;
    let code = MessageAttributeValue::builder().data_type("String").string_value("RETRY_ATTEMPT_EXCEEDED");
    let code = code.build().expect("the type is set");
    for batch in 0..MESSAGES / 10 {
        let entries = (0..10).map(|n| {
            let body = format!(
                r#"{{"metadata":{{"message_id":"{:08}-0000-4000-8000-000000000000","retry_attempt":5}},"data":{{"order":{n}}}}}"#,
                batch * 10 + n
            );
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body);
            entry.message_attributes("ErrorType", code.clone()).build().expect("id and body are set")
        });
        let sent = client.send_message_batch().queue_url(&queue.url).set_entries(Some(entries.collect()));
        assert!(sent.send().await.expect("the queue answers").failed.is_empty());
    }
    queue
}

fn audit_command(emulator: &Ministack, queue: &TestQueue) -> Command {
    let mut command = Command::new(release_binary("redeliver"));
    command.args(["audit", "--format", "json", "--region", REGION, "--queue", &queue.url]);
    command.args(["--endpoint-url", &emulator.endpoint_url()]).env_clear();
    command
}

fn boto3_command(emulator: &Ministack, queue: &TestQueue) -> Command {
    let mut command = Command::new(venv_file("bin/python"));
    command.arg(workspace_root().join("tests/support/boto3_audit.py")).arg(&queue.url).env_clear();
    command.env("AWS_ENDPOINT_URL", emulator.endpoint_url()).env("AWS_DEFAULT_REGION", REGION);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

/// Runs a command and checks that it counted all messages.
#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn time_command(command: &mut Command) -> Duration {
    let start = Instant::now();
    let Output { stdout, stderr, .. } = command.output().expect("the command runs");
    let time = start.elapsed();
    let report: Value = serde_json::from_slice(&stdout).unwrap_or_default();
    assert_eq!(report["total"], MESSAGES, "{}", String::from_utf8_lossy(&stderr));
    time
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
