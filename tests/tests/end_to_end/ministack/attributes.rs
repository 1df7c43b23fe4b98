//! Producers' attributes stay with their message through every re-send and in the final DLQ.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeName, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue,
};
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::sqs::TestQueue;
use redeliver_tests::topology::{TestTopology, TopologySetup};
use redeliver_tests::wire::Tap;
use serde_json::{Value, json};

use super::{final_records, id, new_topology, test_message};

const TRACE_HEADER: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
const GROUP: &str = "tenant-7";

fn text_attribute(kind: &str, value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(kind).string_value(value).build().unwrap()
}

fn binary_attribute(kind: &str, value: &[u8]) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(kind).binary_value(Blob::new(value)).build().unwrap()
}

fn attributes_of_each_type() -> HashMap<String, MessageAttributeValue> {
    [
        ("text", text_attribute("String", "grüße")),
        ("number", text_attribute("Number", "123456789012345678901234567890.12345678")),
        ("bytes", binary_attribute("Binary", &[0, 255, 10])),
        ("custom_text", text_attribute("String.tenant", "seven")),
        ("custom_number", text_attribute("Number.int", "-7")),
        ("custom_bytes", binary_attribute("Binary.png", &[137, 80])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Sends a message on its own: ministack drops trace headers in batches.
async fn send_with_attributes(
    topology: &TestTopology,
    queue: &TestQueue,
    attributes: HashMap<String, MessageAttributeValue>,
) {
    let trace = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value(TRACE_HEADER)
        .build()
        .unwrap();
    let request =
        topology.client.send_message().queue_url(&queue.url).message_body(test_message(0, &json!({})));
    let request = request.set_message_attributes(Some(attributes)).message_group_id(GROUP);
    let request =
        request.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace);
    request.send().await.unwrap();
}

async fn tapped_setup(target: &HttpTargetServer) -> (Tap, TopologySetup) {
    let tap = Tap::start(&Ministack::shared().endpoint_url()).await;
    let endpoint_url = Some(tap.endpoint_url().to_owned());
    (tap, TopologySetup { endpoint_url, ..TopologySetup::for_http_target(target.url()) })
}

#[tokio::test]
async fn attributes_and_message_group_survive_retries_and_dead_lettering() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(500); 3]);
    send_with_attributes(&topology, &topology.source, attributes_of_each_type()).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.error_type, "RETRY_ATTEMPT_EXCEEDED");
    let mut attributes = record.message.message_attributes().unwrap().clone();
    attributes.retain(|name, _| !["ErrorType", "ErrorDetails", "DeadLetter"].contains(&name.as_str()));
    assert_eq!(attributes, attributes_of_each_type());
    let system = record.message.attributes().unwrap();
    assert_eq!(system.get(&MessageSystemAttributeName::MessageGroupId).map(String::as_str), Some(GROUP));
}

#[tokio::test]
async fn a_re_send_carries_only_producer_attributes() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let (tap, setup) = tapped_setup(&target).await;
    target.script_replies(&id(0), [Reply::Status(500)]);
    send_with_attributes(&topology, &topology.source, attributes_of_each_type()).await;
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    let [entry] = &tap.sent_to(&topology.source.url)[..] else {
        panic!("one re-send\n{}", running.full_log())
    };
    let attributes = entry["MessageAttributes"].as_object().unwrap();
    let mut names: Vec<_> = attributes.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["bytes", "custom_bytes", "custom_number", "custom_text", "number", "text"]);
    assert_eq!(attributes["custom_bytes"], json!({"DataType": "Binary.png", "BinaryValue": "iVA="}));
    assert_eq!(entry["MessageGroupId"], GROUP);
    assert_eq!(entry["DelaySeconds"], 1);
}

/// Checked in the requests: ministack drops trace headers in batches, so a single test cannot follow one all the way.
#[tokio::test]
async fn the_trace_header_is_kept_by_a_hand_off_and_by_a_re_send() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let (tap, setup) = tapped_setup(&target).await;
    target.script_replies(&id(0), [Reply::Status(500)]);
    send_with_attributes(&topology, &topology.source, HashMap::new()).await;
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;
    let [hand_off] = &tap.sent_to(&topology.intermediate.url)[..] else {
        panic!("one\n{}", running.full_log())
    };
    assert_eq!(trace_header(hand_off), TRACE_HEADER);

    send_with_attributes(&topology, &topology.intermediate, HashMap::new()).await;
    topology.wait_until_settled(&running).await;
    let re_sends = tap.sent_to(&topology.source.url);
    assert_eq!(trace_header(&re_sends[1]), TRACE_HEADER, "{}", running.full_log());
}

fn trace_header(entry: &Value) -> &Value {
    &entry["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"]
}

#[tokio::test]
async fn three_of_ten_producer_attributes_are_folded_in_the_final_record() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(500); 3]);
    let value = |n: usize| text_attribute("String", &"x".repeat(n + 1));
    let ten: HashMap<_, _> = (0..10).map(|n| (format!("producer_{n}"), value(n))).collect();
    send_with_attributes(&topology, &topology.source, ten).await;
    let running = topology.start_functions(&TopologySetup::for_http_target(target.url()));
    topology.wait_until_settled(&running).await;

    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.error_type, "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(record.dead_letter["cause"]["type"], "HttpStatus.500");
    assert_eq!(record.attribute_names().len(), 10);
    let folded = record.dead_letter["folded_attributes"].as_object().unwrap();
    assert_eq!(folded.keys().collect::<Vec<_>>(), ["producer_0", "producer_1", "producer_2"], "the smallest");
    assert_eq!(folded["producer_2"], json!({"data_type": "String", "text": "xxx"}));
    for n in 3..10 {
        assert_eq!(super::message_attribute(&record.message, &format!("producer_{n}")), "x".repeat(n + 1));
    }
}
