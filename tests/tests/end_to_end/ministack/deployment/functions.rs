//! Functions of a user's own in the message-processor's place, one for each library, deployed in one stack.

use redeliver_tests::deployment::{Cloud, Outputs, local_context};
use serde_json::{Value, json};

use super::{boto3, id, message, queue, told};

const APP: &str = "test/functions-app.ts";
/// As the app names them.
const LIBRARIES: [&str; 2] = ["Node", "Python"];

#[tokio::test]
async fn a_function_of_a_users_own_hands_off_what_fails_and_it_comes_back_or_is_explained() {
    let cloud = Cloud::start().await.unwrap();
    let outputs = cloud.deploy_of(APP, &local_context()).await.unwrap();

    for library in LIBRARIES {
        messages_are_done_come_back_or_are_explained(&cloud, &outputs, library).await;
    }

    cloud.destroy().await.unwrap();
    assert_eq!(boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

async fn messages_are_done_come_back_or_are_explained(cloud: &Cloud, outputs: &Outputs, library: &str) {
    let queue = |name: &str| queue(outputs, &format!("{library}{name}Url"));
    let sent = [
        message(1, &json!({ "order": "succeeds", "succeeds_at": 0 })),
        message(2, &json!({ "order": "recovers", "succeeds_at": 1 })),
        message(3, &json!({ "order": "unknown", "is_unknown": true })),
        json!({ "order": "plain", "succeeds_at": 1 }).to_string(),
    ];
    boto3(cloud, &["send", queue("Source")], &sent).await;

    let mut done: Vec<_> = boto3(cloud, &["receive", queue("Done"), "3"], &[])
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
    assert_eq!(done, expected, "{library}");

    let records = boto3(cloud, &["receive", queue("FinalDlq"), "1"], &[]).await;
    let [error_type, details] = ["NON_RETRYABLE_ERROR", "Order.Unknown: no order unknown"].map(str::to_owned);
    assert_eq!(told(&records[0]), (id(3), error_type, details, Value::Null), "{library}");
}

fn body(message: &str) -> Value {
    let message: Value = serde_json::from_str(message).unwrap();
    serde_json::from_str(message["Body"].as_str().unwrap()).unwrap()
}
