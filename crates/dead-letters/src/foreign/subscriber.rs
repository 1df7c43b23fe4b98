//! The record of events that a subscriber of a custom event bus could not deliver ("Retry policies and dead-letter queues", Amazon EventBridge
//! User Guide): one record for a batch of events, which stay on the bus.

use serde::Deserialize;

use super::record::moment;
use super::{Events, Foreign, Writer, object};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    bus_arn: String,
    subscriber_arn: String,
    error_code: String,
    error_message: Option<String>,
    exhausted_retry_condition: Option<String>,
    retry_attempts: Option<u32>,
    failed_messages: Vec<FailedMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailedMessage {
    #[serde(rename = "eventId")]
    _event_id: String,
    timestamp: Option<String>,
}

/// `None` if it is not such a record.
pub(super) fn read(body: &str) -> Option<Foreign> {
    // Most bodies are something else, and need not be read as a whole to know that.
    if !body.contains("\"subscriberArn\"") {
        return None;
    }
    let record: Record = object(body)?;
    let times = || record.failed_messages.iter().filter_map(|failed| moment(failed.timestamp.as_deref()?));
    let events = Events {
        bus_arn: record.bus_arn,
        events: record.failed_messages.len() as u64,
        first_at: times().min(),
        last_at: times().max(),
    };
    Some(Foreign {
        error_type: record.error_code,
        message: record.error_message.unwrap_or_default(),
        condition: record.exhausted_retry_condition,
        attempts: record.retry_attempts,
        events: Some(events),
        ..Foreign::new(Writer::EventBridgeSubscriber, record.subscriber_arn)
    })
}
