//! Functions written with Powertools for AWS Lambda (Python) need no changes.

use std::path::Path;

use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtimes::{LambdaProgram, python_program, runtimes_folder};
use redeliver_tests::sqs::unique_name;
use redeliver_tests::topology::TopologySetup;
use serde_json::{Value, json};

use super::{final_records, id, journal_calls, new_journal, new_topology, test_message};

fn setup(handler: &str, journal: &Path) -> TopologySetup {
    let LambdaProgram { path, variables } = python_program(&runtimes_folder(), handler).with_layer();
    let journal = ("SCRIPT_JOURNAL", journal.display().to_string());
    let powertools_variables =
        [("POWERTOOLS_SERVICE_NAME", "orders"), ("POWERTOOLS_METRICS_NAMESPACE", "orders")];
    let powertools_variables = powertools_variables.map(|(name, value)| (name, value.to_owned()));
    let processor_variables = variables.into_iter().chain([journal]).chain(powertools_variables).collect();
    TopologySetup { processor: path, processor_variables, ..TopologySetup::for_http_target("") }
}

fn order(n: u32, data: Value) -> String {
    let Value::Object(mut data) = data else { panic!("an object") };
    data.insert("order".to_owned(), format!("order-{n}").into());
    test_message(n, &data.into())
}

#[tokio::test]
async fn powertools_batch_processor_reports_each_record() {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([order(1, json!({})), order(2, json!({ "failures": 1 })), order(3, json!({}))]).await;
    let mut setup = setup("powertools.batch_handler", &journal);
    setup.processor_variables.push(("HANDLER_EVENT", "batch".to_owned()));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(journal_calls(&journal, 1), ["0 order-1 -"], "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 2), ["0 order-2 -", "1 order-2 BatchItemFailure"]);
    assert_eq!(journal_calls(&journal, 3), ["0 order-3 -"]);
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn powertools_parser_accepts_the_event_and_its_error_explains_refusals() {
    let (topology, journal) = (new_topology().await, new_journal());
    let refused = test_message(3, &json!({ "order": 3 }));
    topology.send_batch([order(1, json!({})), order(2, json!({ "failures": 1 })), refused]).await;
    let mut setup = setup("powertools.parser_handler", &journal);
    setup.policy =
        r#"{"non_retryable": ["ValidationError"], "backoff": {"kind": "fixed", "delay_seconds": 1}}"#;
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(journal_calls(&journal, 1), ["0 order-1 -"], "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 2), ["0 order-2 -", "1 order-2 ConnectionError"]);
    let [record] = &final_records(&topology).await[..] else {
        panic!("one refused message: {}", running.full_log())
    };
    assert_eq!(
        (&record.body["metadata"]["message_id"], record.error_type.as_str()),
        (&json!(id(3)), "NON_RETRYABLE_ERROR")
    );
    assert_eq!(record.dead_letter["cause"]["type"], "ValidationError");
    let text = record.dead_letter["cause"]["message"].as_str().unwrap();
    assert!(text.contains("Input should be a valid string"), "{text}");
}

#[tokio::test]
async fn powertools_idempotency_prevents_a_second_effect() {
    let (topology, journal) = (new_topology().await, new_journal());
    let table = unique_name("charges");
    create_table(&table).await;
    topology
        .send_batch([
            order(1, json!({})),
            order(2, json!({ "failures_after": 2 })),
            order(3, json!({ "failures": 1 })),
        ])
        .await;
    let mut setup = setup("powertools.idempotent_handler", &journal);
    setup.processor_variables.push(("CHARGES_TABLE", table));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(journal_calls(&journal, 1), ["0 order-1 -"], "{}", running.full_log());
    assert_eq!(
        journal_calls(&journal, 2),
        ["0 order-2 -"],
        "retries have the same key, though their body has changed"
    );
    assert_eq!(
        journal_calls(&journal, 3),
        ["0 order-3 -", "1 order-3 ConnectionError"],
        "a failed call has no effect and is repeated"
    );
    assert!(final_records(&topology).await.is_empty(), "{}", running.full_log());
}

/// Creates the table as documented by Powertools.
async fn create_table(name: &str) {
    let table = json!({
        "TableName": name,
        "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
        "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
        "BillingMode": "PAY_PER_REQUEST",
    });
    let request = reqwest::Client::new()
        .post(Ministack::shared().endpoint_url())
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", "DynamoDB_20120810.CreateTable")
        // The emulator derives the service from this header.
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request")
        .body(table.to_string());
    let response = request.send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
}
