use redeliver_core::failure::annotation::{Annotation, Cause, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{Classification, Delivery, Failure, FailureClass, Stage, VerdictDetails};
use redeliver_core::json::forward_compatible::UnknownMembers;
use redeliver_core::message::origin::Origin;
use redeliver_core::message::{Attribute, Attributes};
use redeliver_testing::dead_letters::received_message;

use super::*;
use crate::{Choice, Filter};

fn record(body: &str, attributes: Attributes) -> DeadLetterRecord {
    DeadLetterRecord::new(received_message(body, attributes, 1))
}

#[test]
fn a_filter_survives_a_body_of_a_million_brackets() {
    let deep = record(&format!("{}{}", "[".repeat(500_000), "]".repeat(500_000)), Attributes::new());
    let filter = Filter::new(r#".body | type == "string""#).unwrap();
    assert_eq!(filter.judge_document("m", &deep.filter_document()).unwrap(), Choice::Picked);
    let nested = record(&format!("{}{}", "[".repeat(1000), "]".repeat(1000)), Attributes::new());
    let filter = Filter::new(r#"(.body | type == "array") and (tostring | length > 2000)"#).unwrap();
    assert_eq!(filter.judge_document("m", &nested.filter_document()).unwrap(), Choice::Picked);
}

#[test]
fn brackets_in_strings_do_not_count_as_nesting() {
    let log = format!(r#"{{"log":"{}\"{}"}}"#, "[".repeat(2000), "{".repeat(2000));
    let filter = Filter::new(".body.log | length == 4001").unwrap();
    assert_eq!(
        filter.judge_document("m", &record(&log, Attributes::new()).filter_document()).unwrap(),
        Choice::Picked
    );
}

#[test]
fn a_malformed_fingerprint_is_ignored() {
    let fingerprint_with = |fingerprint: &str| {
        let ours = DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause { error_type: "A".to_owned(), message: "b".to_owned(), ..Cause::default() },
            attempts: None,
            redrive_generation: None,
            held_seconds: None,
            redrive_count: None,
            first_sent_time: None,
            dead_lettered_at: "1970-01-01T00:00:00Z".to_owned(),
            died_at: None,
            source_queue_arn: None,
            sqs_message_id: "m".to_owned(),
            fingerprint: fingerprint.to_owned(),
            folded_attributes: Default::default(),
        };
        let document = serde_json::to_string(&ours).unwrap();
        record("x", [(DEAD_LETTER.to_owned(), Attribute::string(document))].into()).fingerprint
    };
    assert_eq!(fingerprint_with("0123456789abcdef"), "0123456789abcdef");
    assert_eq!(fingerprint_with(&"x".repeat(100_000)), compute_fingerprint(UNANNOTATED, "", ""));
}

#[test]
fn hold_time_and_redrives_come_from_the_document_or_else_the_body() {
    let hold_and_redrives = |attributes| {
        let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab","retry_attempt":3,"held_seconds":60,"redrive_count":2},"data":{}}"#;
        let record = record(body, attributes);
        (record.held_seconds(), record.redrive_count())
    };
    assert_eq!(hold_and_redrives(Attributes::new()), (60, 2));
    let document_attributes = |members: &str| {
        let document = format!(
            r#"{{"stage":"message-processor","cause":{{"type":"A","message":"b"}},"dead_lettered_at":"1970-01-01T00:00:00Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"{members}}}"#
        );
        Attributes::from([(DEAD_LETTER.to_owned(), Attribute::string(document))])
    };
    assert_eq!(hold_and_redrives(document_attributes(r#","held_seconds":120,"redrive_count":4"#)), (120, 4));
    assert_eq!(
        hold_and_redrives(document_attributes("")),
        (0, 0),
        "its body has the previous generation: it failed before it was sent again"
    );
}

#[test]
fn a_record_includes_the_retry_history_from_its_body() {
    let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab","retry_attempt":1,"retry_history":[{"attempt":0,"failed_at":"2026-07-25T17:20:05Z","error_type":"A","error_details":"b"}]},"data":{}}"#;
    let hold_and_redrives = record(body, Attributes::new()).metadata.unwrap();
    assert_eq!(
        (
            hold_and_redrives.retry_attempt,
            hold_and_redrives.retry_history.len(),
            hold_and_redrives.retry_history[0].attempt
        ),
        (1, 1, 0)
    );
}

#[test]
fn the_failed_function_is_the_users_function_or_else_the_stage() {
    let function = |cause: &str| {
        let document = format!(
            r#"{{"stage":"failed-message-processor","cause":{{"type":"A","message":"b"{cause}}},"dead_lettered_at":"1970-01-01T00:10:00Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"}}"#
        );
        let document = (DEAD_LETTER.to_owned(), Attribute::string(document));
        record("{}", Attributes::from([document])).failed_function()
    };
    assert_eq!(function(r#","function":"orders:7""#).as_deref(), Some("orders:7"));
    assert_eq!(function("").as_deref(), Some("failed-message-processor"));
}

#[test]
fn a_filter_document_has_exactly_the_documented_members() {
    let document = record("{}", Attributes::new()).filter_document();
    let document: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&document).unwrap();
    let mut members = crate::record::MEMBERS;
    members.sort_unstable();
    assert_eq!(document.keys().collect::<Vec<_>>(), members.iter().collect::<Vec<_>>());
}

#[test]
fn a_foreign_dead_letter_is_explained_unless_redeliver_annotated_it() {
    let theirs = redeliver_testing::foreign::fixture_message("lambda-destination");
    let read = DeadLetterRecord::new(theirs.clone());
    assert_eq!((read.error_type.as_str(), read.attempts()), ("LAMBDA_DESTINATION", Some(2)));
    assert_eq!(read.error_details, "orders: OrderLocked: order 7 is locked (RetriesExhausted)");
    assert!(!read.is_annotated && read.fingerprint == read.foreign.unwrap().fingerprint());
    for (name, text) in [(ERROR_TYPE, "NON_RETRYABLE_ERROR"), (FAILURE, "{}")] {
        let mut ours = theirs.clone();
        ours.attributes.insert(name.to_owned(), Attribute::string(text));
        assert_eq!(DeadLetterRecord::new(ours).foreign, None, "{name}");
    }
}

/// A message without space for its annotation.
#[test]
fn a_full_messages_reason_is_read_from_its_trace_header() {
    let message = received_message("a body without room", Attributes::new(), 1);
    let failure = Failure {
        error: LastError::new("HttpStatus.400", ""),
        classification: Some(Classification::without_delay(FailureClass::Permanent)),
        delivery: Delivery::from_record(&message, None, Origin::default(), message.sent_at),
        attempts: None,
        unknown: UnknownMembers::default(),
    };
    let case = VerdictDetails { stage: None, explanation: String::new(), failure };
    let verdict = Verdict { case: Some(case), ..Verdict::from_code(DeadLetterReason::NonRetryableError) };
    let full = ReceivedMessage { trace_header: Some(verdict.add_to_trace_header(None)), ..message };
    let record = DeadLetterRecord::new(full.clone());
    assert_eq!(
        (record.error_type.as_str(), record.error_details.as_str(), record.is_annotated),
        ("NON_RETRYABLE_ERROR", "HttpStatus.400", false)
    );
    assert_eq!(record.fingerprint, compute_fingerprint("NON_RETRYABLE_ERROR", "HttpStatus.400", ""));
    let code = Attributes::from([(ERROR_TYPE.to_owned(), Attribute::string("NON_RETRYABLE_ERROR"))]);
    let with_code = DeadLetterRecord::new(ReceivedMessage { attributes: code, ..full.clone() });
    assert_eq!((with_code.error_details.as_str(), with_code.is_annotated), ("HttpStatus.400", true));
    // If SQS moved the message, its producer may have written the trace header.
    let moved = DeadLetterRecord::new(ReceivedMessage { redriven_from: Some("arn".to_owned()), ..full });
    assert_eq!(moved.error_type, "SQS_REDRIVE");
}

/// With any other identity, a purge would archive a final record under a second key.
#[test]
fn a_deaths_identity_comes_from_the_annotator_or_else_from_sqs() {
    let died_at = parse_rfc3339("2026-07-25T17:20:05.000007Z").unwrap();
    let annotated_death = |members: &str| {
        let document = format!(
            r#"{{"stage":"message-processor","cause":{{"type":"A","message":"b"}},"dead_lettered_at":"2026-07-25T18:20:00Z","sqs_message_id":"m","fingerprint":"0123456789abcdef"{members}}}"#
        );
        record("{}", [(DEAD_LETTER.to_owned(), Attribute::string(document))].into()).death()
    };
    assert_eq!(
        annotated_death(r#","died_at":"2026-07-25T17:20:05.000007Z""#),
        Death::new(died_at, "0123456789abcdef", "m")
    );
    assert_eq!(annotated_death("").at, Timestamp::UNIX_EPOCH, "SentTimestamp");
    let foreign = record("x", Attributes::new());
    let death = Death::new(
        Timestamp::UNIX_EPOCH,
        &compute_fingerprint(UNANNOTATED, "", ""),
        &foreign.message.sqs_message_id,
    );
    assert_eq!(foreign.death(), death);
}

/// If a message has ten attributes, the annotator folds some of them, and `traceparent` may be among those.
#[test]
fn the_producers_trace_is_found_even_in_a_folded_attribute() {
    let ours = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause { error_type: "A".to_owned(), message: "b".to_owned(), ..Cause::default() },
        attempts: None,
        redrive_generation: None,
        held_seconds: None,
        redrive_count: None,
        first_sent_time: None,
        dead_lettered_at: "1970-01-01T00:00:00.000000Z".to_owned(),
        died_at: None,
        source_queue_arn: None,
        sqs_message_id: "m".to_owned(),
        fingerprint: "0123456789abcdef".to_owned(),
        folded_attributes: Default::default(),
    };
    let reason = DeadLetterReason::MessageExpired;
    let annotation = Annotation { reason: reason.into(), details: "d".to_owned(), record: ours };
    let parent = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
    let mut producer: Attributes =
        (1..=9).map(|n| (format!("name-{n}"), Attribute::string("v".repeat(90)))).collect();
    producer.insert("traceparent".to_owned(), Attribute::string(parent));
    let attributes = annotate_attributes(&producer, 2, &annotation);
    let trace = record("{}", attributes).trace_context().unwrap();
    assert_eq!(trace.traceparent(), parent);
}
