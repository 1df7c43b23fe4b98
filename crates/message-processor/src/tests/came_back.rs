//! Messages that were moved from the final DLQ to the source queue with the console.

use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{FAILURE, Stage};
use redeliver_core::message::Attribute;

use super::*;

/// Returns the attributes of the final record for a message with these attributes.
fn final_record_attributes(producer: &Attributes) -> Attributes {
    let record = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause {
            error_type: "Db.Busy".to_owned(),
            message: "come later".to_owned(),
            ..Cause::default()
        },
        attempts: Some(5),
        redrive_generation: Some(2),
        held_seconds: None,
        redrive_count: None,
        first_sent_time: None,
        dead_lettered_at: format_time_at(-1000),
        died_at: None,
        source_queue_arn: Some(SOURCE_ARN.to_owned()),
        sqs_message_id: "sqs-0".to_owned(),
        fingerprint: "0123456789abcdef".to_owned(),
        folded_attributes: BTreeMap::new(),
    };
    let details = "Max retry attempts 5 exceeded; last error Db.Busy: come later".to_owned();
    let annotation = Annotation { reason: DeadLetterReason::RetryAttemptExceeded.into(), details, record };
    annotate_attributes(producer, 100, &annotation)
}

/// Returns record 1 in generation 2, after five retries.
pub(super) fn redriven_record(producer: &Attributes) -> ReceivedMessage {
    let metadata = format!(
        r#""message_id":"{}","retry_attempt":5,"redrive_generation":2,"first_sent_time":"{}""#,
        nth_id(1),
        format_time_at(-9000)
    );
    ReceivedMessage {
        attributes: final_record_attributes(producer),
        ..nth_record(1, format!(r#"{{"metadata":{{{metadata}}},"data":{{}}}}"#))
    }
}

#[test]
fn a_redriven_message_starts_at_zero_with_its_original_attributes() {
    for producer in [Attributes::new(), producer_attributes(), ten_attributes()] {
        let arrived = redriven_record(&producer);
        assert!(arrived.attributes.contains_key("DeadLetter") && arrived.attributes.len() <= 10);
        let setup = Setup::new();
        setup.process(vec![arrived.clone()], 30);
        let expected = SeenMessage {
            body: arrived.body,
            message_id: nth_id(1),
            form: BodyForm::Envelope,
            retry_attempt: 0,
            redrive_generation: 3,
            attributes: producer,
            idempotency_key: nth_id(1),
        };
        assert_eq!(setup.handler.calls(), [expected]);
    }
}

#[test]
fn a_redriven_message_that_fails_is_handed_off_as_a_new_generation() {
    let arrived = redriven_record(&producer_attributes());
    let setup = Setup::new().failing(1, busy_error());
    assert_eq!(setup.process(vec![arrived.clone()], 30), [""; 0]);
    let sent = setup.intermediate.only_sent_content();
    assert_eq!(
        sent.body, arrived.body,
        "the failed-message-processor writes the metadata, not this function"
    );
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!(document["new_generation"], true);
    assert_eq!(document["first_sent_time"], format_time_at(-10));
    let mut expected = producer_attributes();
    expected.insert(FAILURE.to_owned(), sent.attributes[FAILURE].clone());
    assert_eq!(sent.attributes, expected, "our three attributes are removed, the producer's are complete");
}

#[test]
fn a_redriven_message_continues_the_count_in_its_final_record() {
    // The message was given up without a re-send: its body has no generation, while its final record has generation 2.
    let arrived = redriven_record(&Attributes::new());
    let body = arrived.body.replace(r#","redrive_generation":2"#, "");
    assert_ne!(body, arrived.body);
    let setup = Setup::new().failing(1, HandlerError::permanent("Order.Unknown", ""));
    setup.process(vec![ReceivedMessage { body: body.clone(), ..arrived }], 30);
    assert_eq!(setup.handler.calls()[0].redrive_generation, 3);
    let sent = setup.intermediate.only_sent_content();
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!((&document["new_generation"], &document["generation_before"]), (&true.into(), &2.into()));
    assert_eq!(sent.body, body);
}

#[test]
fn a_failed_redriven_message_with_ten_attributes_has_one_folded() {
    let setup = Setup::new().failing(1, busy_error());
    assert_eq!(setup.process(vec![redriven_record(&ten_attributes())], 30), [""; 0]);
    let sent = setup.intermediate.only_sent_content();
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!((&document["new_generation"], &document["kind"]), (&true.into(), &"transient".into()));
    assert_eq!(document["folded_attributes"].as_object().unwrap().len(), 1);
    assert_eq!(strip_own_attributes(&sent.attributes).len(), 9);
}

#[test]
fn the_generation_that_a_handler_sees_is_capped_at_100() {
    let arrived = redriven_record(&Attributes::new());
    let body = arrived.body.replace(r#""redrive_generation":2"#, r#""redrive_generation":100"#);
    let setup = Setup::new();
    setup.process(vec![ReceivedMessage { body, ..arrived }], 30);
    assert_eq!(setup.handler.calls()[0].redrive_generation, 100, "as in the re-sent message");
}

#[test]
fn an_invalid_redriven_message_gets_a_new_verdict_and_its_attributes() {
    let setup = Setup::new();
    setup.process(vec![ReceivedMessage { body: "{}".to_owned(), ..redriven_record(&ten_attributes()) }], 30);
    let sent = setup.annotation.only_sent_content();
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!(document["verdict"], "INVALID_MESSAGE_SCHEMA");
    assert_eq!(document["new_generation"], true);
    assert_eq!(document["folded_attributes"].as_object().unwrap().len(), 1);
    assert_eq!(strip_own_attributes(&sent.attributes).len(), 9);
}

/// The annotator reads a body that only violates a data schema. If the verdict lacked the count, the generation of such
/// a message would restart each time.
#[test]
fn an_invalid_redriven_message_continues_the_count_in_its_final_record() {
    let setup = Setup::new();
    setup.process(
        vec![ReceivedMessage { body: "{}".to_owned(), ..redriven_record(&producer_attributes()) }],
        30,
    );
    let document = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!(document["generation_before"], 2);
}

#[test]
fn a_producers_own_error_type_attribute_is_kept() {
    for name in ["ErrorType", "ErrorDetails", "DeadLetter"] {
        let own = Attributes::from([(name.to_owned(), Attribute::string("mine"))]);
        let setup = Setup::new().failing(1, busy_error());
        setup.process(vec![ReceivedMessage { attributes: own.clone(), ..nth_record(1, nth_body(1)) }], 30);
        assert_eq!(setup.handler.calls()[0].attributes, own);
        let sent = setup.intermediate.only_sent_content();
        assert_eq!(sent.attributes[name], own[name]);
        assert_eq!(attribute_document(&sent.attributes, FAILURE)["new_generation"], serde_json::Value::Null);
    }
}
