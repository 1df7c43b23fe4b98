//! Messages without an envelope (`ENVELOPE=optional`).

use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::plain::{IdSources, PlainMessages, REDELIVER};

use super::*;

fn optional() -> Setup {
    let pointer = Some(Pointer::new("/id").unwrap());
    let plain = PlainMessages { id: IdSources { attribute: None, pointer }, body: None };
    Setup {
        schema: MessageSchema::default().with_plain(plain),
        ..Setup::with_policy(r#"{"max_attempts":1}"#)
    }
}

/// Returns a hand-off by the message-processor, with these attributes in addition to `Failure`.
fn handed_off(body: &str, attributes: Attributes) -> ReceivedMessage {
    let failure = with(busy(1), json!({ "source_message_id": nth_id(7) }));
    let failure = (FAILURE.to_owned(), Attribute::string(failure.to_string()));
    ReceivedMessage { attributes: attributes.into_iter().chain([failure]).collect(), ..nth_record(1, body) }
}

fn small(count: usize) -> Attributes {
    (0..count).map(|n| (format!("a{n}"), Attribute::string("x"))).collect()
}

#[test]
fn a_plain_message_is_resent_with_its_state_in_an_attribute() {
    let setup = optional();
    let named = format!(r#"{{"message_id":"{}","idempotency_key":"o-17"}}"#, nth_id(3));
    let attributes = [(REDELIVER.to_owned(), Attribute::string(named))].into();
    assert_eq!(setup.process(vec![handed_off("\u{e9}", attributes)]), [""; 0]);
    let sent = setup.source.only_sent();
    assert_eq!(sent.body, "\u{e9}");
    let written = attribute_document(&sent.attributes, REDELIVER);
    assert_eq!((&written["message_id"], &written["idempotency_key"]), (&json!(nth_id(3)), &json!("o-17")));
    assert_eq!(
        (&written["retry_attempt"], &written["first_sent_time"]),
        (&json!(1), &json!(format_moment(-10)))
    );
    assert_eq!(written["retry_history"][0]["error_type"], json!("Db.Busy"));
    assert_eq!(sent.attributes.len(), 1, "`Failure` is not re-sent");
}

/// With nine attributes, there was no room for the id, and SQS's own id is that of the failed delivery.
#[test]
fn an_id_omitted_for_lack_of_room_is_recovered() {
    let setup = optional();
    let records = vec![handed_off(r#"{"id":"o-17"}"#, small(9)), handed_off("x", small(9))];
    assert_eq!(setup.process(records), [""; 0]);
    let [by_pointer, by_sqs] = setup.source.sent_contents().try_into().unwrap();
    assert_eq!(attribute_document(&by_pointer.attributes, REDELIVER)["idempotency_key"], json!("o-17"));
    assert_eq!(attribute_document(&by_sqs.attributes, REDELIVER)["message_id"], json!(nth_id(7)));
    assert_eq!(by_sqs.attributes.len(), 9, "one of nine is folded to make room for `Failure`");
}

#[test]
fn a_moved_plain_message_keeps_the_id_of_its_first_delivery() {
    let setup = optional();
    let moved = ReceivedMessage {
        redriven_from: Some(SOURCE_ARN.to_owned()),
        sqs_message_id: nth_id(9),
        attributes: small(10),
        ..nth_record(1, "x")
    };
    assert_eq!(setup.process(vec![moved]), [""; 0]);
    let sent = setup.source.only_sent();
    assert_eq!(attribute_document(&sent.attributes, REDELIVER)["message_id"], json!(nth_id(9)));
    assert_eq!(sent.attributes.len(), 9);
}

#[test]
fn a_plain_message_hops_unchanged() {
    let policy = r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":2000,"jitter":"none"}}"#;
    let setup = Setup { policy: Policy::from_json(policy).unwrap(), ..optional() };
    let named = format!(r#"{{"message_id":"{}"}}"#, nth_id(3));
    let attributes = [(REDELIVER.to_owned(), Attribute::string(named.clone()))].into();
    assert_eq!(setup.process(vec![handed_off("x", attributes)]), [""; 0]);
    let hopping = setup.intermediate.only_sent();
    assert_eq!((hopping.body.as_str(), hopping.attributes[REDELIVER].text()), ("x", Some(named.as_str())));
    assert!(attribute_document(&hopping.attributes, FAILURE)["due_at"].is_string());
}

#[test]
fn a_plain_message_is_always_given_up_with_its_id() {
    for attributes in [Attributes::new(), small(9)] {
        let setup = Setup { policy: Policy::from_json(r#"{"max_attempts":0}"#).unwrap(), ..optional() };
        assert_eq!(setup.process(vec![handed_off("x", attributes.clone())]), [""; 0]);
        assert_eq!(setup.verdict()["verdict"], json!("RETRY_ATTEMPT_EXCEEDED"));
        let verdict = setup.annotation.only_sent();
        assert_eq!(attribute_document(&verdict.attributes, REDELIVER)["message_id"], json!(nth_id(7)));
        assert!(verdict.attributes.len() <= 10);
    }
}

#[test]
fn without_the_setting_a_plain_message_is_invalid() {
    let setup = Setup::new();
    assert_eq!(setup.process(vec![handed_off("x", Attributes::new())]), [""; 0]);
    assert_eq!(setup.verdict()["verdict"], json!("INVALID_MESSAGE_FORMAT"));
}
