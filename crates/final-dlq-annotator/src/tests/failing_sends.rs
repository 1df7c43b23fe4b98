//! A record is done only once its final record is confirmed.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

fn ten_given_up_messages() -> Vec<ReceivedMessage> {
    (0..10).map(|n| given_up_message(n, nth_body(n), &failure("NON_RETRYABLE_ERROR", json!({})))).collect()
}

#[test]
fn a_failed_send_reports_only_its_own_record() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.final_dlq,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![4]),
        Injection::Sender,
    );
    assert_eq!(setup.process(ten_given_up_messages()), ["sqs-3"], "by its id in the annotation queue");
    assert_eq!(setup.final_dlq.receive_all().len(), 9);
    let events = setup.world.seen.events();
    let (sqs_message_id, code) = ("sqs-3".to_owned(), "InvalidParameterValue".to_owned());
    let expected = Event::NotConfirmed { sqs_message_id, send: "final record", code };
    assert_eq!(events.len(), 10);
    assert!(events.contains(&expected), "{events:?}");
}

/// SQS's redrive policy moves the message to the final DLQ without an annotation.
#[test]
fn an_invalid_entry_is_reported_and_does_not_delay_the_others() {
    let setup = Setup::new();
    let mut records = ten_given_up_messages();
    records[3].attributes.insert("a b".to_owned(), Attribute::string("x"));
    assert_eq!(setup.process(records), ["sqs-3"]);
    assert_eq!(setup.final_dlq.receive_all().len(), 9);
    let (sqs_message_id, code) = ("sqs-3".to_owned(), "AttributeName".to_owned());
    let not_confirmed = Event::NotConfirmed { sqs_message_id, send: "final record", code };
    assert!(setup.world.seen.events().contains(&not_confirmed));
}

#[test]
fn an_endlessly_throttled_send_is_reported_before_the_deadline() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.final_dlq,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Throttled,
    );
    let expected: Vec<_> = (0..10).map(|n| format!("sqs-{n}")).collect();
    assert_eq!(setup.process(ten_given_up_messages()), expected);
    assert!((25..30).contains(&setup.world.elapsed_seconds()));
}

#[test]
fn an_ambiguous_send_is_repeated_once_and_then_reported() {
    for injection in [Injection::Service, Injection::LostRequest, Injection::LostResponse] {
        let setup = Setup::new();
        setup.world.fail_sends(&setup.final_dlq, FaultScope::Request, FaultTrigger::Chance(1.0), injection);
        assert_eq!(setup.process(ten_given_up_messages()).len(), 10);
        assert_eq!(
            (setup.final_dlq.sent_contents().len(), setup.world.elapsed_seconds()),
            (20, 2),
            "{injection:?}"
        );
    }
}

#[test]
fn a_lost_response_creates_a_copy_and_reports_no_failure() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.final_dlq,
        FaultScope::Request,
        FaultTrigger::Numbers(vec![1]),
        Injection::LostResponse,
    );
    assert_eq!(setup.process(ten_given_up_messages()), [""; 0]);
    assert_eq!(setup.final_dlq.receive_all().len(), 20, "at-least-once delivery");
}

#[test]
fn a_dead_letter_is_reported_only_after_its_send_is_confirmed() {
    let setup = Setup::new();
    let (before, after) = (Duration::from_secs(1), Duration::from_secs(2));
    let setup = Setup { final_dlq: setup.final_dlq.clone().with_pauses(before, after), ..setup };
    setup.process(ten_given_up_messages());
    let times: Vec<_> = setup.world.seen.timed_events().into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [start_time() + before + after; 10]);
}
