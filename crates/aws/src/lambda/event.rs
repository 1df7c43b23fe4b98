//! Parses an SQS event in one pass or, if a record is unreadable, record by record, so that only that record fails.
//! Bodies remain raw strings.

use std::fmt;
use std::marker::PhantomData;

use aws_lambda_events::sqs::SqsMessage;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::UnreadableMessage;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::received::{ConversionError, RawMessage, convert_attribute};

/// The records of an event.
#[derive(Debug, Default)]
pub struct Records {
    /// Parsed records.
    pub readable: Vec<ReceivedMessage>,
    /// Unreadable records, which must be reported as failed.
    pub unreadable: Vec<UnreadableMessage>,
    /// The ARN of the records' queue, if any record contains it. All records of an event are from the same queue.
    pub queue_arn: Option<String>,
}

/// The reason why an event fails the entire invocation. SQS then redelivers its records.
#[derive(Debug, Error)]
pub enum NotAnSqsEvent {
    /// The invocation is not from an event source mapping.
    #[error(
        "expected an SQS event, {{\"Records\":[…]}}; invoke this function through an event source mapping on its queue, \
         and leave it out of warm-up plugins and schedules"
    )]
    NoRecords,
    /// A record has no message id, so it cannot be reported as failed.
    #[error("record {0} of the event has no messageId, so it could not be reported as failed")]
    NoMessageId(usize),
}

/// Parses an event.
///
/// # Errors
/// If it is not an SQS event, or a record has no message id.
pub fn parse_records(event: &str) -> Result<Records, NotAnSqsEvent> {
    match parse_all(event) {
        Some(readable) => {
            let queue_arn = readable.first().map(|record| record.queue_arn.clone());
            Ok(Records { readable, unreadable: Vec::new(), queue_arn })
        }
        None => parse_one_by_one(event),
    }
}

/// Parses all records; returns `None` if any of them is unreadable.
fn parse_all(event: &str) -> Option<Vec<ReceivedMessage>> {
    let event: SqsEvent<FromObject<SqsMessage>> = parse_object(event)?;
    event.records.into_iter().map(|FromObject(record)| convert_record(record).ok()).collect()
}

fn parse_one_by_one(event: &str) -> Result<Records, NotAnSqsEvent> {
    #[derive(Deserialize)]
    struct MessageId {
        #[serde(rename = "messageId")]
        message_id: String,
    }
    #[derive(Deserialize)]
    struct SystemAttributes {
        attributes: FromObject<GroupAttribute>,
    }
    #[derive(Deserialize)]
    struct GroupAttribute {
        #[serde(rename = "MessageGroupId")]
        id: String,
    }
    #[derive(Deserialize)]
    struct QueueMember {
        #[serde(rename = "eventSourceARN")]
        arn: String,
    }
    #[derive(Deserialize)]
    struct EventSourceMember {
        // SNS capitalizes this member.
        #[serde(rename = "eventSource", alias = "EventSource")]
        event_source: String,
    }
    let event: SqsEvent<&RawValue> = parse_object(event).ok_or(NotAnSqsEvent::NoRecords)?;
    let mut records = Records::default();
    for (index, raw) in event.records.into_iter().enumerate() {
        records.queue_arn =
            records.queue_arn.or_else(|| parse_object::<QueueMember>(raw.get()).map(|queue| queue.arn));
        let record = parse_object(raw.get()).and_then(|record| convert_record(record).ok());
        if let Some(record) = record {
            records.readable.push(record);
            continue;
        }
        // Lambda would treat an empty `itemIdentifier` as a failure of the whole batch.
        let id = parse_object::<MessageId>(raw.get()).filter(|id| !id.message_id.is_empty());
        let is_from_other_service = || {
            parse_object::<EventSourceMember>(raw.get())
                .is_some_and(|source| source.event_source != "aws:sqs")
        };
        let reason = || {
            if is_from_other_service() { NotAnSqsEvent::NoRecords } else { NotAnSqsEvent::NoMessageId(index) }
        };
        records.unreadable.push(UnreadableMessage {
            sqs_message_id: id.ok_or_else(reason)?.message_id,
            receipt_handle: String::new(),
            message_group_id: parse_object::<SystemAttributes>(raw.get())
                .map(|system| system.attributes.0.id),
            readable_before: records.readable.len(),
        });
    }
    Ok(records)
}

#[derive(Deserialize)]
struct SqsEvent<R> {
    #[serde(rename = "Records")]
    records: Vec<R>,
}

fn parse_object<'de, T: Deserialize<'de>>(text: &'de str) -> Option<T> {
    serde_json::from_str(text).ok().map(|FromObject(value)| value)
}

/// A struct that is deserialized only from a JSON object; serde would also accept an array.
pub(crate) struct FromObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FromObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = FromObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<FromObject<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(FromObject)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

fn convert_record(record: SqsMessage) -> Result<ReceivedMessage, ConversionError> {
    let attributes = record.message_attributes.into_iter().map(|(name, value)| {
        let bytes = value.binary_value.map(|bytes| bytes.0);
        Ok((name, convert_attribute(value.data_type, value.string_value, bytes)?))
    });
    let raw = RawMessage {
        message_id: record.message_id,
        receipt_handle: record.receipt_handle.unwrap_or_default(),
        body: record.body,
        attributes: attributes.collect::<Result<_, _>>()?,
        queue_arn: record.event_source_arn,
    };
    raw.into_received(|name| record.attributes.get(name).map(String::as_str))
}

#[cfg(test)]
#[path = "event/tests.rs"] // also resolves from tests/fuzz, which compiles this file without the AWS SDK
mod tests;
