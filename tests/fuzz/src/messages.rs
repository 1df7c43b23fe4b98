//! Messages and checks shared by several targets.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::arrival::Arrival;
use redeliver_core::failure::FAILURE;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content, ReceivedMessage, Timestamp};
use redeliver_embedded::check_content;

use crate::json;

/// The id that every message uses.
pub(crate) const ID: &str = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";

/// Returns the current time for all targets: 2026-07-25T17:20:00Z.
pub(crate) fn fixed_now() -> Timestamp {
    Timestamp::from_timestamp(1_785_000_000, 0).expect("a moment of this century")
}

/// Returns the schemas, compiled once.
pub(crate) fn schema() -> &'static MessageSchema {
    static SCHEMA: LazyLock<MessageSchema> = LazyLock::new(MessageSchema::default);
    &SCHEMA
}

/// Opens a message with these attributes.
pub(crate) fn open_arrival(attributes: Attributes, sent_at: Timestamp) -> Arrival {
    open_with_trace_header(attributes, None, sent_at)
}

/// Opens a message with these attributes and a trace header.
pub(crate) fn open_with_trace_header(
    attributes: Attributes,
    trace_header: Option<String>,
    sent_at: Timestamp,
) -> Arrival {
    Arrival::from_record(received_record(attributes, trace_header, sent_at), fixed_now())
}

pub(crate) fn received_record(
    attributes: Attributes,
    trace_header: Option<String>,
    sent_at: Timestamp,
) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001".to_owned(),
        receipt_handle: "receipt".to_owned(),
        body: "-".to_owned(),
        attributes,
        sent_at,
        first_received_at: None,
        receive_count: 1,
        message_group_id: None,
        trace_header,
        sender_id: None,
        redriven_from: None,
        queue_arn: "arn:aws:sqs:eu-central-1:000000000000:queue".to_owned(),
        omitted: Vec::new(),
    }
}

/// Returns true if SQS accepts these attributes with a short body. Uses the rules of the embedded SQS, not the
/// product's.
pub(crate) fn is_sendable(attributes: &Attributes) -> bool {
    check_content(&Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() })
        .is_ok()
}

/// Restores the attributes folded into one of our documents, independently of the product. Returns `None` if SQS would
/// not accept the result from a producer.
pub(crate) fn restore_folded(beside: &Attributes, document: &str) -> Option<Attributes> {
    let document = json::parse_json(document).ok().filter(|document| document.members().is_some())?;
    let mut folded = BTreeMap::new();
    for member in document.member("folded_attributes").and_then(|all| all.value.members()).unwrap_or_default()
    {
        // Of two members with the same name, the last one counts.
        folded.insert(String::from_utf16(&member.name).ok()?, &member.value);
    }
    let mut restored = beside.clone();
    for (name, folded) in folded {
        let reported = |member: &str| folded.member(member)?.value.string();
        let value = match (reported("text"), reported("base64")) {
            (Some(text), None) => AttributeValue::Text(text),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
            _ => return None,
        };
        let attribute = Attribute { data_type: reported("data_type")?, value };
        if name == FAILURE || restored.insert(name, attribute).is_some() {
            return None;
        }
    }
    is_sendable(&restored).then_some(restored)
}
