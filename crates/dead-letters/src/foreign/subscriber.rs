//! The record of events that a subscriber of a custom event bus could not deliver ("Retry policies and dead-letter
//! queues", Amazon EventBridge User Guide): one record per batch of events, which remain on the bus.

use serde::Deserialize;

use super::record::parse_time;
use super::{BusEvents, ForeignDeadLetter, ForeignWriter, parse_object};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriberRecord {
    bus_arn: String,
    subscriber_arn: String,
    error_code: String,
    error_message: Option<String>,
    exhausted_retry_condition: Option<String>,
    retry_attempts: Option<u32>,
    failed_messages: Vec<FailedEvent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailedEvent {
    #[serde(rename = "eventId")]
    _event_id: String,
    timestamp: Option<String>,
}

/// Reads a record, or returns `None` if the body is not such a record.
pub(super) fn read_subscriber_record(body: &str) -> Option<ForeignDeadLetter> {
    // Most bodies are something else; a substring check avoids parsing them.
    if !body.contains("\"subscriberArn\"") {
        return None;
    }
    let record: SubscriberRecord = parse_object(body)?;
    let times =
        || record.failed_messages.iter().filter_map(|failed| parse_time(failed.timestamp.as_deref()?));
    let events = BusEvents {
        bus_arn: record.bus_arn,
        events: record.failed_messages.len() as u64,
        first_at: times().min(),
        last_at: times().max(),
    };
    Some(ForeignDeadLetter {
        error_type: record.error_code,
        message: record.error_message.unwrap_or_default(),
        condition: record.exhausted_retry_condition,
        attempts: record.retry_attempts,
        events: Some(events),
        ..ForeignDeadLetter::new(ForeignWriter::EventBridgeSubscriber, record.subscriber_arn)
    })
}
