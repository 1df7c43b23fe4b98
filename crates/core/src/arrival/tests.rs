use chrono::TimeDelta;

use super::*;
use crate::failure::annotation::{Annotation, Cause, annotate_attributes};
use crate::failure::{Classification, FailureClass, Hop, REDRIVE};
use crate::message::folding::FoldedAttributes;
use crate::message::origin::Origin;
use crate::message::reason::DeadLetterReason;
use crate::message::{Attribute, AttributeValue, OutgoingMessage};
use crate::testing::{SOURCE_ARN, at, delivery, received_message};

const DOCUMENT: &str = r#"{"stage":"message-processor","cause":{"type":"T","message":"m"},"dead_lettered_at":"2026-07-25T17:20:00.000000Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"}"#;

const DLQ_RETURN: Option<DlqReturn> = Some(DlqReturn { last_attempt: None, generation_before: None });

/// Opens a message with these attributes on the intermediate DLQ.
fn open_record(attributes: Attributes) -> (Arrival, Option<FailureDocument>) {
    let arrival = Arrival::from_record(ReceivedMessage { attributes, ..received_message(None) }, at(9));
    let document = arrival.document().cloned();
    (arrival, document)
}

fn string_attributes(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value))).collect()
}

/// Returns one of our documents with these folded attributes, as JSON.
fn document_with_folded(folded: &str) -> String {
    format!("{},\"folded_attributes\":{folded}}}", DOCUMENT.trim_end_matches('}'))
}

#[test]
fn a_producers_attributes_arrive_unchanged() {
    let producer = string_attributes(&[("a", "1"), ("ErrorType", "mine"), ("ErrorDetails", "mine too")]);
    assert_eq!(
        split_producer_attributes(producer.clone()),
        ProducerAttributes { attributes: producer, came_back: None }
    );
}

#[test]
fn failure_is_reserved_and_never_belongs_to_the_producer() {
    let attributes = string_attributes(&[("a", "1"), ("Failure", r#"{"type":"T","kind":"transient"}"#)]);
    let (arrival, document) = open_record(attributes);
    assert_eq!(arrival.record.attributes, string_attributes(&[("a", "1")]));
    assert_eq!(document.unwrap().into_error().unwrap().error_type, "T");
    let (arrival, document) = open_record(string_attributes(&[("a", "1"), ("Failure", "not JSON")]));
    assert_eq!((arrival.record.attributes, arrival.came_back), (string_attributes(&[("a", "1")]), None));
    assert_eq!(document, None);
}

#[test]
fn a_returned_message_with_our_dead_letter_loses_our_attributes() {
    let attributes =
        string_attributes(&[("a", "1"), ("DeadLetter", DOCUMENT), ("ErrorType", "X"), ("ErrorDetails", "Y")]);
    assert_eq!(
        split_producer_attributes(attributes),
        ProducerAttributes { attributes: string_attributes(&[("a", "1")]), came_back: DLQ_RETURN }
    );
}

#[test]
fn a_dead_letter_that_is_not_our_document_belongs_to_the_producer() {
    let array =
        r#"["message-processor",{"type":"T","message":"m"},null,null,null,null,null,"t",null,"m","f",{}]"#;
    for other in [
        "-",
        "{}",
        "[]",
        array,
        "text",
        &format!(" {DOCUMENT}"),
        &DOCUMENT.replace("{\"stage\"", "{\"place\""),
        &DOCUMENT.replace("\"message-processor\"", "1"),
        &DOCUMENT.replace("\"fingerprint\"", "\"print\""),
    ] {
        let producer = string_attributes(&[("DeadLetter", other), ("ErrorType", "X")]);
        assert_eq!(
            split_producer_attributes(producer.clone()),
            ProducerAttributes { attributes: producer, came_back: None },
            "{other}"
        );
    }
}

#[test]
fn a_later_versions_dead_letter_is_recognized() {
    let later = DOCUMENT
        .replace("message-processor", "circuit-breaker")
        .replace(r#""type":"T""#, r#""type":"T","code":7"#)
        .replacen('{', r#"{"since":{"a":[1e400]},"redrive_generation":2,"#, 1);
    let attributes = string_attributes(&[("a", "1"), ("DeadLetter", &later), ("ErrorType", "TARGET_GONE")]);
    let came_back = Some(DlqReturn { last_attempt: None, generation_before: Some(2) });
    assert_eq!(
        split_producer_attributes(attributes),
        ProducerAttributes { attributes: string_attributes(&[("a", "1")]), came_back }
    );
}

#[test]
fn folded_attributes_are_restored() {
    let folded = document_with_folded(
        r#"{"n":{"data_type":"Number.int","text":"7"},"b":{"data_type":"Binary","base64":"AP8="}}"#,
    );
    let ProducerAttributes { attributes: producer, came_back } =
        split_producer_attributes(string_attributes(&[("a", "1"), ("DeadLetter", &folded)]));
    assert_eq!(came_back, DLQ_RETURN);
    let mut expected = string_attributes(&[("a", "1")]);
    expected.insert(
        "n".to_owned(),
        Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text("7".to_owned()) },
    );
    expected.insert(
        "b".to_owned(),
        Attribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(vec![0, 255]) },
    );
    assert_eq!(producer, expected);
}

#[test]
fn a_verdict_sent_back_unchanged_regains_all_ten_attributes() {
    // SQS moved such a message to the final DLQ by redrive, so it was never annotated.
    let producer: Attributes = (0..10).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    let raw =
        Verdict::from_code(DeadLetterReason::NonRetryableError).attach_to(&producer, 2, None).attributes;
    assert_eq!(raw.len(), 10);
    assert_eq!(
        split_producer_attributes(raw.clone()),
        ProducerAttributes { attributes: producer, came_back: None }
    );
    // Even if a forged document comes with an eleventh attribute, SQS accepts the resulting message.
    let forged: Attributes = raw.into_iter().chain([("more".to_owned(), Attribute::string("x"))]).collect();
    let unfolded = split_producer_attributes(forged).attributes;
    assert_eq!(unfolded.len(), 10);
    assert!(!unfolded.contains_key(FAILURE) && !unfolded.contains_key("a0"));
}

#[test]
fn a_forged_dead_letter_cannot_produce_a_message_that_sqs_refuses() {
    let eleven: Vec<_> =
        (0..11).map(|index| format!(r#""f{index}":{{"data_type":"String","text":"x"}}"#)).collect();
    for folded in [
        r#"{"f":{"data_type":"String","text":"\ufffe"}}"#,
        r#"{"f":{"data_type":"String","text":"\u0000"}}"#,
        r#"{"f":{"data_type":"String","text":""}}"#,
        r#"{"f":{"data_type":"Binary","base64":""}}"#,
        r#"{"f":{"data_type":"Binary","base64":"%"}}"#,
        r#"{"f":{"data_type":"Binary"}}"#,
        r#"{"f":{"data_type":"Binary","base64":"AP8=","text":"x"}}"#,
        r#"{"f":{"data_type":"String","base64":"AP8=","text":"x"}}"#,
        r#"{"f":{"data_type":"Binary","text":"x"}}"#,
        r#"{"f":{"data_type":"String","base64":"AP8="}}"#,
        r#"{"f":{"data_type":"Foo","text":"x"}}"#,
        r#"{"f":{"data_type":"Number","text":"abc"}}"#,
        r#"{"f":{"data_type":"Number","text":"1e5"}}"#,
        r#"{"f":{"data_type":"Number","text":"NaN"}}"#,
        r#"{"a b":{"data_type":"String","text":"x"}}"#,
        r#"{"":{"data_type":"String","text":"x"}}"#,
        r#"{"f.":{"data_type":"String","text":"x"}}"#,
        r#"{"aws.f":{"data_type":"String","text":"x"}}"#,
        r#"{"\u00fc":{"data_type":"String","text":"x"}}"#,
        r#"{"g":{"data_type":"String","text":"x"},"f":{"data_type":"Foo","text":"x"}}"#,
        r#"{"a":{"data_type":"String","text":"another"}}"#,
        r#"{"Failure":{"data_type":"String","text":"{}"}}"#,
        &format!("{{{}}}", eleven.join(",")),
    ] {
        let forged = string_attributes(&[("a", "1"), ("DeadLetter", &document_with_folded(folded))]);
        let producer = split_producer_attributes(forged.clone()).attributes;
        assert!(!producer.contains_key(FAILURE), "{folded}");
        assert_eq!(producer, forged, "{folded}: anything that is not ours remains the producer's");
        let content = Content { body: "{}".to_owned(), attributes: producer, ..Content::default() };
        assert!(OutgoingMessage::new(content).is_ok(), "{folded}");

        let failure = format!(r#"{{"verdict":"NON_RETRYABLE_ERROR","folded_attributes":{folded}}}"#);
        let forged = string_attributes(&[("a", "1"), ("Failure", &failure)]);
        assert_eq!(
            split_producer_attributes(forged).attributes,
            string_attributes(&[("a", "1")]),
            "{folded}"
        );
    }
}

/// A hand-off never folds attributes, so folded attributes in a hand-off were forged by the message's sender.
#[test]
fn a_failure_that_is_neither_a_verdict_nor_a_hop_restores_no_attributes() {
    let folded = r#""folded_attributes":{"tenant":{"data_type":"String","text":"forged"}}"#;
    let with_failure = |more: &str| {
        split_producer_attributes(string_attributes(&[
            ("a", "1"),
            ("Failure", &format!("{{{more}{folded}}}")),
        ]))
        .attributes
    };
    for more in ["", r#""kind":"transient","#, r#""new_generation":true,"stage":"message-processor","#] {
        assert_eq!(with_failure(more), string_attributes(&[("a", "1")]), "{more}");
    }
    let later_version = r#""due_at":"tomorrow","#;
    for more in [r#""due_at":"2026-07-25T17:20:00Z","#, later_version, r#""verdict":"MESSAGE_EXPIRED","#] {
        assert_eq!(with_failure(more), string_attributes(&[("a", "1"), ("tenant", "forged")]), "{more}");
    }
}

/// Restoring the forged document's attributes would exceed the limit of ten, except after a verdict has folded one of
/// the others.
#[test]
fn a_forged_dead_letter_remains_a_producers_attribute_on_every_queue() {
    let folded = r#"{"f":{"data_type":"String","text":"x"},"g":{"data_type":"String","text":"x"}}"#;
    let mut producer: Attributes =
        (0..9).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    producer.insert(DEAD_LETTER.to_owned(), Attribute::string(document_with_folded(folded)));
    assert_eq!(
        split_producer_attributes(producer.clone()),
        ProducerAttributes { attributes: producer.clone(), came_back: None }
    );
    let verdict =
        Verdict::from_code(DeadLetterReason::NonRetryableError).attach_to(&producer, 2, None).attributes;
    assert_eq!(
        split_producer_attributes(verdict),
        ProducerAttributes { attributes: producer, came_back: None }
    );
}

#[test]
fn a_dead_letter_that_restores_another_dead_letter_is_forged() {
    let nest_document = |inner: &str| {
        let inner = serde_json::Value::from(inner);
        document_with_folded(&format!(r#"{{"DeadLetter":{{"data_type":"String","text":{inner}}}}}"#))
    };
    let with_dead_letter = |document: &str| string_attributes(&[("a", "1"), ("DeadLetter", document)]);
    let nested_twice = nest_document(DOCUMENT);
    assert_eq!(
        split_producer_attributes(with_dead_letter(&nested_twice)),
        ProducerAttributes { attributes: with_dead_letter(&nested_twice), came_back: None }
    );
    // The annotator folds a producer's own `DeadLetter` in this way.
    let ProducerAttributes { attributes: producer, came_back } =
        split_producer_attributes(with_dead_letter(&nest_document(&nested_twice)));
    assert_eq!((&producer, came_back), (&with_dead_letter(&nested_twice), DLQ_RETURN));
    assert_eq!(
        split_producer_attributes(producer.clone()),
        ProducerAttributes { attributes: producer, came_back: None }
    );
}

#[test]
fn a_record_dead_lettered_twice_has_one_annotation() {
    let annotation = Annotation {
        reason: DeadLetterReason::NonRetryableError.into(),
        details: "d".to_owned(),
        record: DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause { error_type: "T".to_owned(), message: "m".to_owned(), ..Cause::default() },
            attempts: Some(0),
            redrive_generation: None,
            held_seconds: None,
            redrive_count: None,
            first_sent_time: None,
            dead_lettered_at: "2026-07-25T17:20:00.000000Z".to_owned(),
            died_at: None,
            source_queue_arn: None,
            sqs_message_id: "m".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            folded_attributes: FoldedAttributes::new(),
        },
    };
    let producer: Attributes = (0..10).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    let once = annotate_attributes(&producer, 2, &annotation);
    let unfolded = split_producer_attributes(once.clone()).attributes;
    assert_eq!(unfolded, producer);
    assert_eq!(annotate_attributes(&unfolded, 2, &annotation), once);
}

fn hand_off() -> HandOff {
    HandOff::from_handler_error(
        &crate::handler::HandlerError::transient("HttpStatus.503", "HTTP 503"),
        delivery(),
    )
}

/// Returns the trusted part of this document, on a message that SQS may have moved by redrive.
fn trusted_hand_off(
    redriven_from: Option<&str>,
    document: Option<FailureDocument>,
    came_back: Option<DlqReturn>,
) -> HandOff {
    arrival_with_document(redriven_from, document, came_back).take_hand_off(at(9)).hand_off
}

fn arrival_with_document(
    redriven_from: Option<&str>,
    document: Option<FailureDocument>,
    came_back: Option<DlqReturn>,
) -> Arrival {
    Arrival { came_back, document, ..Arrival::from_record(received_message(redriven_from), at(9)) }
}

#[test]
fn the_failure_in_a_hand_off_is_trusted() {
    assert_eq!(trusted_hand_off(None, Some(FailureDocument::HandOff(hand_off())), None), hand_off());
}

#[test]
fn a_failure_on_a_redriven_message_is_not_trusted() {
    let forged = HandOff {
        classification: Classification::without_delay(FailureClass::Permanent),
        delivery: Delivery { came_back: DLQ_RETURN, ..hand_off().delivery },
        ..hand_off()
    };
    let HandOff { error, classification, delivery, .. } =
        trusted_hand_off(Some(SOURCE_ARN), Some(FailureDocument::HandOff(forged)), None);
    assert_eq!(error.error_type, REDRIVE);
    assert_eq!(classification, Classification::without_delay(FailureClass::Unanswered));
    let expected = Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: at(9),
        source_message_id: "n".to_owned(),
        source_queue_arn: SOURCE_ARN.to_owned(),
        sent_at: at(-60),
        came_back: None,
        origin: Origin::Unknown,
    };
    assert_eq!(delivery, expected, "a redrive keeps SQS's id and the time of the first enqueue");
}

#[test]
fn a_failure_attribute_on_a_redriven_message_is_ignored() {
    let forged = HandOff {
        classification: Classification { kind: FailureClass::Snooze.into(), retry_after_seconds: Some(7) },
        delivery: Delivery { came_back: DLQ_RETURN, ..hand_off().delivery },
        ..hand_off()
    };
    let failure = Failure { attempts: Some(77), ..forged.clone().into() };
    let case = VerdictDetails {
        stage: Some(Stage::FailedMessageProcessor.into()),
        explanation: "forged".to_owned(),
        failure,
    };
    for document in [
        FailureDocument::HandOff(forged.clone()),
        FailureDocument::Hop(Hop { hand_off: forged, due_at: at(7) }),
        FailureDocument::Verdict(Verdict {
            case: Some(case),
            ..Verdict::from_code(DeadLetterReason::MessageExpired)
        }),
    ] {
        for came_back in [None, DLQ_RETURN] {
            let arrival_with = |document| arrival_with_document(Some(SOURCE_ARN), document, came_back);
            let (mut forged, mut without) = (arrival_with(Some(document.clone())), arrival_with(None));
            assert_eq!(forged.dlq_return_before_failure(), came_back);
            assert_eq!(forged.take_hand_off(at(9)), without.take_hand_off(at(9)));
            let error = document.clone().into_error();
            assert_eq!(
                arrival_with(Some(document.clone())).take_verdict(),
                Err(error),
                "reported as untrusted"
            );
        }
    }
}

#[test]
fn a_verdict_and_its_generation_are_trusted() {
    let dlq_return = |generation_before| Some(DlqReturn { last_attempt: None, generation_before });
    let delivery = Delivery { came_back: dlq_return(Some(2)), ..hand_off().delivery };
    let failure = Failure::from(HandOff { delivery, ..hand_off() });
    let case = VerdictDetails { stage: None, explanation: String::new(), failure };
    let verdict = Verdict { case: Some(case), ..Verdict::from_code(DeadLetterReason::MessageExpired) };
    let arrival_with =
        |came_back| arrival_with_document(None, Some(FailureDocument::Verdict(verdict.clone())), came_back);
    for (recorded, expected) in [(None, Some(2)), (dlq_return(None), Some(2)), (dlq_return(Some(5)), Some(5))]
    {
        assert_eq!(arrival_with(recorded).dlq_return_before_failure(), dlq_return(expected));
    }
    assert_eq!(arrival_with(None).take_verdict(), Ok(verdict.clone()));
}

#[test]
fn a_returned_message_starts_a_new_generation() {
    assert_eq!(trusted_hand_off(Some(SOURCE_ARN), None, DLQ_RETURN).delivery.came_back, DLQ_RETURN);
    assert_eq!(
        trusted_hand_off(None, Some(FailureDocument::HandOff(hand_off())), DLQ_RETURN).delivery.came_back,
        DLQ_RETURN
    );
}

#[test]
fn the_later_of_two_reported_generations_applies() {
    let later_generation = |before: Option<u32>, recorded: Option<u32>| {
        let dlq_return = |generation_before| Some(DlqReturn { last_attempt: None, generation_before });
        let delivery = Delivery { came_back: dlq_return(before), ..hand_off().delivery };
        let document = FailureDocument::HandOff(HandOff { delivery, ..hand_off() });
        trusted_hand_off(None, Some(document), dlq_return(recorded))
            .delivery
            .came_back
            .unwrap()
            .generation_before
    };
    assert_eq!((later_generation(Some(2), Some(5)), later_generation(Some(5), Some(2))), (Some(5), Some(5)));
    assert_eq!(
        (later_generation(Some(2), None), later_generation(None, Some(2)), later_generation(None, None)),
        (Some(2), Some(2), None)
    );
}

#[test]
fn a_message_without_a_readable_failure_is_retried() {
    let unknown = trusted_hand_off(None, None, None);
    assert_eq!(
        (unknown.error.error_type.as_str(), unknown.classification),
        (REDRIVE, Classification::without_delay(FailureClass::Transient))
    );
    assert_eq!(unknown.error.details, "the message has no readable Failure attribute");
    assert_eq!(unknown.delivery.source_queue_arn, received_message(None).queue_arn);
}

/// Every copy and every receive must compute the same delay.
#[test]
fn a_message_moved_by_sqs_counts_as_failed_at_its_first_receive() {
    let first_received_at = Some(at(9) - TimeDelta::seconds(6));
    let record = ReceivedMessage { first_received_at, ..received_message(Some(SOURCE_ARN)) };
    let HandedOffFailure { hand_off, .. } = Arrival::from_record(record, at(9)).take_hand_off(at(9));
    assert_eq!(hand_off.delivery.failed_at, at(3));
}

#[test]
fn a_given_up_message_is_sent_unchanged_with_its_verdict_and_an_event() {
    let record = ReceivedMessage {
        attributes: string_attributes(&[("a", "1")]),
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        ..received_message(None)
    };
    let arrival = Arrival::from_record(record, at(9));
    let give_up = GiveUp { reason: DeadLetterReason::MessageExpired, explanation: "too late".to_owned() };
    let outgoing =
        arrival.give_up(Some("id".to_owned()), Stage::MessageProcessor, hand_off().into(), give_up);
    assert_eq!(outgoing.receipt.sqs_message_id(), "n");
    let given_up = Event::GivenUp {
        message_id: Some("id".to_owned()),
        sqs_message_id: "n".to_owned(),
        error_type: "MESSAGE_EXPIRED",
        request_id: None,
    };
    assert_eq!(outgoing.confirmed, Some(given_up));
    let content = outgoing.message.unwrap().into_content();
    assert_eq!((content.body.as_str(), content.delay), ("{}", DelaySeconds::ZERO));
    assert_eq!(content.message_group_id.as_deref(), Some("tenant"));
    assert_eq!(content.trace_header.as_deref(), Some("Root=1"));
    let (reopened, document) = open_record(content.attributes);
    assert_eq!(reopened.record.attributes, string_attributes(&[("a", "1")]));
    let case = VerdictDetails {
        stage: Some(Stage::MessageProcessor.into()),
        explanation: "too late".to_owned(),
        failure: hand_off().into(),
    };
    let verdict = Verdict { code: DeadLetterReason::MessageExpired.into(), case: Some(case) };
    assert_eq!(document, Some(FailureDocument::Verdict(verdict)));
}
