//! The stack, deployed as a user deploys it; the emulator runs the bundles behind its own event source mappings.

mod first_night;
mod functions;
mod packaged;
mod producers;
mod smoke;
mod strategies;
mod template;

use std::process::Stdio;

use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::settings::{root, tested_program, venv_file};
use redeliver_tests::topology::QUICK_POLICY;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{id, message};

/// Sends and receives with boto3, which shares no code with redeliver.
async fn boto3(cloud: &Cloud, arguments: &[&str], input: &[String]) -> Vec<String> {
    boto3_script(cloud, "boto3_queue.py", arguments, input).await
}

/// The lines that a script of `tests/support` prints.
async fn boto3_script(cloud: &Cloud, script: &str, arguments: &[&str], input: &[String]) -> Vec<String> {
    let mut client = Command::new(venv_file("bin/python"))
        .arg(root().join("tests/support").join(script))
        .args(arguments)
        .envs(cloud.client_variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(input.join("\n").as_bytes()).await.unwrap();
    let output = client.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{script} {arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A final record, shortly: message id, error type, details, retries made.
fn told(record: &str) -> (String, String, String, Value) {
    let record: Value = serde_json::from_str(record).unwrap();
    let text =
        |name: &str| record["MessageAttributes"][name]["StringValue"].as_str().unwrap_or("-").to_owned();
    let body: Value = serde_json::from_str(record["Body"].as_str().unwrap()).unwrap_or(Value::Null);
    let message_id = body["metadata"]["message_id"].as_str().unwrap_or("-").to_owned();
    (message_id, text("ErrorType"), text("ErrorDetails"), body["metadata"]["retry_attempt"].clone())
}

/// `redeliver status --stage prod`.
async fn status(cloud: &Cloud) -> Value {
    let mut command = Command::new(tested_program("redeliver"));
    command
        .args(["status", "--stage", "prod", "--format", "json"])
        .env_clear()
        .envs(cloud.client_variables());
    let output = command.kill_on_drop(true).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// By the metric that the message-processor writes into its log, and not by another function's.
async fn status_knows_of_an_outage(cloud: &Cloud) {
    let tell = async |function: &str, metric: &str| {
        boto3_script(cloud, "boto3_metric.py", &[function, metric, "1"], &[]).await
    };
    tell("redeliver-prod-failed-message-processor", "CircuitOpen").await;
    tell("redeliver-prod-message-processor", "Held").await;
    assert_eq!(status(cloud).await["target"], json!({ "state": "no_outage_seen" }));
    let before = SystemClock.now();
    tell("redeliver-prod-message-processor", "CircuitOpen").await;
    let down_since = status(cloud).await["target"]["down_since"].as_str().map(str::parse::<Timestamp>);
    let down_since = down_since.expect("it is down").unwrap();
    let period = TimeDelta::minutes(5);
    assert!(down_since > before - period && down_since <= SystemClock.now(), "{down_since}, {before}");
}

fn policy_file() -> String {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("quick-policy.json");
    std::fs::write(&path, QUICK_POLICY).unwrap();
    format!("policy={}", path.display())
}

fn context(target: &HttpTarget, more: &[String]) -> Vec<String> {
    let target = [format!("target={}", target.url()), policy_file()];
    [local_context().as_slice(), &target, more].concat()
}

fn queue<'a>(outputs: &'a Outputs, name: &str) -> &'a str {
    outputs.get(name).unwrap_or_else(|| panic!("no output {name}: {outputs:?}"))
}

#[tokio::test]
async fn every_message_of_a_deployed_stack_ends_as_designed_and_nothing_stays_after_destroy() {
    let target = HttpTarget::start().await;
    let cloud = Cloud::start().await.unwrap();
    let context = context(&target, &[]);
    let outputs = cloud.deploy(&context).await.unwrap();

    let (succeeds, exhausted, permanent, recovers) = (id(1), id(2), id(3), id(4));
    target.script(&exhausted, [Reply::Status(500); 10]);
    target.script(&permanent, [Reply::Status(422)]);
    target.script(&recovers, [Reply::Status(500), Reply::Status(200)]);
    let sent = [
        message(1, &json!({ "sku": 1 })),
        message(2, &json!({ "sku": 2 })),
        message(3, &json!({ "sku": 3 })),
        message(4, &json!({ "sku": 4 })),
        r#"{"metadata":{},"data":{}}"#.to_owned(),
        "not a message".to_owned(),
    ];
    let ids = boto3(&cloud, &["send", queue(&outputs, "SourceQueueUrl")], &sent).await;
    assert_eq!(ids.len(), sent.len());

    let records = boto3(&cloud, &["receive", queue(&outputs, "FinalDlqUrl"), "4"], &[]).await;
    let mut records: Vec<_> = records.iter().map(|record| told(record)).collect();
    records.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let details: Vec<_> = records.iter().map(|record| record.2.clone()).collect();
    let ends: Vec<_> = records.into_iter().map(|(id, error, _, attempt)| (id, error, attempt)).collect();
    assert_eq!(
        ends,
        [
            ("-".to_owned(), "INVALID_MESSAGE_FORMAT".to_owned(), Value::Null),
            ("-".to_owned(), "INVALID_MESSAGE_SCHEMA".to_owned(), Value::Null),
            (exhausted.clone(), "RETRY_ATTEMPT_EXCEEDED".to_owned(), json!(2)),
            (permanent.clone(), "NON_RETRYABLE_ERROR".to_owned(), Value::Null),
        ]
    );
    assert!(details[2].starts_with("Max retry attempts 2 exceeded"), "{details:?}");
    assert!(details[2].contains("HttpStatus.500"), "{details:?}");
    assert!(details[3].contains("HttpStatus.422"), "{details:?}");
    let calls = [&succeeds, &exhausted, &permanent, &recovers].map(|id| target.requests(id).len());
    assert_eq!(calls, [1, 3, 1, 2], "how often the target was called");
    status_knows_of_an_outage(&cloud).await;

    cloud.destroy().await.unwrap();
    assert_eq!(boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

#[tokio::test]
async fn an_existing_source_queue_is_given_what_it_needs_and_nobodys_redrive_policy_is_taken_away() {
    let target = HttpTarget::start().await;
    let cloud = Cloud::start().await.unwrap();
    let arn = boto3(&cloud, &["create", "orders"], &[]).await.concat();
    let theirs = boto3(&cloud, &["create", "orders-dlq"], &[]).await.concat();
    let url = format!("{}/000000000000/orders", cloud.endpoint_url());
    let context = context(&target, &[format!("existingSourceQueueArn={arn}")]);
    let redrive_to = async |policy: &str| {
        let attributes = json!({ "RedrivePolicy": policy }).to_string();
        boto3(&cloud, &["set-attributes", &url], &[attributes]).await
    };
    let attribute = async |name: &str| boto3(&cloud, &["attribute", &url, name], &[]).await.concat();

    let policy = json!({ "deadLetterTargetArn": &theirs, "maxReceiveCount": 3 }).to_string();
    redrive_to(&policy).await;
    let refused = cloud.deploy(&context).await.unwrap_err().to_string();
    let sentence = format!(
        "already has a redrive policy, to {theirs}: if it is no longer needed, run aws sqs set-queue-attributes --queue-url "
    );
    assert!(refused.contains(&sentence), "{refused}");
    assert_eq!(attribute("RedrivePolicy").await, policy);
    assert_eq!(attribute("VisibilityTimeout").await, "30", "a refusal changes nothing");

    redrive_to("").await;
    let outputs = cloud.deploy(&context).await.unwrap();
    let redrive: Value = serde_json::from_str(&attribute("RedrivePolicy").await).unwrap();
    let intermediate_dlq = arn.replace(":orders", ":redeliver-prod-intermediate-dlq");
    assert_eq!(redrive, json!({ "deadLetterTargetArn": intermediate_dlq, "maxReceiveCount": 1 }));
    assert_eq!(attribute("VisibilityTimeout").await, "361");
    assert_eq!(attribute("MessageRetentionPeriod").await, "604800");
    assert_eq!(attribute("MaximumMessageSize").await, "1048576");

    target.script(&id(1), [Reply::Status(422)]);
    boto3(&cloud, &["send", &url], &[message(1, &json!({}))]).await;
    let records = boto3(&cloud, &["receive", queue(&outputs, "FinalDlqUrl"), "1"], &[]).await;
    assert_eq!(told(&records[0]).0, id(1));

    cloud.destroy().await.unwrap();
    let left = boto3(&cloud, &["list"], &[]).await;
    assert_eq!(left, ["orders", "orders-dlq"], "the queue is not the stack's to delete");
    assert_eq!(attribute("RedrivePolicy").await, "", "nobody reads our DLQ any more");
    assert_eq!(attribute("VisibilityTimeout").await, "361", "what was raised stays");
}
