//! The target's response determines what happens to a message.

use redeliver_tests::http_target::{HttpTargetServer, Reply, TargetRequest};
use redeliver_tests::topology::TopologySetup;
use serde_json::{Value, json};

use super::{final_records, id, new_topology, test_message};

fn body(request: &TargetRequest) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

#[tokio::test]
async fn a_successful_message_reaches_the_target_once_with_its_exact_bytes() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let sent = format!(
        r#"{{ "data":{{"n":1e400,"é":"\u00e9"}}, "metadata":{{"message_id":"{}", "own":1}} }}"#,
        id(0)
    );
    topology.send_batch([sent.clone()]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    let requests = target.requests_for(&id(0));
    assert_eq!(requests.len(), 1, "{}", running.full_log());
    assert_eq!(requests[0].body, sent);
    assert_eq!(requests[0].headers["content-type"], "application/json");
    assert_eq!(requests[0].headers["x-redeliver-attempt"], "0");
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_message_that_fails_twice_is_retried_with_its_history() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(500), Reply::RetryAfter(429, 1)]);
    topology.send_batch([test_message(0, &json!({"kept": [1, 2]}))]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    let requests = target.requests_for(&id(0));
    assert_eq!(requests.len(), 3, "{}", running.full_log());
    let attempts: Vec<_> =
        requests.iter().map(|request| request.headers["x-redeliver-attempt"].to_str().unwrap()).collect();
    assert_eq!(attempts, ["0", "1", "1"], "a 429 says \"not now\"");
    let last = body(&requests[2]);
    assert_eq!(last["data"], json!({"kept": [1, 2]}));
    assert_eq!(last["metadata"]["retry_attempt"], 1);
    let history = last["metadata"]["retry_history"].as_array().unwrap();
    let types: Vec<_> = history.iter().map(|failure| failure["error_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["HttpStatus.500", "HttpStatus.429"]);
    for time in ["first_sent_time", "next_retry_time"] {
        let text = last["metadata"][time].as_str().unwrap();
        assert!(text.len() == 27 && text.ends_with('Z'), "{time} has microseconds and is UTC: {text}");
    }
    assert_eq!(last["metadata"]["first_sent_time"], body(&requests[1])["metadata"]["first_sent_time"]);
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn an_exhausted_message_is_dead_lettered_with_retries_and_last_error() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(500), Reply::Status(500), Reply::Status(500)]);
    topology.send_batch([test_message(0, &json!({}))]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    assert_eq!(
        target.requests_for(&id(0)).len(),
        3,
        "the first call and two retries\n{}",
        running.full_log()
    );
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.error_type, "RETRY_ATTEMPT_EXCEEDED");
    assert!(record.error_details.starts_with("Max retry attempts 2 exceeded"), "{}", record.error_details);
    assert!(record.error_details.contains("HttpStatus.500"), "{}", record.error_details);
    assert_eq!(record.body["metadata"]["retry_attempt"], 2, "retries actually made");
    assert_eq!(record.attribute_names(), ["DeadLetter", "ErrorDetails", "ErrorType"]);
    let dead_letter = &record.dead_letter;
    assert_eq!(dead_letter["stage"], "failed-message-processor");
    assert_eq!(dead_letter["cause"]["type"], "HttpStatus.500");
    assert_eq!(dead_letter["cause"]["unverified"], Value::Null);
    assert_eq!(dead_letter["attempts"], 2);
    assert_eq!(dead_letter["source_queue_arn"], topology.source.arn);
    assert_eq!(dead_letter["first_sent_time"], record.body["metadata"]["first_sent_time"]);
    assert_eq!(dead_letter["fingerprint"].as_str().unwrap().len(), 16);
    assert!(dead_letter["dead_lettered_at"].as_str() > dead_letter["first_sent_time"].as_str());
}

#[tokio::test]
async fn a_permanent_failure_is_dead_lettered_without_a_retry() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(410)]);
    let sent = test_message(0, &json!({}));
    let [sqs_id] = topology.send_batch([sent.clone()]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    assert_eq!(target.requests_for(&id(0)).len(), 1, "{}", running.full_log());
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.error_type, "NON_RETRYABLE_ERROR");
    assert!(record.error_details.contains("HttpStatus.410"), "{}", record.error_details);
    assert_eq!(record.text, sent, "the body as received");
    assert_eq!(record.dead_letter["attempts"], 0);
    assert_eq!(record.dead_letter["sqs_message_id"], sqs_id);
}
