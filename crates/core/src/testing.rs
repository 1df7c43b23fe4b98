//! Helpers for unit tests, which cannot use `redeliver-testing`: it depends on another copy of this crate's types.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::failure::Delivery;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::log_location::LogLocation;
use crate::message::attempt_logs::AttemptLogs;
use crate::message::origin::Origin;
use crate::message::{Attribute, AttributeValue, Attributes, ReceivedMessage, Timestamp, attributes_size};

/// Generates text that a target or an attacker might send: with illegal characters, JSON escapes or wide characters,
/// empty, or up to 100 KiB long.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    const PARTS: [&str; 12] =
        ["\0", "\u{1}", "\u{FFFE}", "\u{FFFF}", "😀", "é", "\"", "\\", "\n", "\t", "word ", "4711"];
    prop_oneof![
        4 => prop::collection::vec(select(&PARTS[..]), 0..40).prop_map(|parts| parts.concat()),
        1 => (select(&PARTS[..]), 300..50_000_usize).prop_map(|(part, count)| part.repeat(count).chars().take(102_400).collect()),
        1 => any::<String>(),
    ]
}

/// Generates text that SQS accepts from a producer.
fn legal_text() -> impl Strategy<Value = String> {
    const PARTS: [&str; 8] = ["\"", "\\", "\n", "é", "😀", "\u{FFFD}", "x", "{}"];
    prop_oneof![
        6 => prop::collection::vec(select(&PARTS[..]), 1..20).prop_map(|parts| parts.concat()),
        1 => (select(&PARTS[..]), 1..25_000_usize).prop_map(|(part, count)| part.repeat(count)),
    ]
}

fn any_attribute() -> impl Strategy<Value = Attribute> {
    let text = (select(vec!["String", "String.json"]), legal_text())
        .prop_map(|(data_type, text)| (data_type, AttributeValue::Text(text)));
    let number = select(vec!["Number", "Number.int"])
        .prop_map(|data_type| (data_type, AttributeValue::Text("-12.50".to_owned())));
    let bytes = prop_oneof![4 => prop::collection::vec(any::<u8>(), 1..50), 1 => prop::collection::vec(any::<u8>(), 1..20_000)];
    let binary = (select(vec!["Binary", "Binary.png"]), bytes)
        .prop_map(|(data_type, bytes)| (data_type, AttributeValue::Binary(bytes)));
    prop_oneof![text, number, binary]
        .prop_map(|(data_type, value)| Attribute { data_type: data_type.to_owned(), value })
}

/// Generates up to 10 producer attributes, some with names that a final record uses.
pub(crate) fn producer_attributes() -> impl Strategy<Value = Attributes> {
    let names = vec![
        "ErrorType",
        "ErrorDetails",
        "DeadLetter",
        "a",
        "b.c",
        "d-e",
        "F_g",
        "h",
        "i",
        "traceparent",
        "k",
        "l",
        "m",
    ];
    subsequence(names, 0..=10).prop_flat_map(|names| {
        let attributes = names
            .into_iter()
            .map(|name| any_attribute().prop_map(move |attribute| (name.to_owned(), attribute)))
            .collect::<Vec<_>>();
        attributes.prop_map(|attributes| attributes.into_iter().collect())
    })
}

/// Generates a producer's attributes, and the size of a body that SQS accepts with them: tiny, any size, just below the
/// limit, or exactly 1 MiB in total.
pub(crate) fn sent_message() -> impl Strategy<Value = (Attributes, usize)> {
    producer_attributes().prop_flat_map(|attributes| {
        let most = MESSAGE_BYTES_MAX - attributes_size(&attributes);
        let body = prop_oneof![
            Just(1_usize),
            Just(most),
            most.saturating_sub(9000).max(1)..=most,
            most.saturating_sub(300).max(1)..=most,
            1..=most,
        ];
        (Just(attributes), body)
    })
}

pub(crate) const SOURCE_ARN: &str = "arn:aws:sqs:eu-central-1:000000000000:source";

/// Returns the time this many seconds after 2026-07-25T17:20:00Z.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_timestamp(1_785_000_000 + second, 0).unwrap()
}

/// Returns a first delivery that was sent at second 0 and failed at second 5.
pub(crate) fn delivery() -> Delivery {
    Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: at(5),
        source_message_id: "m".to_owned(),
        source_queue_arn: SOURCE_ARN.to_owned(),
        sent_at: at(0),
        came_back: None,
        origin: Origin::Unknown,
    }
}

/// Returns the location of a call's log lines, from second 3 to second 4, in a function with redeliver's layer.
pub(crate) fn attempt_logs() -> AttemptLogs {
    let stream = "2026/07/25/orders[$LATEST]0123456789abcdef0123456789abcdef".to_owned();
    let location = LogLocation::in_stream(Some("/aws/lambda/orders".to_owned()), Some(stream));
    let location = location.with_request_id(Some("0191f3a2-7b1c-7d3e-8f00-0123456789ab"));
    AttemptLogs::new(location, at(3), at(4)).unwrap()
}

/// Returns a message on the intermediate DLQ that was sent a minute before second 0, and moved from `redriven_from` if
/// given.
pub(crate) fn received_message(redriven_from: Option<&str>) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "n".to_owned(),
        receipt_handle: "r".to_owned(),
        body: "{}".to_owned(),
        attributes: Attributes::new(),
        sent_at: at(-60),
        first_received_at: None,
        receive_count: 1,
        message_group_id: None,
        trace_header: None,
        sender_id: None,
        redriven_from: redriven_from.map(str::to_owned),
        queue_arn: "arn:aws:sqs:eu-central-1:000000000000:intermediate".to_owned(),
        omitted: Vec::new(),
    }
}
