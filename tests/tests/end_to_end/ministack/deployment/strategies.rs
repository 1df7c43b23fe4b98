//! The other strategies, deployed in one stack; messages are sent through each of them.

use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::ports::Clock as _;
use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use serde_json::{Value, json};

use super::{id, queue_url, run_boto3, run_boto3_script, summarize_record, test_message};
use crate::ministack::called_messages_in_group;

const APP: &str = "test/strategies-app.ts";

#[tokio::test]
async fn each_deployed_strategy_retries_as_designed() {
    let target = HttpTargetServer::start().await;
    let cloud = Cloud::start().await.unwrap();
    let context = [local_context(), vec![format!("target={}", target.url())]].concat();
    let outputs = cloud.deploy_app_stack(APP, &context).await.unwrap();

    assert_visibility_strategy(&cloud, &outputs, &target).await;
    assert_direct_resend(&cloud, &outputs, &target).await;
    assert_long_delay_hops(&cloud, &outputs, &target).await;
    assert_groups_keep_order(&cloud, &outputs, &target).await;
    assert_invocations_settle(&cloud, &outputs).await;

    cloud.destroy_stack().await.unwrap();
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

async fn assert_visibility_strategy(cloud: &Cloud, outputs: &Outputs, target: &HttpTargetServer) {
    let source = queue_url(outputs, "HidesSourceUrl");
    let (exhausted, permanent, recovers) = (id(1), id(2), id(3));
    target.script_replies(&exhausted, [Reply::Status(500); 10]);
    target.script_replies(&permanent, [Reply::Status(422)]);
    target.script_replies(&recovers, [Reply::Status(500), Reply::Status(200)]);
    let sent = [1, 2, 3].map(|n| test_message(n, &json!({ "sku": n })));
    run_boto3(cloud, &["send", source], &sent).await;

    let mut records = final_records(cloud, queue_url(outputs, "HidesFinalDlqUrl"), 2).await;
    records.sort();
    let ends = [&records[0], &records[1]].map(|(id, error_type, _)| (id.as_str(), error_type.as_str()));
    let expected =
        [(exhausted.as_str(), "RETRY_ATTEMPT_EXCEEDED"), (permanent.as_str(), "NON_RETRYABLE_ERROR")];
    assert_eq!(ends, expected);
    assert!(records[0].2.starts_with("Max retry attempts 2 exceeded"), "{records:?}");
    // Processed messages are deleted, not hidden until later.
    run_boto3(cloud, &["wait-for", source, "ApproximateNumberOfMessagesNotVisible", "0"], &[]).await;
    let calls = [&exhausted, &permanent, &recovers].map(|id| target.requests_for(id).len());
    assert_eq!(calls, [3, 1, 2], "calls to the target");
}

async fn assert_direct_resend(cloud: &Cloud, outputs: &Outputs, target: &HttpTargetServer) {
    let (exhausted, permanent, recovers) = (id(6), id(7), id(8));
    target.script_replies(&exhausted, [Reply::Status(500); 10]);
    target.script_replies(&permanent, [Reply::Status(422)]);
    target.script_replies(&recovers, [Reply::Status(500), Reply::Status(200)]);
    let sent = [6, 7, 8].map(|n| test_message(n, &json!({ "sku": n })));
    run_boto3(cloud, &["send", queue_url(outputs, "DirectsSourceUrl")], &sent).await;

    let records = run_boto3(cloud, &["receive", queue_url(outputs, "DirectsFinalDlqUrl"), "2"], &[]).await;
    let mut ends: Vec<_> = records
        .iter()
        .map(|record| {
            let (id, error_type, _, retries) = summarize_record(record);
            let record: Value = serde_json::from_str(record).unwrap();
            let dead_letter = record["MessageAttributes"]["DeadLetter"]["StringValue"].as_str().unwrap();
            let dead_letter: Value = serde_json::from_str(dead_letter).unwrap();
            (id, error_type, retries, dead_letter["stage"].clone())
        })
        .collect();
    ends.sort_by_key(|(id, ..)| id.clone());
    // The message-processor decides alone.
    let stage = json!("message-processor");
    let expected = [
        (exhausted.clone(), "RETRY_ATTEMPT_EXCEEDED".to_owned(), json!(2), stage.clone()),
        (permanent.clone(), "NON_RETRYABLE_ERROR".to_owned(), Value::Null, stage),
    ];
    assert_eq!(ends, expected);
    let calls = [&exhausted, &permanent, &recovers].map(|id| target.requests_for(id).len());
    assert_eq!(calls, [3, 1, 2], "calls to the target");
}

/// Checks that a message due in half an hour is delayed on the intermediate DLQ; only a hop sets such a delay. The
/// simulator tests the remaining hops and the arrival, because its clock is faster.
async fn assert_long_delay_hops(cloud: &Cloud, outputs: &Outputs, target: &HttpTargetServer) {
    target.script_replies(&id(4), [Reply::Status(500)]);
    run_boto3(cloud, &["send", queue_url(outputs, "HopsSourceUrl")], &[test_message(4, &json!({}))]).await;
    let intermediate_dlq = queue_url(outputs, "HopsIntermediateDlqUrl");
    run_boto3(cloud, &["wait-for", intermediate_dlq, "ApproximateNumberOfMessagesDelayed", "1"], &[]).await;
    assert_eq!(target.requests_for(&id(4)).len(), 1, "nothing is delivered early");
}

/// Checks that each group keeps its order. The emulator invokes the function with one message at a time per queue;
/// Lambda does so with one at a time per group.
async fn assert_groups_keep_order(cloud: &Cloud, outputs: &Outputs, target: &HttpTargetServer) {
    let source = queue_url(outputs, "KeepsOrderSourceUrl");
    // Longer than the test runs, so the retry never interferes.
    target.script_replies(&id(11), [Reply::RetryAfter(409, 900)]);
    target.script_replies(&id(22), [Reply::Status(409); 2]);
    target.script_replies(&id(31), [Reply::Status(422)]);
    target.script_replies(&id(42), [Reply::Status(409); 3]);
    for (group, numbers) in [("waits", 11..13), ("recovers", 21..25), ("refused", 31..33), ("fails", 41..44)]
    {
        let sent: Vec<_> = numbers.map(|n| test_message(n, &json!({ "group": group }))).collect();
        run_boto3(cloud, &["send", source, group], &sent).await;
    }

    let mut records = final_records(cloud, queue_url(outputs, "KeepsOrderFinalDlqUrl"), 2).await;
    records.sort();
    // The first message of its group is hidden, and the second waits behind it.
    run_boto3(cloud, &["wait-for", source, "ApproximateNumberOfMessages", "1"], &[]).await;
    run_boto3(cloud, &["wait-for", source, "ApproximateNumberOfMessagesNotVisible", "1"], &[]).await;
    let calls =
        ["waits", "recovers", "refused", "fails"].map(|group| called_messages_in_group(target, group));
    let expected = [vec![11], vec![21, 22, 22, 22, 23, 24], vec![31, 32], vec![41, 42, 42, 42, 43]];
    assert_eq!(calls, expected, "in the order of each group");
    let ends: Vec<_> = records.iter().map(|(id, error_type, _)| (id.as_str(), error_type.as_str())).collect();
    let (refused, exhausted) = (id(31), id(42));
    assert_eq!(ends, [(&*refused, "NON_RETRYABLE_ERROR"), (&*exhausted, "RETRY_ATTEMPT_EXCEEDED")]);
    assert!(records[0].2.starts_with("HttpStatus.422: "), "{records:?}");
    assert!(records[1].2.starts_with("Max retry attempts 2 exceeded"), "{records:?}");
}

async fn assert_invocations_settle(cloud: &Cloud, outputs: &Outputs) {
    let arn = format!("{}:$LATEST", queue_url(outputs, "OrdersArn"));
    let recovers = json!({ "id": "recovers", "succeeds_at": 1 });
    let exhausted = json!({
        "_retry_metadata": { "attempt": 2, "initial_timestamp": 1_643_667_670 },
        "_original_payload": { "id": "exhausted", "succeeds_at": 9 },
    });
    let records = [recovers, exhausted].map(|payload| destination_record(&arn, &payload));
    run_boto3(cloud, &["send", queue_url(outputs, "InvokesRetryUrl")], &records).await;
    // The emulator's own record has no timestamp, so the test can show only that it arrives.
    let never = json!({ "id": "never", "succeeds_at": 9 }).to_string();
    run_boto3_script(cloud, "boto3_invoke.py", &["orders"], &[never]).await;

    let done = run_boto3(cloud, &["receive", queue_url(outputs, "DoneUrl"), "1"], &[]).await;
    let done: Value = serde_json::from_str(&done[0]).unwrap();
    let done: Value = serde_json::from_str(done["Body"].as_str().unwrap()).unwrap();
    assert_eq!(done, json!({ "order": "recovers", "attempt": 1 }));
    let records = run_boto3(cloud, &["receive", queue_url(outputs, "InvokesFinalDlqUrl"), "2"], &[]).await;
    let find_record = |order: &str| records.iter().find(|record| record.contains(order)).unwrap();
    let (_, error_type, details, _) = summarize_record(find_record("exhausted"));
    assert_eq!(error_type, "RETRY_ATTEMPT_EXCEEDED");
    assert!(details.starts_with("Max retry attempts 2 exceeded"), "{details}");
    assert_ne!(summarize_record(find_record("never")).1, "-");
}

/// Returns the record as Lambda writes it ("Capturing records of Lambda asynchronous invocations").
fn destination_record(arn: &str, payload: &Value) -> String {
    json!({
        "version": "1.0",
        "timestamp": format_rfc3339(SystemClock.now() - TimeDelta::seconds(10)), // its retry is due
        "requestContext": {
            "requestId": id(5),
            "functionArn": arn,
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": payload,
        "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" },
        "responsePayload": { "errorMessage": "not yet", "errorType": "RuntimeError" },
    })
    .to_string()
}

/// Returns the message id, the error type and the details of `count` final records.
async fn final_records(cloud: &Cloud, url: &str, count: usize) -> Vec<(String, String, String)> {
    let records = run_boto3(cloud, &["receive", url, &count.to_string()], &[]).await;
    records
        .iter()
        .map(|record| {
            let (id, error_type, details, _) = summarize_record(record);
            (id, error_type, details)
        })
        .collect()
}
