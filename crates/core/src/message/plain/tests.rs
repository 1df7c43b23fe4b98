mod document;
mod id;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::accepted::FailedMessage;
use crate::arrival::Arrival;
use crate::decide::{Decision, decide};
use crate::failure::{Delivery, HandOff, Hop, Stage, Verdict};
use crate::handler::HandlerError;
use crate::json::members::NESTING_MAX;
use crate::message::ReceivedMessage;
use crate::message::reason::DeadLetterReason;
use crate::message::reserved::{DEAD_LETTER, FAILURE};
use crate::message::schema::{MessageSchema, ParsedMessage, RewrittenPart};
use crate::policy::Policy;
use crate::testing::{any_text, at, delivery, received_message, sent_message};

/// The SQS id of the first delivery.
const FIRST_SQS_ID: &str = "0a0b0c0d-1111-4222-8333-444455556666";

fn schema() -> MessageSchema {
    MessageSchema::default().with_plain(PlainMessages::default())
}

fn parse_plain(body: &str, attributes: &Attributes) -> PlainMessage {
    match schema().read_message(body, attributes, FIRST_SQS_ID) {
        Ok(ParsedMessage::Plain(plain)) => plain,
        other => panic!("{other:?}"),
    }
}

fn attributes_with_redeliver(text: &str) -> Attributes {
    Attributes::from([(REDELIVER.to_owned(), Attribute::string(text))])
}

fn redeliver_text(attributes: &Attributes) -> &str {
    attributes[REDELIVER].text().unwrap()
}

/// Returns this many attributes of one byte each.
fn small_attributes(count: usize) -> Attributes {
    (0..count).map(|n| (format!("a{n}"), Attribute::string("x"))).collect()
}

/// Decides after a transient error.
fn decide_after_error(body: &str, attributes: &Attributes) -> Decision {
    let delivery = Delivery { source_message_id: FIRST_SQS_ID.to_owned(), ..delivery() };
    let hand_off = HandOff::from_handler_error(&HandlerError::transient("Db.Busy", "later"), delivery);
    let record =
        ReceivedMessage { body: body.to_owned(), attributes: attributes.clone(), ..received_message(None) };
    let accepted = Arrival::from_record(record, at(5)).accept(&schema(), Some(&hand_off.delivery)).unwrap();
    let stage = Stage::FailedMessageProcessor;
    let failed = FailedMessage { span: None, accepted, hand_off, due_at: None, stage, error_type: None };
    decide(&Policy::default(), &failed, at(5))
}

/// Returns the attributes of the re-send.
fn resent_attributes(body: &str, attributes: &Attributes) -> Attributes {
    match decide_after_error(body, attributes) {
        Decision::Resend(resend) => match resend.rewritten {
            RewrittenPart::Attributes(attributes) => attributes,
            RewrittenPart::Body(body) => panic!("a plain body was rewritten: {body}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn body_without_an_envelope_is_plain() {
    let deep = "[".repeat(NESTING_MAX + 1) + &"]".repeat(NESTING_MAX + 1);
    let deep_in_object = format!(r#"{{"metadata":{{"message_id":"x"}},"n":{deep}}}"#);
    for body in [
        "x",
        "",
        "{}",
        "[]",
        "null",
        "4711",
        r#""text""#,
        "{",
        r#"{"a":1,"a":2}"#,
        r#"{"metadata":{"message_id":"x"}}"#,
        r#"{"data":{}}"#,
        r#"{"metadata":{"message_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"},"data":{}}"#,
        r#"{"metadata":{"message_id":17},"data":{}}"#,
        "{\"metadata\":{\"message_id\":\"x\"},\"data\":{},\"a\tb\":1}",
        r#"{"metadata":{"id":"x"},"data":{}}"#,
        r#"{"metadata":"message_id","data":{}}"#,
        r#"{"metadata":["message_id"],"data":{}}"#,
        r#"[{"metadata":{"message_id":"x"},"data":{}}]"#,
        r#"{"metadata":{"message_id":"x"},"data":{}} {}"#,
        &deep,
        &deep_in_object,
    ] {
        assert_eq!(parse_plain(body, &Attributes::new()).metadata().message_id_text, FIRST_SQS_ID, "{body}");
        assert!(
            MessageSchema::default().read_message(body, &Attributes::new(), FIRST_SQS_ID).is_err(),
            "with ENVELOPE=required: {body}"
        );
    }
}

#[test]
fn invalid_envelope_is_refused_and_not_read_as_plain() {
    let deep = "[".repeat(NESTING_MAX + 1) + &"]".repeat(NESTING_MAX + 1);
    let deep = format!(r#"{{"metadata":{{"message_id":"{FIRST_SQS_ID}"}},"data":{{"n":{deep}}}}}"#);
    for (body, wrong) in [
        (r#"{"metadata":{"message_id":ID},"data":1}"#, "/data is not"),
        (r#"{"metadata":{"message_id":ID,"expires_at":1},"data":{}}"#, "/metadata/expires_at"),
        (r#" { "m\u0065tadata" : { "message_\u0069d" : ID } , "data" : 1 } "#, "/data is not"),
        (r#"{"metadata":{"message_id":ID},"data":1,"data":2}"#, "duplicate member /data"),
        (
            r#"{"metadata":{"message_id":"y","message_id":ID},"data":1}"#,
            "duplicate member /metadata/message_id",
        ),
        (r#"{"metadata":{},"metadata":{"message_id":ID},"data":{}}"#, "duplicate member /metadata"),
        (&deep, "nested deeper"),
    ] {
        let body = &body.replace("ID", &format!("\"{FIRST_SQS_ID}\""));
        let invalid = schema().read_message(body, &Attributes::new(), FIRST_SQS_ID).unwrap_err();
        assert!(invalid.to_string().contains(wrong), "{body}: {invalid}");
        assert_eq!(
            MessageSchema::default().read_message(body, &Attributes::new(), FIRST_SQS_ID).unwrap_err(),
            invalid
        );
    }
    let envelope = format!(r#"{{"metadata":{{"message_id":"{FIRST_SQS_ID}"}},"data":{{}}}}"#);
    let producer_redeliver = attributes_with_redeliver("the producer's own");
    assert!(matches!(
        schema().read_message(&envelope, &producer_redeliver, "m").unwrap(),
        ParsedMessage::Envelope(_)
    ));
    assert!(matches!(
        MessageSchema::default().read_either_form(&envelope, &producer_redeliver, "m").unwrap(),
        ParsedMessage::Envelope(_)
    ));
}

#[test]
fn message_with_redeliver_attribute_is_plain_even_where_envelopes_are_required() {
    let with_id = parse_plain("x", &Attributes::new()).with_id().unwrap();
    let required = MessageSchema::default();
    let read_id = |attributes: &Attributes| {
        required
            .read_either_form("x", attributes, "another")
            .map(|read_id| read_id.metadata().message_id_text.clone())
    };
    assert_eq!(read_id(&with_id).unwrap(), FIRST_SQS_ID);
    assert!(read_id(&Attributes::new()).is_err());
    assert!(read_id(&attributes_with_redeliver("not ours")).is_err());
    assert!(schema().read_either_form("x", &attributes_with_redeliver("not ours"), "m").is_err());
    assert!(schema().read_either_form("x", &Attributes::new(), "m").is_ok());
}

#[test]
fn resend_of_a_plain_message_updates_its_redeliver_attribute() {
    let body = r#"{"order":17}"#;
    let mut attributes = Attributes::from([("a".to_owned(), Attribute::string("x"))]);
    for attempt in 1..=3 {
        attributes = resent_attributes(body, &attributes);
        let plain = parse_plain(body, &attributes);
        assert_eq!(
            (plain.metadata().retry_attempt, plain.metadata().message_id_text.as_str()),
            (attempt, FIRST_SQS_ID)
        );
        assert_eq!(plain.metadata().retry_history.len(), attempt as usize);
        assert_eq!(plain.attributes, Attributes::from([("a".to_owned(), Attribute::string("x"))]));
    }
    let given_up =
        (0..10).try_fold(attributes, |attributes, _| match decide_after_error(body, &attributes) {
            Decision::Resend(_) => Ok(resent_attributes(body, &attributes)),
            Decision::GiveUp(given_up) => Err(given_up.reason),
            Decision::Hop(due) => panic!("{due}"),
        });
    assert_eq!(given_up, Err(DeadLetterReason::RetryAttemptExceeded));
}

#[test]
fn the_next_generation_starts_over_with_the_same_id() {
    let attributes = resent_attributes("x", &resent_attributes("x", &small_attributes(9)));
    let message = schema().read_message("x", &attributes, "another").unwrap();
    let Some(RewrittenPart::Attributes(next)) =
        message.with_next_generation(DlqReturn { generation_before: Some(4), last_attempt: None })
    else {
        panic!()
    };
    let text = redeliver_text(&next);
    assert!(
        text.starts_with(&format!(
            r#"{{"message_id":"{FIRST_SQS_ID}","redrive_generation":5,"folded_attributes":{{"#
        )),
        "{text}"
    );
    assert_eq!(parse_plain("x", &next).attributes, small_attributes(9));
}

/// With the producer's ten attributes, `Redeliver` and `Failure`, the total would be twelve.
#[test]
fn ten_attributes_are_folded_to_make_room_for_redelivers_two() {
    let body = "x";
    let attributes = resent_attributes(body, &small_attributes(10));
    assert_eq!(attributes.len(), ATTRIBUTES_MAX - 1);
    assert!(redeliver_text(&attributes).ends_with(
        r#""folded_attributes":{"a0":{"data_type":"String","text":"x"},"a1":{"data_type":"String","text":"x"}}}"#
    ));
    let hand_off = HandOff::from_handler_error(&HandlerError::transient("Db.Busy", "later"), delivery());
    let handed_off = hand_off.attach_to(&attributes, body.len(), None).attributes;
    assert_eq!(handed_off.len(), ATTRIBUTES_MAX);
    for wire in [
        handed_off,
        Hop { hand_off, due_at: at(60) }.attach_to(&attributes, body.len(), None).attributes,
        Verdict::from_code(DeadLetterReason::MessageExpired)
            .attach_to(&attributes, body.len(), None)
            .attributes,
    ] {
        let mut wire = wire;
        wire.remove(FAILURE).unwrap();
        assert_eq!(parse_plain(body, &wire).attributes, small_attributes(10));
    }
}

/// If folding left fewer attributes beside the producer's `DeadLetter`, the attributes folded into it would fit, and
/// redeliver would mistake it for its own.
#[test]
fn folding_never_turns_a_producers_dead_letter_into_ours() {
    let dead_letter_with_folded = |count: usize| {
        let folded = |n| format!(r#""f{n}":{{"data_type":"String","text":"x"}}"#);
        let folded = (0..count).map(folded).collect::<Vec<_>>().join(",");
        format!(
            r#"{{"stage":"message-processor","cause":{{"type":"a","message":"b"}},"sqs_message_id":"c","fingerprint":"d","dead_lettered_at":"2026-07-25T17:20:00Z","folded_attributes":{{{folded}}}}}"#
        )
    };
    let open_attributes = |attributes: Attributes| {
        let record = ReceivedMessage { attributes, ..received_message(None) };
        Arrival::from_record(record, at(5)).record.attributes
    };
    let attributes_with_folded = |count| {
        small_attributes(9)
            .into_iter()
            .chain([(DEAD_LETTER.to_owned(), Attribute::string(dead_letter_with_folded(count)))])
    };
    let ours = Attributes::from_iter(attributes_with_folded(1));
    assert_eq!(open_attributes(ours).len(), 10, "a message sent back from a console is complete again");
    let theirs = Attributes::from_iter(attributes_with_folded(2));
    assert_eq!(open_attributes(theirs.clone()), theirs);
    let mut sent = theirs.clone();
    for _ in 0..3 {
        sent = resent_attributes("plain", &open_attributes(sent));
        assert!(sent.len() < ATTRIBUTES_MAX);
        assert_eq!(parse_plain("plain", &open_attributes(sent.clone())).attributes, theirs);
    }
}

#[test]
fn the_id_is_written_on_the_first_hand_off_if_it_fits() {
    let with_id = |count: usize| parse_plain("x", &small_attributes(count)).with_id();
    assert_eq!(redeliver_text(&with_id(8).unwrap()), format!(r#"{{"message_id":"{FIRST_SQS_ID}"}}"#));
    assert_eq!(with_id(8).unwrap().len(), 9);
    assert_eq!(with_id(9), None);
    let has_id_already = parse_plain("x", &with_id(0).unwrap());
    assert_eq!((has_id_already.with_id(), has_id_already.with_id_if_sendable()), (None, None));
    let folded = parse_plain("x", &small_attributes(10)).with_id_if_sendable().unwrap();
    assert_eq!(parse_plain("x", &folded).attributes, small_attributes(10));
    let written = attributes_size(&with_id(0).unwrap());
    let room = MESSAGE_BYTES_MAX - written - FAILURE_ROOM_BYTES;
    let plain = |bytes: usize| parse_plain(&"x".repeat(bytes), &Attributes::new());
    assert!(plain(room).with_id().is_some() && plain(room + 1).with_id().is_none());
    let most = MESSAGE_BYTES_MAX - written;
    assert!(plain(most).with_id_if_sendable().is_some() && plain(most + 1).with_id_if_sendable().is_none());
}

#[test]
fn a_message_without_room_for_its_metadata_is_given_up_on() {
    let reason = |decision: Decision| match decision {
        Decision::GiveUp(given_up) => (given_up.reason, given_up.explanation),
        other => panic!("{other:?}"),
    };
    let (code, why) = reason(decide_after_error(&"x".repeat(MESSAGE_BYTES_MAX - 10), &Attributes::new()));
    assert_eq!(code, DeadLetterReason::MessageTooLarge);
    assert!(why.starts_with("With its retry metadata, the message is 10"), "{why}");
    // SQS might refuse this attribute the next time it is sent.
    let refusable = Attribute {
        data_type: "Number".to_owned(),
        value: crate::message::AttributeValue::Text("1e5".to_owned()),
    };
    let refusable = (0..10).map(|n| (format!("a{n}"), refusable.clone())).collect();
    let (code, why) = reason(decide_after_error("x", &refusable));
    assert_eq!(code, DeadLetterReason::MessageTooLarge);
    assert_eq!(why, "Its attributes leave no room for its retry metadata");
}

#[test]
fn a_schema_for_bodies_applies_only_to_plain_messages() {
    let body = DataSchema::new(r#"{"type":"object","required":["order"]}"#).unwrap();
    let schema =
        MessageSchema::default().with_plain(PlainMessages { body: Some(body), ..Default::default() });
    let validate = |body: &str| {
        schema
            .read_message(body, &Attributes::new(), FIRST_SQS_ID)
            .map(|_| ())
            .map_err(|invalid| (invalid.reason(), invalid.to_string()))
    };
    assert_eq!(validate(r#" {"order":1e400} "#), Ok(()));
    let envelope = format!(r#"{{"metadata":{{"message_id":"{FIRST_SQS_ID}"}},"data":{{}}}}"#);
    assert_eq!(validate(&envelope), Ok(()));
    for (body, reason, message) in [
        ("x", DeadLetterReason::InvalidMessageFormat, "not JSON: expected value at line 1 column 1"),
        (
            r#"{"order":1} x"#,
            DeadLetterReason::InvalidMessageFormat,
            "not JSON: trailing characters at line 1 column 13",
        ),
        ("{}", DeadLetterReason::InvalidMessageSchema, "/order is missing"),
        (
            r#""\ud800""#,
            DeadLetterReason::InvalidMessageSchema,
            "(whole document) has a lone surrogate in a string, so no schema can check it",
        ),
    ] {
        assert_eq!(validate(body), Err((reason, message.to_owned())), "{body}");
    }
    let deep = "[".repeat(NESTING_MAX + 1) + &"]".repeat(NESTING_MAX + 1);
    assert_eq!(validate(&deep).unwrap_err().0, DeadLetterReason::InvalidMessageFormat);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Either everything that SQS accepted from a producer survives re-sends, hops and generations unchanged, or
    /// redeliver gives up on the message.
    #[test]
    fn attributes_survive_every_round_trip((attributes, body_bytes) in sent_message(), rounds in 1..4_usize) {
        let body = "x".repeat(body_bytes);
        let mut wire = attributes.clone();
        for round in 1..=rounds {
            match decide_after_error(&body, &wire) {
                Decision::Resend(resend) => {
                    let RewrittenPart::Attributes(next) = resend.rewritten else { panic!("a plain body was rewritten") };
                    prop_assert!(next.len() < ATTRIBUTES_MAX, "a slot for `Failure` is left");
                    prop_assert!(body.len() + attributes_size(&next) <= MESSAGE_BYTES_MAX);
                    let plain = parse_plain(&body, &next);
                    prop_assert_eq!(plain.metadata().retry_attempt as usize, round);
                    prop_assert_eq!(&plain.metadata().message_id_text, FIRST_SQS_ID);
                    prop_assert_eq!(&plain.attributes, &attributes);
                    let hand_off = HandOff::from_handler_error(&HandlerError::transient("Db.Busy", "later"), delivery());
                    let hop = Hop { hand_off, due_at: at(60) };
                    // As on arrival, attributes folded into `Failure` are restored first.
                    let mut received = crate::testing::received_message(None);
                    received.attributes = hop.attach_to(&next, body.len(), None).attributes;
                    let opened = crate::arrival::Arrival::from_record(received, at(60));
                    prop_assert_eq!(&opened.record.attributes, &next);
                    wire = next;
                }
                Decision::GiveUp(given_up) => {
                    prop_assert_eq!(given_up.reason, DeadLetterReason::MessageTooLarge);
                    break;
                }
                Decision::Hop(due) => panic!("{}", due),
            }
        }
    }

    /// Any text in `Redeliver` is either parsed or refused, and never changes the producer's attributes.
    #[test]
    fn any_redeliver_text_is_parsed_or_refused(text in any_text(), body in any_text()) {
        let attributes = attributes_with_redeliver(&text);
        if let Ok(ParsedMessage::Plain(plain)) = schema().read_message(&body, &attributes, FIRST_SQS_ID) {
            prop_assert!(plain.attributes.is_empty());
        }
    }
}
