//! The function that sets an existing source queue's attributes at deployment.

use std::process::Stdio;

use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::settings::{venv_file, workspace_root};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::permissions::RolePermission;
use super::stack::{MotoStack, text};

const RUN_SCRIPT: &str = r#"
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("index", sys.argv[1])
index = importlib.util.module_from_spec(spec)
spec.loader.exec_module(index)
index.time.sleep = lambda seconds: None  # it is patient with changes that take a minute
index.handler(json.load(sys.stdin), None)
"#;

#[tokio::test]
async fn the_queue_setter_changes_nothing_without_permission() {
    let target = HttpTargetServer::start().await;
    let (stack, wanted) = deploy_with_bare_queue(&target).await;
    assert_eq!(run_setter(&stack, &target, &wanted).await["Status"], "SUCCESS");
    assert_eq!(
        parse_policy(&attribute(&stack, "RedrivePolicy").await),
        parse_policy(&wanted["RedrivePolicy"])
    );
    assert_eq!(attribute(&stack, "VisibilityTimeout").await, wanted["VisibilityTimeout"]);

    for permission in permissions(&stack) {
        let (stack, wanted) = deploy_with_bare_queue(&target).await;
        stack.remove_permission(&stack.corresponding_permission(&permission)).await;
        let answer = run_setter(&stack, &target, &wanted).await;
        assert_eq!(answer["Status"], "FAILED", "{permission:?}: {answer}");
        assert!(text(&answer["Reason"]).contains("AccessDenied"), "{permission:?}: {answer}");
        assert_eq!(attribute(&stack, "RedrivePolicy").await, Value::Null, "{permission:?}");
    }
}

fn parse_policy(policy: &Value) -> Value {
    serde_json::from_str(text(policy)).unwrap()
}

fn permissions(stack: &MotoStack) -> impl Iterator<Item = RolePermission> {
    let all = stack.permissions().into_iter();
    all.filter(|permission| permission.role.contains("Setter") && permission.action.starts_with("sqs:"))
}

async fn deploy_with_bare_queue(target: &HttpTargetServer) -> (MotoStack, Value) {
    let stack = MotoStack::deploy("existing-queue", target).await;
    let mut resources = stack.template.resources_by_type("Custom::RedeliverSourceQueue");
    let wanted = resources.find(|(_, resource)| resource["Step"] == "set").unwrap().1;
    drop(resources);
    let url = &stack.source().queue_url;
    let bare = json!({ "QueueUrl": url, "Attributes": { "RedrivePolicy": "" } });
    stack.account.send_sqs_request("SetQueueAttributes", &bare).await;
    (stack, wanted)
}

async fn attribute(stack: &MotoStack, name: &str) -> Value {
    let request = json!({ "QueueUrl": stack.source().queue_url, "AttributeNames": ["All"] });
    stack.account.send_sqs_request("GetQueueAttributes", &request).await["Attributes"][name].clone()
}

/// Runs the setter if the variant has one.
pub(super) async fn assert_setter_works(stack: &MotoStack, target: &HttpTargetServer) {
    let wanted: Vec<_> = stack.template.resources_by_type("Custom::RedeliverSourceQueue").collect();
    for (_, wanted) in wanted {
        assert_eq!(run_setter(stack, target, &wanted).await["Status"], "SUCCESS");
    }
}

/// Runs the setter as Lambda does, and returns its response to CloudFormation.
async fn run_setter(stack: &MotoStack, target: &HttpTargetServer, wanted: &Value) -> Value {
    let role = stack.roles.keys().find(|role| role.contains("Setter")).unwrap();
    let key = stack.key(role);
    let stack_id = format!("stack of {}", stack.account.id);
    let event = json!({
        "RequestType": "Create",
        "ResponseURL": target.url(),
        "StackId": stack_id,
        "RequestId": "1",
        "LogicalResourceId": "Set",
        "ResourceProperties": wanted,
    });
    let mut setter = Command::new(venv_file("bin/python"))
        .args(["-c", RUN_SCRIPT])
        .arg(workspace_root().join("infra/lib/existing-source-queue.py"))
        .env_clear()
        .env("AWS_ENDPOINT_URL", stack.account.endpoint_url())
        .envs([("STACK_ID", stack_id.as_str()), ("URL_SUFFIX", "amazonaws.com")])
        .env("AWS_DEFAULT_REGION", REGION)
        .env("AWS_ACCESS_KEY_ID", key.access_key_id())
        .env("AWS_SECRET_ACCESS_KEY", key.secret_access_key())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    setter.stdin.take().unwrap().write_all(event.to_string().as_bytes()).await.unwrap();
    assert!(setter.wait().await.unwrap().success(), "it always responds");
    let answers = target.requests_containing(&stack_id);
    serde_json::from_str(&answers.last().unwrap().body).unwrap()
}
