//! The other strategies, deployed: a message through each.

use redeliver_tests::deployment::{Cloud, local_context};
use redeliver_tests::http_target::{HttpTarget, Reply};
use serde_json::{Value, json};

use super::{boto3, boto3_script, context, id, message, queue, told, with_policy};

const ASYNC_APP: &str = "test/async-app.ts";
/// Longer than one hop.
const LONG_POLICY: &str =
    r#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1800,"jitter":"none"}}"#;

/// One after the other in one emulator, which takes longer to start than most of them.
#[tokio::test]
async fn each_strategy_of_a_deployed_stack_does_what_it_is_for() {
    let cloud = Cloud::start().await.unwrap();
    visibility(&cloud).await;
    long_delays(&cloud).await;
    async_retry(&cloud).await;
    assert_eq!(boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

async fn visibility(cloud: &Cloud) {
    let target = HttpTarget::start().await;
    let context = context(&target, &["strategy=visibility".to_owned(), "prefix=hides".to_owned()]);
    let outputs = cloud.deploy(&context).await.unwrap();
    assert_eq!(outputs.get("IntermediateDlqUrl"), None);

    let (exhausted, permanent, recovers) = (id(1), id(2), id(3));
    target.script(&exhausted, [Reply::Status(503); 10]);
    target.script(&permanent, [Reply::Status(422)]);
    target.script(&recovers, [Reply::Status(503), Reply::Status(200)]);
    let sent = [1, 2, 3].map(|n| message(n, &json!({ "sku": n })));
    boto3(cloud, &["send", queue(&outputs, "SourceQueueUrl")], &sent).await;

    let mut records = final_records(cloud, queue(&outputs, "FinalDlqUrl"), 2).await;
    records.sort();
    let [(first, first_details), (second, _)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(first, &(exhausted.clone(), "RETRY_ATTEMPT_EXCEEDED".to_owned()));
    assert!(first_details.starts_with("Max retry attempts 2 exceeded"), "{first_details}");
    assert_eq!(second, &(permanent.clone(), "NON_RETRYABLE_ERROR".to_owned()));
    let in_flight =
        ["wait-for", queue(&outputs, "SourceQueueUrl"), "ApproximateNumberOfMessagesNotVisible", "0"];
    boto3(cloud, &in_flight, &[]).await;
    let calls = [&exhausted, &permanent, &recovers].map(|id| target.requests(id).len());
    assert_eq!(calls, [3, 1, 2], "how often the target was called");
    cloud.destroy(&context).await.unwrap();
}

/// A message with half an hour to wait is on the intermediate DLQ with a delay, which only a hop has. That it hops on and
/// arrives in time is the simulator's to show.
async fn long_delays(cloud: &Cloud) {
    let target = HttpTarget::start().await;
    let more = ["longDelays=true".to_owned(), "prefix=hops".to_owned()];
    let context = with_policy(LONG_POLICY, &target, &more);
    let outputs = cloud.deploy(&context).await.unwrap();

    target.script(&id(1), [Reply::Status(503)]);
    boto3(cloud, &["send", queue(&outputs, "SourceQueueUrl")], &[message(1, &json!({}))]).await;
    let hopping =
        ["wait-for", queue(&outputs, "IntermediateDlqUrl"), "ApproximateNumberOfMessagesDelayed", "1"];
    boto3(cloud, &hopping, &[]).await;
    assert_eq!(target.requests(&id(1)).len(), 1, "nothing is delivered early");
    cloud.destroy(&context).await.unwrap();
}

async fn async_retry(cloud: &Cloud) {
    let context = local_context();
    let outputs = cloud.deploy_of(ASYNC_APP, &context).await.unwrap();

    let orders = [json!({ "id": "recovers", "succeeds_at": 1 }), json!({ "id": "never", "succeeds_at": 9 })];
    let orders = orders.map(|order| order.to_string());
    boto3_script(cloud, "boto3_invoke.py", &["async-orders"], &orders).await;

    let done = boto3(cloud, &["receive", queue(&outputs, "DoneQueueUrl"), "1"], &[]).await;
    let done: Value = serde_json::from_str(&done[0]).unwrap();
    let done: Value = serde_json::from_str(done["Body"].as_str().unwrap()).unwrap();
    assert_eq!(done, json!({ "order": "recovers", "attempt": 1 }));
    let records = final_records(cloud, queue(&outputs, "FinalDlqUrl"), 1).await;
    let [((_, error_type), details)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(error_type, "RETRY_ATTEMPT_EXCEEDED");
    assert!(details.starts_with("Max retry attempts 2 exceeded"), "{details}");
    cloud.destroy_of(ASYNC_APP, &context).await.unwrap();
}

/// Message id and error type, and the details.
async fn final_records(cloud: &Cloud, url: &str, count: usize) -> Vec<((String, String), String)> {
    let records = boto3(cloud, &["receive", url, &count.to_string()], &[]).await;
    records.iter().map(|record| told(record)).map(|(id, error, details, _)| ((id, error), details)).collect()
}
