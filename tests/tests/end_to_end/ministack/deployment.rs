//! The stack, deployed as a user deploys it; the emulator runs the bundles behind its own event source mappings.

mod strategies;

use std::process::Stdio;

use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::settings::{root, venv_file};
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
    target.script(&exhausted, [Reply::Status(503); 10]);
    target.script(&permanent, [Reply::Status(422)]);
    target.script(&recovers, [Reply::Status(503), Reply::Status(200)]);
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
    assert!(details[2].contains("HttpStatus.503"), "{details:?}");
    assert!(details[3].contains("HttpStatus.422"), "{details:?}");
    let calls = [&succeeds, &exhausted, &permanent, &recovers].map(|id| target.requests(id).len());
    assert_eq!(calls, [1, 3, 1, 2], "how often the target was called");

    cloud.destroy(&context).await.unwrap();
    assert_eq!(boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

#[tokio::test]
async fn an_existing_source_queue_is_connected_only_when_it_would_lose_nothing() {
    let target = HttpTarget::start().await;
    let cloud = Cloud::start().await.unwrap();
    let arn = boto3(&cloud, &["create", "orders"], &[]).await.concat();
    let of_existing = |connected: &str| {
        let more = [format!("existingSourceQueueArn={arn}"), format!("connected={connected}")];
        context(&target, &more)
    };

    let refused = cloud.deploy(&of_existing("true")).await.unwrap_err().to_string();
    let sentence = "lacks what redeliver needs of RedrivePolicy and VisibilityTimeout and MessageRetentionPeriod: run aws \
                    sqs set-queue-attributes --queue-url ";
    assert!(refused.contains(sentence), "{refused}");

    let outputs = cloud.deploy(&of_existing("false")).await.unwrap();
    let command = outputs.iter().find(|(name, _)| name.contains("SourceQueueMustHave")).unwrap().1;
    let attributes = command.split_once(" --attributes '").unwrap().1.trim_end_matches('\'').to_owned();
    let url = queue(&outputs, "SourceQueueUrl").to_owned();
    boto3(&cloud, &["set-attributes", &url], &[attributes]).await;
    // Raised, not shortened: the command in the output leaves the retention alone.
    let retention = r#"{"MessageRetentionPeriod":"604800"}"#.to_owned();
    boto3(&cloud, &["set-attributes", &url], &[retention]).await;
    let outputs = cloud.deploy(&of_existing("true")).await.unwrap();

    target.script(&id(1), [Reply::Status(422)]);
    boto3(&cloud, &["send", &url], &[message(1, &json!({}))]).await;
    let records = boto3(&cloud, &["receive", queue(&outputs, "FinalDlqUrl"), "1"], &[]).await;
    assert_eq!(told(&records[0]).0, id(1));
    cloud.destroy(&of_existing("true")).await.unwrap();
    assert_eq!(boto3(&cloud, &["list"], &[]).await, ["orders"], "the queue is not the stack's to delete");
}
