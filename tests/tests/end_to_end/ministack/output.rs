//! The functions' output: JSON lines with metrics, without any user data.

use std::collections::BTreeSet;

use aws_sdk_sqs::types::MessageAttributeValue;
use redeliver_tests::http_target::{HttpTargetServer, RESPONSE_CANARY, Reply};
use redeliver_tests::runtimes::Language;
use redeliver_tests::topology::{RunningTopology, TestTopology, TopologySetup};
use serde_json::{Value, json};

use super::{id, new_journal, new_topology, test_message};

/// A string in bodies, attributes, panics and error messages that must not occur in the output.
const CANARY: &str = "canary-of-a-payload";

/// Returns all lines of the functions' standard output.
fn lines(running: &RunningTopology) -> Vec<Value> {
    let output = running.mappings().into_iter().flat_map(|mapping| mapping.function().output_lines());
    let lines = output.filter(|line| !line.is_stderr);
    lines
        .map(|line| serde_json::from_str(&line.text).unwrap_or_else(|_| panic!("JSON: {}", line.text)))
        .collect()
}

fn assert_no_canary(running: &RunningTopology) {
    for mapping in running.mappings() {
        for line in mapping.function().output_lines() {
            for canary in [CANARY, RESPONSE_CANARY] {
                assert!(!line.text.contains(canary), "{} wrote: {}", mapping.function().name(), line.text);
            }
        }
    }
}

async fn send_with_canary_attribute(topology: &TestTopology, body: String) {
    let canary = MessageAttributeValue::builder().data_type("String").string_value(CANARY).build().unwrap();
    let request = topology.client.send_message().queue_url(&topology.source.url).message_body(body);
    request.message_attributes("producer", canary).send().await.unwrap();
}

/// Adds the most verbose log settings for the functions and their dependencies.
fn with_verbose_output(mut setup: TopologySetup) -> TopologySetup {
    for name in ["RUST_LOG", "AWS_LAMBDA_LOG_LEVEL"] {
        setup.variables.push((name, "TRACE".to_owned()));
    }
    setup
}

#[tokio::test]
async fn log_lines_are_json_and_emf_without_payloads_at_trace_level() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(1), [Reply::Status(500)]);
    target.script_replies(&id(2), [Reply::Status(410)]);
    for n in 0..3 {
        send_with_canary_attribute(&topology, test_message(n, &json!({ "text": CANARY }))).await;
    }
    send_with_canary_attribute(&topology, format!("not JSON: {CANARY}")).await;
    send_with_canary_attribute(
        &topology,
        json!({"metadata": {"message_id": CANARY}, "data": {}}).to_string(),
    )
    .await;
    let running =
        topology.start_functions(&with_verbose_output(TopologySetup::for_http_target(target.url())));
    topology.wait_until_settled(&running).await;

    assert_no_canary(&running);
    let lines = lines(&running);
    let emf: Vec<_> = lines.iter().filter(|line| line["_aws"]["CloudWatchMetrics"].is_array()).collect();
    let mut metrics = BTreeSet::new();
    for line in &emf {
        assert!(line["_aws"]["Timestamp"].is_u64(), "{line}");
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
            for metric in directive["Metrics"].as_array().unwrap() {
                let name = metric["Name"].as_str().unwrap();
                assert!(
                    line[name].is_number() || line[name].is_array(),
                    "each announced metric has a value: {name} in {line}"
                );
                metrics.insert(name.to_owned());
            }
        }
    }
    assert!(metrics.len() >= 3, "{metrics:?}\n{}", running.full_log());
    for n in 0..3 {
        assert!(
            lines.iter().any(|line| line.to_string().contains(&id(n))),
            "each message can be found by its id"
        );
    }
}

#[tokio::test]
async fn panic_and_error_messages_are_not_logged() {
    let (topology, journal) = (new_topology().await, new_journal());
    for (n, action) in ["panic", "transient", "permanent"].into_iter().enumerate() {
        let body = test_message(u32::try_from(n).unwrap(), &json!({"script": [action], "text": CANARY}));
        send_with_canary_attribute(&topology, body).await;
    }
    let running =
        topology.start_functions(&with_verbose_output(TopologySetup::for_script(Language::Rust, &journal)));
    topology.wait_until_settled(&running).await;

    assert_no_canary(&running);
    assert!(!lines(&running).is_empty());
}
