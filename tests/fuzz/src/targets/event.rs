//! The SQS event: no record is lost or changed, and each is parsed independently.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::message::{AttributeValue, ReceivedMessage};
use redeliver_core::ports::UnreadableMessage;

use crate::aws::event::{NotAnSqsEvent, parse_records};
use crate::json::{self, JsonNode, NodeKind};

pub(super) fn check(event: &str) {
    let found = parse_records(event);
    let node = json::parse_json(event);
    let Some(items) = node.as_ref().ok().and_then(|node| event_records(node)) else {
        // JSON that is nested too deeply for a body can still be an event; it is not checked here.
        let refused = matches!(found, Err(NotAnSqsEvent::NoRecords));
        assert!(
            refused || node == Err(json::JsonRefusal::TooDeep),
            "{event:?} is not an event, but {found:?}"
        );
        return;
    };
    let mut readable = Vec::new();
    let mut unreadable = Vec::new();
    let mut nameless = None;
    for (index, item) in items.iter().enumerate() {
        match parse_records(&format!(r#"{{"Records":[{}]}}"#, &event[item.at.clone()])) {
            Ok(alone) => {
                assert_eq!(alone.readable.len() + alone.unreadable.len(), 1, "one record has one outcome");
                assert!(
                    alone.unreadable.iter().all(|one| !one.sqs_message_id.is_empty()),
                    "an empty id fails the whole batch"
                );
                alone.readable.iter().for_each(|message| check_message(event, item, message));
                let readable_before = readable.len();
                readable.extend(alone.readable);
                let in_place = |one| UnreadableMessage { readable_before, ..one };
                unreadable.extend(alone.unreadable.into_iter().map(in_place));
            }
            Err(why) => {
                let source = ["eventSource", "EventSource"].into_iter().find_map(|name| item.member(name));
                let is_foreign = source.and_then(|member| member.value.string());
                let is_foreign = is_foreign.is_some_and(|source| source != "aws:sqs");
                assert!(is_foreign || matches!(why, NotAnSqsEvent::NoMessageId(0)), "{why}: {event:?}");
                nameless = nameless.or(Some((index, why)));
            }
        }
    }
    match (found, nameless) {
        (Ok(found), None) => {
            assert_eq!(found.readable, readable);
            assert_eq!(found.unreadable, unreadable);
        }
        (Err(NotAnSqsEvent::NoMessageId(found)), Some((first, NotAnSqsEvent::NoMessageId(0)))) => {
            assert_eq!(found, first);
        }
        (Err(NotAnSqsEvent::NoRecords), Some((_, NotAnSqsEvent::NoRecords))) => {}
        (found, nameless) => panic!("{found:?}, but the first nameless record is {nameless:?}: {event:?}"),
    }
}

fn event_records(node: &JsonNode) -> Option<&[JsonNode]> {
    match &node.member("Records")?.value.kind {
        NodeKind::Array(items) => Some(items),
        _ => None,
    }
}

/// Checks that the message has exactly the content of the record.
fn check_message(event: &str, record: &JsonNode, message: &ReceivedMessage) {
    let text = |node: &JsonNode, name: &str| node.member(name).and_then(|member| member.value.string());
    assert_eq!(text(record, "messageId").as_ref(), Some(&message.sqs_message_id), "{event:?}");
    assert_eq!(text(record, "body").as_ref(), Some(&message.body), "{event:?}");
    assert_eq!(text(record, "eventSourceARN").as_ref(), Some(&message.queue_arn), "{event:?}");
    assert_eq!(text(record, "receiptHandle").unwrap_or_default(), message.receipt_handle, "{event:?}");
    assert!(!message.body.is_empty() && !message.sqs_message_id.is_empty() && !message.queue_arn.is_empty());

    let system = record.member("attributes").map(|member| &member.value);
    // Of two members with the same name the last one counts, as in serde's maps.
    if let Some(system) = system.filter(|system| !system.has_duplicate()) {
        let sent = text(system, "SentTimestamp").and_then(|text| text.parse().ok());
        assert_eq!(sent, Some(message.sent_at.timestamp_millis()), "{event:?}");
        assert_eq!(text(system, "MessageGroupId"), message.message_group_id, "{event:?}");
        assert_eq!(text(system, "AWSTraceHeader"), message.trace_header, "{event:?}");
        assert_eq!(text(system, "DeadLetterQueueSourceArn"), message.redriven_from, "{event:?}");
    }
    let own = record.member("messageAttributes").map(|member| &member.value);
    if own.is_some_and(JsonNode::has_duplicate) {
        return;
    }
    let own = own.and_then(JsonNode::members).unwrap_or_default();
    assert_eq!(own.len(), message.attributes.len(), "an attribute is lost or made up: {event:?}");
    for (name, attribute) in &message.attributes {
        let member = own.iter().find(|member| member.has_name(name));
        let node = &member.unwrap_or_else(|| panic!("attribute {name} is made up: {event:?}")).value;
        // The library also accepts a list of the members' values, which SQS never writes.
        if node.members().is_none() {
            continue;
        }
        assert_eq!(text(node, "dataType").as_ref(), Some(&attribute.data_type), "{event:?}");
        let value = match &attribute.value {
            AttributeValue::Text(_) => text(node, "stringValue").map(AttributeValue::Text),
            AttributeValue::Binary(_) => text(node, "binaryValue")
                .and_then(|base64| STANDARD.decode(base64).ok())
                .map(AttributeValue::Binary),
        };
        assert_eq!(value.as_ref(), Some(&attribute.value), "{event:?}");
    }
}
