use std::time::Duration;

use super::*;
use crate::failure::{Failure, Stage};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::Attributes;
use crate::message::reason::DeadLetterReason;
use crate::message::schema::MessageSchema;
use crate::testing::{attempt_logs, delivery, received_message};

const HANDLE: &str = r#"AQEB"wJ/+="#;

fn queue_times(retention_seconds: u64) -> QueueTimes {
    let visibility_timeout = VisibilitySeconds::new(180).unwrap();
    QueueTimes { visibility_timeout, retention: Duration::from_secs(retention_seconds) }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

fn record(body: String, attributes: Attributes) -> ReceivedMessage {
    ReceivedMessage {
        receipt_handle: HANDLE.to_owned(),
        body,
        attributes,
        sent_at: at(0),
        first_received_at: Some(at(10)),
        message_group_id: Some("account-7".to_owned()),
        ..received_message(None)
    }
}

/// Returns the verdict on an invalid message.
fn verdict(record: ReceivedMessage) -> PendingSend {
    let refused = Arrival::from_record(record, at(20)).accept(&MessageSchema::default(), None).unwrap_err();
    refused.give_up(Stage::MessageProcessor, None, at(20))
}

#[test]
fn a_notice_contains_the_message_its_verdict_and_its_handle() {
    let record = record("not JSON".to_owned(), Attributes::new());
    let times = ReceiveTimes::new(&record, at(99));
    let notice = create_blocked_notice(verdict(record), times).unwrap();
    let content = notice.message.as_ref().unwrap().content();
    assert_eq!(content.message_group_id.as_deref(), Some("account-7"));
    assert_eq!(content.delay.get(), 60, "the message is hidden by then");
    let on_the_queue = ReceivedMessage {
        body: content.body.clone(),
        attributes: content.attributes.clone(),
        ..received_message(None)
    };
    let BlockedNotice { receipt_handle, waiting_since, verdict } =
        BlockedNotice::from_record(&on_the_queue).unwrap();
    assert_eq!((receipt_handle.as_str(), waiting_since), (HANDLE, at(10)));
    assert_eq!(verdict.code.as_str(), "INVALID_MESSAGE_FORMAT");
    let moved = ReceivedMessage { redriven_from: Some("arn".to_owned()), ..on_the_queue };
    assert_eq!(BlockedNotice::from_record(&moved), None, "its producer may have written it");
}

#[test]
fn a_blocked_event_has_the_same_fields_as_the_verdicts_event() {
    let record = record("not JSON".to_owned(), Attributes::new());
    let mut failure = Failure::for_invalid_message(DeadLetterReason::InvalidMessageFormat, &"", delivery());
    failure.delivery.last_attempt_logs = Some(attempt_logs());
    let times = ReceiveTimes::new(&record, at(99));
    let give_up = DeadLetterReason::InvalidMessageFormat.into();
    let message_id = Some("orders-1".to_owned());
    let verdict =
        Arrival::from_record(record, at(20)).give_up(message_id, Stage::MessageProcessor, failure, give_up);
    let Some(Event::GivenUp { message_id, sqs_message_id, error_type, request_id }) =
        verdict.confirmed.clone()
    else {
        panic!("{:?}", verdict.confirmed)
    };
    assert_eq!(request_id.as_deref(), attempt_logs().location().request_id());
    let blocked = Event::Blocked { message_id, sqs_message_id, error_type, request_id };
    assert_eq!(create_blocked_notice(verdict, times).unwrap().confirmed, Some(blocked));
}

/// If no notice were written, the group would continue without any report of the blocked message.
#[test]
fn a_notice_without_room_for_log_lines_is_written_without_them() {
    let notice_with_room = |free: usize, logs: Option<AttemptLogs>| {
        let record = record("x".repeat(MESSAGE_BYTES_MAX - free), Attributes::new());
        let mut failure =
            Failure::for_invalid_message(DeadLetterReason::InvalidMessageFormat, &"", delivery());
        failure.delivery.last_attempt_logs = logs;
        let times = ReceiveTimes::new(&record, at(99));
        let give_up = DeadLetterReason::InvalidMessageFormat.into();
        let verdict =
            Arrival::from_record(record, at(20)).give_up(None, Stage::MessageProcessor, failure, give_up);
        let notice = create_blocked_notice(verdict, times).ok()?;
        let attributes = notice.message.as_ref().unwrap().content().attributes.clone();
        let failure = BlockedNotice::from_record(&ReceivedMessage { attributes, ..received_message(None) })
            .unwrap()
            .verdict
            .case?;
        Some(failure.failure.delivery.last_attempt_logs)
    };
    let mut has_logs = Vec::new();
    for free in (0..700).step_by(10) {
        let [with, without] = [Some(attempt_logs()), None].map(|logs| notice_with_room(free, logs));
        assert_eq!(with.is_some(), without.is_some(), "{free}");
        has_logs.extend(with.map(|logs| logs.is_some()));
    }
    assert!(has_logs.is_sorted() && has_logs.contains(&false) && has_logs.contains(&true), "{has_logs:?}");
}

#[test]
fn a_verdict_or_a_forged_handle_is_not_a_notice() {
    let read_notice = |failure: &str| {
        let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(failure))]);
        BlockedNotice::from_record(&record(String::new(), attributes))
    };
    assert_eq!(read_notice(r#"{"verdict":"MESSAGE_EXPIRED"}"#), None);
    assert_eq!(read_notice(r#"{"receipt_handle":"h","waiting_since":"2026-11-28T00:00:00Z"}"#), None);
    assert_eq!(
        read_notice(r#"{"receipt_handle":"h","waiting_since":"soon","verdict":"MESSAGE_EXPIRED"}"#),
        None
    );
    let complete = read_notice(
        r#"{"receipt_handle":"h","waiting_since":"2026-11-28T00:00:00Z","verdict":"MESSAGE_EXPIRED"}"#,
    );
    assert_eq!(complete.unwrap().receipt_handle, "h");
}

#[test]
fn a_message_without_room_for_the_handle_is_given_up_on() {
    let record = record("x".repeat(MESSAGE_BYTES_MAX - 200), Attributes::new());
    let times = ReceiveTimes::new(&record, at(20));
    let given_up = create_blocked_notice(verdict(record), times).unwrap_err();
    assert!(matches!(given_up.confirmed, Some(Event::GivenUp { .. })));
    let content = given_up.message.as_ref().unwrap().content();
    assert!(!content.attributes[FAILURE].text().unwrap().contains("receipt_handle"));
}

#[test]
fn a_blocked_message_is_hidden_for_12_hours_or_until_its_retention_ends() {
    let times = ReceiveTimes::new(&record(String::new(), Attributes::new()), at(0));
    let hiding_seconds =
        |retention, now| hiding_time(queue_times(retention), times, at(now)).map(VisibilitySeconds::get);
    assert_eq!(hiding_seconds(1_209_600, 0), Some(43_020));
    assert_eq!(hiding_seconds(43_200, 0), Some(43_020));
    assert_eq!(hiding_seconds(43_200, 1), Some(43_019));
    assert_eq!(hiding_seconds(43_200, 43_019), Some(1));
    assert_eq!(hiding_seconds(43_200, 43_020), None);
    assert_eq!(hiding_seconds(43_200, 50_000), None);
}
