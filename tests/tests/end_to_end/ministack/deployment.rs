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
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::settings::{debug_binary, venv_file, workspace_root};
use redeliver_tests::topology::QUICK_POLICY;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{id, test_message};

/// Sends and receives with boto3, which shares no code with redeliver.
async fn run_boto3(cloud: &Cloud, arguments: &[&str], input: &[String]) -> Vec<String> {
    run_boto3_script(cloud, "boto3_queue.py", arguments, input).await
}

/// Returns the output lines of a script in `tests/support`.
async fn run_boto3_script(cloud: &Cloud, script: &str, arguments: &[&str], input: &[String]) -> Vec<String> {
    let mut client = Command::new(venv_file("bin/python"))
        .arg(workspace_root().join("tests/support").join(script))
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

/// Returns a summary of a final record: message id, error type, details and number of retries.
fn summarize_record(record: &str) -> (String, String, String, Value) {
    let record: Value = serde_json::from_str(record).unwrap();
    let text =
        |name: &str| record["MessageAttributes"][name]["StringValue"].as_str().unwrap_or("-").to_owned();
    let body: Value = serde_json::from_str(record["Body"].as_str().unwrap()).unwrap_or(Value::Null);
    let message_id = body["metadata"]["message_id"].as_str().unwrap_or("-").to_owned();
    (message_id, text("ErrorType"), text("ErrorDetails"), body["metadata"]["retry_attempt"].clone())
}

/// Returns the output of `redeliver status --stage prod`.
async fn query_status(cloud: &Cloud) -> Value {
    let mut command = Command::new(debug_binary("redeliver"));
    command
        .args(["status", "--stage", "prod", "--format", "json"])
        .env_clear()
        .envs(cloud.client_variables());
    let output = command.kill_on_drop(true).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks that the status is based on the metric that the message-processor writes to its log, not on another
/// function's.
async fn assert_outage_status(cloud: &Cloud) {
    let write_metric = async |function: &str, metric: &str| {
        run_boto3_script(cloud, "boto3_metric.py", &[function, metric, "1"], &[]).await
    };
    write_metric("redeliver-prod-failed-message-processor", "CircuitOpen").await;
    write_metric("redeliver-prod-message-processor", "Held").await;
    assert_eq!(query_status(cloud).await["target"], json!({ "state": "no_outage_seen" }));
    let before = SystemClock.now();
    write_metric("redeliver-prod-message-processor", "CircuitOpen").await;
    let down_since = query_status(cloud).await["target"]["down_since"].as_str().map(str::parse::<Timestamp>);
    let down_since = down_since.expect("the target is down").unwrap();
    let period = TimeDelta::minutes(5);
    assert!(down_since > before - period && down_since <= SystemClock.now(), "{down_since}, {before}");
}

fn policy_argument() -> String {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("quick-policy.json");
    std::fs::write(&path, QUICK_POLICY).unwrap();
    format!("policy={}", path.display())
}

fn context_arguments(target: &HttpTargetServer, more: &[String]) -> Vec<String> {
    let target = [format!("target={}", target.url()), policy_argument()];
    [local_context().as_slice(), &target, more].concat()
}

fn queue_url<'a>(outputs: &'a Outputs, name: &str) -> &'a str {
    outputs.get(name).unwrap_or_else(|| panic!("no output {name}: {outputs:?}"))
}

#[tokio::test]
async fn a_deployed_stack_settles_messages_and_is_destroyed_completely() {
    let target = HttpTargetServer::start().await;
    let cloud = Cloud::start().await.unwrap();
    let context = context_arguments(&target, &[]);
    let outputs = cloud.deploy_stack(&context).await.unwrap();

    let (succeeds, exhausted, permanent, recovers) = (id(1), id(2), id(3), id(4));
    target.script_replies(&exhausted, [Reply::Status(500); 10]);
    target.script_replies(&permanent, [Reply::Status(422)]);
    target.script_replies(&recovers, [Reply::Status(500), Reply::Status(200)]);
    let sent = [
        test_message(1, &json!({ "sku": 1 })),
        test_message(2, &json!({ "sku": 2 })),
        test_message(3, &json!({ "sku": 3 })),
        test_message(4, &json!({ "sku": 4 })),
        r#"{"metadata":{},"data":{}}"#.to_owned(),
        "not a message".to_owned(),
    ];
    let ids = run_boto3(&cloud, &["send", queue_url(&outputs, "SourceQueueUrl")], &sent).await;
    assert_eq!(ids.len(), sent.len());

    let records = run_boto3(&cloud, &["receive", queue_url(&outputs, "FinalDlqUrl"), "4"], &[]).await;
    let mut records: Vec<_> = records.iter().map(|record| summarize_record(record)).collect();
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
    let calls = [&succeeds, &exhausted, &permanent, &recovers].map(|id| target.requests_for(id).len());
    assert_eq!(calls, [1, 3, 1, 2], "calls to the target");
    assert_outage_status(&cloud).await;

    cloud.destroy_stack().await.unwrap();
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

#[tokio::test]
async fn an_existing_queue_is_set_up_unless_it_has_a_redrive_policy() {
    let target = HttpTargetServer::start().await;
    let cloud = Cloud::start().await.unwrap();
    let arn = run_boto3(&cloud, &["create", "orders"], &[]).await.concat();
    let theirs = run_boto3(&cloud, &["create", "orders-dlq"], &[]).await.concat();
    let url = format!("{}/000000000000/orders", cloud.endpoint_url());
    let context = context_arguments(&target, &[format!("existingSourceQueueArn={arn}")]);
    let redrive_to = async |policy: &str| {
        let attributes = json!({ "RedrivePolicy": policy }).to_string();
        run_boto3(&cloud, &["set-attributes", &url], &[attributes]).await
    };
    let attribute = async |name: &str| run_boto3(&cloud, &["attribute", &url, name], &[]).await.concat();

    let policy = json!({ "deadLetterTargetArn": &theirs, "maxReceiveCount": 3 }).to_string();
    redrive_to(&policy).await;
    let refused = cloud.deploy_stack(&context).await.unwrap_err().to_string();
    let sentence = format!(
        "already has a redrive policy, to {theirs}: if it is no longer needed, run aws sqs set-queue-attributes --queue-url "
    );
    assert!(refused.contains(&sentence), "{refused}");
    assert_eq!(attribute("RedrivePolicy").await, policy);
    assert_eq!(attribute("VisibilityTimeout").await, "30", "a refusal changes nothing");

    redrive_to("").await;
    let outputs = cloud.deploy_stack(&context).await.unwrap();
    let redrive: Value = serde_json::from_str(&attribute("RedrivePolicy").await).unwrap();
    let intermediate_dlq = arn.replace(":orders", ":redeliver-prod-intermediate-dlq");
    assert_eq!(redrive, json!({ "deadLetterTargetArn": intermediate_dlq, "maxReceiveCount": 1 }));
    assert_eq!(attribute("VisibilityTimeout").await, "361");
    assert_eq!(attribute("MessageRetentionPeriod").await, "604800");
    assert_eq!(attribute("MaximumMessageSize").await, "1048576");

    target.script_replies(&id(1), [Reply::Status(422)]);
    run_boto3(&cloud, &["send", &url], &[test_message(1, &json!({}))]).await;
    let records = run_boto3(&cloud, &["receive", queue_url(&outputs, "FinalDlqUrl"), "1"], &[]).await;
    assert_eq!(summarize_record(&records[0]).0, id(1));

    cloud.destroy_stack().await.unwrap();
    let left = run_boto3(&cloud, &["list"], &[]).await;
    assert_eq!(left, ["orders", "orders-dlq"], "the stack does not own the queue");
    assert_eq!(attribute("RedrivePolicy").await, "", "our DLQ has no reader any more");
    assert_eq!(attribute("VisibilityTimeout").await, "361", "the raised timeout stays");
}
