//! Messages in a DLQ: final records as the annotator writes them, and foreign messages.

use redeliver_core::failure::Stage;
use redeliver_core::failure::annotation::{
    Annotation, Cause, DeadLetter, annotate_attributes, compute_fingerprint,
};
use redeliver_core::failure::reason::ReasonCode;
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::attempt_logs::AttemptLogs;
use redeliver_core::message::{Attribute, Attributes, ReceivedMessage, Timestamp};

use crate::functions;

/// Returns the time this many seconds after 1970-01-01T00:00:00Z.
pub fn at_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_timestamp(seconds, 0).expect("tests use times that are in range")
}

/// Returns the id of the message with this number.
pub fn nth_message_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Returns a message with this body and these attributes.
pub fn received_message(body: &str, attributes: Attributes, number: u32) -> ReceivedMessage {
    ReceivedMessage {
        attributes,
        sent_at: Timestamp::UNIX_EPOCH,
        first_received_at: None,
        queue_arn: "arn:aws:sqs:us-east-1:000000000000:final-dlq".to_owned(),
        ..functions::nth_record(number as usize, body)
    }
}

/// Returns a message from a foreign DLQ.
pub fn foreign_message(body: &str, number: u32) -> ReceivedMessage {
    received_message(body, Attributes::new(), number)
}

/// Returns a notice about a blocked group, as the message-processor sends it.
pub fn blocked_notice(group: &str, number: u32) -> ReceivedMessage {
    let failure = r#"{"receipt_handle":"AQEB","waiting_since":"1970-01-01T00:00:07Z","type":"HttpStatus.503",
        "details":"HTTP 503","attempts":3,"verdict":"RETRY_ATTEMPT_EXCEEDED","stage":"message-processor"}"#;
    let attributes = Attributes::from([("Failure".to_owned(), Attribute::string(failure))]);
    let body = format!(r#"{{"metadata":{{"message_id":"{}"}},"data":{{}}}}"#, nth_message_id(number));
    ReceivedMessage {
        message_group_id: Some(group.to_owned()),
        ..received_message(&body, attributes, number)
    }
}

/// Returns the location of a call's log lines, with a request id, from second 1 to second 2.
pub fn attempt_logs() -> Option<AttemptLogs> {
    let stream = "2026/07/25/[$LATEST]0123456789abcdef".to_owned();
    let location = LogLocation::in_stream(Some("/aws/lambda/orders".to_owned()), Some(stream));
    AttemptLogs::new(location.with_request_id(Some("7b1c7d3e-0191")), at_seconds(1), at_seconds(2))
}

/// Returns a final record as the annotator writes it.
pub fn annotated_record(body: &str, code: &str, details: &str, number: u32) -> ReceivedMessage {
    let reason = ReasonCode::from_text(code).and_then(|code| code.known()).expect("one of our codes");
    let record = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause {
            error_type: "HttpStatus.503".to_owned(),
            message: details.to_owned(),
            ..Cause::default()
        },
        attempts: Some(2),
        redrive_generation: None,
        held_seconds: None,
        redrive_count: None,
        first_sent_time: Some("1970-01-01T00:00:00.000000Z".to_owned()),
        dead_lettered_at: "1970-01-01T00:10:00.000000Z".to_owned(),
        died_at: None,
        source_queue_arn: None,
        sqs_message_id: format!("source-{number}"),
        fingerprint: compute_fingerprint(code, "HttpStatus.503", details),
        folded_attributes: Default::default(),
    };
    let annotation = Annotation { reason: reason.into(), details: details.to_owned(), record };
    let attributes = annotate_attributes(&Attributes::new(), body.len(), &annotation);
    received_message(body, attributes, number)
}

/// Returns a final record for a message that was retried twice.
pub fn retried_record(code: &str, details: &str, number: u32) -> ReceivedMessage {
    annotated_record(&retried_body(number, 2, &[0, 1]), code, details, number)
}

/// Returns a message without an annotation, with this `retry_attempt` and with failures at these attempts.
pub fn retried_message(retry_attempt: u32, failed: &[u32]) -> ReceivedMessage {
    foreign_message(&retried_body(1, retry_attempt, failed), 1)
}

/// Returns the body of a retried message, whose data contains a secret.
pub fn retried_body(number: u32, retry_attempt: u32, failed: &[u32]) -> String {
    let failures: Vec<_> = failed
        .iter()
        .map(|attempt| {
            format!(
                r#"{{"attempt":{attempt},"failed_at":"1970-01-01T00:0{}:00Z","error_type":"Http.Timeout","error_details":"slow {attempt}"}}"#,
                attempt + 1
            )
        })
        .collect();
    format!(
        r#"{{"metadata":{{"message_id":"{}","retry_attempt":{retry_attempt},"retry_history":[{}]}},"data":{{"card":"secret-{number}"}}}}"#,
        nth_message_id(number),
        failures.join(",")
    )
}
