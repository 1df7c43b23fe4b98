use proptest::prelude::*;

use super::*;
use crate::arrival::{ProducerAttributes, split_producer_attributes};
use crate::message::reason::DeadLetterReason;
use crate::message::{AttributeValue, Content, OutgoingMessage};
use crate::testing::{any_text, attempt_logs, sent_message};

fn annotation() -> Annotation {
    Annotation {
        reason: DeadLetterReason::RetryAttemptExceeded.into(),
        details: "Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503".to_owned(),
        record: DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause {
                error_type: "HttpStatus.503".to_owned(),
                message: "HTTP 503".to_owned(),
                function: Some("orders:7".to_owned()),
                unverified: false,
            },
            attempts: Some(5),
            redrive_generation: None,
            held_seconds: None,
            redrive_count: None,
            first_sent_time: Some("2026-07-25T17:20:00.000000Z".to_owned()),
            dead_lettered_at: "2026-07-25T18:20:00.000000Z".to_owned(),
            died_at: None,
            source_queue_arn: Some("arn:aws:sqs:eu-central-1:000000000000:source".to_owned()),
            sqs_message_id: "m".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            folded_attributes: FoldedAttributes::new(),
        },
    }
}

/// Returns attributes `a0`, `a1`… of increasing size, all of type String.
fn producer_attributes(count: usize) -> Attributes {
    (0..count).map(|index| (format!("a{index}"), Attribute::string("x".repeat(index + 1)))).collect()
}

fn attribute_text<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes[name].text().unwrap()
}

fn attribute_names(attributes: &Attributes) -> Vec<&str> {
    attributes.keys().map(String::as_str).collect()
}

#[test]
fn a_final_record_has_the_code_the_details_and_the_document() {
    let attributes = annotate_attributes(&producer_attributes(1), 100, &annotation());
    assert_eq!(attribute_names(&attributes), ["DeadLetter", "ErrorDetails", "ErrorType", "a0"]);
    assert_eq!(attribute_text(&attributes, ERROR_TYPE), "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(attribute_text(&attributes, ERROR_DETAILS), annotation().details);
    assert_eq!(
        attribute_text(&attributes, DEAD_LETTER),
        concat!(
            r#"{"stage":"failed-message-processor","cause":{"type":"HttpStatus.503","message":"HTTP 503","function":"orders:7"},"attempts":5,"#,
            r#""first_sent_time":"2026-07-25T17:20:00.000000Z","dead_lettered_at":"2026-07-25T18:20:00.000000Z","#,
            r#""source_queue_arn":"arn:aws:sqs:eu-central-1:000000000000:source","sqs_message_id":"m","#,
            r#""fingerprint":"0123456789abcdef"}"#
        )
    );
    assert!(attributes.values().all(|attribute| attribute.data_type == "String"));
    assert_eq!(DeadLetter::from_attribute(&attributes[DEAD_LETTER]), Some(annotation().record));
}

#[test]
fn log_lines_are_dropped_before_any_byte_of_the_annotation() {
    let mut given = annotation();
    given.record.cause.message = "m".repeat(5000);
    let without_logs = given.clone();
    given.record.last_attempt_logs = Some(attempt_logs());
    let mut has_logs = Vec::new();
    for free in (0..7000).step_by(13) {
        let body_bytes = MESSAGE_BYTES_MAX - free;
        let [given, expected] = [&given, &without_logs]
            .map(|annotation| annotate_attributes(&producer_attributes(0), body_bytes, annotation));
        assert!(body_bytes + attributes_size(&given) <= MESSAGE_BYTES_MAX);
        has_logs.push(given != expected);
        if given != expected {
            let mut read = DeadLetter::from_attribute(&given[DEAD_LETTER]).unwrap();
            assert_eq!(read.last_attempt_logs.take(), Some(attempt_logs()));
            assert_eq!(Some(read), DeadLetter::from_attribute(&expected[DEAD_LETTER]));
        }
    }
    assert!(
        has_logs.is_sorted() && !has_logs[0] && has_logs.last() == Some(&true),
        "the log lines are present wherever they fit"
    );
}

#[test]
fn an_unverified_cause_is_marked() {
    let mut unverified = annotation();
    unverified.record.cause.unverified = true;
    let attributes = annotate_attributes(&producer_attributes(0), 100, &unverified);
    assert!(
        attribute_text(&attributes, DEAD_LETTER)
            .contains(r#""message":"HTTP 503","function":"orders:7","unverified":true"#)
    );
}

#[test]
fn details_are_at_most_1_kib_and_the_document_4_kib() {
    let mut long = annotation();
    long.details = "d".repeat(100_000);
    long.record.cause.message = "m".repeat(100_000);
    let attributes = annotate_attributes(&producer_attributes(0), 100, &long);
    assert_eq!(
        attribute_text(&attributes, ERROR_DETAILS),
        format!("{}…{}", "d".repeat(681), "d".repeat(340))
    );
    assert_eq!(attribute_text(&attributes, DEAD_LETTER).len(), 4096);
}

#[test]
fn empty_details_become_a_dash() {
    let mut silent = annotation();
    silent.details = String::new();
    assert_eq!(
        attribute_text(&annotate_attributes(&producer_attributes(0), 100, &silent), ERROR_DETAILS),
        "-"
    );
}

#[test]
fn seven_producer_attributes_fit_next_to_ours() {
    let attributes = annotate_attributes(&producer_attributes(7), 100, &annotation());
    assert_eq!(attributes.len(), 10);
    let record = DeadLetter::from_attribute(&attributes[DEAD_LETTER]).unwrap();
    assert!(record.folded_attributes.is_empty());
}

#[test]
fn beyond_ten_attributes_the_smallest_are_folded() {
    for count in 8..=10 {
        let attributes = annotate_attributes(&producer_attributes(count), 100, &annotation());
        assert_eq!(attributes.len(), 10);
        let record = DeadLetter::from_attribute(&attributes[DEAD_LETTER]).unwrap();
        let folded: Vec<_> = record.folded_attributes.keys().cloned().collect();
        let smallest: Vec<_> = (0..count - 7).map(|index| format!("a{index}")).collect();
        assert_eq!(folded, smallest);
        assert_eq!(split_producer_attributes(attributes).attributes, producer_attributes(count));
    }
}

#[test]
fn folded_attributes_keep_type_and_value() {
    let mut attributes: Attributes =
        (0..8).map(|index| (format!("large{index}"), Attribute::string("x"))).collect();
    let binary = |data_type: &str, bytes: &[u8]| Attribute {
        data_type: data_type.to_owned(),
        value: AttributeValue::Binary(bytes.to_vec()),
    };
    attributes.insert("b".to_owned(), binary("Binary.x", &[0]));
    let number =
        Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text("7".to_owned()) };
    attributes.insert("n".to_owned(), number);
    let record = annotate_attributes(&attributes, 100, &annotation());
    assert!(attribute_text(&record, DEAD_LETTER).ends_with(concat!(
        r#""folded_attributes":{"b":{"data_type":"Binary.x","base64":"AA=="},"#,
        r#""large0":{"data_type":"String","text":"x"},"n":{"data_type":"Number.int","text":"7"}}}"#
    )));
    assert_eq!(split_producer_attributes(record).attributes, attributes);
}

#[test]
fn folded_attributes_do_not_count_towards_the_documents_own_limit() {
    let mut attributes = producer_attributes(0);
    for index in 0..10 {
        attributes.insert(format!("a{index}"), Attribute::string("\"".repeat(5000)));
    }
    let mut long = annotation();
    long.record.cause.message = "m".repeat(100_000);
    let record = annotate_attributes(&attributes, 100, &long);
    let document = DeadLetter::from_attribute(&record[DEAD_LETTER]).unwrap();
    assert_eq!(document.folded_attributes.len(), 3);
    let unfolded = DeadLetter { folded_attributes: FoldedAttributes::new(), ..document };
    assert_eq!(unfolded.to_json().len(), 4096);
    assert_eq!(split_producer_attributes(record).attributes, attributes);
}

#[test]
fn a_producers_attribute_with_one_of_our_names_is_folded_first() {
    let mut attributes = producer_attributes(2);
    attributes.insert(ERROR_TYPE.to_owned(), Attribute::string("the producer's"));
    attributes.insert(ERROR_DETAILS.to_owned(), Attribute::string("the producer's own"));
    attributes.insert(DEAD_LETTER.to_owned(), Attribute::string("{}"));
    let record = annotate_attributes(&attributes, 100, &annotation());
    assert_eq!(attribute_text(&record, ERROR_TYPE), "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(attribute_names(&record), ["DeadLetter", "ErrorDetails", "ErrorType", "a0", "a1"]);
    assert_eq!(split_producer_attributes(record).attributes, attributes);
}

#[test]
fn the_annotation_shrinks_step_by_step_to_nothing() {
    let annotate_with_room = |left: usize| {
        let attributes = annotate_attributes(&Attributes::new(), MESSAGE_BYTES_MAX - left, &annotation());
        assert!(attributes_size(&attributes) <= left, "{left}");
        attributes
    };
    let full_size = attributes_size(&annotate_attributes(&Attributes::new(), 1, &annotation()));
    assert_eq!(annotate_with_room(full_size), annotate_attributes(&Attributes::new(), 1, &annotation()));
    assert_eq!(
        attribute_names(&annotate_with_room(full_size - 1)),
        ["DeadLetter", "ErrorDetails", "ErrorType"],
        "texts are cut first"
    );
    assert_eq!(attribute_names(&annotate_with_room(300)), ["ErrorDetails", "ErrorType"]);
    assert_eq!(attribute_text(&annotate_with_room(300), ERROR_DETAILS), annotation().details);
    // Sizes of `ErrorType`, `String` and the code; then of `ErrorDetails`, `String` and at least one byte.
    let code = 9 + 6 + 22;
    assert_eq!(attribute_text(&annotate_with_room(code + 12 + 6 + 1), ERROR_DETAILS), "-");
    assert_eq!(attribute_names(&annotate_with_room(code + 12 + 6)), ["ErrorType"]);
    assert_eq!(attribute_names(&annotate_with_room(code)), ["ErrorType"]);
    assert!(annotate_with_room(code - 1).is_empty());
    assert!(annotate_with_room(0).is_empty());
}

#[test]
fn ten_attributes_and_no_room_to_fold_leave_the_record_unannotated() {
    let attributes = producer_attributes(10);
    let body_bytes = MESSAGE_BYTES_MAX - attributes_size(&attributes);
    assert_eq!(annotate_attributes(&attributes, body_bytes, &annotation()), attributes);
}

/// Without the document, the producer's attribute cannot be distinguished from ours, and `redeliver redrive` would
/// remove both.
#[test]
fn a_name_clash_without_room_to_fold_leaves_the_record_unannotated() {
    for name in [ERROR_TYPE, ERROR_DETAILS] {
        let attributes = Attributes::from([(name.to_owned(), Attribute::string("mine"))]);
        let body_bytes = MESSAGE_BYTES_MAX - attributes_size(&attributes) - 100;
        assert_eq!(annotate_attributes(&attributes, body_bytes, &annotation()), attributes, "{name}");
    }
}

proptest! {
    #[test]
    fn annotation_always_fits_and_loses_no_producer_attribute(
        (producer, body_bytes) in sent_message(),
        error_type in any_text(),
        message in any_text(),
        details in any_text(),
    ) {
        let mut annotation = annotation();
        annotation.details = details;
        annotation.record.cause = Cause { error_type, message, unverified: true, ..Cause::default() };

        let attributes = annotate_attributes(&producer, body_bytes, &annotation);

        prop_assert!(body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX);
        let content = Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() };
        prop_assert_eq!(OutgoingMessage::new(content).err(), None);
        if let Some(details) = attributes.get(ERROR_DETAILS).and_then(Attribute::text).filter(|_| !producer.contains_key(ERROR_DETAILS)) {
            prop_assert!(details.len() <= ERROR_DETAILS_BYTES_MAX);
        }
        match attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute) {
            Some(record) => {
                let unfolded = DeadLetter { folded_attributes: FoldedAttributes::new(), ..record };
                prop_assert!(unfolded.to_json().len() <= DEAD_LETTER_BYTES_MAX);
                prop_assert!(unfolded.cause.error_type.len() <= truncate::ERROR_TYPE_BYTES_MAX);
                prop_assert_eq!(&attributes[ERROR_TYPE], &Attribute::string(annotation.reason.as_str()));
                let ProducerAttributes { attributes: restored, came_back } = split_producer_attributes(attributes);
                prop_assert!(came_back.is_some());
                prop_assert_eq!(restored, producer);
            }
            None => {
                let mut without_ours = attributes.clone();
                if attributes != producer {
                    without_ours.retain(|name, _| ![ERROR_TYPE, ERROR_DETAILS].contains(&name.as_str()));
                }
                prop_assert_eq!(without_ours, producer);
            }
        }
    }

    #[test]
    fn the_annotation_has_its_document_if_there_is_room(
        (producer, _) in sent_message(),
        message in any_text(),
        details in any_text(),
    ) {
        let mut annotation = annotation();
        annotation.details = details;
        annotation.record.cause.message = message;
        // Folding may double each character of a value, and adds names and types.
        prop_assume!(attributes_size(&producer) * 3 + 10_000 < MESSAGE_BYTES_MAX);
        let attributes = annotate_attributes(&producer, 1, &annotation);
        prop_assert!(DeadLetter::from_attribute(&attributes[DEAD_LETTER]).is_some());
    }
}
