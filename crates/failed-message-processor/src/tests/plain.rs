//! Messages without an envelope (`ENVELOPE=optional`).

use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::plain::{IdSources, PlainMessages, REDELIVER};

use super::*;

fn setup_with_optional_envelope() -> Setup {
    let pointer = Some(Pointer::new("/id").unwrap());
    let plain = PlainMessages { id: IdSources { attribute: None, pointer }, body: None };
    Setup {
        schema: MessageSchema::default().with_plain(plain),
        ..Setup::with_policy(r#"{"max_attempts":1}"#)
    }
}

/// Returns a hand-off by the message-processor, with these attributes in addition to `Failure`.
fn handed_off_plain_message(body: &str, attributes: Attributes) -> ReceivedMessage {
    let failure = with_members(busy_failure(1), json!({ "source_message_id": nth_id(7) }));
    let failure = (FAILURE.to_owned(), Attribute::string(failure.to_string()));
    ReceivedMessage { attributes: attributes.into_iter().chain([failure]).collect(), ..nth_record(1, body) }
}

fn small_attributes(count: usize) -> Attributes {
    (0..count).map(|n| (format!("a{n}"), Attribute::string("x"))).collect()
}

#[test]
fn a_plain_message_is_resent_with_its_state_in_an_attribute() {
    let setup = setup_with_optional_envelope();
    let named = format!(r#"{{"message_id":"{}","idempotency_key":"o-17"}}"#, nth_id(3));
    let attributes = [(REDELIVER.to_owned(), Attribute::string(named))].into();
    assert_eq!(setup.process(vec![handed_off_plain_message("\u{e9}", attributes)]), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.body, "\u{e9}");
    let written = attribute_document(&sent.attributes, REDELIVER);
    assert_eq!((&written["message_id"], &written["idempotency_key"]), (&json!(nth_id(3)), &json!("o-17")));
    assert_eq!(
        (&written["retry_attempt"], &written["first_sent_time"]),
        (&json!(1), &json!(format_time_at(-10)))
    );
    assert_eq!(written["retry_history"][0]["error_type"], json!("Db.Busy"));
    assert_eq!(sent.attributes.len(), 1, "`Failure` is not re-sent");
}

/// With nine attributes, there was no room for the id, and SQS's own id is that of the failed delivery.
#[test]
fn an_id_omitted_for_lack_of_room_is_recovered() {
    let setup = setup_with_optional_envelope();
    let records = vec![
        handed_off_plain_message(r#"{"id":"o-17"}"#, small_attributes(9)),
        handed_off_plain_message("x", small_attributes(9)),
    ];
    assert_eq!(setup.process(records), [""; 0]);
    let [by_pointer, by_sqs] = setup.source.sent_contents().try_into().unwrap();
    assert_eq!(attribute_document(&by_pointer.attributes, REDELIVER)["idempotency_key"], json!("o-17"));
    assert_eq!(attribute_document(&by_sqs.attributes, REDELIVER)["message_id"], json!(nth_id(7)));
    assert_eq!(by_sqs.attributes.len(), 9, "one of nine is folded to make room for `Failure`");
}

#[test]
fn a_moved_plain_message_keeps_the_id_of_its_first_delivery() {
    let setup = setup_with_optional_envelope();
    let moved = ReceivedMessage {
        redriven_from: Some(SOURCE_ARN.to_owned()),
        sqs_message_id: nth_id(9),
        attributes: small_attributes(10),
        ..nth_record(1, "x")
    };
    assert_eq!(setup.process(vec![moved]), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(attribute_document(&sent.attributes, REDELIVER)["message_id"], json!(nth_id(9)));
    assert_eq!(sent.attributes.len(), 9);
}

#[test]
fn a_plain_message_hops_unchanged() {
    let policy = r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":2000,"jitter":"none"}}"#;
    let setup = Setup { policy: Policy::from_json(policy).unwrap(), ..setup_with_optional_envelope() };
    let named = format!(r#"{{"message_id":"{}"}}"#, nth_id(3));
    let attributes = [(REDELIVER.to_owned(), Attribute::string(named.clone()))].into();
    assert_eq!(setup.process(vec![handed_off_plain_message("x", attributes)]), [""; 0]);
    let hopping = setup.intermediate.only_sent_content();
    assert_eq!((hopping.body.as_str(), hopping.attributes[REDELIVER].text()), ("x", Some(named.as_str())));
    assert!(attribute_document(&hopping.attributes, FAILURE)["due_at"].is_string());
}

#[test]
fn a_plain_message_is_always_given_up_with_its_id() {
    for attributes in [Attributes::new(), small_attributes(9)] {
        let setup = Setup {
            policy: Policy::from_json(r#"{"max_attempts":0}"#).unwrap(),
            ..setup_with_optional_envelope()
        };
        assert_eq!(setup.process(vec![handed_off_plain_message("x", attributes.clone())]), [""; 0]);
        assert_eq!(setup.verdict()["verdict"], json!("RETRY_ATTEMPT_EXCEEDED"));
        let verdict = setup.annotation.only_sent_content();
        assert_eq!(attribute_document(&verdict.attributes, REDELIVER)["message_id"], json!(nth_id(7)));
        assert!(verdict.attributes.len() <= 10);
    }
}

#[test]
fn without_the_setting_a_plain_message_is_invalid() {
    let setup = Setup::new();
    assert_eq!(setup.process(vec![handed_off_plain_message("x", Attributes::new())]), [""; 0]);
    assert_eq!(setup.verdict()["verdict"], json!("INVALID_MESSAGE_FORMAT"));
}
