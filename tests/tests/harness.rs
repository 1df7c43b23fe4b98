//! Tests of the harness itself: it stops and replaces a function, and interprets its responses, as Lambda and its event
//! source mapping do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redeliver_tests::esm::EventSourceMapping;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::sqs::{TestQueue, emulator_client, unique_name};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

fn probe_function() -> Arc<LambdaFunction> {
    LambdaFunction::new("probe", PathBuf::from(env!("CARGO_BIN_EXE_probe-function")), [])
}

fn event_with_instructions(instructions: &Value) -> Value {
    json!({ "Records": [{ "body": instructions.to_string() }] })
}

#[tokio::test]
async fn a_responding_function_is_kept_and_its_output_is_captured() {
    let function = probe_function();
    for answer in [json!({"batchItemFailures": []}), json!(null)] {
        let event = event_with_instructions(&json!({"do": "answer", "answer": answer}));
        assert_eq!(function.invoke(&event, TIMEOUT).await, InvocationOutcome::Response(answer));
    }
    let errors = function.output_lines().into_iter().filter(|line| line.is_stderr).map(|line| line.text);
    assert_eq!(errors.collect::<Vec<_>>(), ["probe: \"answer\"", "probe: \"answer\""]);
}

#[tokio::test]
async fn errors_deaths_and_timeouts_are_distinguished() {
    let function = probe_function();
    let InvocationOutcome::Error(error) =
        function.invoke(&event_with_instructions(&json!({"do": "fail"})), TIMEOUT).await
    else {
        panic!("the function reported an error")
    };
    assert_eq!(error["errorMessage"], "as requested");
    assert_eq!(
        function.invoke(&event_with_instructions(&json!({"do": "exit"})), TIMEOUT).await,
        InvocationOutcome::Died
    );
    let timeout = Duration::from_millis(300);
    assert_eq!(
        function.invoke(&event_with_instructions(&json!({"do": "hang"})), timeout).await,
        InvocationOutcome::TimedOut
    );
    let event = event_with_instructions(&json!({"do": "answer", "answer": 1}));
    assert_eq!(function.invoke(&event, TIMEOUT).await, InvocationOutcome::Response(json!(1)));
}

#[tokio::test]
async fn a_process_can_be_killed_mid_invocation() {
    let function = probe_function();
    let event = event_with_instructions(&json!({"do": "hang"}));
    let (outcome, ()) =
        tokio::join!(function.invoke(&event, TIMEOUT), function.kill_mid_invocation(Duration::ZERO));
    assert_eq!(outcome, InvocationOutcome::Died);
}

/// On ministack; `cargo xtask test` selects these tests by the module's name.
mod ministack {
    use super::*;

    #[tokio::test]
    #[ignore = "needs Python: cargo xtask test"]
    async fn a_mapping_deletes_successes_and_redrives_failures() {
        let sqs = emulator_client(&Ministack::shared().endpoint_url());
        let name = unique_name("harness");
        let dlq = TestQueue::create(&sqs, &format!("{name}-dlq"), None).await;
        let queue = TestQueue::create(&sqs, &name, Some((&dlq, 1))).await;
        for answer in
            [json!({"batchItemFailures": []}), json!({"batchItemFailures": [{"itemIdentifier": ""}]})]
        {
            let body = json!({"do": "answer", "answer": answer}).to_string();
            sqs.send_message().queue_url(&queue.url).message_body(body).send().await.unwrap();
            let mapping = EventSourceMapping::new(sqs.clone(), queue.clone(), probe_function(), TIMEOUT);
            mapping.poll_once().await.unwrap();
            assert!(mapping.poll_once().await.is_none(), "it is processed or redriven, not received again");
        }
        assert_eq!(queue.message_counts(&sqs).await, [0, 0, 0]);
        assert_eq!(dlq.message_counts(&sqs).await, [1, 0, 0]);
    }

    #[tokio::test]
    #[ignore = "needs Python: cargo xtask test"]
    async fn a_failed_fifo_message_is_hidden_and_blocks_its_group() {
        let sqs = emulator_client(&Ministack::shared().endpoint_url());
        let queue = TestQueue::create(&sqs, &format!("{}.fifo", unique_name("harness")), None).await;
        let failed = json!({"do": "answer", "answer": {"batchItemFailures": [{"itemIdentifier": ""}]}});
        let send = async |deduplication_id: &str| {
            let request = sqs.send_message().queue_url(&queue.url).message_body(failed.to_string());
            let request = request.message_group_id("group").message_deduplication_id(deduplication_id);
            request.send().await.unwrap();
        };
        send("first").await;
        let mapping = EventSourceMapping::new(sqs.clone(), queue.clone(), probe_function(), TIMEOUT);
        assert_eq!(mapping.poll_once().await.unwrap().failed.len(), 1);
        send("second").await;
        assert!(mapping.poll_once().await.is_none(), "both are hidden");
        assert_eq!(queue.message_counts(&sqs).await, [1, 1, 0]);
    }

    #[tokio::test]
    #[ignore = "needs Python: cargo xtask test"]
    async fn a_mapping_event_has_the_members_of_lambdas_event() {
        let sqs = emulator_client(&Ministack::shared().endpoint_url());
        let queue = TestQueue::create(&sqs, &unique_name("event"), None).await;
        let attribute = |kind: &str| aws_sdk_sqs::types::MessageAttributeValue::builder().data_type(kind);
        let request = sqs.send_message().queue_url(&queue.url).message_body(r#"{"do":"event"}"#);
        let request =
            request.message_attributes("text", attribute("String").string_value("a").build().unwrap());
        let bytes = aws_sdk_sqs::primitives::Blob::new([0, 255]);
        let request =
            request.message_attributes("bytes", attribute("Binary").binary_value(bytes).build().unwrap());
        request.send().await.unwrap();

        let mapping = EventSourceMapping::new(sqs.clone(), queue.clone(), probe_function(), TIMEOUT);
        let InvocationOutcome::Response(event) = mapping.poll_once().await.unwrap().outcome else {
            panic!("the probe responds")
        };
        let record = &event["Records"][0];
        assert_eq!(record["body"], r#"{"do":"event"}"#);
        assert_eq!(record["md5OfBody"], "a5fed2d47ef42e07e8022696543054a0");
        assert_eq!(record["eventSource"], "aws:sqs");
        assert_eq!(record["eventSourceARN"], queue.arn);
        assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
        assert!(record["attributes"]["SentTimestamp"].as_str().unwrap().parse::<u64>().is_ok());
        assert_eq!(
            record["messageAttributes"],
            json!({
                "text": {"stringValue": "a", "stringListValues": [], "binaryListValues": [], "dataType": "String"},
                "bytes": {"binaryValue": "AP8=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
            })
        );
    }
}
