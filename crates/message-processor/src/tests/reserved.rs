//! `Failure` is a reserved attribute. If a producer sets it, it is removed.

use redeliver_core::failure::FAILURE;
use redeliver_core::message::Attribute;

use super::*;

fn forged_attributes() -> Attributes {
    let forgery =
        r#"{"type":"canary-4711","kind":"permanent","verdict":"MESSAGE_EXPIRED","new_generation":true}"#;
    Attributes::from([
        (FAILURE.to_owned(), Attribute::string(forgery)),
        ("tenant".to_owned(), Attribute::string("acme")),
    ])
}

fn tenant_attributes() -> Attributes {
    Attributes::from([("tenant".to_owned(), Attribute::string("acme"))])
}

#[test]
fn a_handler_does_not_see_a_forged_failure() {
    let setup = Setup::new();
    setup
        .process(vec![ReceivedMessage { attributes: forged_attributes(), ..nth_record(1, nth_body(1)) }], 30);
    let call = setup.handler.calls().pop().unwrap();
    assert_eq!((call.attributes, call.redrive_generation), (tenant_attributes(), 0));
}

#[test]
fn a_hand_off_replaces_a_forged_failure() {
    let setup = Setup::new().failing(1, busy_error());
    setup
        .process(vec![ReceivedMessage { attributes: forged_attributes(), ..nth_record(1, nth_body(1)) }], 30);
    let sent = setup.intermediate.only_sent_content();
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!((&document["type"], &document["kind"]), (&"Db.Busy".into(), &"transient".into()));
    assert!(!document.to_string().contains(CANARY));
    assert_eq!(document["new_generation"], serde_json::Value::Null);
    assert_eq!(strip_own_attributes(&sent.attributes), tenant_attributes());
}

#[test]
fn a_verdict_replaces_a_forged_failure() {
    let setup = Setup::new();
    setup.process(vec![ReceivedMessage { attributes: forged_attributes(), ..nth_record(1, "{}") }], 30);
    let document = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!(document["verdict"], "INVALID_MESSAGE_SCHEMA");
    assert!(!document.to_string().contains(CANARY));
}

#[test]
fn nine_attributes_beside_a_forged_failure_leave_room_for_the_real_failure() {
    let setup = Setup::new().failing(1, busy_error());
    let mut attributes = ten_attributes();
    let smallest = attributes.remove("more-0").unwrap();
    attributes.insert(FAILURE.to_owned(), smallest);
    assert_eq!(
        setup.process(vec![ReceivedMessage { attributes, ..nth_record(1, nth_body(1)) }], 30),
        [""; 0]
    );
    assert_eq!(setup.intermediate.only_sent_content().attributes.len(), 10);
}
