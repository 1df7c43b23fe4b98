//! Tests against a scripted server that uses AWS JSON 1.0, with everything that an SQS response can contain or omit.

mod receiving;
mod sending;
mod service;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Attribute, AttributeValue, Content, OutgoingMessage};
use redeliver_core::ports::{Fault, QueueService as _, QueueSettings, RedriveSettings};
use serde_json::{Value, json};

use super::*;
use crate::tests::loopback::{Loopback, REFUSED_URL, ScriptedResponse};

const LONG: Duration = Duration::from_secs(60);
const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

fn client(server: &Loopback, timeout: Duration) -> Client {
    Client::from_conf(client_config(&server.sdk_config(), Some(timeout)).build())
}

fn queue_url(server: &Loopback) -> String {
    format!("{}/123456789012/orders", server.url())
}

fn queue(server: &Loopback, timeout: Duration) -> SqsQueue {
    SqsQueue::new(client(server, timeout), queue_url(server), ARN)
}

fn json_response(body: &Value) -> ScriptedResponse {
    ScriptedResponse::new(200, &[("content-type", "application/x-amz-json-1.0")], &body.to_string())
}

/// Returns an error response to the entire request, with a message that must not be repeated.
fn error_response(status: u16, code: &str) -> ScriptedResponse {
    let body = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "CANARY" });
    ScriptedResponse::new(status, &[("content-type", "application/x-amz-json-1.0")], &body.to_string())
}

fn error(fault: Fault, code: &str) -> EntryError {
    EntryError::new(fault, code)
}

fn seconds(seconds: u64) -> VisibilitySeconds {
    VisibilitySeconds::new(seconds).unwrap()
}

/// Returns the operation of a request.
fn operation(request: &crate::tests::loopback::Request) -> String {
    assert_eq!(request.line, "POST / HTTP/1.1");
    assert_eq!(request.header("content-type"), ["application/x-amz-json-1.0"]);
    request.header("x-amz-target").concat()
}
