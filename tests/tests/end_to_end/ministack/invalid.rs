//! Invalid messages are dead-lettered immediately, with the reason, and never reach the target.

use std::collections::BTreeMap;

use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::topology::TopologySetup;
use serde_json::json;

use super::{final_records, id, new_topology, test_message};

const FORMAT: &str = "INVALID_MESSAGE_FORMAT";
const SCHEMA: &str = "INVALID_MESSAGE_SCHEMA";

/// Body, error type, and a part of the details.
type InvalidCase = (String, &'static str, &'static str);

fn message_with_metadata(members: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{}",{members}}},"data":{{}}}}"#, id(0))
}

fn cases() -> Vec<InvalidCase> {
    let id = id(0);
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let case = |body: &str, error_type, details| (body.to_owned(), error_type, details);
    vec![
        case("not JSON", FORMAT, "JSON"),
        case(r#"{"metadata":"#, FORMAT, "JSON"),
        case("[]", FORMAT, "not a JSON object"),
        case("null", FORMAT, "not a JSON object"),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{}},"data":{{}}}}"#),
            FORMAT,
            "duplicate member",
        ),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{}},"d\u0061ta":{{}}}}"#),
            FORMAT,
            "duplicate member",
        ),
        (message_with_metadata(r#""own":1,"own":2"#), FORMAT, "duplicate member"),
        (message_with_metadata(r#""m\u0065ssage_id":"2""#), FORMAT, "duplicate member"),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{"deep":{}}}}}"#, nested(127)),
            FORMAT,
            "128",
        ),
        case("{}", SCHEMA, "metadata"),
        case(r#"{"metadata":{},"data":{}}"#, SCHEMA, "/metadata"),
        case(r#"{"metadata":[],"data":{}}"#, SCHEMA, "/metadata"),
        case(r#"{"metadata":{"message_id":"7"},"data":{}}"#, SCHEMA, "/metadata/message_id"),
        case(r#"{"metadata":{"message_id":7},"data":{}}"#, SCHEMA, "/metadata/message_id"),
        (format!(r#"{{"metadata":{{"message_id":"{id}"}}}}"#), SCHEMA, "data"),
        (format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":[]}}"#), SCHEMA, "/data"),
        (message_with_metadata(r#""retry_attempt":-1"#), SCHEMA, "/metadata/retry_attempt"),
        (message_with_metadata(r#""retry_attempt":1.0"#), SCHEMA, "/metadata/retry_attempt"),
        (
            message_with_metadata(r#""retry_attempt":99999999999999999999999"#),
            SCHEMA,
            "/metadata/retry_attempt",
        ),
        (message_with_metadata(r#""expires_at":"tomorrow""#), SCHEMA, "/metadata/expires_at"),
    ]
}

#[tokio::test]
async fn invalid_messages_are_dead_lettered_without_reaching_the_target() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let cases = cases();
    for batch in cases.chunks(10) {
        topology.send_all(&batch.iter().map(|(body, ..)| body.clone()).collect::<Vec<_>>()).await;
    }
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    let records: BTreeMap<_, _> =
        final_records(&topology).await.into_iter().map(|record| (record.text.clone(), record)).collect();
    assert_eq!(records.len(), cases.len(), "{}", running.full_log());
    for (body, error_type, details) in &cases {
        let record = records.get(body).unwrap_or_else(|| panic!("kept byte for byte: {body}"));
        assert_eq!(record.error_type, *error_type, "{body}: {}", record.error_details);
        assert!(record.error_details.contains(details), "{body}: {}", record.error_details);
        assert_eq!(record.dead_letter["stage"], "message-processor", "{body}");
        assert_eq!(record.dead_letter["source_queue_arn"], topology.source.arn, "{body}");
    }
    assert_eq!(target.request_count(), 0);
    assert!(running.retrier.invocations().is_empty(), "no retry");
}

#[tokio::test]
async fn an_invalid_record_does_not_affect_the_rest_of_its_batch() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let [first, third] = [test_message(0, &json!({})), test_message(1, &json!({}))];
    topology.send_batch([first, "poison".to_owned(), third]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    assert_eq!(
        (target.requests_for(&id(0)).len(), target.requests_for(&id(1)).len()),
        (1, 1),
        "{}",
        running.full_log()
    );
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!((record.text.as_str(), record.error_type.as_str()), ("poison", FORMAT));
}

#[tokio::test]
async fn a_nesting_depth_of_128_and_a_one_mebibyte_body_are_valid() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let deep = format!(r#"{{"metadata":{{"message_id":"{}"}},"data":{{"deep":{deep}}}}}"#, id(0));
    let mut large = test_message(1, &json!({ "text": "" }));
    large.insert_str(large.find(r#""text":""#).unwrap() + 8, &"x".repeat(1_048_576 - large.len()));
    topology.send_batch([deep]).await;
    topology.send_batch([large.clone()]).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    assert_eq!(target.requests_for(&id(0)).len(), 1, "{}", running.full_log());
    assert_eq!(target.requests_for(&id(1))[0].body.len(), 1_048_576);
    assert!(final_records(&topology).await.is_empty());
}
