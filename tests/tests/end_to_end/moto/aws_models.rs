//! Policies contain only elements that exist in IAM, and the checkers of policies (`policies.py`) and of requests
//! (`aws_models.py`) in `tests/support` find planted faults.

use std::path::PathBuf;
use std::process::Stdio;

use redeliver_tests::moto::{MotoAccount, printed_text};
use redeliver_tests::settings::{venv_file, workspace_root};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::TEMPLATES;

fn python_command(script: &str) -> Command {
    let mut command = Command::new(venv_file("bin/python"));
    command
        .arg(workspace_root().join("tests/support").join(script))
        .env_clear()
        .current_dir(workspace_root());
    command.kill_on_drop(true);
    command
}

async fn assert_passes(script: &str) {
    let ended = python_command(script).output().await.unwrap();
    assert!(ended.status.success(), "{}", printed_text(&ended));
}

#[tokio::test]
async fn planted_request_faults_are_found_with_location_and_rule() {
    assert_passes("aws_models_test.py").await;
}

#[tokio::test]
async fn faults_planted_in_policies_are_found() {
    assert_passes("policies_test.py").await;
}

/// Returns the output of `redeliver permissions` for each command, once with placeholders and once for queues whose
/// key has an alias.
async fn printed_policies() -> Map<String, Value> {
    let account = MotoAccount::new();
    let key = account.create_user("Operator", "/").await;
    account
        .set_user_policy("Operator", &[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })])
        .await;
    for name in ["source.fifo", "source-dlq.fifo", "blocked", "annotation", "final-dlq"] {
        let mut attributes = json!({ "KmsMasterKeyId": "alias/orders" });
        if name.ends_with(".fifo") {
            attributes["FifoQueue"] = json!("true");
        }
        let request = json!({ "QueueName": format!("orders-test-{name}"), "Attributes": attributes });
        account.send_sqs_request("CreateQueue", &request).await;
    }
    let run = async |arguments: &[&str]| {
        account.redeliver_command(&key).arg("permissions").args(arguments).output().await.unwrap()
    };
    let refused = printed_text(&run(&["nonsense"]).await);
    let (_, commands) = refused.split_once("[possible values: ").unwrap_or_else(|| panic!("{refused}"));
    let (commands, _) = commands.split_once(']').unwrap();
    let mut policies = Map::new();
    for command in commands.split(", ") {
        for deployment in [&[][..], &["--prefix", "orders", "--stage", "test"]] {
            let output = run(&[&[command], deployment].concat()).await;
            let policy: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{command}: {}", printed_text(&output)));
            policies.insert(format!("permissions {command} {}", deployment.join(" ")), policy);
        }
    }
    policies
}

/// Returns the paths of the pages and templates that contain policies for users.
fn published_policy_files() -> Vec<PathBuf> {
    let pages = ["docs/producers.md", "docs/deploy/upgrade.md", "examples/ecs.yaml", "examples/queues.yaml"];
    pages.iter().map(|path| workspace_root().join(path)).collect()
}

/// An action unknown to IAM grants nothing, nor does a statement with a condition on a key that a request never has. An
/// emulator notices neither.
#[tokio::test]
async fn policies_use_only_existing_actions_resources_and_condition_keys() {
    let mut policies = printed_policies().await;
    let template_policies =
        TEMPLATES.iter().map(|(name, text)| (name.clone(), serde_json::from_str(text).unwrap()));
    policies.extend(template_policies);
    let folder = super::templates_directory();
    let with_parameters =
        ["parameters.yaml", "own-function.yaml", "ordered.yaml"].map(|name| folder.join(name));
    let mut judge = python_command("policies.py");
    judge.args(published_policy_files()).args(with_parameters);
    let mut judge =
        judge.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = serde_json::to_vec(&policies).unwrap();
    judge.stdin.take().unwrap().write_all(&text).await.unwrap();
    let judged = judge.wait_with_output().await.unwrap();
    let reported = printed_text(&judged);
    let counts: Vec<_> = reported.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).collect();
    let [statements, actions] = counts[..] else { panic!("{reported}") };
    assert!(reported.lines().count() == 1 && statements > 500 && actions > 40, "{reported}");
}
