//! Events: one per outcome, none before its outcome is certain, and none with text from messages or targets.

use redeliver_core::handler::ErrorType;
use redeliver_core::message::Attribute;

use super::*;

#[test]
fn every_record_has_one_event_with_exact_values() {
    let setup = Setup::new().on(1, Step::Take(2)).failing(2, busy_error()).on(3, Step::Hang);
    let mut records: Vec<_> = (1..5).map(|n| nth_record(n, nth_body(n))).collect();
    records[3].body = "{}".to_owned();
    setup.process(records, 30);
    let handed_off = |n, error_type: &str| {
        let error_type = error_type.to_owned();
        let (message_id, kind) = (nth_id(n), "transient");
        Event::HandedOff {
            message_id,
            retry_attempt: 0,
            error_type,
            kind,
            age_seconds: 35.0,
            request_id: None,
        }
    };
    let processed =
        Event::Processed { message_id: nth_id(1), retry_attempt: 0, age_seconds: 35.0, target_seconds: 2.0 };
    let error_type = "INVALID_MESSAGE_SCHEMA";
    let given_up =
        Event::GivenUp { message_id: None, sqs_message_id: "sqs-4".to_owned(), error_type, request_id: None };
    let expected = [processed, given_up, handed_off(2, "Db.Busy"), handed_off(3, "Timeout")];
    assert_eq!(setup.world.seen.events(), expected);
}

#[test]
fn a_call_that_was_not_started_is_reported_as_not_started() {
    let setup = Setup { max_concurrency: 1, ..Setup::new().on(1, Step::Hang) };
    setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30);
    let handed_off = |n, error_type: &str, kind| {
        let error_type = error_type.to_owned();
        Event::HandedOff {
            message_id: nth_id(n),
            retry_attempt: 0,
            error_type,
            kind,
            age_seconds: 35.0,
            request_id: None,
        }
    };
    let expected = [handed_off(1, "Timeout", "transient"), handed_off(2, "NotStarted", "not_started")];
    assert_eq!(setup.world.seen.events(), expected);
}

#[test]
fn the_age_counts_from_the_first_send() {
    let metadata = format!(r#""retry_attempt":2,"first_sent_time":"{}","message_id""#, format_time_at(-3600));
    let setup = Setup::new();
    setup.process(vec![nth_record(1, nth_body(1).replace(r#""message_id""#, &metadata))], 30);
    let processed = Event::Processed {
        message_id: nth_id(1),
        retry_attempt: 2,
        age_seconds: 3600.0,
        target_seconds: 0.0,
    };
    assert_eq!(setup.world.seen.events(), [processed]);
}

#[test]
fn an_event_is_reported_only_after_its_send_is_confirmed() {
    let setup = Setup::new().failing(1, busy_error());
    let (before, after) = (Duration::from_secs(1), Duration::from_secs(2));
    let setup = Setup {
        intermediate: setup.intermediate.clone().with_pauses(before, after),
        annotation: setup.annotation.clone().with_pauses(before, after),
        ..setup
    };
    setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, "{}")], 30);
    let times: Vec<_> = setup.world.seen.timed_events().into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [start_time() + before + after; 2]);
}

#[test]
fn a_failed_send_is_reported_instead_of_the_outcome() {
    use redeliver_embedded::{FaultScope, FaultTrigger, Injection};
    let setup = Setup::new().failing(1, busy_error());
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Sender,
    );
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    let (sqs_message_id, code) = ("sqs-1".to_owned(), "InvalidParameterValue".to_owned());
    let expected = [Event::NotConfirmed { sqs_message_id, send: "hand-off", code }];
    assert_eq!(setup.world.seen.events(), expected);
}

#[test]
fn no_event_contains_payloads_attributes_or_target_text() {
    let error = HandlerError::transient(ErrorType::FromTarget(CANARY.to_owned()), CANARY);
    let setup = Setup::new().failing(1, error.clone()).failing(2, error).on(3, Step::PanicInside);
    let canary = |n: usize| {
        let attributes = Attributes::from([(CANARY.to_owned(), Attribute::string(CANARY))]);
        let body = nth_body(n).replace(r#"{"n""#, &format!(r#"{{"{CANARY}":"{CANARY}","n""#));
        ReceivedMessage { attributes, ..nth_record(n, body) }
    };
    let mut records: Vec<_> = (0..6).map(canary).collect();
    records[2].attributes.extend(ten_attributes().into_iter().take(9));
    records[4].body = CANARY.to_owned();
    records[5].body = format!(r#"{{"metadata":{{"message_id":"{CANARY}"}},"data":{{}}}}"#);
    assert_eq!(setup.process(records, 30), [""; 0]);
    let events = setup.world.seen.events();
    assert_eq!(events.len(), 6);
    assert!(!format!("{events:?}").contains(CANARY), "{events:?}");
    let named =
        |event: &Event| matches!(event, Event::HandedOff { error_type, .. } if error_type == "FromTarget");
    assert_eq!(events.iter().filter(|event| named(event)).count(), 2);
}
