//! Converts SQS messages from `ReceiveMessage` and from Lambda events to our own type.

use chrono::{DateTime, Datelike as _};
use redeliver_core::message::{Attribute, AttributeValue, Attributes, ReceivedMessage, Timestamp};
use thiserror::Error;

/// The missing or invalid part of an unreadable message, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ConversionError {
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("its {0} is not a number in the valid range")]
    NotANumber(&'static str),
    #[error("a message attribute has no data type, or no value of that type")]
    Attribute,
}

/// A raw message without its system attributes.
#[derive(Debug, Default)]
pub(crate) struct RawMessage {
    pub(crate) message_id: Option<String>,
    /// Empty if the event source mapping deletes the message.
    pub(crate) receipt_handle: String,
    pub(crate) body: Option<String>,
    pub(crate) attributes: Attributes,
    pub(crate) queue_arn: Option<String>,
}

impl RawMessage {
    /// Adds the system attributes, which `system` looks up by their SQS names ("ReceiveMessage", Amazon SQS API
    /// Reference).
    ///
    /// A message must have an id, a body, a queue and the system attribute `SentTimestamp`, which determines its age.
    pub(crate) fn into_received<'a>(
        self,
        system: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<ReceivedMessage, ConversionError> {
        let moment = |name| system(name).map(|text| parse_milliseconds(text, name)).transpose();
        let text = |name| system(name).map(str::to_owned);
        Ok(ReceivedMessage {
            sqs_message_id: require_text(self.message_id, "message id")?,
            receipt_handle: self.receipt_handle,
            body: require_text(self.body, "body")?,
            attributes: self.attributes,
            sent_at: moment("SentTimestamp")?.ok_or(ConversionError::Missing("SentTimestamp"))?,
            first_received_at: moment("ApproximateFirstReceiveTimestamp")?,
            // SQS-compatible services might omit it. The default of 1 causes no alarm and no additional attempt.
            receive_count: system("ApproximateReceiveCount")
                .map_or(Ok(1), str::parse)
                .map_err(|_| ConversionError::NotANumber("ApproximateReceiveCount"))?,
            message_group_id: text("MessageGroupId"),
            trace_header: text("AWSTraceHeader"),
            sender_id: text("SenderId"),
            redriven_from: text("DeadLetterQueueSourceArn"),
            queue_arn: require_text(self.queue_arn, "queue ARN")?,
            omitted: Vec::new(),
        })
    }
}

/// Converts a message attribute. Returns an error if it has no value of its type, since dropping the attribute would
/// lose the producer's data.
pub(crate) fn convert_attribute(
    data_type: Option<String>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
) -> Result<Attribute, ConversionError> {
    let data_type = data_type.ok_or(ConversionError::Attribute)?;
    // SQS checks only the prefix, so it might have accepted `Binary_`, for example.
    let value = if data_type.starts_with("Binary") {
        bytes.map(AttributeValue::Binary)
    } else {
        text.map(AttributeValue::Text)
    };
    Ok(Attribute { value: value.ok_or(ConversionError::Attribute)?, data_type })
}

fn require_text(text: Option<String>, name: &'static str) -> Result<String, ConversionError> {
    text.filter(|text| !text.is_empty()).ok_or(ConversionError::Missing(name))
}

/// Parses milliseconds since the epoch. Rejects timestamps that RFC 3339 cannot express, since they are written into
/// the message.
fn parse_milliseconds(text: &str, name: &'static str) -> Result<Timestamp, ConversionError> {
    let moment = text.parse().ok().and_then(DateTime::from_timestamp_millis);
    moment.filter(|moment| (0..=9999).contains(&moment.year())).ok_or(ConversionError::NotANumber(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_message() -> RawMessage {
        RawMessage {
            message_id: Some("id".to_owned()),
            body: Some("{}".to_owned()),
            queue_arn: Some("arn".to_owned()),
            ..RawMessage::default()
        }
    }

    fn read(pairs: &[(&str, &'static str)]) -> Result<ReceivedMessage, ConversionError> {
        raw_message()
            .into_received(|wanted| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value))
    }

    #[test]
    fn a_message_without_id_body_or_queue_is_rejected() {
        for nothing in [None, Some(String::new())] {
            for (raw, missing) in [
                (RawMessage { message_id: nothing.clone(), ..raw_message() }, "message id"),
                (RawMessage { body: nothing.clone(), ..raw_message() }, "body"),
                (RawMessage { queue_arn: nothing.clone(), ..raw_message() }, "queue ARN"),
            ] {
                let error = raw.into_received(|_| Some("1")).unwrap_err();
                assert_eq!(error, ConversionError::Missing(missing));
            }
        }
    }

    #[test]
    fn a_message_without_a_valid_sent_timestamp_is_rejected() {
        assert_eq!(read(&[]).unwrap_err(), ConversionError::Missing("SentTimestamp"));
        // Some are timestamps before the year 0 or after the year 9999, which RFC 3339 cannot express.
        for wrong in ["99999999999999999999", "253402300800000", "", "1.5", "-62167219200001"] {
            let found = read(&[("SentTimestamp", wrong)]);
            assert_eq!(found, Err(ConversionError::NotANumber("SentTimestamp")), "{wrong}");
        }
        assert!(read(&[("SentTimestamp", "253402300799999")]).is_ok());
    }

    #[test]
    fn a_missing_receive_count_counts_as_one() {
        let read = read(&[("SentTimestamp", "1750000000123")]).unwrap();
        assert_eq!(read.receive_count, 1);
        assert_eq!(read.sent_at.timestamp_millis(), 1_750_000_000_123);
    }

    #[test]
    fn an_attribute_is_converted_according_to_its_data_type() {
        let bytes = convert_attribute(Some("Binary.png".into()), Some("text".into()), Some(vec![1]));
        assert_eq!(bytes.unwrap().value, AttributeValue::Binary(vec![1]));
        // Matched by prefix, as when sending: any type that SQS accepted must be readable.
        let prefixed = convert_attribute(Some("Binary_".into()), None, Some(vec![0]));
        assert_eq!(prefixed.unwrap().value, AttributeValue::Binary(vec![0]));
        let text = convert_attribute(Some("Number.int".into()), Some("7".into()), Some(vec![1]));
        assert_eq!(text.unwrap().value, AttributeValue::Text("7".into()));
    }

    #[test]
    fn an_attribute_without_a_value_of_its_type_is_an_error() {
        assert_eq!(
            convert_attribute(Some("Binary".into()), Some("text".into()), None),
            Err(ConversionError::Attribute)
        );
        assert_eq!(convert_attribute(None, Some("text".into()), None), Err(ConversionError::Attribute));
    }
}
