//! An SQS event, read record by record: one that cannot be read fails alone. Bodies stay raw strings.

use aws_lambda_events::sqs::SqsMessage;
use redeliver_core::message::ReceivedMessage;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::received::{NotUnderstood, Told, attribute};

/// The records of an event.
#[derive(Debug, Default)]
pub struct Records {
    /// Those that were read.
    pub readable: Vec<ReceivedMessage>,
    /// SQS message ids of those that were not: to be reported as failed.
    pub unreadable: Vec<String>,
}

/// Why an invocation fails as a whole; SQS will deliver its records again.
#[derive(Debug, Error)]
pub enum NotAnSqsEvent {
    /// Something else invoked the function.
    #[error(
        "expected an SQS event, {{\"Records\":[…]}}; invoke this function by an event source mapping on its queue"
    )]
    NoRecords,
    /// A record that could not even be reported.
    #[error("record {0} of the event has no messageId, so it could not be reported as failed")]
    NoMessageId(usize),
}

/// Reads an event.
///
/// # Errors
/// If it is not an SQS event, or a record has no message id.
pub fn records(event: &str) -> Result<Records, NotAnSqsEvent> {
    #[derive(Deserialize)]
    struct SqsEvent<'a> {
        #[serde(borrow, rename = "Records")]
        records: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct MessageId {
        #[serde(rename = "messageId")]
        message_id: String,
    }
    let event: SqsEvent<'_> = object(event).ok_or(NotAnSqsEvent::NoRecords)?;
    let mut records = Records::default();
    for (index, raw) in event.records.into_iter().enumerate() {
        let record = object(raw.get()).and_then(|record| received(record).ok());
        if let Some(record) = record {
            records.readable.push(record);
            continue;
        }
        // An empty identifier would fail the whole batch all the same.
        let id = object::<MessageId>(raw.get()).filter(|id| !id.message_id.is_empty());
        records.unreadable.push(id.ok_or(NotAnSqsEvent::NoMessageId(index))?.message_id);
    }
    Ok(records)
}

/// Reads a struct from an object; serde would read one from an array too.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
}

fn received(record: SqsMessage) -> Result<ReceivedMessage, NotUnderstood> {
    let attributes = record.message_attributes.into_iter().map(|(name, value)| {
        let bytes = value.binary_value.map(|bytes| bytes.0);
        Ok((name, attribute(value.data_type, value.string_value, bytes)?))
    });
    let told = Told {
        message_id: record.message_id,
        receipt_handle: record.receipt_handle.unwrap_or_default(),
        body: record.body,
        attributes: attributes.collect::<Result<_, _>>()?,
        queue_arn: record.event_source_arn,
    };
    told.received(|name| record.attributes.get(name).map(String::as_str))
}

#[cfg(test)]
#[path = "event/tests.rs"] // found from tests/fuzz too, which compiles this file without the AWS SDK
mod tests;
