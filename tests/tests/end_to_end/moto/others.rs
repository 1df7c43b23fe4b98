//! Requests that must be denied: all requests to foreign queues, and sends to the inner queues.

use std::collections::BTreeSet;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use serde_json::{Value, json};

use super::mapping::MotoMapping;
use super::permissions::{lambda_user, ok_unless_denied};
use super::stack::{MotoStack, text};

pub(super) async fn assert_denied(stack: &MotoStack) {
    let foreign_queue = stack.template.queue_url("foreign-queue");
    stack.account.send_sqs_request("CreateQueue", &json!({ "QueueName": "foreign-queue" })).await;
    let mut queues = queues(stack);
    queues.insert(foreign_queue);
    for mapping in &stack.mappings {
        let sends_to = destination_queues(stack, &mapping.role);
        let has_role = |other: &&MotoMapping| other.role == mapping.role;
        let reads: BTreeSet<_> =
            stack.mappings.iter().filter(has_role).map(|other| &other.queue_url).collect();
        for user in [mapping.role.clone(), lambda_user(&mapping.role)] {
            let client = stack.client(&user);
            for url in &queues {
                if !sends_to.contains(url) {
                    let sent = message(&client, url).send().await;
                    assert!(ok_unless_denied(sent).is_none(), "{user} sends to {url}");
                }
                if !reads.contains(url) {
                    let received = client.receive_message().queue_url(url).send().await;
                    assert!(ok_unless_denied(received).is_none(), "{user} receives from {url}");
                }
            }
        }
    }
    assert_inner_queues_are_closed(stack, &queues).await;
}

/// Builds a message, with a group if the queue needs one.
fn message(client: &Client, url: &str) -> SendMessageFluentBuilder {
    let group = url.ends_with(".fifo").then(|| "g".to_owned());
    let request = client.send_message().queue_url(url).message_body("x").set_message_group_id(group.clone());
    request.set_message_deduplication_id(group)
}

/// Checks that sends to the inner queues are denied even with all permissions. SQS's own moves are not sends.
async fn assert_inner_queues_are_closed(stack: &MotoStack, queues: &BTreeSet<String>) {
    let key = stack.account.create_user("Operator", "/").await;
    stack
        .account
        .set_user_policy("Operator", &[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })])
        .await;
    let client = stack.account.signed_client(key);
    for url in queues {
        let sent = message(&client, url).send().await;
        let is_inner = ["-intermediate-dlq", "-retry", "-annotation", "-final-dlq", "-source-dlq.fifo"]
            .iter()
            .any(|end| url.ends_with(end));
        assert_eq!(ok_unless_denied(sent).is_none(), is_inner, "an operator sends to {url}");
        assert!(client.receive_message().queue_url(url).send().await.is_ok(), "an operator reads {url}");
    }
}

/// Returns the queues that a function sends to, derived from its settings and not from the statements.
fn destination_queues(stack: &MotoStack, role: &str) -> BTreeSet<String> {
    let mut functions = stack.template.resources_by_type("AWS::Lambda::Function");
    let (_, function) = functions.find(|(_, function)| text(&function["Role"]).ends_with(role)).unwrap();
    let variables = &function["Environment"]["Variables"];
    let hops = variables["RETRY_POLICY"].as_str().is_some_and(|policy| policy.contains("long_delays"));
    let is_retrier = function["Handler"] == "failed-message-processor";
    let is_send_target = |name: &str| match name {
        "SOURCE_QUEUE_URL" => variables["STRATEGY"] != "visibility" && variables["STRATEGY"] != "ordered",
        "INTERMEDIATE_DLQ_URL" => !is_retrier || hops,
        _ => name.ends_with("_QUEUE_URL") || name == "FINAL_DLQ_URL",
    };
    let targets = variables.as_object().unwrap().iter().filter(|(name, _)| is_send_target(name));
    targets.map(|(_, url)| stack.template.queue_url(text(url).rsplit('/').next().unwrap())).collect()
}

fn queues(stack: &MotoStack) -> BTreeSet<String> {
    let template_queues = stack.template.resources_by_type("AWS::SQS::Queue");
    let names = template_queues
        .map(|(id, queue): (&str, Value)| queue["QueueName"].as_str().unwrap_or(id).to_owned());
    let urls = names.map(|name| stack.template.queue_url(&name));
    urls.chain(stack.mappings.iter().map(|mapping| mapping.queue_url.clone())).collect()
}
