//! Converts between our message types and the SDK's.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue, SendMessageBatchRequestEntry,
};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::packing::Batch;
use redeliver_core::message::{Attribute, AttributeValue, Content, ReceivedMessage};
use redeliver_core::ports::{EntryError, Fault, UnreadableMessage};

use crate::received::{ConversionError, RawMessage, convert_attribute};

/// Builds the entries of a request, with their indexes as ids.
pub(super) fn send_entries(batch: Batch<'_>) -> Result<Vec<SendMessageBatchRequestEntry>, EntryError> {
    let entries = batch.entries().iter().enumerate();
    entries
        .map(|(index, message)| send_entry(index, message.content()))
        .collect::<Result<_, _>>()
        .map_err(|_| build_failure())
}

fn send_entry(index: usize, content: &Content) -> Result<SendMessageBatchRequestEntry, BuildError> {
    // "SendMessage", Amazon SQS API Reference: "When you set FifoQueue, you can't set DelaySeconds per message."
    let is_for_fifo = content.deduplication_id.is_some() && content.delay == DelaySeconds::ZERO;
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(&content.body)
        .set_delay_seconds((!is_for_fifo).then(|| content.delay.get().into()))
        .set_message_group_id(content.message_group_id.clone())
        .set_message_deduplication_id(content.deduplication_id.clone());
    for (name, attribute) in &content.attributes {
        entry = entry.message_attributes(name, attribute_value(attribute)?);
    }
    if let Some(header) = &content.trace_header {
        let value =
            MessageSystemAttributeValue::builder().data_type("String").string_value(header).build()?;
        entry = entry.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, value);
    }
    entry.build()
}

fn attribute_value(attribute: &Attribute) -> Result<MessageAttributeValue, BuildError> {
    let value = MessageAttributeValue::builder().data_type(&attribute.data_type);
    match &attribute.value {
        AttributeValue::Text(text) => value.string_value(text).build(),
        AttributeValue::Binary(bytes) => value.binary_value(Blob::new(bytes.clone())).build(),
    }
}

/// Returns the ids, group and position of a message that cannot be converted.
pub(super) fn describe_unreadable(message: &Message, readable_before: usize) -> UnreadableMessage {
    let system = message.attributes.as_ref();
    UnreadableMessage {
        sqs_message_id: message.message_id.clone().unwrap_or_default(),
        receipt_handle: message.receipt_handle.clone().unwrap_or_default(),
        message_group_id: system
            .and_then(|system| system.get(&MessageSystemAttributeName::MessageGroupId).cloned()),
        readable_before,
    }
}

pub(super) fn convert_message(message: Message, queue_arn: &str) -> Result<ReceivedMessage, ConversionError> {
    let attributes = message.message_attributes.unwrap_or_default().into_iter().map(|(name, value)| {
        let bytes = value.binary_value.map(Blob::into_inner);
        Ok((name, convert_attribute(Some(value.data_type), value.string_value, bytes)?))
    });
    let raw = RawMessage {
        message_id: message.message_id,
        receipt_handle: message.receipt_handle.ok_or(ConversionError::Missing("receipt handle"))?,
        body: message.body,
        attributes: attributes.collect::<Result<_, _>>()?,
        queue_arn: Some(queue_arn.to_owned()),
    };
    let system = message.attributes.unwrap_or_default();
    raw.into_received(|name| system.get(&MessageSystemAttributeName::from(name)).map(String::as_str))
}

pub(super) fn build_failure() -> EntryError {
    EntryError::new(Fault::Sender, "RequestNotBuilt")
}
