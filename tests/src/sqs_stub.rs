//! An SQS stub for benchmarks: it accepts every message, stores none, and counts the requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::wire::serve_router;

/// A running stub; it stops when dropped.
pub struct SqsStub {
    endpoint_url: String,
    requests: RequestCounts,
    server: JoinHandle<()>,
}

/// The number of requests by action, for example `SendMessageBatch`.
type RequestCounts = Arc<Mutex<BTreeMap<String, u64>>>;

impl SqsStub {
    /// Starts a stub.
    pub async fn start() -> Self {
        let requests = RequestCounts::default();
        let (address, server) =
            serve_router(Router::new().fallback(handle_request).with_state(Arc::clone(&requests))).await;
        Self { endpoint_url: format!("http://{address}"), requests, server }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }

    /// Returns the URL of a queue. Every queue exists.
    #[must_use]
    pub fn queue_url(&self, name: &str) -> String {
        format!("{}/000000000000/{name}", self.endpoint_url)
    }

    /// Returns the number of requests by action, and resets the counts.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn take_request_counts(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.requests.lock().expect("no holder panics"))
    }
}

impl Drop for SqsStub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StubBatch {
    entries: Vec<StubEntry>,
}

/// A message, alone or in a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StubEntry {
    #[serde(default)]
    id: String,
    message_body: String,
    #[serde(default)]
    message_attributes: BTreeMap<String, StubAttribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StubAttribute {
    data_type: String,
    string_value: Option<String>,
    binary_value: Option<String>,
}

async fn handle_request(State(requests): State<RequestCounts>, headers: HeaderMap, body: Bytes) -> String {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let action = target.trim_start_matches("AmazonSQS.");
    *requests.lock().expect("no holder panics").entry(action.to_owned()).or_default() += 1;
    let answer = match action {
        "SendMessageBatch" => accepted_batch(&body),
        "ChangeMessageVisibilityBatch" => {
            let batch: Value = serde_json::from_slice(&body).expect("a batch is a valid SQS request");
            let entries = batch["Entries"].as_array().into_iter().flatten();
            let changed: Vec<_> = entries.map(|entry| json!({ "Id": entry["Id"] })).collect();
            json!({ "Successful": changed, "Failed": [] })
        }
        "SendMessage" => {
            accepted_entry(&serde_json::from_slice(&body).expect("a message is a valid SQS request"))
        }
        other => panic!("only sends are supported, not {other:?}"),
    };
    answer.to_string()
}

/// Returns the response to a batch that is accepted completely.
pub(crate) fn accepted_batch(body: &[u8]) -> Value {
    let batch: StubBatch = serde_json::from_slice(body).expect("a batch is a valid SQS request");
    json!({ "Successful": batch.entries.iter().map(accepted_entry).collect::<Vec<_>>(), "Failed": [] })
}

/// Returns the result of an accepted entry ("SendMessageBatchResultEntry" in the Amazon SQS API Reference).
fn accepted_entry(entry: &StubEntry) -> Value {
    let mut accepted = json!({
        "Id": entry.id,
        "MessageId": "11111111-0000-4000-8000-000000000000",
        "MD5OfMessageBody": to_hex(Md5::digest(&entry.message_body).as_slice()),
    });
    if !entry.message_attributes.is_empty() {
        accepted["MD5OfMessageAttributes"] = to_hex(&attributes_md5(&entry.message_attributes)).into();
    }
    accepted
}

/// Computes the MD5 of attributes ("Calculating the MD5 message digest for message attributes" in the Amazon SQS
/// Developer Guide): attributes are sorted by name; each string follows its length; a type byte is 1 before a string
/// and 2 before bytes.
fn attributes_md5(attributes: &BTreeMap<String, StubAttribute>) -> Vec<u8> {
    let mut md5 = Md5::new();
    for (name, StubAttribute { data_type, string_value, binary_value }) in attributes {
        add_field(&mut md5, name.as_bytes());
        add_field(&mut md5, data_type.as_bytes());
        if let Some(text) = string_value {
            md5.update([1]);
            add_field(&mut md5, text.as_bytes());
        } else if let Some(text) = binary_value {
            md5.update([2]);
            add_field(&mut md5, &STANDARD.decode(text).expect("a binary value is base64"));
        }
    }
    md5.finalize().to_vec()
}

fn add_field(md5: &mut Md5, bytes: &[u8]) {
    md5.update(u32::try_from(bytes.len()).expect("a message is at most 1 MiB").to_be_bytes());
    md5.update(bytes);
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_the_checksums_that_a_client_computes() {
        let entry = json!({ "Id": "0", "MessageBody": "hello", "MessageAttributes": {
            "Picture": { "DataType": "Binary.png", "BinaryValue": "AQI=" },
            "Failure": { "DataType": "String", "StringValue": "{}" },
        }});
        let accepted = accepted_entry(&serde_json::from_value(entry).unwrap());
        assert_eq!(accepted["MD5OfMessageBody"], "5d41402abc4b2a76b9719d911017c592");
        // Computed with Python's hashlib over the same bytes.
        assert_eq!(accepted["MD5OfMessageAttributes"], "6498bc1873a1e69ae7cc3abf24a669cc");
    }
}
