//! Verdicts: given-up records and their explanations.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};
use serde_json::json;

use super::*;

#[test]
fn after_the_last_retry_the_verdict_has_the_last_error_and_the_attempts() {
    let setup = Setup::new(panic_if_invoked);
    let body = destination_record(1, &wrapped_payload(3, -9000, &payload(1)), -5);
    let mut record = received_record(1, body.clone());
    record.attributes = producer_attributes();
    record.trace_header = Some("Root=1".to_owned());
    assert!(setup.process(vec![record]).is_empty());
    let sent = setup.annotation.only_sent_content();
    assert_eq!((sent.body, sent.delay.get(), sent.trace_header.as_deref()), (body, 0, Some("Root=1")));
    assert_eq!(strip_own_attributes(&sent.attributes), producer_attributes());
    assert_eq!(
        setup.verdict(),
        json!({
            "type": "OrderLocked",
            "details": "order 1 is locked, CANARY",
            "function": "orders:$LATEST",
            "kind": "transient",
            "failed_at": format_time_at(-5),
            "source_message_id": "sqs-1",
            "source_queue_arn": RETRY_ARN,
            "first_sent_time": format_time_at(-9000),
            "attempts": 3,
            "verdict": "RETRY_ATTEMPT_EXCEEDED",
            "stage": "async-retry-handler",
            "explanation": "Max retry attempts 3 exceeded",
        })
    );
    let events = setup.world.seen.events();
    let [Event::GivenUp { message_id, error_type, .. }] = &events[..] else { panic!() };
    assert_eq!(*message_id, Some(nth_id(1)));
    assert_eq!(*error_type, "RETRY_ATTEMPT_EXCEEDED");
    assert!(!format!("{events:?}").contains("CANARY"));
}

#[test]
fn an_event_that_is_too_old_is_given_up() {
    let setup = Setup::new(panic_if_invoked);
    setup.process(vec![received_record(
        1,
        destination_record(1, &wrapped_payload(1, -86_000, &payload(1)), -5),
    )]);
    let verdict = setup.verdict();
    assert_eq!((&verdict["verdict"], &verdict["attempts"]), (&json!("MESSAGE_EXPIRED"), &json!(1)));
}

#[test]
fn an_unlisted_function_gets_a_verdict_and_no_call() {
    let setup = Setup::new(panic_if_invoked);
    let other = ORDERS.replace("orders", "payments");
    setup.process(vec![received_record(1, function_destination_record(&other, 1, &payload(1), -1001))]);
    let verdict = setup.verdict();
    assert_eq!(verdict["verdict"], "NON_RETRYABLE_ERROR");
    let explanation = verdict["explanation"].as_str().unwrap();
    assert!(explanation.starts_with("/requestContext/functionArn is not in FUNCTION_ARNS"), "{explanation}");
}

#[test]
fn a_verdict_says_why_a_body_is_not_a_failure_record() {
    let whole = destination_record(1, &payload(1), -1001);
    for (body, details) in [
        (whole.replace("requestPayload", "payload"), "not a destination record: /requestPayload is missing"),
        (nth_body(1), "not a destination record: /requestContext is missing"),
        ("[]".to_owned(), "not a destination record: not a JSON object"),
    ] {
        let setup = Setup::new(panic_if_invoked);
        assert!(setup.process(vec![received_record(1, body.clone())]).is_empty());
        assert_eq!(setup.annotation.only_sent_content().body, body);
        let verdict = setup.verdict();
        assert_eq!(verdict["verdict"], "INVALID_MESSAGE_FORMAT");
        assert_eq!(verdict["type"], "INVALID_MESSAGE_FORMAT");
        assert_eq!((&verdict["details"], &verdict["attempts"]), (&json!(details), &Value::Null));
        assert_eq!(
            verdict["first_sent_time"],
            format_time_at(-10),
            "only the time at which SQS received the record is known"
        );
    }
}

#[test]
fn a_payload_that_lambda_permanently_refuses_is_given_up() {
    for (answer, reason, explanation) in [
        (
            (|_| Response::Refused(AsyncInvokeError::TooLarge)) as fn(usize) -> Response,
            "MESSAGE_TOO_LARGE",
            "With its retry metadata the payload has 105 bytes, more than Lambda accepts",
        ),
        (
            |_| Response::Refused(AsyncInvokeError::Invalid),
            "INVALID_MESSAGE_FORMAT",
            "Lambda rejected the payload as invalid JSON",
        ),
    ] {
        let setup = Setup::new(answer);
        assert!(setup.process(vec![due_record(1)]).is_empty());
        let verdict = setup.verdict();
        assert_eq!((&verdict["verdict"], &verdict["explanation"]), (&json!(reason), &json!(explanation)));
        assert_eq!((&verdict["type"], &verdict["attempts"]), (&json!("OrderLocked"), &json!(0)));
    }
}

#[test]
fn an_unconfirmed_verdict_leaves_its_record_on_the_queue() {
    for record in [received_record(1, "no record"), due_record(1)] {
        let setup = Setup::new(|_| Response::Refused(AsyncInvokeError::TooLarge));
        setup.world.fail_sends(
            &setup.annotation,
            FaultScope::Entry,
            FaultTrigger::Numbers(vec![1]),
            Injection::Sender,
        );
        assert_eq!(setup.process(vec![record]), ["sqs-1"]);
    }
}

#[test]
fn a_1_mib_record_with_ten_attributes_is_given_up() {
    let setup = Setup::new(panic_if_invoked);
    let attributes = ten_attributes();
    let room =
        redeliver_core::limits::MESSAGE_BYTES_MAX - redeliver_core::message::attributes_size(&attributes);
    let empty = destination_record(1, "\"\"", -1001).replace("orders:", "other:");
    let body = empty.replace("\"\"", &format!("\"{}\"", "x".repeat(room - empty.len())));
    let record = ReceivedMessage { attributes: attributes.clone(), ..received_record(1, body) };
    assert!(setup.process(vec![record]).is_empty());
    assert_eq!(
        setup.annotation.only_sent_content().attributes,
        attributes,
        "the annotator finds no verdict, but the record is not lost"
    );
}
