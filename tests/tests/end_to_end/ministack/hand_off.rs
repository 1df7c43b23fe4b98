//! Unconfirmed sends: the record is reported as failed, and SQS moves it.

use std::time::Duration;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::topology::{RunningTopology, TopologySetup};
use redeliver_tests::wire::Tap;
use serde_json::{Value, json};

use super::{final_records, id, new_topology, test_message};

/// A short timeout, because an unconfirmed send is retried for the rest of the invocation.
const TIMEOUT: Duration = Duration::from_secs(4);

fn assert_reported_and_redriven(running: &RunningTopology, target: &HttpTargetServer, sqs_id: &str) {
    let first = &running.processor.invocations()[0];
    assert_eq!(first.failed.iter().collect::<Vec<_>>(), [sqs_id], "{}", running.full_log());
    let requests = target.requests_for(&id(0));
    assert_eq!(requests.len(), 2, "{}", running.full_log());
    let body: Value = serde_json::from_str(&requests[1].body).unwrap();
    assert_eq!(
        (&body["metadata"]["retry_attempt"], &body["metadata"]["redrive_count"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        body["metadata"]["retry_history"][0]["error_type"], "Redrive",
        "without the hand-off the reason is lost"
    );
}

#[tokio::test]
async fn a_hand_off_refused_with_500_is_reported_and_redriven() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let tap = Tap::start(&Ministack::shared().endpoint_url()).await;
    tap.fail_sends_to(&topology.intermediate.url);
    target.script_replies(&id(0), [Reply::Status(500)]);
    let [failing, _done] =
        topology.send_batch([test_message(0, &json!({})), test_message(1, &json!({}))]).await;
    let endpoint_url = Some(tap.endpoint_url().to_owned());
    let running = topology.start_functions(&TopologySetup {
        endpoint_url,
        timeout: TIMEOUT,
        ..TopologySetup::for_http_target(target.url())
    });
    topology.wait_until_settled(&running).await;

    assert_reported_and_redriven(&running, &target, &failing);
    assert_eq!(target.requests_for(&id(1)).len(), 1, "the other message is processed");
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_failed_resend_is_reported_and_retried_when_the_queue_recovers() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let tap = Tap::start(&Ministack::shared().endpoint_url()).await;
    tap.fail_sends_to(&topology.source.url);
    target.script_replies(&id(0), [Reply::Status(500)]);
    topology.send_batch([test_message(0, &json!({}))]).await;
    let endpoint_url = Some(tap.endpoint_url().to_owned());
    let running = topology.start_functions(&TopologySetup {
        endpoint_url,
        timeout: TIMEOUT,
        ..TopologySetup::for_http_target(target.url())
    });
    while running.retrier.invocations().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(running.retrier.invocations()[0].failed.len(), 1, "{}", running.full_log());
    tap.stop_faults();
    topology.wait_until_settled(&running).await;

    assert_eq!(target.requests_for(&id(0)).len(), 2, "{}", running.full_log());
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_message_whose_final_record_cannot_be_sent_is_redriven_unannotated() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    topology.send_batch(["poison".to_owned()]).await;
    let mut setup = TopologySetup { timeout: TIMEOUT, ..TopologySetup::for_http_target(target.url()) };
    setup.variables.push(("FINAL_DLQ_URL", format!("{}-gone", topology.final_dlq.url)));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(running.annotator.invocations().len(), 110, "its redrive count\n{}", running.full_log());
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!((record.text.as_str(), record.error_type.as_str()), ("poison", ""));
}
