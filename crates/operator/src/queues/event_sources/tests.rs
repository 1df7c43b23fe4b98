use redeliver_testing::loopback::Loopback;
use serde_json::json;

use super::*;
use crate::tests::sdk_config;

const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

fn mapping_body(uuid: &str, state: &str) -> serde_json::Value {
    json!({
        "UUID": uuid,
        "EventSourceArn": ARN,
        "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:orders-processor:live",
        "State": state,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BatchSize": 10,
        "ScalingConfig": { "MaximumConcurrency": 50 },
        "LastModified": 1_795_392_000,
    })
}

#[tokio::test]
async fn all_mappings_for_a_queue_are_listed_page_by_page() {
    let server = Loopback::start_scripted([
        (200, json!({ "EventSourceMappings": [mapping_body("one", "Enabled")], "NextMarker": "more" })),
        (200, json!({ "EventSourceMappings": [mapping_body("two", "Disabling")] })),
    ]);
    let found = EventSources::new(&sdk_config(server.url())).list_for_queue(ARN).await.unwrap();
    let expected = LambdaMapping {
        uuid: "one".to_owned(),
        function: "orders-processor:live".to_owned(),
        source: ARN.to_owned(),
        reports_failures: true,
        state: "Enabled".to_owned(),
        batch_size: Some(10),
        maximum_concurrency: Some(50),
        last_modified: Some("2026-11-23T00:00:00Z".parse().unwrap()),
    };
    let second = LambdaMapping { uuid: "two".to_owned(), state: "Disabling".to_owned(), ..expected.clone() };
    assert_eq!(found, [expected, second]);
    let requests = server.requests();
    assert!(requests[0].0.starts_with("GET /2015-03-31/event-source-mappings"), "{requests:?}");
    assert!(requests[0].0.contains("arn%3Aaws%3Asqs%3Aeu-central-1%3A123456789012%3Aorders"), "{requests:?}");
    assert!(requests[1].0.contains("Marker=more"), "{requests:?}");
}

#[tokio::test]
async fn a_mapping_is_read_and_changed_by_its_id() {
    let server = Loopback::start_scripted([
        (200, mapping_body("one", "Enabled")),
        (202, mapping_body("one", "Disabling")),
    ]);
    let sources = EventSources::new(&sdk_config(server.url()));
    assert_eq!(sources.get_mapping("one").await.unwrap().state, "Enabled");
    assert_eq!(sources.set_enabled("one", false).await.unwrap().state, "Disabling");
    let requests = server.requests();
    assert!(requests[0].0.starts_with("GET /2015-03-31/event-source-mappings/one "), "{requests:?}");
    assert!(requests[1].0.starts_with("PUT /2015-03-31/event-source-mappings/one "), "{requests:?}");
    assert_eq!(requests[1].1, r#"{"Enabled":false}"#);
}

#[tokio::test]
async fn an_error_names_the_required_permission_and_may_be_transient() {
    let in_use = json!({ "Type": "User", "Message": "being updated", "__type": "ResourceInUseException" });
    let denied = json!({ "Message": "not authorized", "__type": "AccessDeniedException" });
    let server = Loopback::start_scripted([(400, in_use), (403, denied)]);
    let sources = EventSources::new(&sdk_config(server.url()));
    let error = sources.set_enabled("one", true).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = sources.list_for_queue(ARN).await.unwrap_err();
    assert_eq!(error.to_string(), "lambda:ListEventSourceMappings: AccessDeniedException: not authorized");
    assert!(!error.is_transient());
}
