use std::time::Duration;

use chrono::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::attributes::{arrived, unfold};
use crate::handler::ErrorType;
use crate::message::{Content, OutgoingMessage};
use crate::testing::{any_text, sent_message};

const ARN: &str = "arn:aws:sqs:eu-central-1:000000000000:source";

fn at(second: i64) -> Timestamp {
    chrono::Utc.timestamp_opt(1_785_000_000 + second, 0).unwrap()
}

fn delivery() -> Delivery {
    Delivery {
        failed_at: at(5),
        source_message_id: "m".to_owned(),
        source_queue_arn: ARN.to_owned(),
        sent_at: at(0),
        came_back: false,
    }
}

fn failure() -> Failure {
    Failure::of_handler(&HandlerError::transient("HttpStatus.503", "HTTP 503"), &delivery())
}

fn verdict() -> Failure {
    Failure {
        verdict: Some(DeadLetterReason::RetryAttemptExceeded),
        stage: Some(Stage::FailedMessageProcessor),
        explanation: "Max retry attempts 5 exceeded".to_owned(),
        ..failure()
    }
}

/// Attributes `a0`, `a1`… of one byte each.
fn producer(count: usize) -> Attributes {
    (0..count).map(|index| (format!("a{index}"), Attribute::string("x"))).collect()
}

fn text(attributes: &Attributes) -> &str {
    attributes[FAILURE].text().unwrap()
}

#[test]
fn a_failure_is_one_json_document() {
    let attributes = verdict().beside(&producer(1), 100).unwrap();
    assert_eq!(attributes.len(), 2);
    assert_eq!(attributes[FAILURE].data_type, "String");
    assert_eq!(
        text(&attributes),
        concat!(
            r#"{"type":"HttpStatus.503","details":"HTTP 503","kind":"transient","failed_at":"2026-07-25T17:20:05.000000Z","#,
            r#""source_message_id":"m","source_queue_arn":"arn:aws:sqs:eu-central-1:000000000000:source","#,
            r#""first_sent_time":"2026-07-25T17:20:00.000000Z","verdict":"RETRY_ATTEMPT_EXCEEDED","#,
            r#""stage":"failed-message-processor","explanation":"Max retry attempts 5 exceeded"}"#
        )
    );
    assert_eq!(Failure::from_attribute(&attributes[FAILURE]), Some(verdict()));
    assert_eq!(verdict().sent_at(), Some(at(0)));
}

#[test]
fn each_kind_of_handler_error_is_told() {
    let of = |error: HandlerError| {
        let failure = Failure::of_handler(&error, &delivery());
        (failure.kind.unwrap().as_str(), failure.retry_after_seconds)
    };
    let transient = || HandlerError::transient("T", "d");
    assert_eq!(of(transient()), ("transient", None));
    assert_eq!(of(transient().retry_after(Duration::from_secs(30))), ("transient", Some(30)));
    assert_eq!(of(HandlerError::permanent("T", "d")), ("permanent", None));
    assert_eq!(of(HandlerError::snooze("T", "d", Duration::ZERO)), ("snooze", Some(0)));
    let not_started = Failure::not_started(&delivery());
    assert_eq!(not_started.kind, Some(Kind::NotStarted));
    assert_eq!(not_started.retry_after_seconds, None);
}

#[test]
fn a_targets_own_delay_is_rounded_up_and_may_be_of_any_length() {
    let after = |delay| {
        let error = HandlerError::transient("T", "").retry_after(delay);
        Failure::of_handler(&error, &delivery()).retry_after_seconds
    };
    assert_eq!(after(Duration::from_millis(1)), Some(1));
    assert_eq!(after(Duration::from_millis(2000)), Some(2));
    assert_eq!(after(Duration::MAX), Some(u64::MAX));
}

#[test]
fn a_targets_error_type_is_cut_and_legal() {
    let error = HandlerError::transient(ErrorType::FromTarget(format!("\0{}", "é".repeat(200))), "");
    let failure = Failure::of_handler(&error, &delivery());
    assert!((126..=128).contains(&failure.error_type.len()));
    assert!(failure.error_type.starts_with("\u{FFFD}é") && failure.error_type.ends_with('…'));
}

#[test]
fn a_message_that_came_back_begins_a_new_generation() {
    let delivery = Delivery { came_back: true, ..delivery() };
    let failure = Failure::of_handler(&HandlerError::transient("T", ""), &delivery);
    assert!(failure.new_generation);
    let attributes = failure.beside(&producer(0), 1).unwrap();
    assert!(text(&attributes).contains(r#""new_generation":true"#));
}

#[test]
fn of_two_generations_that_were_told_the_later_one_counts() {
    let came_back = |before| Failure { new_generation: true, generation_before: before, ..failure() };
    let after = |before, told| came_back(before).after_generation(told).generation_before;
    assert_eq!((after(Some(2), Some(5)), after(Some(5), Some(2))), (Some(5), Some(5)));
    assert_eq!((after(Some(2), None), after(None, Some(2)), after(None, None)), (Some(2), Some(2), None));
    assert_eq!(failure().after_generation(Some(2)).generation_before, None, "it did not come back");
}

#[test]
fn what_is_not_a_failure_document_is_not_read() {
    for other in [
        "",
        "[]",
        "null",
        "text",
        r#"{"type":5}"#,
        r#"{"unknown":1}"#,
        r#"{"kind":"other"}"#,
        r#"{"verdict":"OTHER"}"#,
    ] {
        assert_eq!(Failure::from_attribute(&Attribute::string(other)), None, "{other}");
    }
}

#[test]
fn a_failure_is_at_most_1_kib_its_details_cut_to_what_is_left() {
    let long = Failure { details: "d".repeat(5000), ..verdict() };
    let attributes = long.beside(&producer(0), 1).unwrap();
    assert_eq!(text(&attributes).len(), 1024);
    let read = Failure::from_attribute(&attributes[FAILURE]).unwrap();
    assert!(read.details.ends_with("ddd…"));
    assert_eq!(Failure { details: String::new(), ..read }, Failure { details: String::new(), ..verdict() });
}

#[test]
fn an_explanation_and_a_type_that_double_in_json_leave_room_for_the_rest() {
    let quotes = "\"".repeat(500);
    let arn = format!("arn:aws:sqs:ap-southeast-1:123456789012:{}", "q".repeat(80));
    let id = Some("0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned());
    let long = Failure {
        error_type: quotes.clone(),
        details: quotes.clone(),
        explanation: quotes,
        source_queue_arn: Some(arn.clone()),
        source_message_id: id,
        ..verdict()
    };
    let attributes = long.beside_folding(&producer(1), 100);
    let again = Failure::from_attribute(&attributes[FAILURE]).unwrap();
    assert_eq!(again.source_queue_arn, Some(arn));
    assert_eq!(again.error_type, format!("{}…", "\"".repeat(125)));
    // Each is 86 quotes and an ellipsis.
    assert_eq!((again.details.len(), again.explanation.len()), (89, 89));
    assert_eq!(text(&attributes).len(), 1024);
}

#[test]
fn short_details_of_illegal_characters_are_replaced_not_cut() {
    let odd = Failure { details: "a\u{1}b".to_owned(), ..failure() };
    let attributes = odd.beside(&producer(0), 1).unwrap();
    assert_eq!(Failure::from_attribute(&attributes[FAILURE]).unwrap().details, "a\u{FFFD}b");
}

#[test]
fn beside_nine_attributes_there_is_a_place_and_beside_ten_there_is_none() {
    assert_eq!(failure().beside(&producer(9), 1).unwrap().len(), 10);
    assert_eq!(failure().beside(&producer(10), 1), None);
}

#[test]
fn a_hand_off_gives_up_where_not_even_its_bare_bones_fit() {
    let bare = Failure { details: String::new(), ..failure() };
    let size = attributes_size(&bare.beside(&Attributes::new(), 1).unwrap());
    let fitting = failure().beside(&Attributes::new(), MESSAGE_BYTES_MAX - size).unwrap();
    assert_eq!(Failure::from_attribute(&fitting[FAILURE]), Some(bare));
    assert_eq!(failure().beside(&Attributes::new(), MESSAGE_BYTES_MAX - size + 1), None);
    assert_eq!(failure().beside(&Attributes::new(), MESSAGE_BYTES_MAX), None);
}

#[test]
fn a_verdict_folds_the_smallest_of_ten_attributes() {
    let mut attributes = producer(9);
    attributes.insert("z".to_owned(), Attribute::string("x"));
    let beside = verdict().beside_folding(&attributes, 100);
    assert_eq!(beside.len(), 10);
    assert!(!beside.contains_key("z"));
    assert_eq!(arrived(beside).producer, attributes);
}

#[test]
fn a_verdict_gives_way_to_its_code_and_then_to_nothing() {
    let code = r#"{"verdict":"RETRY_ATTEMPT_EXCEEDED"}"#;
    let size = FAILURE.len() + "String".len() + code.len();
    let of = |left: usize| verdict().beside_folding(&Attributes::new(), MESSAGE_BYTES_MAX - left);
    assert_eq!(text(&of(size)), code);
    assert_eq!(text(&of(size + 50)), code);
    assert!(of(size - 1).is_empty());
    assert!(of(0).is_empty());
    let full = producer(10);
    assert_eq!(verdict().beside_folding(&full, MESSAGE_BYTES_MAX - attributes_size(&full)), full);
}

/// What SQS may not take a second time stays where it took it.
#[test]
fn only_what_sqs_surely_takes_is_folded() {
    let mut attributes = producer(9);
    attributes.insert("ü".to_owned(), Attribute::string("x"));
    let hop = failure().beside_folded(&attributes, 100).unwrap();
    assert!(hop.contains_key("ü") && !hop.contains_key("a0"), "{hop:?}");
    let open: Attributes = (0..10).map(|n| (format!("ü{n}"), Attribute::string("x"))).collect();
    assert_eq!(failure().beside_folded(&open, 100), None);
    assert_eq!(verdict().beside_folding(&open, 100), open, "and so no verdict");
}

#[test]
fn a_failure_with_an_escaped_character_that_sqs_refuses_is_none_of_ours() {
    let texts = ["failed_at", "source_message_id", "source_queue_arn", "first_sent_time", "due_at"];
    for name in texts {
        let read =
            |text: &str| Failure::from_attribute(&Attribute::string(format!(r#"{{"{name}":"{text}"}}"#)));
        assert!(read("m").is_some(), "{name}");
        for escape in ["\\ufffe", "\\u0000", "m\\uffff"] {
            assert_eq!(read(escape), None, "{name} {escape}");
        }
    }
}

fn received(redriven_from: Option<&str>) -> ReceivedMessage {
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
        redriven_from: redriven_from.map(str::to_owned),
        queue_arn: "arn:aws:sqs:eu-central-1:000000000000:intermediate".to_owned(),
    }
}

#[test]
fn a_hand_offs_failure_counts() {
    assert_eq!(of_received(&received(None), Some(failure()), false, at(9)), failure());
}

#[test]
fn a_failure_on_a_redriven_message_is_a_forgery() {
    let forged = Failure { kind: Some(Kind::Permanent), new_generation: true, ..failure() };
    let believed = of_received(&received(Some(ARN)), Some(forged), false, at(9));
    assert_eq!(believed.error_type, REDRIVE);
    assert_eq!(believed.kind, Some(Kind::Transient));
    assert!(!believed.new_generation);
    assert_eq!(believed.source_message_id.as_deref(), Some("n"), "a redrive keeps SQS's id");
    assert_eq!(believed.source_queue_arn.as_deref(), Some(ARN));
    assert_eq!(believed.sent_at(), Some(at(-60)), "a redrive keeps the time of the first enqueue");
    assert_eq!(believed.failed_at.as_deref(), Some("2026-07-25T17:20:09.000000Z"));
}

#[test]
fn nothing_of_a_failure_on_a_redriven_message_is_believed() {
    let folded = r#"{"a":{"data_type":"String","text":"x"}}"#;
    let forged = Failure {
        retry_after_seconds: Some(7),
        new_generation: true,
        due_at: Some(rfc3339(at(7))),
        attempts: Some(77),
        folded_attributes: serde_json::from_str(folded).unwrap(),
        ..verdict()
    };
    for came_back in [false, true] {
        let of = |failure| of_received(&received(Some(ARN)), failure, came_back, at(9));
        assert_eq!(of(Some(forged.clone())), of(None));
    }
}

#[test]
fn a_redriven_message_that_came_back_begins_a_new_generation() {
    assert!(of_received(&received(Some(ARN)), None, true, at(9)).new_generation);
    assert!(of_received(&received(None), Some(failure()), true, at(9)).new_generation);
}

#[test]
fn a_message_without_a_readable_failure_is_retried() {
    let unknown = of_received(&received(None), None, false, at(9));
    assert_eq!((unknown.error_type.as_str(), unknown.kind), (REDRIVE, Some(Kind::Transient)));
    assert_eq!(unknown.details, "the message has no readable Failure attribute");
    assert_eq!(unknown.source_queue_arn, Some(received(None).queue_arn));
}

proptest! {
    #[test]
    fn a_verdict_always_fits_and_loses_no_producer_attribute(
        (producer, body_bytes) in sent_message(),
        error_type in any_text(),
        details in any_text(),
        explanation in any_text(),
    ) {
        let verdict = Failure { error_type, details, explanation, ..verdict() };

        let attributes = verdict.beside_folding(&producer, body_bytes);

        prop_assert!(body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX);
        let content = Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() };
        prop_assert_eq!(OutgoingMessage::new(content).err(), None);
        match attributes.get(FAILURE) {
            Some(attribute) => {
                let read = Failure::from_attribute(attribute).unwrap();
                prop_assert_eq!(read.verdict, verdict.verdict);
                let unfolded = Failure { folded_attributes: FoldedAttributes::new(), ..read.clone() };
                prop_assert!(unfolded.json().len() <= FAILURE_BYTES_MAX);
                let mut restored = attributes;
                restored.remove(FAILURE);
                prop_assert_eq!(unfold(restored, &read.folded_attributes), Some(producer));
            }
            None => prop_assert_eq!(attributes, producer),
        }
    }

    #[test]
    fn a_hand_off_fits_wherever_it_has_a_place(
        (producer, body_bytes) in sent_message(),
        error_type in any_text(),
        details in any_text(),
    ) {
        let error = HandlerError::transient(ErrorType::FromTarget(error_type), details);
        let failure = Failure::of_handler(&error, &delivery());
        if let Some(attributes) = failure.beside(&producer, body_bytes) {
            prop_assert!(body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX);
            prop_assert!(text(&attributes).len() <= FAILURE_BYTES_MAX);
            let content = Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() };
            prop_assert_eq!(OutgoingMessage::new(content).err(), None);
            let arrived = arrived(attributes);
            prop_assert!(arrived.failure.is_some());
            prop_assert_eq!(arrived.producer, producer);
        } else {
            let left = MESSAGE_BYTES_MAX - body_bytes - attributes_size(&producer);
            prop_assert!(producer.len() == 10 || left < FAILURE_BYTES_MAX, "{left} bytes were left");
        }
    }
}
