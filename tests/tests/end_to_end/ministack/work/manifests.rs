//! `examples/kubernetes.yaml` and `examples/ecs.yaml`: the image runs their commands, with the tests' addresses.

use std::collections::BTreeMap;
use std::fs;

use redeliver_tests::settings::{venv_file, workspace_root};

use super::image::UnpackedImage;
use super::*;

/// A container in a manifest.
struct Container {
    /// The arguments of each process.
    arguments: Vec<Vec<String>>,
    variables: BTreeMap<String, String>,
    /// The time between SIGTERM and SIGKILL.
    grace_seconds: u64,
}

const VARIABLES: [&str; 7] = [
    "ANNOTATION_QUEUE_URL",
    "FINAL_DLQ_URL",
    "INTERMEDIATE_DLQ_URL",
    "RETRY_POLICY",
    "SOURCE_QUEUE_URL",
    "TARGET",
    "TARGET_TIMEOUT_SECONDS",
];

#[tokio::test]
async fn the_kubernetes_manifest_runs_the_worker() {
    let manifests = parse_manifest("kubernetes.yaml").await;
    let deployment = manifests.iter().find(|one| one["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut variables = to_variables(&container["env"], "name", "value");
    assert_eq!(variables.remove("AWS_REGION").as_deref(), Some("eu-central-1"));
    let grace_seconds = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], &pod["securityContext"]["runAsUser"]),
        (&json!(true), &json!(65532))
    );
    let confined = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] }
    });
    assert_eq!(container["securityContext"], confined);
    let port = &container["ports"][0];
    assert_eq!(port["containerPort"], 8080);
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": port["name"] }));
    }
    let arguments = serde_json::from_value(container["args"].clone()).unwrap();
    assert_container_runs(Container { arguments: vec![arguments], variables, grace_seconds }).await;
}

#[tokio::test]
async fn the_ecs_task_definition_runs_the_worker() {
    let template = &parse_manifest("ecs.yaml").await[0];
    let task = &template["Resources"]["Task"]["Properties"];
    let container = &task["ContainerDefinitions"][0];
    let command = container["Command"].as_array().unwrap();
    let arguments_for =
        |function: &str| command.iter().map(|text| substitute(text).replace("Function", function)).collect();
    let arguments = ALL.iter().map(|function| arguments_for(function)).collect();
    let variables = to_variables(&container["Environment"], "Name", "Value");
    assert_eq!(
        (&container["ReadonlyRootFilesystem"], &container["User"]),
        (&json!(true), &json!("65532:65532"))
    );
    assert_eq!(container["PortMappings"][0]["ContainerPort"], 8080);
    let grace_seconds = container["StopTimeout"].as_u64().unwrap();
    assert_container_runs(Container { arguments, variables, grace_seconds }).await;
}

/// Runs a container with the test's queues, target and port.
async fn assert_container_runs(container: Container) {
    let Container { arguments, variables, grace_seconds } = container;
    let names: Vec<_> = variables.keys().map(String::as_str).collect();
    assert_eq!(names, VARIABLES);
    let settings = fs::read_to_string(workspace_root().join("docs/settings.md")).unwrap();
    assert!(names.iter().all(|name| settings.contains(&format!("`{name}`"))), "each is a setting");
    assert_eq!(variables["SOURCE_QUEUE_URL"].rsplit('/').next(), Some("orders-source"));
    let (topology, target, image) =
        (new_topology().await, HttpTargetServer::start().await, UnpackedImage::unpack().await);
    let (mut working, mut functions) = (Vec::new(), Vec::new());
    for mut arguments in arguments {
        let port = arguments.pop();
        assert_eq!(port.as_deref(), Some("--health=0.0.0.0:8080"), "replaced below");
        let span = |name: &str| {
            let text = arguments.iter().find_map(|argument| argument.strip_prefix(name)).unwrap();
            text.strip_suffix('s').unwrap().parse::<u64>().unwrap()
        };
        // The default of `--shutdown`: a receive, a batch and ten seconds.
        assert_eq!(grace_seconds, span("--wait=") + span("--invocation=") + 10 + 10, "10 s to spare");
        let mut command = image.command();
        command.args(&arguments);
        command.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
        set_up(&mut command, &topology, target.url());
        for name in ["RETRY_POLICY", "TARGET_TIMEOUT_SECONDS"] {
            command.env(name, &variables[name]);
        }
        working.push(RunningWorker::start(command).await);
    }
    topology.send_batch([test_message(0, &json!({}))]).await;
    wait_until_settled(&topology).await;
    for mut one in working {
        let (status, report) = one.get("/healthz").await;
        assert_eq!(status, 200);
        let names = report["functions"].as_array().unwrap().iter().map(|one| one["function"].clone());
        functions.extend(names);
        one.signal("TERM", "stopping").await;
        assert_eq!(one.wait_for_exit().await.0, Some(0));
    }
    assert_eq!(functions, ALL.map(|name| json!(format!("orders-{name}"))));
    assert_eq!(target.requests_for(&id(0)).len(), 1);
}

/// Parses a manifest. Both manifests are plain YAML.
async fn parse_manifest(example: &str) -> Vec<Value> {
    const READ_SCRIPT: &str =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let file = fs::File::open(workspace_root().join("examples").join(example)).unwrap();
    let output =
        Command::new(venv_file("bin/python")).args(["-c", READ_SCRIPT]).stdin(file).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn to_variables(list: &Value, name: &str, value: &str) -> BTreeMap<String, String> {
    let entry = |one: &Value| (substitute(&one[name]), substitute(&one[value]));
    list.as_array().unwrap().iter().map(entry).collect()
}

/// Resolves a string, possibly with `Fn::Sub`, as CloudFormation does with the prefix `orders`.
fn substitute(text: &Value) -> String {
    let text = text.as_str().or_else(|| text["Fn::Sub"].as_str()).or_else(|| text["Ref"].as_str()).unwrap();
    text.replace("${Prefix}", "orders")
}
