//! Creates a template's queues and their policies in an account.

use redeliver_tests::moto::MotoAccount;
use redeliver_tests::template::Template;
use serde_json::{Value, json};

use super::permissions::{action_resource_pairs, statements_by_role, strings};
use super::stack::text;

pub(super) async fn create(account: &MotoAccount, template: &Template) {
    let queues: Vec<_> = template.resources_by_type("AWS::SQS::Queue").collect();
    let name = |(id, queue): &(&str, Value)| queue["QueueName"].as_str().unwrap_or(id).to_owned();
    for queue in &queues {
        let mut attributes = json!({ "VisibilityTimeout": queue.1["VisibilityTimeout"].to_string() });
        if let Some(key) = queue.1["KmsMasterKeyId"].as_str() {
            attributes["KmsMasterKeyId"] = key.into();
        }
        if queue.1["FifoQueue"] == true {
            attributes["FifoQueue"] = "true".into();
        }
        account
            .send_sqs_request("CreateQueue", &json!({ "QueueName": name(queue), "Attributes": attributes }))
            .await;
    }
    for queue in &queues {
        if queue.1["RedrivePolicy"].is_object() {
            set_attribute(
                account,
                &template.queue_url(&name(queue)),
                "RedrivePolicy",
                &queue.1["RedrivePolicy"],
            )
            .await;
        }
    }
    for (_, policy) in template.resources_by_type("AWS::SQS::QueuePolicy") {
        for url in strings(&policy["Queues"]) {
            set_attribute(account, url, "Policy", &policy["PolicyDocument"]).await;
        }
    }
    for (_, setter) in template
        .resources_by_type("Custom::RedeliverSourceQueue")
        .filter(|(_, properties)| properties["Step"] == "set")
    {
        let name = text(&setter["QueueArn"]).rsplit(':').next().unwrap().to_owned();
        let mut attributes = encryption_attribute(template, &setter);
        if name.ends_with(".fifo") {
            attributes["FifoQueue"] = "true".into();
        }
        account
            .send_sqs_request("CreateQueue", &json!({ "QueueName": name, "Attributes": attributes }))
            .await;
        let redrive: Value = serde_json::from_str(text(&setter["RedrivePolicy"])).unwrap();
        set_attribute(account, &template.queue_url(&name), "RedrivePolicy", &redrive).await;
    }
}

/// Returns an existing queue's `KmsMasterKeyId` attribute, or no attribute. Only the queue's setter is in the template,
/// not the queue.
fn encryption_attribute(template: &Template, setter: &Value) -> Value {
    if setter["HasKey"] != "true" {
        return json!({});
    }
    let permissions = statements_by_role(template).into_values().flatten().collect::<Vec<_>>();
    let mut keys = permissions
        .iter()
        .flat_map(action_resource_pairs)
        .filter(|(action, resource)| *action == "kms:Decrypt" && resource.ends_with("000000000002"));
    json!({ "KmsMasterKeyId": keys.next().unwrap().1 })
}

pub(super) async fn set_attribute(account: &MotoAccount, url: &str, attribute: &str, value: &Value) {
    let request = json!({ "QueueUrl": url, "Attributes": { attribute: value.to_string() } });
    account.send_sqs_request("SetQueueAttributes", &request).await;
}
