//! A team's first night with redeliver: existing functions with Powertools and with middy, and existing queues whose
//! bodies have no envelope.

use std::fs;
use std::path::Path;

use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use redeliver_tests::runtimes::runtimes_folder;
use redeliver_tests::settings::{venv_file, workspace_root};
use redeliver_tests::strangers::{copy_files, new_folder};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{queue_url, run_boto3, run_boto3_script, template};

/// A function's name, runtime and handler, and its language's error message for an order without `cents`.
const FUNCTIONS: [(&str, &str, &str, &str); 2] = [
    ("powertools", "python3.13", "powertools.handler", "KeyError: 'cents' (at "),
    (
        "middy",
        "nodejs22.x",
        "middy.handler",
        "TypeError: Cannot read properties of undefined (reading 'reduce') (at ",
    ),
];

const POLICY: &str = r#"{
    "max_attempts": 1, "backoff": {"kind": "fixed", "delay_seconds": 1, "jitter": "none"},
    "non_retryable": ["*CardDeclined*"]
}"#;

const BODIES: [&str; 4] = [
    r#"{"id": "A-1", "card": "4111", "cents": [100], "funds": 500}"#,
    r#"{"id": "A-2", "card": "declined", "cents": [100], "funds": 500}"#,
    r#"{"id": "A-3", "card": "4111", "cents": [400, 200], "funds": 500}"#,
    r#"{"id": "A-4", "card": "4111"}"#,
];

#[tokio::test]
async fn functions_that_read_existing_queues_get_redeliver_from_the_template() {
    let cloud = Cloud::start_empty();
    run_first_night_script(&cloud, &["bucket", "artifacts"]).await;
    for (name, runtime, handler, bug_error) in FUNCTIONS {
        let package = package_function(name);
        let package = package.path().to_str().unwrap();
        let found =
            run_first_night_script(&cloud, &["prepare", name, runtime, handler, package]).await.concat();
        let found: Value = serde_json::from_str(&found).unwrap();

        let prefix = format!("{name}-retries");
        let mut parameters = json!({
            "Prefix": prefix,
            "FunctionName": name,
            "RoleName": name,
            "RoleId": found["role_id"],
            "SourceQueueArn": found["arn"],
            "Policy": POLICY,
        });
        let account = json!({ "bucket": "artifacts" });
        template::deploy_template(&cloud, &prefix, "own-function-", &account, &parameters).await;
        let printed = attach_redeliver(&cloud, name, &prefix).await;
        assert!(printed.starts_with("deleting the event source mapping "), "{printed}");
        parameters["ReadsQueue"] = "true".into();
        template::deploy_template(&cloud, &prefix, "own-function-", &account, &parameters).await;

        assert_eq!(run_first_night_script(&cloud, &["mappings", name]).await, [format!("Enabled {name}")]);
        let outputs = run_boto3_script(&cloud, "boto3_account.py", &["outputs", &prefix], &[]).await.concat();
        let outputs: Outputs = serde_json::from_str(&outputs).unwrap();
        let source = found["url"].as_str().unwrap();
        assert_three_of_four_orders_die(&cloud, source, queue_url(&outputs, "FinalDlqUrl"), bug_error).await;
    }
}

#[tokio::test]
async fn functions_that_read_existing_queues_get_redeliver_from_the_construct() {
    let cloud = Cloud::start().await.unwrap();
    let packages = FUNCTIONS.map(|(name, ..)| package_function(name));
    let policy = packages[0].path().join("policy.json");
    fs::write(&policy, POLICY).unwrap();
    let mut context = local_context();
    context.push(format!("policy={}", policy.display()));
    for ((name, ..), package) in FUNCTIONS.iter().zip(&packages) {
        let arn = run_boto3(&cloud, &["create", name], &[]).await.concat();
        context.push(format!("{name}Code={}", package.path().display()));
        context.push(format!("{name}QueueArn={arn}"));
    }
    let outputs = cloud.deploy_app_stack("test/first-night-app.ts", &context).await.unwrap();
    for (name, _, _, bug_error) in FUNCTIONS {
        let source = format!("{}/000000000000/{name}", cloud.endpoint_url());
        let final_dlq = queue_url(&outputs, &format!("{name}FinalDlqUrl"));
        assert_three_of_four_orders_die(&cloud, &source, final_dlq, bug_error).await;
    }
}

/// Sends the orders to a queue, and checks the three that are given up.
async fn assert_three_of_four_orders_die(cloud: &Cloud, source: &str, final_dlq: &str, bug_error: &str) {
    run_boto3(cloud, &["send", source], &BODIES.map(str::to_owned)).await;
    let mut dead: Vec<_> = run_boto3(cloud, &["receive", final_dlq, "3"], &[])
        .await
        .iter()
        .map(|record| {
            let record: Value = serde_json::from_str(record).unwrap();
            let text = |name: &str| {
                record["MessageAttributes"][name]["StringValue"].as_str().unwrap_or_default().to_owned()
            };
            (record["Body"].as_str().unwrap().to_owned(), text("ErrorType"), text("ErrorDetails"))
        })
        .collect();
    dead.sort();
    let retried = "Max retry attempts 1 exceeded; last error";
    let expected = [
        (BODIES[1], "NON_RETRYABLE_ERROR", "CardDeclined: the card of order A-2 is declined (at ".to_owned()),
        (
            BODIES[2],
            "RETRY_ATTEMPT_EXCEEDED",
            format!("{retried} InsufficientFunds: order A-3 needs 600 cents (at "),
        ),
        (BODIES[3], "RETRY_ATTEMPT_EXCEEDED", format!("{retried} {bug_error}")),
    ];
    for ((body, error_type, details), (its_body, its_type, its_details)) in dead.iter().zip(&expected) {
        assert_eq!((body.as_str(), error_type.as_str()), (*its_body, *its_type), "{dead:#?}");
        assert!(details.starts_with(its_details), "{details}");
    }
}

/// Runs `attach.py` as in docs/start/template.md.
async fn attach_redeliver(cloud: &Cloud, function: &str, stack: &str) -> String {
    let script = workspace_root().join("examples/template/attach.py");
    let mut python = Command::new(venv_file("bin/python"));
    python.arg(script).args([function, stack]).envs(cloud.client_variables()).kill_on_drop(true);
    let output = python.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a folder with the recipes and, for `middy`, its packages.
fn package_function(name: &str) -> tempfile::TempDir {
    let package = new_folder(name);
    copy_files(&workspace_root().join("examples/recipes"), package.path());
    if name == "middy" {
        let modules = Path::new("node_modules/@middy");
        copy_files(&runtimes_folder().join(modules), &package.path().join(modules));
    }
    package
}

async fn run_first_night_script(cloud: &Cloud, arguments: &[&str]) -> Vec<String> {
    run_boto3_script(cloud, "boto3_first_night.py", arguments, &[]).await
}
