//! Records for the tests.

use redeliver_core::annotation::{Annotation, Cause, DeadLetter, annotate, fingerprint};
use redeliver_core::failure::Stage;
use redeliver_core::message::{Attributes, ReceivedMessage, Timestamp};
use redeliver_core::reason::DeadLetterReason;

use super::report::{Context, Report, Tally};
use crate::dead_letters::{Coverage, DeadLetterRecord};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_timestamp(seconds, 0).unwrap()
}

/// The id of the message with this number.
pub(crate) fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// A message with this body and these attributes.
pub(crate) fn received(body: &str, attributes: Attributes, number: u32) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: format!("sqs-{number}"),
        receipt_handle: format!("handle-{number}"),
        body: body.to_owned(),
        attributes,
        sent_at: Timestamp::UNIX_EPOCH,
        first_received_at: None,
        receive_count: 1,
        message_group_id: None,
        trace_header: None,
        redriven_from: None,
        queue_arn: "arn:aws:sqs:us-east-1:000000000000:final-dlq".to_owned(),
    }
}

/// A message of somebody else's DLQ.
pub(crate) fn foreign(body: &str, number: u32) -> DeadLetterRecord {
    DeadLetterRecord::new(received(body, Attributes::new(), number))
}

/// A message with this body.
pub(crate) fn message(body: &str) -> DeadLetterRecord {
    foreign(body, 1)
}

/// A final record as the annotator writes it.
pub(crate) fn annotated(body: &str, code: &str, details: &str, number: u32) -> DeadLetterRecord {
    let reason = DeadLetterReason::from_code(code).unwrap();
    let record = DeadLetter {
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause {
            error_type: "HttpStatus.503".to_owned(),
            message: details.to_owned(),
            unverified: false,
        },
        attempts: Some(2),
        redrive_generation: None,
        first_sent_time: Some("1970-01-01T00:00:00.000000Z".to_owned()),
        dead_lettered_at: "1970-01-01T00:10:00.000000Z".to_owned(),
        source_queue_arn: None,
        sqs_message_id: format!("source-{number}"),
        fingerprint: fingerprint(code, "HttpStatus.503", details),
        folded_attributes: Default::default(),
    };
    let annotation = Annotation { reason: reason.into(), details: details.to_owned(), record };
    let attributes = annotate(&Attributes::new(), body.len(), &annotation);
    DeadLetterRecord::new(received(body, attributes, number))
}

/// A final record of a message that was retried twice.
pub(crate) fn record(code: &str, details: &str, number: u32) -> DeadLetterRecord {
    annotated(&body(number, 2, &[0, 1]), code, details, number)
}

/// A message without annotations, with this `retry_attempt` and failures of these attempts.
pub(crate) fn retried(retry_attempt: u32, failed: &[u32]) -> DeadLetterRecord {
    message(&body(1, retry_attempt, failed))
}

/// A body with a secret in its data.
pub(crate) fn body(number: u32, retry_attempt: u32, failed: &[u32]) -> String {
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
        id(number),
        failures.join(",")
    )
}

pub(crate) fn with_sent_seconds(mut record: DeadLetterRecord, seconds: i64) -> DeadLetterRecord {
    record.message.sent_at = at(seconds);
    record
}

/// An audit of a queue named `final-dlq`, a day after 1970 began.
pub(crate) fn context() -> Context {
    Context { queue: "final-dlq".to_owned(), retention: None, now: at(86_400), filter: None }
}

/// The report on these records, all of the queue.
pub(crate) fn report(records: &[DeadLetterRecord]) -> Report {
    let mut tally = Tally::new(context());
    records.iter().for_each(|record| tally.add(record));
    let seen = records.len() as u64;
    let coverage = Coverage { seen, approximate: seen, unreadable: 0, complete: true, still_hidden: 0 };
    tally.into_report(coverage, false)
}
