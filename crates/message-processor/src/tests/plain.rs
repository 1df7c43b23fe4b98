//! Messages without an envelope (`ENVELOPE=optional`).

use redeliver_core::failure::FAILURE;
use redeliver_core::message::Attribute;
use redeliver_core::message::plain::{IdAttribute, IdSources, NAMESPACE, PlainMessages, REDELIVER};
use redeliver_core::message::schema::DataSchema;
use serde_json::json;
use uuid::Uuid;

use super::*;

/// Returns the SQS message id of the first delivery of record n.
fn sqs_id(n: usize) -> String {
    format!("00000000-0000-4000-9000-{n:012}")
}

fn plain_record(n: usize, body: &str) -> ReceivedMessage {
    ReceivedMessage { sqs_message_id: sqs_id(n), ..nth_record(n, body) }
}

fn plain_record_with_attributes(n: usize, attributes: &[(&str, &str)]) -> ReceivedMessage {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value)));
    ReceivedMessage { attributes: attributes.collect(), ..plain_record(n, CANARY) }
}

fn setup_with_optional_envelope() -> Setup {
    let attribute = Some(IdAttribute::new("OrderId".to_owned()).unwrap());
    let id = IdSources { attribute, pointer: None };
    let schema = MessageSchema::default().with_plain(PlainMessages { id, body: None });
    Setup { schema, ..Setup::new() }
}

impl Setup {
    fn failing_all(mut self, error: &HandlerError, ids: impl IntoIterator<Item = String>) -> Self {
        self.handler.steps.extend(ids.into_iter().map(|id| (id, Step::Fail(error.clone()))));
        self
    }
}

fn redeliver_attribute(attributes: &Attributes) -> &str {
    attributes[REDELIVER].text().unwrap()
}

#[test]
fn a_handler_gets_a_plain_message_unchanged_with_its_id() {
    let setup = setup_with_optional_envelope();
    let uuid = Uuid::new_v5(&NAMESPACE, b"o-17").to_string();
    let named = format!(r#"{{"message_id":"{}","retry_attempt":2,"redrive_generation":1}}"#, nth_id(3));
    let records = vec![
        plain_record(1, "x"),
        plain_record_with_attributes(2, &[("OrderId", "o-17")]),
        plain_record_with_attributes(3, &[(REDELIVER, &named), ("a", "b")]),
    ];
    assert_eq!(setup.process(records, 30), [""; 0]);
    let calls = setup.handler.calls();
    let ids: Vec<_> =
        calls.iter().map(|message| (message.message_id.as_str(), message.idempotency_key.as_str())).collect();
    assert_eq!(ids, [(&*sqs_id(1), &*sqs_id(1)), (&*uuid, "o-17"), (&*nth_id(3), &*nth_id(3))]);
    let last = &calls[2];
    assert_eq!((last.body.as_str(), last.retry_attempt, last.redrive_generation), (CANARY, 2, 1));
    assert_eq!(last.attributes.keys().collect::<Vec<_>>(), ["a"]);
    assert!(setup.intermediate.sent_contents().is_empty() && setup.annotation.sent_contents().is_empty());
}

#[test]
fn a_plain_message_is_handed_off_with_its_id() {
    let uuid = Uuid::new_v5(&NAMESPACE, b"o-17").to_string();
    let setup = setup_with_optional_envelope().failing_all(&busy_error(), [uuid.clone(), sqs_id(2)]);
    assert_eq!(
        setup
            .process(vec![plain_record_with_attributes(1, &[("OrderId", "o-17")]), plain_record(2, "x")], 30),
        [""; 0]
    );
    let [first, second] = setup.intermediate.sent_contents().try_into().unwrap();
    assert_eq!(
        redeliver_attribute(&first.attributes),
        format!(r#"{{"message_id":"{uuid}","idempotency_key":"o-17"}}"#)
    );
    assert_eq!(first.attributes["OrderId"], Attribute::string("o-17"));
    assert_eq!(attribute_document(&first.attributes, FAILURE)["type"], json!("Db.Busy"));
    assert_eq!((first.body.as_str(), second.body.as_str()), (CANARY, "x"));
    assert_eq!(redeliver_attribute(&second.attributes), format!(r#"{{"message_id":"{}"}}"#, sqs_id(2)));
    // The idempotency key comes from the producer, so no event contains it.
    assert!(!format!("{:?}", setup.world.seen.events()).contains("o-17"));
}

#[test]
fn a_plain_messages_redeliver_attribute_is_handed_off_unchanged() {
    let named = format!(r#" {{ "message_id" : "{}" , "mine":1e400,"retry_attempt":3}}"#, nth_id(1));
    let setup = setup_with_optional_envelope().failing_all(&busy_error(), [nth_id(1)]);
    setup.process(vec![plain_record_with_attributes(1, &[(REDELIVER, &named)])], 30);
    assert_eq!(redeliver_attribute(&setup.intermediate.only_sent_content().attributes), named);
}

/// `Failure` needs the tenth attribute slot, and the failed-message-processor finds the id by the same rules.
#[test]
fn a_plain_message_with_nine_attributes_is_handed_off_without_its_id() {
    let attributes = |count: usize| (0..count).map(|n| (format!("a{n}"), Attribute::string("x"))).collect();
    let setup = setup_with_optional_envelope().failing_all(&busy_error(), [sqs_id(1), sqs_id(2), sqs_id(3)]);
    let record = |n, count| ReceivedMessage { attributes: attributes(count), ..plain_record(n, "x") };
    assert_eq!(setup.process(vec![record(1, 8), record(2, 9), record(3, 10)], 30), [""; 0]);
    let [eight, nine, ten] = setup.intermediate.sent_contents().try_into().unwrap();
    assert_eq!((eight.attributes.len(), eight.attributes.contains_key(REDELIVER)), (10, true));
    assert_eq!((nine.attributes.len(), nine.attributes.contains_key(REDELIVER)), (10, false));
    assert_eq!((ten.attributes.len(), ten.attributes.contains_key(REDELIVER)), (10, false));
    assert_eq!(attribute_document(&ten.attributes, FAILURE)["source_message_id"], json!(sqs_id(3)));
}

#[test]
fn an_invalid_plain_message_gets_a_verdict_and_the_others_are_processed() {
    let body = DataSchema::new(r#"{"required":["order"]}"#).unwrap();
    let schema =
        MessageSchema::default().with_plain(PlainMessages { body: Some(body), ..Default::default() });
    let setup = Setup { schema, ..Setup::new() };
    let forged = plain_record_with_attributes(3, &[(REDELIVER, "forged")]);
    let forged = ReceivedMessage { body: r#"{"order":1}"#.to_owned(), ..forged };
    let records =
        vec![plain_record(1, "x"), plain_record(2, "{}"), forged, plain_record(4, r#"{"order":1}"#)];
    assert_eq!(setup.process(records, 30), [""; 0]);
    assert_eq!(setup.handler.called_message_ids(), [sqs_id(4)]);
    let verdicts = setup.annotation.sent_contents();
    let documents: Vec<_> =
        verdicts.iter().map(|sent| attribute_document(&sent.attributes, FAILURE)).collect();
    let codes: Vec<_> = documents.iter().map(|document| document["verdict"].as_str().unwrap()).collect();
    assert_eq!(codes, ["INVALID_MESSAGE_FORMAT", "INVALID_MESSAGE_SCHEMA", "INVALID_MESSAGE_SCHEMA"]);
    assert_eq!(documents[1]["details"], json!("/order is missing"));
    assert_eq!(documents[2]["details"], json!("/Redeliver is not JSON: expected ident at line 1 column 2"));
    assert_eq!(redeliver_attribute(&verdicts[2].attributes), "forged");
}

/// With `visibility`, the message stays unchanged, and its verdict has the id.
#[test]
fn a_message_that_stays_on_its_queue_is_given_up_with_its_id() {
    let error = HandlerError::permanent("Order.Unknown", "no");
    let setup = Setup { strategy: Strategy::Visibility, ..setup_with_optional_envelope() }
        .failing_all(&error, [sqs_id(1)]);
    setup.process(vec![plain_record(1, "x")], 30);
    let verdict = setup.annotation.only_sent_content();
    assert_eq!(redeliver_attribute(&verdict.attributes), format!(r#"{{"message_id":"{}"}}"#, sqs_id(1)));
    assert_eq!(attribute_document(&verdict.attributes, FAILURE)["verdict"], json!("NON_RETRYABLE_ERROR"));
}

/// Messages are the same, regardless of the function that re-sends them.
#[test]
fn a_plain_message_is_resent_directly_in_the_same_form() {
    let direct = Setup { strategy: Strategy::DirectResend, ..setup_with_optional_envelope() }
        .failing_all(&busy_error(), [sqs_id(1)]);
    direct.process(vec![plain_record(1, "x")], 30);
    let sent = direct.source.only_sent_content();
    assert_eq!(sent.body, "x");
    let written = attribute_document(&sent.attributes, REDELIVER);
    assert_eq!((&written["message_id"], &written["retry_attempt"]), (&json!(sqs_id(1)), &json!(1)));
    let delayed = setup_with_optional_envelope().failing_all(&busy_error(), [sqs_id(1)]);
    delayed.process(vec![plain_record(1, "x")], 30);
    let delayed = delayed.run_failed_message_processor();
    assert_eq!(delayed.source.only_sent_content().attributes, sent.attributes);
}

#[test]
fn without_the_setting_a_plain_message_is_invalid() {
    let setup = Setup::new();
    setup.process(vec![plain_record_with_attributes(1, &[(REDELIVER, "the producer's own attribute")])], 30);
    let verdict = setup.annotation.only_sent_content();
    assert_eq!(attribute_document(&verdict.attributes, FAILURE)["verdict"], json!("INVALID_MESSAGE_FORMAT"));
    assert_eq!(redeliver_attribute(&verdict.attributes), "the producer's own attribute");
}
