use chrono::TimeDelta;

use super::*;
use crate::failure::annotation::{Annotation, Cause, annotate_attributes};
use crate::failure::{Classification, FailureClass, Hop, REDRIVE};
use crate::message::folding::FoldedAttributes;
use crate::message::origin::Origin;
use crate::message::reason::DeadLetterReason;
use crate::message::{Attribute, AttributeValue, OutgoingMessage};
use crate::testing::{SOURCE_ARN, at, delivery, received};

const DOCUMENT: &str = r#"{"stage":"message-processor","cause":{"type":"T","message":"m"},"dead_lettered_at":"2026-07-25T17:20:00.000000Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"}"#;

const CAME_BACK: Option<DlqReturn> = Some(DlqReturn { last_attempt: None, generation_before: None });

/// Opens a message with these attributes on the intermediate DLQ.
fn opened(attributes: Attributes) -> (Arrival, Option<FailureDocument>) {
    let arrival = Arrival::from_record(ReceivedMessage { attributes, ..received(None) }, at(9));
    let document = arrival.document().cloned();
    (arrival, document)
}

fn strings(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value))).collect()
}

/// One of our documents with these folded attributes, as JSON.
fn document_with(folded: &str) -> String {
    format!("{},\"folded_attributes\":{folded}}}", DOCUMENT.trim_end_matches('}'))
}

#[test]
fn a_producers_attributes_arrive_as_they_are() {
    let producer = strings(&[("a", "1"), ("ErrorType", "mine"), ("ErrorDetails", "mine too")]);
    assert_eq!(
        producers_attributes(producer.clone()),
        ProducersAttributes { attributes: producer, came_back: None }
    );
}

#[test]
fn failure_is_reserved_and_never_the_producers() {
    let with = strings(&[("a", "1"), ("Failure", r#"{"type":"T","kind":"transient"}"#)]);
    let (arrival, document) = opened(with);
    assert_eq!(arrival.record.attributes, strings(&[("a", "1")]));
    assert_eq!(document.unwrap().into_error().unwrap().error_type, "T");
    let (arrival, document) = opened(strings(&[("a", "1"), ("Failure", "not JSON")]));
    assert_eq!((arrival.record.attributes, arrival.came_back), (strings(&[("a", "1")]), None));
    assert_eq!(document, None);
}

#[test]
fn a_message_with_our_dead_letter_came_back_and_loses_our_attributes() {
    let with = strings(&[("a", "1"), ("DeadLetter", DOCUMENT), ("ErrorType", "X"), ("ErrorDetails", "Y")]);
    assert_eq!(
        producers_attributes(with),
        ProducersAttributes { attributes: strings(&[("a", "1")]), came_back: CAME_BACK }
    );
}

#[test]
fn a_dead_letter_that_is_no_document_of_ours_is_the_producers() {
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
        let producer = strings(&[("DeadLetter", other), ("ErrorType", "X")]);
        assert_eq!(
            producers_attributes(producer.clone()),
            ProducersAttributes { attributes: producer, came_back: None },
            "{other}"
        );
    }
}

#[test]
fn a_dead_letter_of_a_later_version_is_ours() {
    let later = DOCUMENT
        .replace("message-processor", "circuit-breaker")
        .replace(r#""type":"T""#, r#""type":"T","code":7"#)
        .replacen('{', r#"{"since":{"a":[1e400]},"redrive_generation":2,"#, 1);
    let with = strings(&[("a", "1"), ("DeadLetter", &later), ("ErrorType", "TARGET_GONE")]);
    let came_back = Some(DlqReturn { last_attempt: None, generation_before: Some(2) });
    assert_eq!(
        producers_attributes(with),
        ProducersAttributes { attributes: strings(&[("a", "1")]), came_back }
    );
}

#[test]
fn folded_attributes_are_put_back() {
    let folded = document_with(
        r#"{"n":{"data_type":"Number.int","text":"7"},"b":{"data_type":"Binary","base64":"AP8="}}"#,
    );
    let ProducersAttributes { attributes: producer, came_back } =
        producers_attributes(strings(&[("a", "1"), ("DeadLetter", &folded)]));
    assert_eq!(came_back, CAME_BACK);
    let mut expected = strings(&[("a", "1")]);
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
fn a_verdict_that_is_sent_back_as_it_is_has_all_ten_attributes_again() {
    // SQS moved such a message to the final DLQ by redrive, so it was never annotated.
    let producer: Attributes = (0..10).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    let raw =
        Verdict::from_code(DeadLetterReason::NonRetryableError).attach_to(&producer, 2, None).attributes;
    assert_eq!(raw.len(), 10);
    assert_eq!(
        producers_attributes(raw.clone()),
        ProducersAttributes { attributes: producer, came_back: None }
    );
    // A forged document beside an eleventh attribute cannot produce a message that SQS refuses.
    let forged: Attributes = raw.into_iter().chain([("more".to_owned(), Attribute::string("x"))]).collect();
    let whole = producers_attributes(forged).attributes;
    assert_eq!(whole.len(), 10);
    assert!(!whole.contains_key(FAILURE) && !whole.contains_key("a0"));
}

#[test]
fn a_forged_dead_letter_cannot_make_a_message_that_sqs_refuses() {
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
        let forged = strings(&[("a", "1"), ("DeadLetter", &document_with(folded))]);
        let producer = producers_attributes(forged.clone()).attributes;
        assert!(!producer.contains_key(FAILURE), "{folded}");
        assert_eq!(producer, forged, "{folded}: what is not ours stays the producer's");
        let content = Content { body: "{}".to_owned(), attributes: producer, ..Content::default() };
        assert!(OutgoingMessage::new(content).is_ok(), "{folded}");

        let failure = format!(r#"{{"verdict":"NON_RETRYABLE_ERROR","folded_attributes":{folded}}}"#);
        let forged = strings(&[("a", "1"), ("Failure", &failure)]);
        assert_eq!(producers_attributes(forged).attributes, strings(&[("a", "1")]), "{folded}");
    }
}

/// A hand-off never folds attributes, so folded attributes in one are forged by the message's sender.
#[test]
fn a_failure_that_is_neither_a_verdict_nor_a_hop_adds_no_attribute() {
    let folded = r#""folded_attributes":{"tenant":{"data_type":"String","text":"forged"}}"#;
    let of = |more: &str| {
        producers_attributes(strings(&[("a", "1"), ("Failure", &format!("{{{more}{folded}}}"))])).attributes
    };
    for more in ["", r#""kind":"transient","#, r#""new_generation":true,"stage":"message-processor","#] {
        assert_eq!(of(more), strings(&[("a", "1")]), "{more}");
    }
    let of_a_later_version = r#""due_at":"tomorrow","#;
    for more in [r#""due_at":"2026-07-25T17:20:00Z","#, of_a_later_version, r#""verdict":"MESSAGE_EXPIRED","#]
    {
        assert_eq!(of(more), strings(&[("a", "1"), ("tenant", "forged")]), "{more}");
    }
}

/// The forged document folds one attribute too many, until a verdict folds one of the attributes beside it.
#[test]
fn a_forged_dead_letter_stays_a_producers_attribute_on_every_queue() {
    let folded = r#"{"f":{"data_type":"String","text":"x"},"g":{"data_type":"String","text":"x"}}"#;
    let mut producer: Attributes =
        (0..9).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    producer.insert(DEAD_LETTER.to_owned(), Attribute::string(document_with(folded)));
    assert_eq!(
        producers_attributes(producer.clone()),
        ProducersAttributes { attributes: producer.clone(), came_back: None }
    );
    let verdict =
        Verdict::from_code(DeadLetterReason::NonRetryableError).attach_to(&producer, 2, None).attributes;
    assert_eq!(producers_attributes(verdict), ProducersAttributes { attributes: producer, came_back: None });
}

#[test]
fn a_dead_letter_that_restores_another_one_is_a_forgery() {
    let around = |inner: &str| {
        let inner = serde_json::Value::from(inner);
        document_with(&format!(r#"{{"DeadLetter":{{"data_type":"String","text":{inner}}}}}"#))
    };
    let of = |document: &str| strings(&[("a", "1"), ("DeadLetter", document)]);
    let twice = around(DOCUMENT);
    assert_eq!(
        producers_attributes(of(&twice)),
        ProducersAttributes { attributes: of(&twice), came_back: None }
    );
    // The annotator folds a producer's own `DeadLetter` in this way.
    let ProducersAttributes { attributes: producer, came_back } = producers_attributes(of(&around(&twice)));
    assert_eq!((&producer, came_back), (&of(&twice), CAME_BACK));
    assert_eq!(
        producers_attributes(producer.clone()),
        ProducersAttributes { attributes: producer, came_back: None }
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
    let whole = producers_attributes(once.clone()).attributes;
    assert_eq!(whole, producer);
    assert_eq!(annotate_attributes(&whole, 2, &annotation), once);
}

fn hand_off() -> HandOff {
    HandOff::from_handler_error(
        &crate::handler::HandlerError::transient("HttpStatus.503", "HTTP 503"),
        delivery(),
    )
}

/// The trusted part of this document, on a message that SQS moved by redrive or on another one.
fn believed(
    redriven_from: Option<&str>,
    document: Option<FailureDocument>,
    came_back: Option<DlqReturn>,
) -> HandOff {
    arrived(redriven_from, document, came_back).take_hand_off(at(9)).hand_off
}

fn arrived(
    redriven_from: Option<&str>,
    document: Option<FailureDocument>,
    came_back: Option<DlqReturn>,
) -> Arrival {
    Arrival { came_back, document, ..Arrival::from_record(received(redriven_from), at(9)) }
}

#[test]
fn a_hand_offs_failure_counts() {
    assert_eq!(believed(None, Some(FailureDocument::HandOff(hand_off())), None), hand_off());
}

#[test]
fn a_failure_on_a_redriven_message_is_a_forgery() {
    let forged = HandOff {
        answer: Classification::without_delay(FailureClass::Permanent),
        delivery: Delivery { came_back: CAME_BACK, ..hand_off().delivery },
        ..hand_off()
    };
    let HandOff { error, answer, delivery, .. } =
        believed(Some(SOURCE_ARN), Some(FailureDocument::HandOff(forged)), None);
    assert_eq!(error.error_type, REDRIVE);
    assert_eq!(answer, Classification::without_delay(FailureClass::Unanswered));
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
        answer: Classification { kind: FailureClass::Snooze.into(), retry_after_seconds: Some(7) },
        delivery: Delivery { came_back: CAME_BACK, ..hand_off().delivery },
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
        for came_back in [None, CAME_BACK] {
            let arrived = |document| arrived(Some(SOURCE_ARN), document, came_back);
            let (mut forged, mut without) = (arrived(Some(document.clone())), arrived(None));
            assert_eq!(forged.came_back_before_failure(), came_back);
            assert_eq!(forged.take_hand_off(at(9)), without.take_hand_off(at(9)));
            let error = document.clone().into_error();
            assert_eq!(arrived(Some(document.clone())).take_verdict(), Err(error), "shown, but with a mark");
        }
    }
}

#[test]
fn a_verdict_and_its_generation_are_trusted() {
    let again = |generation_before| Some(DlqReturn { last_attempt: None, generation_before });
    let delivery = Delivery { came_back: again(Some(2)), ..hand_off().delivery };
    let failure = Failure::from(HandOff { delivery, ..hand_off() });
    let case = VerdictDetails { stage: None, explanation: String::new(), failure };
    let verdict = Verdict { case: Some(case), ..Verdict::from_code(DeadLetterReason::MessageExpired) };
    let arrived = |came_back| arrived(None, Some(FailureDocument::Verdict(verdict.clone())), came_back);
    for (by_itself, in_all) in [(None, Some(2)), (again(None), Some(2)), (again(Some(5)), Some(5))] {
        assert_eq!(arrived(by_itself).came_back_before_failure(), again(in_all));
    }
    assert_eq!(arrived(None).take_verdict(), Ok(verdict.clone()));
}

#[test]
fn a_redriven_message_that_came_back_begins_a_new_generation() {
    assert_eq!(believed(Some(SOURCE_ARN), None, CAME_BACK).delivery.came_back, CAME_BACK);
    assert_eq!(
        believed(None, Some(FailureDocument::HandOff(hand_off())), CAME_BACK).delivery.came_back,
        CAME_BACK
    );
}

#[test]
fn the_later_of_two_reported_generations_counts() {
    let after = |before: Option<u32>, recorded: Option<u32>| {
        let of = |generation_before| Some(DlqReturn { last_attempt: None, generation_before });
        let delivery = Delivery { came_back: of(before), ..hand_off().delivery };
        let document = FailureDocument::HandOff(HandOff { delivery, ..hand_off() });
        believed(None, Some(document), of(recorded)).delivery.came_back.unwrap().generation_before
    };
    assert_eq!((after(Some(2), Some(5)), after(Some(5), Some(2))), (Some(5), Some(5)));
    assert_eq!((after(Some(2), None), after(None, Some(2)), after(None, None)), (Some(2), Some(2), None));
}

#[test]
fn a_message_without_a_readable_failure_is_retried() {
    let unknown = believed(None, None, None);
    assert_eq!(
        (unknown.error.error_type.as_str(), unknown.answer),
        (REDRIVE, Classification::without_delay(FailureClass::Transient))
    );
    assert_eq!(unknown.error.details, "the message has no readable Failure attribute");
    assert_eq!(unknown.delivery.source_queue_arn, received(None).queue_arn);
}

/// Every copy and every receive must result in the same delay.
#[test]
fn a_message_that_sqs_moved_failed_when_it_was_first_received() {
    let first_received_at = Some(at(9) - TimeDelta::seconds(6));
    let record = ReceivedMessage { first_received_at, ..received(Some(SOURCE_ARN)) };
    let HandedOffFailure { hand_off, .. } = Arrival::from_record(record, at(9)).take_hand_off(at(9));
    assert_eq!(hand_off.delivery.failed_at, at(3));
}

#[test]
fn a_given_up_message_is_sent_unchanged_with_its_verdict_and_an_event() {
    let record = ReceivedMessage {
        attributes: strings(&[("a", "1")]),
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        ..received(None)
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
    let (again, document) = opened(content.attributes);
    assert_eq!(again.record.attributes, strings(&[("a", "1")]));
    let case = VerdictDetails {
        stage: Some(Stage::MessageProcessor.into()),
        explanation: "too late".to_owned(),
        failure: hand_off().into(),
    };
    let verdict = Verdict { code: DeadLetterReason::MessageExpired.into(), case: Some(case) };
    assert_eq!(document, Some(FailureDocument::Verdict(verdict)));
}
