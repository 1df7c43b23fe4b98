//! Users' own functions, unmodified, with redeliver's layer: one per language, deployed in one stack.

use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use serde_json::{Value, json};

use super::{id, queue_url, run_boto3, summarize_record, test_message};

const APP: &str = "test/functions-app.ts";
/// The names in the app.
const LANGUAGES: [&str; 2] = ["Node", "Python"];

#[tokio::test]
async fn a_users_deployed_function_hands_off_failures() {
    let cloud = Cloud::start().await.unwrap();
    let outputs = cloud.deploy_app_stack(APP, &local_context()).await.unwrap();

    for language in LANGUAGES {
        assert_messages_settle(&cloud, &outputs, language).await;
    }

    cloud.destroy_stack().await.unwrap();
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

async fn assert_messages_settle(cloud: &Cloud, outputs: &Outputs, language: &str) {
    let queue = |name: &str| queue_url(outputs, &format!("{language}{name}Url"));
    let sent = [
        test_message(1, &json!({ "order": "succeeds", "succeeds_at": 0 })),
        test_message(2, &json!({ "order": "recovers", "succeeds_at": 1 })),
        test_message(3, &json!({ "order": "unknown", "is_unknown": true })),
        json!({ "order": "plain", "succeeds_at": 1 }).to_string(),
    ];
    run_boto3(cloud, &["send", queue("Source")], &sent).await;

    let mut done: Vec<_> = run_boto3(cloud, &["receive", queue("Done"), "3"], &[])
        .await
        .iter()
        .map(|message| body(message))
        .collect();
    done.sort_by_key(|order| order["order"].to_string());
    let expected = [
        json!({ "order": "plain", "attempt": 1, "key": "plain" }),
        json!({ "order": "recovers", "attempt": 1, "key": id(2) }),
        json!({ "order": "succeeds", "attempt": 0, "key": id(1) }),
    ];
    assert_eq!(done, expected, "{language}");

    let records = run_boto3(cloud, &["receive", queue("FinalDlq"), "1"], &[]).await;
    let (message_id, error_type, details, retries) = summarize_record(&records[0]);
    let expected = (id(3), "NON_RETRYABLE_ERROR", Value::Null);
    assert_eq!((message_id, error_type.as_str(), retries), expected, "{language}");
    let says_where =
        details.starts_with("Order.Unknown: no order unknown (at ") && details.contains("orders.");
    assert!(says_where, "{language}: {details}");
}

fn body(message: &str) -> Value {
    let message: Value = serde_json::from_str(message).unwrap();
    serde_json::from_str(message["Body"].as_str().unwrap()).unwrap()
}
