//! Events with full batches, as an event source mapping delivers them, for benchmarks and for counting requests.

use serde_json::{Value, json};

use crate::settings::epoch_millis;
use crate::sqs::REGION;

/// The number of records in a batch.
pub const RECORDS: u32 = 10;
/// The size of a body.
pub const BODY_BYTES: usize = 1024;

/// Returns an event with messages that were never retried.
#[must_use]
pub fn first_deliveries() -> Value {
    batch_event("source", 0, None)
}

/// Returns an event with messages that have failed twice, each with the reason.
#[must_use]
pub fn hand_offs() -> Value {
    batch_event("intermediate-dlq", 1, Some(&failure_document()))
}

/// Returns an event with messages that are given up.
#[must_use]
pub fn verdicts() -> Value {
    let mut failure = failure_document();
    failure["verdict"] = json!("RETRY_ATTEMPT_EXCEEDED");
    failure["stage"] = json!("failed-message-processor");
    failure["explanation"] = json!("Max retry attempts 5 exceeded");
    batch_event("annotation", 5, Some(&failure))
}

fn failure_document() -> Value {
    json!({
        "type": "HttpStatus.503",
        "details": "HTTP 503 Service Unavailable",
        "kind": "transient",
        "failed_at": "2025-06-15T12:00:00.000000Z",
        "source_message_id": id(7),
        "source_queue_arn": format!("arn:aws:sqs:{REGION}:000000000000:source"),
        "first_sent_time": "2025-06-15T11:59:00.000000Z",
    })
}

fn batch_event(queue: &str, retry_attempt: u32, failure: Option<&Value>) -> Value {
    let records: Vec<_> =
        (0..RECORDS).map(|n| batch_record(n, queue, &order_body(n, retry_attempt), failure)).collect();
    json!({ "Records": records })
}

/// Returns an order with many small members, like a typical body.
fn order_body(n: u32, retry_attempt: u32) -> String {
    let mut metadata = json!({ "message_id": id(n) });
    if retry_attempt > 0 {
        metadata["retry_attempt"] = json!(retry_attempt);
        metadata["first_sent_time"] = json!("2025-06-15T11:50:00.000000Z");
        metadata["next_retry_time"] = json!("2025-06-15T11:59:00.000000Z");
    }
    let mut items: Vec<Value> = Vec::new();
    let render = |items: &[Value], note: &str| {
        json!({ "metadata": metadata, "data": { "order": n, "note": note, "items": items } }).to_string()
    };
    loop {
        let item = json!({ "sku": format!("A-{:04}", items.len()), "quantity": 2, "price": 12.5 });
        if render(&items, "").len() + item.to_string().len() >= BODY_BYTES {
            break;
        }
        items.push(item);
    }
    let missing = BODY_BYTES - render(&items, "").len();
    render(&items, &"x".repeat(missing))
}

fn batch_record(n: u32, queue: &str, body: &str, failure: Option<&Value>) -> Value {
    let mut attributes = json!({});
    if let Some(failure) = failure {
        attributes["Failure"] = json!({
            "stringValue": failure.to_string(),
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": "String",
        });
    }
    let now = epoch_millis().to_string();
    json!({
        "messageId": id(100 + n),
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a".repeat(8),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": now,
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": now,
        },
        "messageAttributes": attributes,
        "md5OfBody": "00000000000000000000000000000000",
        "eventSource": "aws:sqs",
        "eventSourceARN": format!("arn:aws:sqs:{REGION}:000000000000:{queue}"),
        "awsRegion": REGION,
    })
}

fn id(n: u32) -> String {
    format!("{n:08}-0000-4000-8000-000000000000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_batch_has_ten_bodies_of_one_kibibyte() {
        for event in [first_deliveries(), hand_offs(), verdicts()] {
            let records = event["Records"].as_array().unwrap();
            assert_eq!(records.len(), 10);
            assert!(records.iter().all(|record| record["body"].as_str().unwrap().len() == 1024));
        }
    }
}
