//! The annotator's final records for the async-retry-handler's verdicts. Their bodies are Lambda's destination records
//! instead of messages.

use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use serde_json::json;

use super::*;

/// Gives up on a destination record, and returns the attributes of its final record.
fn final_record_attributes(body: &str) -> Attributes {
    let setup = Setup::new(|_| Response::Refused(AsyncInvokeError::TooLarge));
    assert!(setup.process(vec![received_record(1, body)]).is_empty());
    let final_dlq = setup.world.add_queue("final-dlq");
    let annotator =
        FinalDlqAnnotator::new(final_dlq.clone(), setup.world.clock.clone(), setup.world.seen.clone());
    let deadline = setup.world.clock.now() + Duration::from_secs(30);
    let records = setup.annotation.receive_all();
    assert!(setup.world.clock.block_on(annotator.batch_item_failures(records, deadline)).is_empty());
    let record = final_dlq.only_sent_content();
    assert_eq!(record.body, body);
    record.attributes
}

fn text<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes[name].text().unwrap()
}

#[test]
fn an_event_out_of_retries_is_explained() {
    let attributes =
        final_record_attributes(&destination_record(1, &wrapped_payload(3, -9000, &payload(1)), -5));
    assert_eq!(text(&attributes, "ErrorType"), "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(
        text(&attributes, "ErrorDetails"),
        "Max retry attempts 3 exceeded; last error OrderLocked: order 1 is locked, CANARY"
    );
    let record = attribute_document(&attributes, "DeadLetter");
    assert_eq!(record["stage"], "async-retry-handler");
    let cause =
        json!({"type": "OrderLocked", "message": "order 1 is locked, CANARY", "function": "orders:$LATEST"});
    assert_eq!(record["cause"], cause);
    assert_eq!((&record["attempts"], &record["first_sent_time"]), (&json!(3), &json!(format_time_at(-9000))));
    assert_eq!(record["source_queue_arn"], RETRY_ARN);
    assert_eq!(record["sqs_message_id"], "sqs-1");
}

#[test]
fn a_payload_refused_by_lambda_is_explained() {
    let attributes = final_record_attributes(&destination_record(1, &payload(1), -1001));
    assert_eq!(text(&attributes, "ErrorType"), "MESSAGE_TOO_LARGE");
    let details = text(&attributes, "ErrorDetails");
    assert!(
        details.starts_with("With its retry metadata the payload has 105 bytes, more than Lambda accepts"),
        "{details}"
    );
    let record = attribute_document(&attributes, "DeadLetter");
    assert_eq!((&record["attempts"], &record["first_sent_time"]), (&json!(0), &json!(format_time_at(-1001))));
}

#[test]
fn a_body_that_is_not_a_failure_record_is_explained() {
    let attributes = final_record_attributes("[]");
    assert_eq!(text(&attributes, "ErrorType"), "INVALID_MESSAGE_FORMAT");
    assert_eq!(text(&attributes, "ErrorDetails"), "not a destination record: not a JSON object");
    let record = attribute_document(&attributes, "DeadLetter");
    assert_eq!(
        (&record["attempts"], &record["first_sent_time"]),
        (&Value::Null, &json!(format_time_at(-10)))
    );
}

/// Lambda was unreachable until SQS moved the record.
#[test]
fn a_record_moved_by_sqs_is_explained_as_far_as_possible() {
    let body = destination_record(1, &payload(1), -1001);
    let world = FunctionWorld::new();
    let final_dlq = world.add_queue("final-dlq");
    let annotator = FinalDlqAnnotator::new(final_dlq.clone(), world.clock.clone(), world.seen.clone());
    let redriven =
        ReceivedMessage { redriven_from: Some(RETRY_ARN.to_owned()), ..received_record(1, body.clone()) };
    let deadline = world.clock.now() + Duration::from_secs(30);
    assert!(world.clock.block_on(annotator.batch_item_failures(vec![redriven], deadline)).is_empty());
    let record = final_dlq.only_sent_content();
    assert_eq!((record.body, text(&record.attributes, "ErrorType")), (body, "ORCHESTRATION_FAILED"));
    assert_eq!(attribute_document(&record.attributes, "DeadLetter")["source_queue_arn"], RETRY_ARN);
}

/// An operator moved the record in the console, with its attributes.
#[test]
fn a_final_record_on_the_retry_queue_restarts_at_the_first_retry() {
    let body = destination_record(1, &wrapped_payload(3, -9000, &payload(1)), -5);
    let attributes = final_record_attributes(&body);
    let setup = Setup::new(accept_event);
    let record = ReceivedMessage { attributes, ..received_record(1, body) };
    assert!(setup.process(vec![record]).is_empty());
    let [(_, sent)] = &setup.calls()[..] else { panic!() };
    assert_eq!(*sent, wrapped_payload(1, 0, &payload(1)));
}
