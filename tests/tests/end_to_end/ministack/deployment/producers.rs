//! The recipes in docs/producers.md: AWS services and existing producers in front of a deployed stack.

use std::time::Duration;

use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use redeliver_tests::http_target::{HttpTargetServer, Reply, TargetRequest};
use redeliver_tests::settings::PATIENCE;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{queue_url, run_boto3, run_boto3_script};

const APP: &str = "examples/producers-app.ts";

#[tokio::test]
async fn messages_from_aws_services_are_retried_unchanged() {
    let target = HttpTargetServer::start().await;
    let cloud = Cloud::start().await.unwrap();
    let context = [local_context().as_slice(), &[format!("target={}", target.url())]].concat();
    let outputs = cloud.deploy_app_stack(APP, &context).await.unwrap();

    target.refuse_first_attempts();
    check_event_bridge(&cloud, &target).await;
    check_sns(&cloud, &target, &outputs).await;
    check_s3(&cloud, &target, &outputs).await;
    check_existing_producers(&cloud, &target, &outputs).await;
    check_pipe_and_final_record(&cloud, &target, &outputs).await;

    cloud.destroy_stack().await.unwrap();
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

/// Returns the idempotency key and the body of a message for which the target was called twice.
async fn retried_call(target: &HttpTargetServer, text: &str) -> (String, String) {
    let both = async {
        while target.requests_containing(text).len() < 2 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let came = timeout(PATIENCE, both).await;
    let requests = target.requests_containing(text);
    assert!(came.is_ok(), "{text}: {requests:?}");
    let [first, second] = &requests[..] else { panic!("{text}: {requests:?}") };
    let header = |request: &TargetRequest, name: &str| request.headers[name].to_str().unwrap().to_owned();
    assert_eq!([first, second].map(|request| header(request, "X-Redeliver-Attempt")), ["0", "1"]);
    assert_eq!(first.body, second.body, "unchanged");
    let [key, again] = [first, second].map(|request| header(request, "Idempotency-Key"));
    assert_eq!(key, again);
    (key, first.body.clone())
}

fn parse_json(body: &str) -> Value {
    serde_json::from_str(body).unwrap()
}

async fn run_producer(cloud: &Cloud, arguments: &[&str]) -> Vec<String> {
    run_boto3_script(cloud, "boto3_produce.py", arguments, &[]).await
}

async fn check_event_bridge(cloud: &Cloud, target: &HttpTargetServer) {
    let [event_id] = <[_; 1]>::try_from(run_producer(cloud, &["event", r#"{"order":"e-1"}"#]).await).unwrap();
    let (key, body) = retried_call(target, "e-1").await;
    assert_eq!(key, event_id, "the event's id");
    assert_eq!(
        (&parse_json(&body)["detail-type"], &parse_json(&body)["detail"]),
        (&json!("OrderPlaced"), &json!({ "order": "e-1" }))
    );
}

async fn check_sns(cloud: &Cloud, target: &HttpTargetServer, outputs: &Outputs) {
    let topic = queue_url(outputs, "OrdersTopicArn");
    let order = r#"{"order":"s-1"}"#;
    let [sns_id] =
        <[_; 1]>::try_from(run_producer(cloud, &["publish", topic, "order-1", order]).await).unwrap();
    let (key, body) = retried_call(target, r#""Notification""#).await;
    assert_eq!(key, sns_id, "wrapped: SNS's id");
    assert_eq!(parse_json(&body)["Message"], order);
    // In the wrapped message, the quotes are escaped.
    let (key, body) = retried_call(target, order).await;
    assert_eq!((key.as_str(), body.as_str()), ("order-1", order), "raw: the attribute's");
}

async fn check_s3(cloud: &Cloud, target: &HttpTargetServer, outputs: &Outputs) {
    run_producer(cloud, &["upload", queue_url(outputs, "UploadsBucket"), "invoices/17.pdf"]).await;
    let (key, body) = retried_call(target, "invoices").await;
    let record = &parse_json(&body)["Records"][0];
    assert_eq!(record["responseElements"]["x-amz-request-id"], key.as_str());
    assert_eq!(record["s3"]["bucket"]["name"], queue_url(outputs, "UploadsBucket"));
}

async fn check_existing_producers(cloud: &Cloud, target: &HttpTargetServer, outputs: &Outputs) {
    let cloud_event = r#"{"specversion":"1.0","type":"order.placed","id":"17","source":"/shop","data":{}}"#;
    let sent = ["<order>18</order>".to_owned(), cloud_event.to_owned()];
    let ids = run_boto3(cloud, &["send", queue_url(outputs, "ShopQueueUrl")], &sent).await;
    let (key, body) = retried_call(target, "<order>").await;
    assert_eq!((&key, &body), (&ids[0], &sent[0]), "SQS's id");
    let (key, body) = retried_call(target, "specversion").await;
    assert_eq!((key.as_str(), body.as_str()), ("/shop 17", cloud_event), "its source and its id");
}

/// Checks the recipe for a pipe, and its final record. The emulator has no pipe to SQS, so the test sends what the
/// recipe's input template produces from a DynamoDB stream record.
async fn check_pipe_and_final_record(cloud: &Cloud, target: &HttpTargetServer, outputs: &Outputs) {
    let sent = r#"{"id":"c4ca4238a0b923820dcc509a6f75849b","order":{"order":{"S":"p-1"}}}"#;
    target.script_replies("c4ca4238a0b923820dcc509a6f75849b", [Reply::Status(422)]);
    run_boto3(cloud, &["send", queue_url(outputs, "EventsQueueUrl")], &[sent.to_owned()]).await;
    let (key, body) = retried_call(target, "p-1").await;
    assert_eq!(
        (key.as_str(), body.as_str()),
        ("c4ca4238a0b923820dcc509a6f75849b", sent),
        "the record's eventID"
    );

    let records = run_boto3(cloud, &["receive", queue_url(outputs, "EventsFinalDlqUrl"), "1"], &[]).await;
    let record = parse_json(&records[0]);
    let attribute = |name: &str| record["MessageAttributes"][name]["StringValue"].as_str().unwrap();
    assert_eq!((record["Body"].as_str(), attribute("ErrorType")), (Some(sent), "NON_RETRYABLE_ERROR"));
    assert_eq!(parse_json(attribute("DeadLetter"))["attempts"], 1);
    let redeliver = parse_json(attribute("Redeliver"));
    assert_eq!((&redeliver["idempotency_key"], &redeliver["retry_attempt"]), (&json!(key), &json!(1)));
    assert_eq!(redeliver["retry_history"][0]["error_type"], "HttpStatus.500");
}
