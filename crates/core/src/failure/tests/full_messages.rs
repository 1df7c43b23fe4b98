//! Documents attached to messages that are full or nearly full.

use std::collections::BTreeSet;

use super::*;
use crate::arrival::trace_header_and_verdict;
use crate::decide::next_hop;
use crate::message::metadata::NEVER;
use crate::policy::Policy;
use crate::testing::attempt_logs;

const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// Opens the message as its receiver does. Returns the document, and the producer's part of the message.
fn open_attached(
    AttachedDocument { attributes, trace_header }: AttachedDocument,
) -> (FailureDocument, ReceivedMessage) {
    let arrival =
        Arrival::from_record(ReceivedMessage { attributes, trace_header, ..received_message(None) }, at(9));
    (arrival.document().cloned().unwrap(), arrival.record)
}

#[test]
fn hand_off_drops_members_in_order_before_using_the_trace_header() {
    let error = HandlerError::transient("HttpStatus.503", "HTTP 503").retry_after(Duration::from_secs(600));
    let error = HandlerError { function: Some("orders:7".to_owned()), ..error };
    let hand_off = HandOff::from_handler_error(&error, delivery());
    let attach_with_room = |free: usize| {
        let placed = hand_off.attach_to(&Attributes::new(), MESSAGE_BYTES_MAX - free, Some(TRACE));
        assert!(attributes_size(&placed.attributes) <= free);
        placed
    };
    let least_room_for = |member: &str| {
        let has = |free: &usize| {
            let AttachedDocument { attributes, .. } = attach_with_room(*free);
            attributes.contains_key(FAILURE) && failure_text(&attributes).contains(&format!("\"{member}\":"))
        };
        let least = (0..1000).find(has).unwrap();
        assert!((least..1000).all(|free| has(&free)), "{member} is missing although there is more room");
        least
    };
    let members =
        ["function", "source_queue_arn", "failed_at", "source_message_id", "first_sent_time", "kind"];
    let least = members.map(least_room_for);
    assert!(least.is_sorted_by(|more, less| more > less), "{least:?}");

    let minimal = r#"{"type":"HttpStatus.503","kind":"transient","retry_after_seconds":600}"#;
    let [.., least] = least;
    assert_eq!(least, FAILURE.len() + "String".len() + minimal.len());
    assert_eq!(failure_text(&attach_with_room(least).attributes), minimal);
    assert_eq!(attach_with_room(least).trace_header.as_deref(), Some(TRACE));

    let without_place = attach_with_room(least - 1);
    assert!(without_place.attributes.is_empty());
    assert!(without_place.trace_header.as_ref().unwrap().len() <= 256);
    let (document, record) = open_attached(without_place);
    assert_eq!(record.trace_header.as_deref(), Some(TRACE), "the producer's header is restored");
    let FailureDocument::HandOff(parsed) = document else { panic!("{document:?}") };
    assert_eq!(
        (parsed.error.error_type, parsed.classification),
        (hand_off.error.error_type, hand_off.classification)
    );
}

/// The reason has priority over the location of its log lines.
#[test]
fn log_lines_are_dropped_before_any_byte_of_the_reason() {
    let mut given = verdict();
    given.case.as_mut().unwrap().failure.error.details = "d".repeat(3000);
    let without_logs = given.clone();
    given.case.as_mut().unwrap().failure.delivery.last_attempt_logs = Some(attempt_logs());
    let mut outcomes = BTreeSet::new();
    for free in (0..2000).step_by(7) {
        for producer in [Attributes::new(), producer_attributes(10)] {
            let body_bytes = (MESSAGE_BYTES_MAX - free).saturating_sub(attributes_size(&producer));
            let [given, expected] =
                [&given, &without_logs].map(|verdict| verdict.attach_to(&producer, body_bytes, Some(TRACE)));
            assert!(body_bytes + attributes_size(&given.attributes) <= MESSAGE_BYTES_MAX);
            let has_logs = given != expected;
            outcomes.insert(has_logs);
            let FailureDocument::Verdict(mut parsed) = open_attached(given).0 else { panic!("a verdict") };
            if has_logs {
                let delivery = &mut parsed.case.as_mut().unwrap().failure.delivery;
                assert_eq!(delivery.last_attempt_logs.take(), Some(attempt_logs()), "{free}");
            }
            assert_eq!(FailureDocument::Verdict(parsed), open_attached(expected).0, "{free}");
        }
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn a_verdict_keeps_its_last_error_in_a_full_message() {
    for free in 0..400 {
        let placed = verdict().attach_to(&Attributes::new(), MESSAGE_BYTES_MAX - free, None);
        assert!(attributes_size(&placed.attributes) <= free);
        let (document, record) = open_attached(placed);
        let FailureDocument::Verdict(parsed) = document else { panic!("{document:?}") };
        assert_eq!(record.trace_header, None, "the producer set none");
        assert_eq!(parsed.code, verdict().code, "{free}");
        assert_eq!(parsed.case.unwrap().failure.error.error_type, "HttpStatus.503", "{free}");
    }
}

/// Receivers unfold only hops and verdicts.
#[test]
fn a_hand_off_with_folded_attributes_has_an_ignored_due_time() {
    let placed = hand_off().attach_to(&producer_attributes(10), 1, Some(TRACE));
    assert_eq!((placed.attributes.len(), placed.trace_header.as_deref()), (10, Some(TRACE)));
    assert!(
        failure_text(&placed.attributes)
            .contains(r#""due_at":"9999-12-31T23:59:59.000000Z","folded_attributes""#)
    );
    let (document, record) = open_attached(placed);
    assert_eq!(record.attributes, producer_attributes(10));
    let HandedOffFailure { hand_off: parsed, due_at } = document.into_hand_off().unwrap();
    assert_eq!((parsed, due_at), (hand_off(), Some(NEVER)));
    let long_delays = Policy::from_json(r#"{"long_delays":true}"#).unwrap();
    assert_eq!(next_hop(&long_delays, &hand_off(), due_at, at(9)), None);
}

#[test]
fn document_moves_to_the_trace_header_if_nothing_can_be_folded() {
    let open: Attributes = (0..10).map(|n| (format!("ü{n}"), Attribute::string("x"))).collect();
    let moved_document = |placed: AttachedDocument| {
        assert_eq!(placed.attributes, open);
        open_attached(placed).0
    };
    assert!(matches!(moved_document(hand_off().attach_to(&open, 1, None)), FailureDocument::HandOff(_)));
    let FailureDocument::Hop(parsed) = moved_document(hop().attach_to(&open, 1, None)) else {
        panic!("a hop")
    };
    assert_eq!(parsed.due_at, hop().due_at);
    assert!(matches!(moved_document(verdict().attach_to(&open, 1, None)), FailureDocument::Verdict(_)));
}

/// The header has a null trace id in AWS's documented form, which tracers ignore.
#[test]
fn a_message_without_a_trace_header_gets_one_with_a_null_trace_id() {
    let full = hand_off().attach_to(&Attributes::new(), MESSAGE_BYTES_MAX, None);
    let header = full.trace_header.clone().unwrap();
    let (before, field) = header.rsplit_once(";Redeliver=").unwrap();
    assert_eq!(before, "Root=1-00000000-000000000000000000000000;Sampled=0");
    assert!(field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{field}");
    assert_eq!(open_attached(full).1.trace_header, None);
}

/// Even though the header alone exceeds 256 bytes, the document is attached.
#[test]
fn a_producers_long_trace_header_is_not_cut() {
    let long = format!("{TRACE};Mine={}", "m".repeat(400));
    let placed = hand_off().attach_to(&Attributes::new(), MESSAGE_BYTES_MAX, Some(&long));
    let (document, record) = open_attached(placed);
    assert_eq!(record.trace_header, Some(long));
    let FailureDocument::HandOff(parsed) = document else { panic!("{document:?}") };
    assert_eq!(
        (parsed.error.error_type.as_str(), parsed.classification),
        ("HttpStatus.503", hand_off().classification)
    );
}

#[test]
fn a_field_without_one_of_our_documents_belongs_to_the_producer() {
    let producer_headers = ["", "Redeliver=e30", ";Redeliver=e30", "Root=1;Redeliver=", "Root=1;Redeliver=%"];
    for header in
        producer_headers.into_iter().chain(["Root=1;Redeliver=W10", "Root=1;Redeliver=e30;Sampled=1"])
    {
        let record = ReceivedMessage { trace_header: Some(header.to_owned()), ..received_message(None) };
        let arrival = Arrival::from_record(record, at(9));
        assert_eq!((arrival.record.trace_header.as_deref(), arrival.document()), (Some(header), None));
    }
}

/// A forged field is removed, and never read instead of ours.
#[test]
fn only_the_last_trace_header_field_is_read_and_all_are_removed() {
    let forged = verdict().add_to_trace_header(Some(TRACE));
    let (document, record) =
        open_attached(hand_off().attach_to(&Attributes::new(), MESSAGE_BYTES_MAX, Some(&forged)));
    assert!(matches!(document, FailureDocument::HandOff(_)));
    assert_eq!(record.trace_header.as_deref(), Some(TRACE));
}

/// Versions that predate the field pass the trace header on unchanged.
#[test]
fn a_document_attribute_overrides_one_in_the_trace_header() {
    let forged = verdict().add_to_trace_header(Some(TRACE));
    let placed = hand_off().attach_to(&Attributes::new(), 1, Some(&forged));
    assert!(placed.attributes.contains_key(FAILURE) && placed.trace_header.as_ref() == Some(&forged));
    let (document, record) = open_attached(placed);
    assert!(matches!(document, FailureDocument::HandOff(_)), "{document:?}");
    assert_eq!(record.trace_header.as_deref(), Some(TRACE));
}

/// A `Failure` attribute on a moved message is not trusted either.
#[test]
fn a_trace_header_field_on_a_redriven_message_is_ignored() {
    let trace_header = Some(verdict().add_to_trace_header(Some(TRACE)));
    let source = "arn:aws:sqs:eu-central-1:000000000000:source";
    let moved = ReceivedMessage { trace_header, ..received_message(Some(source)) };
    let HandedOffFailure { hand_off, .. } = Arrival::from_record(moved.clone(), at(9)).take_hand_off(at(9));
    assert_eq!(hand_off.classification, Classification::without_delay(FailureClass::Unanswered));
    assert!(Arrival::from_record(moved.clone(), at(9)).take_verdict().is_err());
    assert_eq!(trace_header_and_verdict(&moved), (Some(TRACE.to_owned()), None));
    let (producers, found) = trace_header_and_verdict(&ReceivedMessage { redriven_from: None, ..moved });
    assert_eq!((producers.as_deref(), found.unwrap().code), (Some(TRACE), verdict().code));
}

proptest! {
    #[test]
    fn a_hand_off_fits_any_message_and_keeps_its_classification(
        (producer, body_bytes) in sent_message(),
        error_type in any_text(),
        details in any_text(),
        trace_header in prop::option::of(prop::sample::select(vec!["Root=1", TRACE])),
    ) {
        let error = HandlerError::transient(ErrorType::FromTarget(error_type), details);
        let hand_off = HandOff::from_handler_error(&error, delivery());
        let placed = hand_off.attach_to(&producer, body_bytes, trace_header);
        prop_assert!(body_bytes + attributes_size(&placed.attributes) <= MESSAGE_BYTES_MAX);
        let content = Content {
            body: "-".to_owned(),
            attributes: placed.attributes.clone(),
            trace_header: placed.trace_header.clone(),
            ..Content::default()
        };
        prop_assert_eq!(OutgoingMessage::new(content).err(), None);
        let (document, record) = open_attached(placed);
        let HandedOffFailure { hand_off: parsed, .. } = document.into_hand_off().unwrap();
        prop_assert_eq!((parsed.error.error_type, parsed.classification), (hand_off.error.error_type, hand_off.classification));
        prop_assert_eq!((record.attributes, record.trace_header.as_deref()), (split_producer_attributes(producer).attributes, trace_header));
    }
}
