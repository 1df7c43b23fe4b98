//! Events: one per outcome, none before its outcome is certain, and none with text from messages or targets.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

#[test]
fn a_retry_is_reported_with_exact_values() {
    let setup = Setup::with_policy(FIXED);
    setup.process(vec![handed_off_message(
        1,
        body_with_metadata(1, r#""retry_attempt":2"#),
        &busy_failure(1),
    )]);
    let scheduled = Event::RetryScheduled {
        message_id: nth_id(1),
        retry_attempt: 3,
        spends_attempt: true,
        delay_seconds: RetryDelay::new(100).unwrap(),
        age_seconds: 10.0,
        error_type: None,
        request_id: None,
    };
    assert_eq!(setup.world.seen.events(), [scheduled]);
}

#[test]
fn a_crash_and_a_snooze_are_reported_as_spending_no_attempt() {
    let setup = Setup::new();
    let snoozed = with_members(busy_failure(2), json!({ "kind": "snooze", "retry_after_seconds": 10 }));
    setup.process(vec![
        redriven_message(1, body_with_metadata(1, r#""retry_attempt":2"#)),
        handed_off_message(2, body_with_metadata(2, r#""retry_attempt":2"#), &snoozed),
        handed_off_message(3, body_with_metadata(3, r#""retry_attempt":2"#), &busy_failure(3)),
    ]);
    let mut reported: Vec<_> = setup
        .world
        .seen
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::RetryScheduled { message_id, retry_attempt, spends_attempt, .. } => {
                Some((message_id, retry_attempt, spends_attempt))
            }
            _ => None,
        })
        .collect();
    reported.sort();
    assert_eq!(reported, [(nth_id(1), 2, false), (nth_id(2), 2, false), (nth_id(3), 3, true)]);
}

#[test]
fn only_a_redriven_message_is_reported_as_arrived_by_redrive() {
    let setup = Setup::new();
    setup.process(vec![
        handed_off_message(1, nth_body(1), &busy_failure(1)),
        redriven_message(2, nth_body(2)),
    ]);
    let events = setup.world.seen.events();
    let arrivals: Vec<_> =
        events.iter().filter(|event| matches!(event, Event::ArrivedByRedrive { .. })).collect();
    let arrived = Event::ArrivedByRedrive { sqs_message_id: "sqs-2".to_owned(), receive_count: 2 };
    assert_eq!(arrivals, [&arrived]);
    assert_eq!(events.len(), 3);
}

#[test]
fn a_message_is_reported_as_received_again_from_the_fourth_receive() {
    let setup = Setup::new();
    let received = |n, receive_count| ReceivedMessage {
        receive_count,
        ..handed_off_message(n, nth_body(n), &busy_failure(n))
    };
    setup.process(vec![received(1, 3), received(2, 4)]);
    let events = setup.world.seen.events();
    let sqs_message_id = "sqs-2".to_owned();
    assert_eq!(events[0], Event::ReceivedAgain { sqs_message_id, receive_count: 4, age_seconds: 1.0 });
    assert_eq!(events.len(), 3, "and both retries: {events:?}");
}

#[test]
fn a_verdict_is_reported_with_the_message_id_if_there_is_one() {
    let setup = Setup::new();
    let permanent = with_members(busy_failure(1), json!({ "kind": "permanent" }));
    setup.process(vec![
        handed_off_message(1, nth_body(1), &permanent),
        handed_off_message(2, "{}", &busy_failure(2)),
    ]);
    let given_up = |n: usize, message_id, error_type| Event::GivenUp {
        message_id,
        sqs_message_id: format!("sqs-{n}"),
        error_type,
        request_id: None,
    };
    let expected =
        [given_up(1, Some(nth_id(1)), "NON_RETRYABLE_ERROR"), given_up(2, None, "INVALID_MESSAGE_SCHEMA")];
    assert_eq!(setup.world.seen.events(), expected);
}

#[test]
fn an_outcome_is_reported_only_after_its_send_is_confirmed() {
    let setup = Setup::new();
    let (before, after) = (Duration::from_secs(1), Duration::from_secs(2));
    let setup = Setup {
        source: setup.source.clone().with_pauses(before, after),
        annotation: setup.annotation.clone().with_pauses(before, after),
        ..setup
    };
    setup.process(vec![
        handed_off_message(1, nth_body(1), &busy_failure(1)),
        handed_off_message(2, "{}", &busy_failure(2)),
    ]);
    let times: Vec<_> = setup.world.seen.timed_events().into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [start_time() + before + after; 2]);
}

#[test]
fn a_failed_send_is_reported_instead_of_the_outcome() {
    let setup = Setup::new();
    setup.world.fail_sends(&setup.source, FaultScope::Request, FaultTrigger::Chance(1.0), Injection::Sender);
    setup.process(vec![handed_off_message(1, nth_body(1), &busy_failure(1))]);
    let (sqs_message_id, code) = ("sqs-1".to_owned(), "InvalidParameterValue".to_owned());
    let expected = [Event::NotConfirmed { sqs_message_id, send: "re-send", code }];
    assert_eq!(setup.world.seen.events(), expected);
}

#[test]
fn no_event_contains_text_from_payloads_attributes_or_targets() {
    let setup = Setup::new();
    let canary = with_members(busy_failure(1), json!({ "type": "canary", "details": "canary" }));
    let permanent = with_members(canary.clone(), json!({ "kind": "permanent" }));
    let body = |n| nth_body(n).replace(r#"{"n""#, r#"{"canary":"canary","n""#);
    let mut records = vec![
        handed_off_message(1, body(1), &canary),
        handed_off_message(2, body(2), &permanent),
        handed_off_message(3, "canary", &canary),
        redriven_message(4, body(4)),
    ];
    for record in &mut records {
        record.attributes.insert("canary".to_owned(), Attribute::string("canary"));
    }
    setup.process(records);
    let events = format!("{:?}", setup.world.seen.events());
    assert!(!events.contains("canary"), "{events}");
}
