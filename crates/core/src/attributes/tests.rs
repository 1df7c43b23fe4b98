use super::*;
use crate::annotation::{Annotation, Cause, annotate};
use crate::failure::Stage;
use crate::limits::ATTRIBUTES_MAX;
use crate::message::{Content, OutgoingMessage};
use crate::reason::DeadLetterReason;

const DOCUMENT: &str = r#"{"stage":"message-processor","cause":{"type":"T","message":"m"},"dead_lettered_at":"2026-07-25T17:20:00.000000Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"}"#;

fn strings(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value))).collect()
}

/// A document of ours with these folded attributes, as JSON.
fn document_with(folded: &str) -> String {
    format!("{},\"folded_attributes\":{folded}}}", DOCUMENT.trim_end_matches('}'))
}

#[test]
fn a_producers_attributes_arrive_as_they_are() {
    let producer = strings(&[("a", "1"), ("ErrorType", "mine"), ("ErrorDetails", "mine too")]);
    assert_eq!(arrived(producer.clone()), Arrived { producer, came_back: false, ..Arrived::default() });
}

#[test]
fn failure_is_reserved_and_never_the_producers() {
    let with = strings(&[("a", "1"), ("Failure", r#"{"type":"T","kind":"transient"}"#)]);
    let arrived_with = arrived(with);
    assert_eq!(arrived_with.producer, strings(&[("a", "1")]));
    assert_eq!(arrived_with.failure.unwrap().error_type, "T");
    let unreadable = arrived(strings(&[("a", "1"), ("Failure", "not JSON")]));
    assert_eq!(
        unreadable,
        Arrived { producer: strings(&[("a", "1")]), came_back: false, ..Arrived::default() }
    );
}

#[test]
fn a_message_with_our_dead_letter_came_back_and_loses_our_attributes() {
    let with = strings(&[("a", "1"), ("DeadLetter", DOCUMENT), ("ErrorType", "X"), ("ErrorDetails", "Y")]);
    assert_eq!(
        arrived(with),
        Arrived { producer: strings(&[("a", "1")]), came_back: true, ..Arrived::default() }
    );
}

#[test]
fn a_dead_letter_that_is_no_document_of_ours_is_the_producers() {
    let array = r#"["message-processor",{"type":"T","message":"m"},null,null,null,"t",null,"m","f",{}]"#;
    for other in [
        "-",
        "{}",
        "[]",
        array,
        "text",
        &DOCUMENT.replace("message-processor", "other"),
        &DOCUMENT.replace("{\"stage\"", "{\"x\":1,\"stage\""),
    ] {
        let producer = strings(&[("DeadLetter", other), ("ErrorType", "X")]);
        assert_eq!(
            arrived(producer.clone()),
            Arrived { producer, came_back: false, ..Arrived::default() },
            "{other}"
        );
    }
}

#[test]
fn folded_attributes_are_put_back() {
    let folded = document_with(
        r#"{"n":{"data_type":"Number.int","text":"7"},"b":{"data_type":"Binary","base64":"AP8="}}"#,
    );
    let back = arrived(strings(&[("a", "1"), ("DeadLetter", &folded)]));
    assert!(back.came_back);
    let mut expected = strings(&[("a", "1")]);
    expected.insert(
        "n".to_owned(),
        Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text("7".to_owned()) },
    );
    expected.insert(
        "b".to_owned(),
        Attribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(vec![0, 255]) },
    );
    assert_eq!(back.producer, expected);
}

#[test]
fn a_verdict_that_is_sent_back_as_it_is_has_all_ten_attributes_again() {
    // What SQS's redrive moves to the final DLQ where the annotator does not run.
    let producer: Attributes = (0..10).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    let verdict = Failure { verdict: Some(DeadLetterReason::NonRetryableError), ..Failure::default() };
    let raw = verdict.beside_folding(&producer, 2);
    assert_eq!(raw.len(), 10);
    let back = arrived(raw.clone());
    assert_eq!(back.producer, producer);
    assert!(!back.came_back);
    // Forged beside an eleventh, it cannot make a message that SQS refuses.
    let forged: Attributes = raw.into_iter().chain([("more".to_owned(), Attribute::string("x"))]).collect();
    let arrived = arrived(forged).producer;
    assert_eq!(arrived.len(), 10);
    assert!(!arrived.contains_key(FAILURE) && !arrived.contains_key("a0"));
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
        let Arrived { producer, .. } = arrived(forged.clone());
        assert!(!producer.contains_key(FAILURE), "{folded}");
        assert_eq!(producer, forged, "{folded}: what is not ours stays the producer's");
        let content = Content { body: "{}".to_owned(), attributes: producer, ..Content::default() };
        assert!(OutgoingMessage::new(content).is_ok(), "{folded}");

        let failure = format!(r#"{{"verdict":"NON_RETRYABLE_ERROR","folded_attributes":{folded}}}"#);
        let forged = strings(&[("a", "1"), ("Failure", &failure)]);
        assert_eq!(arrived(forged).producer, strings(&[("a", "1")]), "{folded}");
    }
}

/// A hand-off folds nothing: what it says that it folds is made up, by whoever sent the message to the source queue.
#[test]
fn a_failure_that_is_neither_a_verdict_nor_a_hop_adds_no_attribute() {
    let folded = r#""folded_attributes":{"tenant":{"data_type":"String","text":"forged"}}"#;
    let of = |more: &str| arrived(strings(&[("a", "1"), ("Failure", &format!("{{{more}{folded}}}"))]));
    for more in ["", r#""kind":"transient","#, r#""new_generation":true,"stage":"message-processor","#] {
        assert_eq!(of(more).producer, strings(&[("a", "1")]), "{more}");
    }
    for more in [r#""due_at":"2026-07-25T17:20:00Z","#, r#""verdict":"MESSAGE_EXPIRED","#] {
        assert_eq!(of(more).producer, strings(&[("a", "1"), ("tenant", "forged")]), "{more}");
    }
}

/// It folds one attribute too many, until a verdict has folded one of those beside it.
#[test]
fn a_forged_dead_letter_is_judged_beside_the_same_attributes_on_every_queue() {
    let folded = r#"{"f":{"data_type":"String","text":"x"},"g":{"data_type":"String","text":"x"}}"#;
    let mut producer: Attributes =
        (0..9).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    producer.insert(DEAD_LETTER.to_owned(), Attribute::string(document_with(folded)));
    assert_eq!(
        arrived(producer.clone()),
        Arrived { producer: producer.clone(), came_back: false, ..Arrived::default() }
    );
    let verdict = Failure { verdict: Some(DeadLetterReason::NonRetryableError), ..Failure::default() };
    let Arrived { producer: whole, came_back, .. } = arrived(verdict.beside_folding(&producer, 2));
    assert_eq!((whole, came_back), (producer, false));
}

#[test]
fn a_dead_letter_that_restores_another_one_is_a_forgery() {
    let around = |inner: &str| {
        let inner = serde_json::Value::from(inner);
        document_with(&format!(r#"{{"DeadLetter":{{"data_type":"String","text":{inner}}}}}"#))
    };
    let of = |document: &str| strings(&[("a", "1"), ("DeadLetter", document)]);
    let twice = around(DOCUMENT);
    assert_eq!(arrived(of(&twice)), Arrived { producer: of(&twice), came_back: false, ..Arrived::default() });
    // As the annotator folds a producer's own.
    let back = arrived(of(&around(&twice)));
    assert_eq!(back, Arrived { producer: of(&twice), came_back: true, ..Arrived::default() });
    assert_eq!(arrived(back.producer.clone()), Arrived { came_back: false, ..back });
}

#[test]
fn a_record_dead_lettered_twice_has_one_annotation() {
    let annotation = Annotation {
        reason: DeadLetterReason::NonRetryableError,
        details: "d".to_owned(),
        record: DeadLetter {
            stage: Stage::FailedMessageProcessor,
            cause: Cause { error_type: "T".to_owned(), message: "m".to_owned(), unverified: false },
            attempts: Some(0),
            redrive_generation: None,
            first_sent_time: None,
            dead_lettered_at: "2026-07-25T17:20:00.000000Z".to_owned(),
            source_queue_arn: None,
            sqs_message_id: "m".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            folded_attributes: FoldedAttributes::new(),
        },
    };
    let producer: Attributes = (0..10).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
    let once = annotate(&producer, 2, &annotation);
    let back = arrived(once.clone());
    assert_eq!(back.producer, producer);
    assert_eq!(annotate(&back.producer, 2, &annotation), once);
}

#[test]
fn attributes_are_folded_smallest_first_until_the_rest_has_a_place() {
    let attributes = strings(&[("big", "xxxxxxxx"), ("mid", "xxxx"), ("b", "x"), ("a", "x")]);
    let folded =
        |taken: &[&str], places| fold(&attributes, taken, places).unwrap().1.into_keys().collect::<Vec<_>>();
    assert_eq!(folded(&[], 4), [""; 0]);
    assert_eq!(folded(&[], 3), ["a"]);
    assert_eq!(folded(&[], 1), ["a", "b", "mid"]);
    assert_eq!(folded(&["big"], 4), ["big"], "a taken name is folded though there is place");
    assert_eq!(folded(&["big"], 2), ["a", "big"]);
    assert_eq!(fold(&attributes, &[], ATTRIBUTES_MAX).unwrap().0, attributes);
}

#[test]
fn what_could_not_be_put_back_is_not_folded() {
    let mut attributes = strings(&[("ErrorType", "mine"), ("b", "xx")]);
    let open = Attribute { data_type: "Number".to_owned(), value: AttributeValue::Text("1e5".to_owned()) };
    attributes.insert("a".to_owned(), open.clone());
    let folded = |attributes: &Attributes, places| {
        fold(attributes, &["ErrorType"], places).map(|(_, folded)| folded.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(folded(&attributes, 1), Some(vec!["ErrorType".to_owned(), "b".to_owned()]));
    assert_eq!(folded(&attributes, 0), None);
    attributes.insert("ErrorType".to_owned(), open);
    assert_eq!(folded(&attributes, 9), None, "a taken name that cannot be folded");
}
