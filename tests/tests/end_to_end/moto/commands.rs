//! The permissions of the operator's commands: each command works with exactly the policy printed by `redeliver
//! permissions`, uses every permission in it that moto enforces, and names each missing permission.

use std::collections::BTreeSet;
use std::process::Output;

use aws_sdk_sqs::config::Credentials;
use futures_util::{StreamExt as _, stream};
use redeliver_tests::moto::{MotoAccount, printed_text};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

use super::CASES_AT_ONCE;

const ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000001";
/// Stays in the DLQ, so the command makes it visible again after receiving it.
const OTHER_ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000002";

/// A deployment with two messages in its final DLQ, and an access key without permissions.
struct CommandCase {
    account: MotoAccount,
    key: Credentials,
    folder: tempfile::TempDir,
}

impl CommandCase {
    /// Creates the case for this command.
    async fn new(command: &str) -> Self {
        let case = Self::with_dead_letters(if command == "unblock" { "source.fifo" } else { "source" }).await;
        if command == "unblock" {
            case.block_a_group().await;
        }
        case
    }

    /// Adds a hidden message and its notice.
    async fn block_a_group(&self) {
        let url =
            |name: &str| format!("{}/{}/orders-test-{name}", self.account.endpoint_url(), self.account.id);
        let dlq =
            json!({ "QueueName": "orders-test-source-dlq.fifo", "Attributes": { "FifoQueue": "true" } });
        self.account.send_sqs_request("CreateQueue", &dlq).await;
        let source = url("source.fifo");
        let message = json!({ "QueueUrl": source, "MessageBody": "x", "MessageGroupId": "a", "MessageDeduplicationId": "1" });
        self.account.send_sqs_request("SendMessage", &message).await;
        let received = json!({ "QueueUrl": source, "VisibilityTimeout": 43_000 });
        let received = self.account.send_sqs_request("ReceiveMessage", &received).await;
        let failure = json!({
            "receipt_handle": received["Messages"][0]["ReceiptHandle"], "waiting_since": "2026-11-28T00:00:00Z",
            "verdict": "MESSAGE_EXPIRED",
        });
        let failure = json!({ "Failure": { "DataType": "String", "StringValue": failure.to_string() } });
        // The notice about group b stays, so the command makes it visible again.
        for group in ["a", "b"] {
            let notice = json!({
                "QueueUrl": url("blocked"), "MessageBody": "x", "MessageGroupId": group, "MessageAttributes": failure,
            });
            self.account.send_sqs_request("SendMessage", &notice).await;
        }
    }

    async fn with_dead_letters(source: &str) -> Self {
        let account = MotoAccount::new();
        let key = format!("arn:aws:kms:{REGION}:{}:key/0191f3a2-7b1c-7d3e-8f00-00000000000a", account.id);
        let mut final_dlq = Value::Null;
        for name in [source, "blocked", "annotation", "final-dlq"] {
            let mut attributes = json!({ "KmsMasterKeyId": key });
            if name.ends_with(".fifo") {
                attributes["FifoQueue"] = json!("true");
            }
            let request = json!({ "QueueName": format!("orders-test-{name}"), "Attributes": attributes });
            final_dlq = account.send_sqs_request("CreateQueue", &request).await;
        }
        let body = |id: &str| json!({ "metadata": { "message_id": id }, "data": { "n": 1 } }).to_string();
        for id in [ID, OTHER_ID] {
            let request = json!({ "QueueUrl": final_dlq["QueueUrl"], "MessageBody": body(id) });
            account.send_sqs_request("SendMessage", &request).await;
        }
        let key = account.create_user("Operator", "/").await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("messages.jsonl"), body(ID) + "\n").unwrap();
        Self { account, key, folder }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.account.redeliver_command(&self.key);
        command.args(arguments).args(["--prefix", "orders", "--stage", "test"]);
        command.current_dir(self.folder.path());
        command.output().await.unwrap()
    }

    /// Returns the statements printed by the program when run with all permissions.
    async fn statements(&self, command: &str) -> Vec<Value> {
        self.account
            .set_user_policy("Operator", &[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })])
            .await;
        let policy = self.run(&["permissions", command]).await;
        let policy: Value =
            serde_json::from_slice(&policy.stdout).unwrap_or_else(|_| panic!("{}", printed_text(&policy)));
        policy["Statement"].as_array().unwrap().clone()
    }
}

/// Returns the permissions in a policy: each action paired with each resource.
fn list_permissions(statements: &[Value]) -> Vec<(String, String)> {
    let pairs = statements.iter().flat_map(super::permissions::action_resource_pairs);
    pairs.map(|(action, resource)| (action.to_owned(), resource.to_owned())).collect()
}

fn without_permission(statements: &[Value], (action, resource): &(String, String)) -> Vec<Value> {
    let mut left = statements.to_vec();
    for statement in left.iter_mut().filter(|statement| statement["Resource"] == resource.as_str()) {
        statement["Action"].as_array_mut().unwrap().retain(|one| one != action.as_str());
    }
    left.retain(|statement| !statement["Action"].as_array().unwrap().is_empty());
    left
}

/// Returns true if moto checks the permission. It checks none for CloudWatch and, for Lambda, only the permission to
/// invoke a function.
fn is_enforced((action, _): &(String, String)) -> bool {
    !action.starts_with("cloudwatch:") && !action.starts_with("lambda:")
}

async fn assert_permissions_suffice_and_are_needed(command: &str, arguments: &[&str], exit_code: i32) {
    let case = CommandCase::new(command).await;
    let statements = case.statements(command).await;
    case.account.set_user_policy("Operator", &statements).await;
    let before = case.account.decisions().len();
    let done = case.run(arguments).await;
    assert_eq!(done.status.code(), Some(exit_code), "{command}: {}", printed_text(&done));
    let decisions = case.account.decisions().split_off(before);
    let denied: Vec<_> =
        decisions.iter().filter(|one| !one.allowed && !one.action.starts_with("sts:")).collect();
    assert!(denied.iter().all(|one| one.action.starts_with("cloudwatch:")), "{command}: {denied:?}");
    let used: BTreeSet<_> = decisions.iter().map(|one| one.action.as_str()).collect();
    let granted: Vec<_> = list_permissions(&statements).into_iter().filter(is_enforced).collect();
    let unused: Vec<_> = granted.iter().filter(|(action, _)| !used.contains(action.as_str())).collect();
    assert_eq!(unused, Vec::<&(String, String)>::new(), "{command}: granted but not used");

    let cases = granted.iter().map(async |permission| {
        let case = CommandCase::new(command).await;
        let statements = case.statements(command).await;
        let permission = (permission.0.clone(), resource_in_account(&permission.1, &case.account.id));
        case.account.set_user_policy("Operator", &without_permission(&statements, &permission)).await;
        let done = case.run(arguments).await;
        assert!(
            printed_text(&done).contains(&permission.0),
            "{command} without {permission:?}: {}",
            printed_text(&done)
        );
    });
    stream::iter(cases).buffer_unordered(CASES_AT_ONCE).collect::<()>().await;
}

/// Returns the corresponding resource in another account.
fn resource_in_account(resource: &str, id: &str) -> String {
    let parts =
        resource.split(':').map(|part| if super::permissions::is_account_id(part) { id } else { part });
    parts.collect::<Vec<_>>().join(":")
}

#[tokio::test]
async fn audit_works_with_its_policy_and_names_each_missing_permission() {
    assert_permissions_suffice_and_are_needed("audit", &["audit"], 3).await;
}

#[tokio::test]
async fn purge_works_with_its_policy_and_names_each_missing_permission() {
    let purge = ["purge", "--ids", ID, "--backup", "backup.jsonl", "--apply"];
    assert_permissions_suffice_and_are_needed("purge", &purge, 0).await;
}

#[tokio::test]
async fn send_works_with_its_policy_and_names_each_missing_permission() {
    assert_permissions_suffice_and_are_needed("send", &["send", "messages.jsonl", "--apply"], 0).await;
}

#[tokio::test]
async fn redrive_works_with_its_policy_and_names_each_missing_permission() {
    let redrive = ["redrive", "--ids", ID, "--apply", "--allow-paused"];
    assert_permissions_suffice_and_are_needed("redrive", &redrive, 0).await;
}

#[tokio::test]
async fn unblock_works_with_its_policy_and_names_each_missing_permission() {
    let take_out = ["unblock", "a", "--backup", "backup.jsonl", "--apply"];
    assert_permissions_suffice_and_are_needed("unblock", &take_out, 0).await;
}

/// moto does not implement event source mappings or metrics.
#[tokio::test]
async fn status_shows_blocked_groups() {
    let case = CommandCase::new("unblock").await;
    let statements = case.statements("status").await;
    case.account.set_user_policy("Operator", &statements).await;
    let shown = printed_text(&case.run(&["status"]).await);
    let lines: Vec<_> = shown.lines().filter(|line| line.contains("MESSAGE_EXPIRED")).collect();
    let [a, b] = lines[..] else { panic!("{shown}") };
    assert!(a.trim_start().starts_with("a ") && b.trim_start().starts_with("b "), "{shown}");
    assert!(a.contains("2026-11-28T00:00:00.000Z"), "{shown}");
}
