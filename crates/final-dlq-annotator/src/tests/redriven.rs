//! Messages that SQS moved to the annotation queue, without a verdict and with untrusted attributes.

use super::*;

#[test]
fn a_forged_failure_cannot_hide_an_orchestration_failure() {
    let forged = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "explanation": "canary" }));
    let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(forged.to_string()))]);
    let sent = final_record(ReceivedMessage { attributes, ..redriven_message(1, spent_body(1)) });
    assert_eq!(text(&sent, ERROR_TYPE), "ORCHESTRATION_FAILED");
    assert_eq!(
        text(&sent, ERROR_DETAILS),
        "SQS moved the message to the annotation queue: the function that received it could not handle it"
    );
    let expected = json!({
        "stage": "final-dlq-annotator",
        "cause": { "type": "HttpStatus.503", "message": "HTTP 503", "unverified": true },
        "attempts": 5,
        "first_sent_time": format_time_at(-3600),
        "dead_lettered_at": format_time_at(0),
        "died_at": format_time_at(-10),
        "source_queue_arn": INTERMEDIATE_ARN,
        "sqs_message_id": "sqs-1",
        "fingerprint": compute_fingerprint("ORCHESTRATION_FAILED", "HttpStatus.503", "HTTP 503"),
    });
    assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER), expected);
}

#[test]
fn a_redriven_message_without_a_failure_is_still_explained() {
    for body in [spent_body(1), "not JSON".to_owned()] {
        let sent = final_record(redriven_message(1, &*body));
        assert_eq!(sent.body, body);
        assert_eq!(text(&sent, ERROR_TYPE), "ORCHESTRATION_FAILED");
        let document = attribute_document(&sent.attributes, DEAD_LETTER);
        assert_eq!(document["cause"], json!({ "type": "", "message": "", "unverified": true }));
    }
}

#[test]
fn attributes_folded_in_a_forged_failure_are_not_restored() {
    let folded = json!({ "folded_attributes": { "tenant": { "data_type": "String", "text": "forged" } } });
    let forged = failure("MESSAGE_EXPIRED", folded);
    let mut attributes = producer_attributes();
    attributes.insert(FAILURE.to_owned(), Attribute::string(forged.to_string()));
    let sent = final_record(ReceivedMessage { attributes, ..redriven_message(1, spent_body(1)) });
    assert_eq!(strip_own_attributes(&sent.attributes), producer_attributes());
}

#[test]
fn an_unverified_new_generation_changes_neither_attempts_nor_generation() {
    let forged = failure("MESSAGE_EXPIRED", json!({ "new_generation": true }));
    let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(forged.to_string()))]);
    let sent = final_record(ReceivedMessage { attributes, ..redriven_message(1, spent_body(1)) });
    let document = attribute_document(&sent.attributes, DEAD_LETTER);
    assert_eq!((&document["attempts"], &document["redrive_generation"]), (&json!(5), &Value::Null));
}

#[test]
fn an_unhandled_redriven_message_belongs_to_the_next_generation() {
    // The console moved a final record of generation 1 back, and SQS moved it on unchanged.
    let first = failure("NON_RETRYABLE_ERROR", json!({ "new_generation": true }));
    let first = final_record(given_up_message(1, spent_body(1), &first));
    let again = ReceivedMessage { attributes: first.attributes, ..redriven_message(1, spent_body(1)) };
    let document = attribute_document(&final_record(again).attributes, DEAD_LETTER);
    assert_eq!((&document["attempts"], &document["redrive_generation"]), (&Value::Null, &json!(2)));
}

#[test]
fn a_redriven_messages_cause_is_recorded_as_unverified() {
    let honest = json!({ "type": "HttpStatus.503", "details": "HTTP 503" });
    let forged = json!({
        "type": "HttpStatus.503",
        "details": "HTTP 503",
        "kind": "permanent",
        "retry_after_seconds": 7,
        "failed_at": format_time_at(-9999),
        "source_message_id": "forged",
        "source_queue_arn": "arn:aws:sqs:us-east-1:000000000000:forged",
        "first_sent_time": format_time_at(-9999),
        "new_generation": true,
        "due_at": format_time_at(7),
        "attempts": 77,
        "verdict": "MESSAGE_EXPIRED",
        "stage": "message-processor",
        "explanation": "forged",
    });
    let explained = |failure: &Value, body: String| {
        let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(failure.to_string()))]);
        let sent = final_record(ReceivedMessage { attributes, ..redriven_message(1, body) });
        (attribute_document(&sent.attributes, DEAD_LETTER), sent)
    };
    for body in [spent_body(1), nth_body(1), "not JSON".to_owned()] {
        assert_eq!(explained(&forged, body.clone()), explained(&honest, body));
    }
    let (document, _) = explained(&forged, nth_body(1));
    assert_eq!(document["first_sent_time"], format_time_at(-10), "SQS keeps the attribute");
    assert_eq!(
        document.get("attempts"),
        None,
        "the message may have been retried on its queue, so the number is unknown"
    );
}

#[test]
fn a_message_moved_by_a_real_redrive_is_recognized() {
    use redeliver_core::limits::VisibilitySeconds;
    use redeliver_core::ports::{
        Queue as _, QueueSender as _, QueueService as _, QueueSettings, ReceiveOptions, RedriveSettings,
    };
    let setup = Setup::new();
    let annotation = setup.world.add_queue("annotation");
    let target_arn = annotation.queue.arn().to_owned();
    let redrive = Some(RedriveSettings { target_arn, max_receive_count: 1 });
    let settings = QueueSettings { redrive, visibility: VisibilitySeconds::ZERO, ..QueueSettings::default() };
    let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
    setup.world.clock.block_on(async {
        let intermediate = setup.world.sqs.create_queue("intermediate", &settings).await.unwrap();
        let content =
            Content { body: spent_body(1), attributes: producer_attributes(), ..Content::default() };
        let message = [redeliver_core::message::OutgoingMessage::new(content).unwrap()];
        intermediate.send_batch(redeliver_core::message::packing::pack_batches(&message)[0]).await;
        assert_eq!(intermediate.receive(request).await.unwrap().len(), 1);
        assert!(intermediate.receive(request).await.unwrap().is_empty());
    });
    assert_eq!(setup.process(annotation.receive_all()), [""; 0]);
    let sent = setup.final_dlq.only_sent_content();
    assert_eq!(text(&sent, ERROR_TYPE), "ORCHESTRATION_FAILED");
    assert_eq!(attribute_document(&sent.attributes, DEAD_LETTER)["source_queue_arn"], INTERMEDIATE_ARN);
    assert_eq!(strip_own_attributes(&sent.attributes), producer_attributes());
}
