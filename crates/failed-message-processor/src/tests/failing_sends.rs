//! A record is done only once its own send is confirmed.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

fn ten_failed_messages() -> Vec<ReceivedMessage> {
    (0..10).map(|n| handed_off_message(n, nth_body(n), &busy_failure(n))).collect()
}

/// Returns the ids of the messages on the source queue, regardless of their delay.
fn waiting_ids(setup: &Setup) -> Vec<String> {
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(901)));
    let id = |body: &str| {
        serde_json::from_str::<Value>(body).unwrap()["metadata"]["message_id"].as_str().unwrap().to_owned()
    };
    let mut ids: Vec<_> = setup.source.receive_all().iter().map(|record| id(&record.body)).collect();
    ids.sort();
    ids
}

#[test]
fn a_failed_resend_reports_only_its_own_record() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.source,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![4]),
        Injection::Sender,
    );
    assert_eq!(setup.process(ten_failed_messages()), ["sqs-3"]);
    assert_eq!(waiting_ids(&setup), (0..10).filter(|n| *n != 3).map(nth_id).collect::<Vec<_>>());
}

/// SQS's redrive moves the message to the annotation queue, and then to the final DLQ.
#[test]
fn an_invalid_entry_is_reported_and_does_not_delay_the_others() {
    let setup = Setup::new();
    let mut records = ten_failed_messages();
    records[3].attributes.insert("a b".to_owned(), Attribute::string("x"));
    assert_eq!(setup.process(records), ["sqs-3"]);
    assert_eq!(waiting_ids(&setup).len(), 9);
    let (sqs_message_id, code) = ("sqs-3".to_owned(), "AttributeName".to_owned());
    let not_confirmed = Event::NotConfirmed { sqs_message_id, send: "re-send", code };
    assert!(setup.world.seen.events().contains(&not_confirmed));
}

#[test]
fn a_forged_folded_attribute_does_not_make_sqs_refuse_the_send() {
    for folded in [
        json!({ "a b": { "data_type": "String", "text": "x" } }),
        json!({ "f": { "data_type": "Foo", "text": "x" } }),
        json!({ "f": { "data_type": "Number", "text": "abc" } }),
        json!({ "f": { "data_type": "Binary", "text": "text" } }),
    ] {
        let dead_letter = json!({
            "stage": "message-processor",
            "cause": { "type": "T", "message": "m" },
            "dead_lettered_at": format_time_at(-9),
            "sqs_message_id": "m",
            "fingerprint": "0123456789abcdef",
            "folded_attributes": folded,
        });
        let failure = json!({ "verdict": "NON_RETRYABLE_ERROR", "due_at": format_time_at(9), "folded_attributes": folded });
        let setup = Setup::new();
        let mut record = redriven_message(0, nth_body(0));
        record.attributes = [("DeadLetter", dead_letter), (FAILURE, failure)]
            .map(|(name, document)| (name.to_owned(), Attribute::string(document.to_string())))
            .into();
        let kept = record.attributes["DeadLetter"].clone();
        assert_eq!(setup.process(vec![record]), [""; 0], "{folded}");
        let expected = Attributes::from([("DeadLetter".to_owned(), kept)]);
        assert_eq!(
            setup.source.only_sent_content().attributes,
            expected,
            "{folded}: it stays the producer's"
        );
    }
}

#[test]
fn a_failed_verdict_send_reports_only_its_own_record() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.annotation,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![1]),
        Injection::Sender,
    );
    let mut records = ten_failed_messages();
    records[2].body = "first verdict".to_owned();
    records[6].body = "second verdict".to_owned();
    assert_eq!(setup.process(records), ["sqs-2"]);
    assert_eq!(waiting_ids(&setup).len(), 8);
    assert_eq!(setup.annotation.receive_all().len(), 1);
}

#[test]
fn a_resend_whose_response_is_lost_is_sent_again_and_not_reported() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.source,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![1]),
        Injection::LostResponse,
    );
    assert_eq!(setup.process(ten_failed_messages()), [""; 0]);
    let copies: Vec<_> = [0].into_iter().chain(0..10).map(nth_id).collect();
    assert_eq!(waiting_ids(&setup), copies, "a copy of the first message: at-least-once delivery");
    let sent = setup.source.sent_contents();
    assert_eq!(sent[0], sent[10], "the copy has the same body and delay");
}

#[test]
fn an_endlessly_throttled_send_is_reported_before_the_deadline() {
    let setup = Setup::new();
    setup.world.fail_sends(
        &setup.source,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Throttled,
    );
    let expected: Vec<_> = (0..10).map(|n| format!("sqs-{n}")).collect();
    assert_eq!(setup.process(ten_failed_messages()), expected);
    assert!((25..30).contains(&setup.world.elapsed_seconds()));
    assert!(waiting_ids(&setup).is_empty());
}

#[test]
fn an_ambiguous_send_is_repeated_once_and_then_reported() {
    for (injection, accepted) in
        [(Injection::Service, 0), (Injection::LostRequest, 0), (Injection::LostResponse, 20)]
    {
        let setup = Setup::new();
        setup.world.fail_sends(&setup.source, FaultScope::Request, FaultTrigger::Chance(1.0), injection);
        let expected: Vec<_> = (0..10).map(|n| format!("sqs-{n}")).collect();
        assert_eq!(setup.process(ten_failed_messages()), expected, "{injection:?}");
        assert_eq!(
            (setup.source.sent_contents().len(), setup.world.elapsed_seconds()),
            (20, 2),
            "{injection:?}"
        );
        assert_eq!(waiting_ids(&setup).len(), accepted, "{injection:?}");
    }
}

#[test]
fn a_queue_that_never_answers_is_abandoned_before_the_deadline() {
    let setup = Setup::new();
    let setup = Setup {
        source: setup.source.clone().with_pauses(Duration::from_secs(3600), Duration::ZERO),
        ..setup
    };
    assert_eq!(setup.process(ten_failed_messages()).len(), 10);
    assert_eq!(setup.world.clock.now() - start_time(), chrono::TimeDelta::milliseconds(29_500));
}

#[test]
fn ten_records_with_ten_outcomes_do_not_affect_each_other() {
    let fate = |n: usize| match n {
        0 => handed_off_message(n, nth_body(n), &busy_failure(n)),
        1 => {
            handed_off_message(n, nth_body(n), &with_members(busy_failure(n), json!({ "kind": "permanent" })))
        }
        2 => handed_off_message(n, body_with_metadata(n, r#""retry_attempt":5"#), &busy_failure(n)),
        3 => handed_off_message(
            n,
            nth_body(n),
            &with_members(busy_failure(n), json!({ "kind": "snooze", "retry_after_seconds": 9 })),
        ),
        4 => redriven_message(n, nth_body(n)),
        5 => redriven_message(n, "not JSON"),
        6 => handed_off_message(
            n,
            nth_body(n),
            &with_members(busy_failure(n), json!({ "kind": "not_started" })),
        ),
        7 => handed_off_message(
            n,
            body_with_metadata(n, r#""retry_attempt":5"#),
            &with_members(busy_failure(n), json!({ "new_generation": true })),
        ),
        8 => redriven_message(n, body_of_size(n, redeliver_core::limits::MESSAGE_BYTES_MAX)),
        _ => ReceivedMessage { attributes: ten_attributes(), ..redriven_message(n, nth_body(n)) },
    };
    let together = Setup::new();
    assert_eq!(together.process((0..10).map(fate).collect()), [""; 0]);
    let (mut resends, mut verdicts) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let alone = Setup::new();
        assert_eq!(alone.process(vec![fate(n)]), [""; 0]);
        resends.extend(alone.source.sent_contents());
        verdicts.extend(alone.annotation.sent_contents());
    }
    assert_eq!((resends.len(), verdicts.len()), (6, 4));
    assert_eq!(together.source.sent_contents(), resends);
    let sorted_by_body = |mut contents: Vec<Content>| {
        contents.sort_by(|one, other| one.body.cmp(&other.body));
        contents
    };
    assert_eq!(
        sorted_by_body(together.annotation.sent_contents()),
        sorted_by_body(verdicts),
        "the batches may be in any order"
    );
}
