//! Messages without an envelope (`ENVELOPE=optional`).

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::topology::TopologySetup;
use serde_json::{Value, json};

use super::{final_records, message_attribute, new_topology};

#[tokio::test]
async fn plain_messages_are_retried_unchanged_and_dead_lettered_with_a_reason() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let event = r#" {"detail":{"id":"o-17"},"n":1e400,"a":1,"a":2} "#;
    let refused = r#"{"specversion":"1.0","id":"e1","source":"/shop"}"#;
    target.script_replies("o-17", [Reply::Status(500), Reply::Status(500)]);
    target.script_replies("/shop e1", [Reply::Status(400)]);
    topology.send_batch([event.to_owned(), refused.to_owned(), "no JSON, \u{e9}".to_owned()]).await;
    let mut setup = TopologySetup::for_http_target(target.url());
    setup.variables.push(("ENVELOPE", "optional".to_owned()));
    setup.variables.push(("MESSAGE_ID_POINTER", "/detail/id".to_owned()));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    let requests = target.requests_for("o-17");
    assert_eq!(requests.len(), 3, "{}", running.full_log());
    for (attempt, request) in requests.iter().enumerate() {
        assert_eq!(request.body, event, "byte for byte");
        assert_eq!(request.headers["x-redeliver-attempt"], attempt.to_string().as_str());
        assert_eq!(request.headers["content-type"], "application/json");
    }
    assert_eq!(target.requests_for("/shop e1").len(), 1);
    assert_eq!(target.request_count(), 5, "and the third message, under SQS's id\n{}", running.full_log());

    let records = final_records(&topology).await;
    let [record] = &*records else { panic!("{}", records.len()) };
    assert_eq!((record.text.as_str(), record.error_type.as_str()), (refused, "NON_RETRYABLE_ERROR"));
    assert_eq!(record.dead_letter["cause"]["type"], "HttpStatus.400");
    let redeliver: Value = serde_json::from_str(&message_attribute(&record.message, "Redeliver")).unwrap();
    // The key's version 5 UUID, computed with another program.
    let id = "1c107150-ab9d-5322-ada1-836c58030255";
    assert_eq!(redeliver, json!({ "message_id": id, "idempotency_key": "/shop e1" }));
    // Keys belong to the producer and are never logged.
    assert!(!running.full_log().contains("/shop e1") && !running.full_log().contains("o-17"));
}
