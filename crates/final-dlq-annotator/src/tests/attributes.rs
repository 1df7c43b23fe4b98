//! The producer's attributes are unchanged or folded, but never lost. The annotation is shortened to fit.

use redeliver_core::arrival::{ProducerAttributes, split_producer_attributes, trace_header_and_verdict};
use redeliver_core::limits::MESSAGE_BYTES_MAX;

use super::*;

/// Returns a redriven message's producer attributes: ours are removed, and folded ones are restored.
fn restored_attributes(content: &Content) -> Attributes {
    let ProducerAttributes { attributes: producer, came_back } =
        split_producer_attributes(content.attributes.clone());
    assert!(came_back.is_some());
    producer
}

#[test]
fn seven_attributes_fit_beside_ours_with_group_and_trace() {
    let seven: Attributes = ten_attributes().into_iter().take(7).collect();
    let mut record = given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", json!({})));
    record.attributes.extend(seven.clone());
    record.message_group_id = Some("tenant-7".to_owned());
    record.trace_header = Some("Root=1".to_owned());
    let sent = final_record(record);
    assert_eq!(strip_own_attributes(&sent.attributes), seven);
    assert_eq!(sent.attributes.len(), 10);
    assert_eq!(sent.message_group_id.as_deref(), Some("tenant-7"));
    assert_eq!(sent.trace_header.as_deref(), Some("Root=1"));
    assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER)["folded_attributes"], Value::Null);
}

#[test]
fn folded_attributes_are_restored_if_there_is_room() {
    // The message has no other attributes, so there is room for the folded ones.
    let folded = json!({ "folded_attributes": {
        "tenant": { "data_type": "String", "text": "acmé" },
        "price": { "data_type": "Number", "text": "12345678901234567890.5" },
        "count": { "data_type": "Number.int", "text": "7" },
        "blob": { "data_type": "Binary.png", "base64": "AJ+Slv8=" },
    } });
    let sent = final_record(given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", folded)));
    assert_eq!(strip_own_attributes(&sent.attributes), producer_attributes());
    assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER)["folded_attributes"], Value::Null);
}

#[test]
fn ten_attributes_are_folded_again_smallest_first_and_none_is_lost() {
    let folded = json!({ "folded_attributes": { "more-0": { "data_type": "String", "text": "x" } } });
    let mut record = given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", folded));
    record.attributes.extend(ten_attributes().into_iter().filter(|(name, _)| name != "more-0"));
    let sent = final_record(record);
    assert_eq!(sent.attributes.len(), 10);
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    let folded: Vec<_> = document["folded_attributes"].as_object().unwrap().keys().collect();
    assert_eq!(folded, ["more-0", "more-1", "more-2"]);
    assert_eq!(restored_attributes(&sent), ten_attributes());
}

#[test]
fn a_redriven_message_with_ten_attributes_loses_none() {
    let sent =
        final_record(ReceivedMessage { attributes: ten_attributes(), ..redriven_message(1, spent_body(1)) });
    assert_eq!(text(&sent, ERROR_TYPE), "ORCHESTRATION_FAILED");
    assert_eq!(restored_attributes(&sent), ten_attributes());
}

#[test]
fn producers_attributes_with_reserved_names_are_folded() {
    let own = Attributes::from([
        (ERROR_TYPE.to_owned(), Attribute::string("mine")),
        (DEAD_LETTER.to_owned(), Attribute::string("mine too")),
    ]);
    let mut record = given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", json!({})));
    record.attributes.extend(own.clone());
    let sent = final_record(record);
    assert_eq!(text(&sent, ERROR_TYPE), "NON_RETRYABLE_ERROR");
    assert_eq!(restored_attributes(&sent), own);
}

#[test]
fn the_annotation_of_an_earlier_generation_is_replaced() {
    let earlier =
        final_record(ReceivedMessage { attributes: ten_attributes(), ..redriven_message(1, spent_body(1)) });
    let sent = final_record(ReceivedMessage {
        attributes: earlier.attributes,
        ..redriven_message(1, spent_body(1))
    });
    assert_eq!(restored_attributes(&sent), ten_attributes());
}

#[test]
fn a_body_of_1_mib_is_sent_with_a_shortened_annotation() {
    for (room, names) in [
        (0, &[][..]),
        (34, &[]),
        (35, &[ERROR_TYPE]),
        (100, &[ERROR_DETAILS, ERROR_TYPE]),
        (800, &[DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE]),
    ] {
        let body = body_of_size(1, MESSAGE_BYTES_MAX - room);
        let sent = final_record(redriven_message(1, &*body));
        assert_eq!(sent.body, body);
        let written: Vec<_> = sent.attributes.keys().collect();
        assert_eq!(written, names, "{room} bytes of room");
    }
}

#[test]
fn a_1_mib_message_keeps_its_attributes_and_drops_the_annotation() {
    let attributes = ten_attributes();
    let bytes = redeliver_core::message::attributes_size(&attributes);
    let body = body_of_size(1, MESSAGE_BYTES_MAX - bytes);
    let sent =
        final_record(ReceivedMessage { attributes: attributes.clone(), ..redriven_message(1, &*body) });
    assert_eq!((sent.body, sent.attributes), (body, attributes));
}

/// The reason is written to the trace header, regardless of where the received verdict was. A record with a
/// `DeadLetter` does not need this.
#[test]
fn a_reason_that_does_not_fit_moves_to_the_trace_header() {
    for room in [0, 34, 35, 100, 269, 800] {
        let body = body_of_size(1, MESSAGE_BYTES_MAX - room);
        let mut record = given_up_message(1, &*body, &failure("NON_RETRYABLE_ERROR", json!({})));
        let verdict = Arrival::from_record(record.clone(), start_time()).take_verdict().unwrap();
        record.attributes.clear();
        record.trace_header = Some(verdict.add_to_trace_header(Some("Root=1")));
        let sent = final_record(record);
        let is_annotated = sent.attributes.contains_key(DEAD_LETTER);
        assert_eq!(is_annotated, room == 800, "{room} bytes of room");
        let received = ReceivedMessage {
            attributes: sent.attributes.clone(),
            trace_header: sent.trace_header,
            ..redriven_message(1, "{}")
        };
        let received = ReceivedMessage { redriven_from: None, ..received };
        let (producers, found) = trace_header_and_verdict(&received);
        assert_eq!(producers.as_deref(), Some("Root=1"));
        let error = found.map(|verdict| (verdict.code, verdict.case.unwrap().failure.error.error_type));
        let expected = (DeadLetterReason::NonRetryableError.into(), "HttpStatus.503".to_owned());
        assert_eq!(error, (!is_annotated).then_some(expected), "{room} bytes of room");
    }
}
