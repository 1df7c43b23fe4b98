//! The number of requests per full batch. SQS bills requests, so each additional one costs money.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use redeliver_tests::full_batch::{first_deliveries, hand_offs, verdicts};
use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::settings::bundle_path;
use redeliver_tests::sqs_stub::SqsStub;
use redeliver_tests::wire::serve_router;
use serde_json::{Value, json};

/// Returns the function's SQS requests for an event that succeeds completely, by action.
async fn requests(name: &str, event: &Value) -> Vec<(String, u64)> {
    requests_with_strategy(name, event, "delayed-resend").await
}

async fn requests_with_strategy(name: &str, event: &Value, strategy: &str) -> Vec<(String, u64)> {
    let stub = SqsStub::start().await;
    let unavailable = Router::new().fallback(|| async { StatusCode::INTERNAL_SERVER_ERROR });
    let (target, target_server) = serve_router(unavailable).await;
    let variables = [
        ("AWS_ENDPOINT_URL", stub.endpoint_url().to_owned()),
        ("TARGET", format!("http://{target}/")),
        ("SOURCE_QUEUE_URL", stub.queue_url("source")),
        ("INTERMEDIATE_DLQ_URL", stub.queue_url("intermediate-dlq")),
        ("ANNOTATION_QUEUE_URL", stub.queue_url("annotation")),
        ("FINAL_DLQ_URL", stub.queue_url("final-dlq")),
        ("STRATEGY", strategy.to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let function = LambdaFunction::new(name, bundle_path(name), variables);
    let outcome = function.invoke(event, Duration::from_secs(20)).await;
    target_server.abort();
    let all_done = InvocationOutcome::Response(json!({ "batchItemFailures": [] }));
    assert_eq!(outcome, all_done, "{:?}", function.output_lines());
    stub.take_request_counts().into_iter().collect()
}

fn batches(count: u64) -> Vec<(String, u64)> {
    vec![("SendMessageBatch".to_owned(), count)]
}

#[tokio::test]
async fn ten_hand_offs_take_one_request() {
    assert_eq!(requests("message-processor", &first_deliveries()).await, batches(1));
}

#[tokio::test]
async fn ten_direct_resends_take_one_request() {
    let sent = requests_with_strategy("message-processor", &first_deliveries(), "direct-resend").await;
    assert_eq!(sent, batches(1));
}

#[tokio::test]
async fn ten_resends_take_one_request() {
    assert_eq!(requests("failed-message-processor", &hand_offs()).await, batches(1));
}

#[tokio::test]
async fn ten_final_records_take_one_request() {
    assert_eq!(requests("final-dlq-annotator", &verdicts()).await, batches(1));
}

#[tokio::test]
async fn resends_and_verdicts_from_one_batch_take_two_requests() {
    let mut event = hand_offs();
    for record in event["Records"].as_array_mut().unwrap().iter_mut().step_by(2) {
        let failure = &mut record["messageAttributes"]["Failure"]["stringValue"];
        *failure = failure.as_str().unwrap().replace("transient", "permanent").into();
    }
    assert_eq!(requests("failed-message-processor", &event).await, batches(2));
}
