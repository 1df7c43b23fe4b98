//! Previously failed messages, which may themselves be the cause of failures.

use super::*;

/// Returns a message whose history contains one failed call that spent no attempt.
fn previously_failed_message(n: usize) -> ReceivedMessage {
    let past = r#"{"attempt":0,"failed_at":"2026-07-25T16:50:00Z","error_type":"HttpStatus.503","error_details":""}"#;
    resent_record(nth_record(n, body_with_metadata(n, &format!(r#""retry_history":[{past}]"#))))
}

/// If these failures opened the circuit, a poison message would repeatedly put all others on hold.
#[test]
fn failures_of_previously_failed_messages_open_no_circuit() {
    let setup = fail_every_call(Setup::new());
    (0..5).for_each(|batch| {
        drop(setup.process((0..10).map(|n| previously_failed_message(batch * 10 + n)).collect(), 30))
    });
    assert_eq!(setup.handler.calls().len(), 50);
    assert_eq!(count_messages(&setup, FAILED), 50);
}

/// A message that stays on its queue is not modified, but SQS counts its receives.
#[test]
fn failures_of_previously_received_messages_open_no_circuit() {
    let policy = r#"{"circuit_breaker":{},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let setup = fail_every_call(Setup { strategy: Strategy::Visibility, ..Setup::with_policy(policy) });
    for batch in 0..5 {
        let again = |n| ReceivedMessage { receive_count: 2, ..nth_record(n, nth_body(n)) };
        setup.process((batch * 10..batch * 10 + 10).map(again).collect(), 30);
    }
    assert_eq!(setup.handler.calls().len(), 50);
}

#[test]
fn a_previously_failed_message_can_be_the_only_probe_in_its_batch() {
    let setup = setup_with_open_circuit();
    setup.sleep(15);
    // A probe is due immediately for a message that never failed, and after three quarters of the outage's age for
    // others.
    setup.process(
        vec![previously_failed_message(10), nth_record(11, nth_body(11)), previously_failed_message(12)],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(10)]);
}

/// If previously failed messages were held, a few poison messages would be held for a day although the target is
/// available.
#[test]
fn an_unconfirmed_outage_holds_no_previously_failed_message() {
    let setup = Setup { max_concurrency: 1, ..setup_with_open_circuit() };
    setup.sleep(299);
    setup.process(vec![previously_failed_message(10)], 30);
    assert_eq!(kinds_and_types(&setup)[10..], pairs([CALLED]), "a probe");
    setup.sleep(1);
    setup.process(
        vec![previously_failed_message(11), nth_record(12, nth_body(12)), previously_failed_message(13)],
        30,
    );
    assert_eq!(
        kinds_and_types(&setup)[11..],
        pairs([FAILED, FAILED, NOT_CALLED]),
        "a new message is still held"
    );
    // The probe with a new message confirms the outage.
    setup.sleep(120);
    setup.process(vec![nth_record(14, nth_body(14)), previously_failed_message(15)], 30);
    assert_eq!(kinds_and_types(&setup)[13..], pairs([CALLED, NOT_CALLED, NOT_CALLED]));
}
