//! The attributes of an arriving message, including `Failure` and `DeadLetter` from untrusted senders.

use std::sync::LazyLock;

use redeliver_core::arrival::{ProducerAttributes, split_producer_attributes};
use redeliver_core::failure::annotation::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::failure::{FAILURE, FailureDocument, HandOff, HandedOffFailure, Hop};
use redeliver_core::limits::{ATTRIBUTES_MAX, is_legal};
use redeliver_core::message::{Attribute, Attributes};
use serde_json::Value;

use super::split_parts;
use crate::json;
use crate::messages::{fixed_now, is_sendable, open_arrival, restore_folded};

pub(super) fn check(input: &str) {
    let [failure, dead_letter] = split_parts(input);
    for producers in [0, 2, 7] {
        let mut attributes: Attributes =
            (0..producers).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
        let texts = [(FAILURE, failure), (DEAD_LETTER, dead_letter), (ERROR_TYPE, "E")];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            attributes.insert(name.to_owned(), Attribute::string(text));
        }
        if is_sendable(&attributes) {
            check_arrival(&attributes);
        }
    }
}

fn check_arrival(attributes: &Attributes) {
    let found = open_arrival(attributes.clone(), fixed_now());
    let document = found.document();
    let text = |name| attributes.get(name).and_then(Attribute::text);
    let object =
        text(FAILURE).is_some_and(|text| json::parse_json(text).is_ok_and(|node| node.members().is_some()));
    assert!(object || document.is_none(), "not a JSON object, but accepted: {attributes:?}");
    assert!(
        is_sendable(&found.record.attributes),
        "the attributes could not be sent: {:?}",
        found.record.attributes
    );
    assert!(!found.record.attributes.contains_key(FAILURE), "a reserved name");

    let mut expected = attributes.clone();
    expected.remove(FAILURE);
    let folds = |text: &str| {
        let node = json::parse_json(text).ok();
        let says = |name| node.as_ref().and_then(|node| node.member(name)?.value.string()).is_some();
        says("verdict") || says("due_at")
    };
    if let Some(text) = text(FAILURE).filter(|text| document.is_some() && folds(text)) {
        expected = restore_folded(&expected, text).unwrap_or(expected);
    }
    if found.came_back.is_some() {
        let record = expected.get(DEAD_LETTER).and_then(Attribute::text).unwrap_or_default().to_owned();
        for name in [DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS] {
            expected.remove(name);
        }
        let restored = restore_folded(&expected, &record);
        expected = restored.expect("our documents fold only attributes that SQS accepts");
    }
    let again = split_producer_attributes(found.record.attributes.clone());
    let expected_again = ProducerAttributes { attributes: found.record.attributes.clone(), came_back: None };
    assert_eq!(again, expected_again, "read differently on the next queue");
    assert_eq!(found.record.attributes, expected);
    if let Some(HandedOffFailure { hand_off, .. }) =
        document.cloned().and_then(FailureDocument::into_hand_off)
    {
        check_hop_round_trip(text(FAILURE).unwrap_or_default(), hand_off, &found.record.attributes);
    }
}

/// The members that a hop reads: all in the schema except the two in a blocked group's document, which are kept as
/// unknown members.
static KNOWN_MEMBERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../../../../schemas/failure.schema.json"))
        .expect("the schema is JSON, since other tests compile it");
    let properties = schema["properties"].as_object().expect("the schema describes an object");
    let is_known = |name: &&String| !["receipt_handle", "waiting_since"].contains(&name.as_str());
    properties.keys().filter(is_known).cloned().collect()
});

/// Checks that a document can be written as a hop and read again, and keeps members unknown to this version.
fn check_hop_round_trip(text: &str, hand_off: HandOff, producer: &Attributes) {
    let hop = Hop { hand_off, due_at: fixed_now() };
    let attributes = hop.attach_to(producer, 1, None).attributes;
    if !attributes.contains_key(FAILURE) {
        assert!(producer.len() >= ATTRIBUTES_MAX, "{hop:?} has no place");
        return;
    }
    assert!(is_sendable(&attributes), "{attributes:?}");
    let written =
        attributes.get(FAILURE).and_then(Attribute::text).expect("our own document is readable").to_owned();
    let Some(FailureDocument::Hop(again)) = open_arrival(attributes, fixed_now()).document().cloned() else {
        panic!("a hop: {written}")
    };
    let (before, after) = (&hop.hand_off, &again.hand_off);
    assert_eq!(before.classification, after.classification);
    let kept = before.delivery.source_message_id.len() + before.delivery.source_queue_arn.len();
    assert!(kept > 200 || before.delivery == after.delivery, "{before:?} {after:?}");
    // A short document never needs to be truncated.
    let node = json::parse_json(text).expect("the document was read");
    let unknown = node.members().unwrap_or_default().iter().filter(|member| {
        String::from_utf16(&member.name)
            .is_ok_and(|name| !KNOWN_MEMBERS.contains(&name) && name.chars().all(is_legal))
    });
    if text.len() < 300 {
        for member in unknown {
            assert!(written.contains(&text[member.value.at.clone()]), "{text} became {written}");
        }
        assert_eq!(before.unknown, after.unknown);
    }
}
