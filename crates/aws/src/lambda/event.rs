//! An SQS event, read record by record: one that cannot be read fails alone. Bodies stay raw strings.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::message::ReceivedMessage;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
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

/// Reads an event: at once where nothing is wrong with it, record by record where something is.
///
/// # Errors
/// If it is not an SQS event, or a record has no message id.
pub fn records(event: &str) -> Result<Records, NotAnSqsEvent> {
    let at_once = object::<SqsEvent<Object<Record>>>(event).and_then(|event| {
        let readable = event.records.into_iter().map(|Object(record)| received(record));
        readable.collect::<Result<_, _>>().ok()
    });
    match at_once {
        Some(readable) => Ok(Records { readable, unreadable: Vec::new() }),
        None => one_by_one(event),
    }
}

fn one_by_one(event: &str) -> Result<Records, NotAnSqsEvent> {
    let event: SqsEvent<&RawValue> = object(event).ok_or(NotAnSqsEvent::NoRecords)?;
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

fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok().map(|Object(value)| value)
}

/// A struct that is read from an object only; serde's own would be read from an array too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(object)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

#[derive(serde::Deserialize)]
struct SqsEvent<R> {
    #[serde(rename = "Records")]
    records: Vec<R>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageId {
    message_id: String,
}

/// A record, as far as we need it: "Using Lambda with Amazon SQS", AWS Lambda Developer Guide.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    attributes: Option<BTreeMap<String, String>>,
    message_attributes: Option<BTreeMap<String, MessageAttribute>>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageAttribute {
    data_type: Option<String>,
    string_value: Option<String>,
    binary_value: Option<String>,
}

fn received(record: Record) -> Result<ReceivedMessage, NotUnderstood> {
    let attributes = record.message_attributes.unwrap_or_default().into_iter().map(|(name, value)| {
        let bytes = value.binary_value.map(|text| STANDARD.decode(text)).transpose();
        let bytes = bytes.map_err(|_| NotUnderstood::Attribute)?;
        Ok((name, attribute(value.data_type, value.string_value, bytes)?))
    });
    let told = Told {
        message_id: record.message_id,
        receipt_handle: record.receipt_handle.unwrap_or_default(),
        body: record.body,
        attributes: attributes.collect::<Result<_, _>>()?,
        queue_arn: record.event_source_arn,
    };
    let system = record.attributes.unwrap_or_default();
    told.received(|name| system.get(name).map(String::as_str))
}

#[cfg(test)]
#[path = "event/tests.rs"] // found from tests/fuzz too, which compiles this file without the AWS SDK
mod tests;
