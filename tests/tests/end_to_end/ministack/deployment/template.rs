//! The templates, deployed with nothing but their files, the functions' zips and AWS's SAM CLI.

use std::path::PathBuf;

use redeliver_tests::deployment::{Cloud, Outputs};
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::settings::venv_file;
use redeliver_tests::strangers::release_folder;
use redeliver_tests::topology::QUICK_POLICY;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{id, queue_url, run_boto3, run_boto3_script, summarize_record, test_message};
use crate::ministack::called_messages_in_group;

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };

#[tokio::test]
async fn sam_deploys_each_template_variant() {
    let http = HttpTargetServer::start().await;
    let cloud = Cloud::start_empty();
    let account: Value =
        serde_json::from_str(&self::run_account_script(&cloud, &["prepare"]).await.concat()).unwrap();

    let url = json!({
        "Prefix": "orders",
        "TargetUrl": http.url(),
        "HeadersSecretArn": account["secret"],
        "Policy": QUICK_POLICY,
        "AlarmTopicArn": account["topic"],
    });
    deploy_template(&cloud, "orders-stack", "", &account, &url).await;
    let function = json!({
        "Prefix": "invoices",
        "TargetFunctionArn": account["function"],
        "Policy": QUICK_POLICY,
        "Envelope": "optional",
        "MaxConcurrency": "4",
        "InnerConcurrency": "4",
        "Tracing": "false",
    });
    deploy_template(&cloud, "invoices-stack", "", &account, &function).await;
    let ordered = json!({
        "Prefix": "payments",
        "TargetUrl": http.url(),
        "Policy": QUICK_POLICY,
        "AlarmTopicArn": account["topic"],
    });
    deploy_template(&cloud, "payments-stack", "ordered-", &account, &ordered).await;

    http.script_replies(&id(2), [Reply::Status(500), Reply::Status(422)]);
    let sent = [1, 2].map(|number| test_message(number, &json!({})));
    let (dead, error_type, details, attempt) =
        send_and_await_dead_letter(&cloud, "orders-stack", &[], &sent).await;
    assert_eq!((dead, error_type, attempt), (id(2), "NON_RETRYABLE_ERROR".to_owned(), json!(1)));
    assert!(details.starts_with("HttpStatus.422: "), "{details}");
    let calls = http.requests_for(&id(2));
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].headers["x-api-key"], "a key of the account");

    let sent = [test_message(3, &json!({})), test_message(4, &json!({ "fails": true }))];
    let (dead, error_type, details, attempt) =
        send_and_await_dead_letter(&cloud, "invoices-stack", &[], &sent).await;
    assert_eq!((dead, error_type, attempt), (id(4), "RETRY_ATTEMPT_EXCEEDED".to_owned(), json!(2)));
    // The emulator has its own error type for a function's exceptions.
    assert!(details.starts_with("Max retry attempts 2 exceeded; last error "), "{details}");
    assert!(details.ends_with(": always"), "{details}");

    http.script_replies(&id(5), [Reply::Status(409)]);
    http.script_replies(&id(6), [Reply::Status(422)]);
    let sent = [5, 6].map(|number| test_message(number, &json!({ "group": "one" })));
    let (dead, error_type, details, _) =
        send_and_await_dead_letter(&cloud, "payments-stack", &["one"], &sent).await;
    assert_eq!((dead, error_type), (id(6), "NON_RETRYABLE_ERROR".to_owned()));
    assert!(details.starts_with("HttpStatus.422: "), "{details}");
    assert_eq!(called_messages_in_group(&http, "one"), [5, 5, 6]);

    let topic = &account["topic"];
    for prefix in ["orders-", "payments-"] {
        assert_eq!(alarm_actions(&cloud, prefix).await, [json!([[topic], [topic]]).to_string()]);
    }
    assert_eq!(alarm_actions(&cloud, "invoices-").await, ["[[],[]]"]);
}

/// Runs `sam deploy`, as in docs/template.md, with the template whose file name contains `variant`.
pub(super) async fn deploy_template(
    cloud: &Cloud,
    stack: &str,
    variant: &str,
    account: &Value,
    parameters: &Value,
) {
    let directory = release_folder();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{stack}.yaml"));
    // JSON is valid YAML; SAM recognizes the format by the file's name.
    std::fs::write(&file, parameters.to_string()).unwrap();
    let mut sam = Command::new(venv_file("bin/sam"));
    sam.args(["deploy", "--no-progressbar", "--capabilities", "CAPABILITY_IAM", "--stack-name", stack]);
    sam.arg("--template").arg(directory.join(format!("redeliver-{variant}{ARCHITECTURE}.template.yaml")));
    sam.args(["--s3-bucket", account["bucket"].as_str().unwrap()]);
    sam.arg("--parameter-overrides").arg(format!("file://{}", file.display()));
    sam.env_clear().envs(cloud.client_variables()).env("SAM_CLI_TELEMETRY", "0");
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sam");
    // Without this, SAM asks PyPI for a newer version of itself.
    sam.env("HOME", home).env("HTTPS_PROXY", "http://127.0.0.1:9");
    sam.current_dir(&directory).kill_on_drop(true);
    let output = sam.output().await.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}

/// Sends messages to a stack, optionally in a group, and waits for the one that becomes a dead letter.
async fn send_and_await_dead_letter(
    cloud: &Cloud,
    stack: &str,
    group: &[&str],
    messages: &[String],
) -> (String, String, String, Value) {
    let outputs: Outputs =
        serde_json::from_str(&run_account_script(cloud, &["outputs", stack]).await.concat()).unwrap();
    run_boto3(cloud, &[&["send", queue_url(&outputs, "SourceQueueUrl")], group].concat(), messages).await;
    summarize_record(&run_boto3(cloud, &["receive", queue_url(&outputs, "FinalDlqUrl"), "1"], &[]).await[0])
}

/// Returns the actions that a stack's alarms take when they fire and when they clear, without duplicates.
async fn alarm_actions(cloud: &Cloud, prefix: &str) -> Vec<String> {
    let mut actions = run_account_script(cloud, &["alarms", prefix]).await;
    actions.sort();
    actions.dedup();
    actions
}

async fn run_account_script(cloud: &Cloud, arguments: &[&str]) -> Vec<String> {
    run_boto3_script(cloud, "boto3_account.py", arguments, &[]).await
}
