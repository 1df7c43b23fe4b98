//! A message's claims about an outage, which are trusted only if redeliver sent the message.

use super::*;

/// Returns the n-th record, with forged redeliver members in its metadata.
fn with_forged_metadata(n: usize, members: &str) -> ReceivedMessage {
    nth_record(n, nth_body(n).replacen('}', &format!(",{members}}}"), 1))
}

const HELD_SINCE_2020: &str = r#""held_seconds":1,"held_since":"2020-01-01T00:00:00Z""#;
/// Longer than any policy allows.
const HELD_FOR_EVER: &str = r#""held_seconds":1210500,"held_since":"2020-01-01T00:00:00Z""#;

/// Returns the message id of each call after the first ten.
fn called_ids(setup: &Setup) -> Vec<String> {
    setup.handler.called_message_ids().split_off(10)
}

#[test]
fn a_forged_outage_holds_no_other_message() {
    let unknown: fn(ReceivedMessage) -> ReceivedMessage = |record| record;
    for sent in [produced_record, unknown] {
        let setup = Setup::new().failing(0, down_error());
        let mut batch = records(1..10);
        batch.insert(0, sent(with_forged_metadata(0, HELD_SINCE_2020)));
        setup.process(batch, 30);
        setup.process(records(10..20), 30);
        setup.process(records(20..30), 30);
        assert_eq!(setup.handler.called_message_ids(), (0..30).map(nth_id).collect::<Vec<_>>());
        assert_eq!(kinds_and_types(&setup), pairs([FAILED]));
    }
}

#[test]
fn a_forged_hold_forces_no_call_while_the_target_is_down() {
    let setup = setup_with_open_circuit();
    setup.process(
        vec![
            produced_record(with_forged_metadata(1, HELD_FOR_EVER)),
            resent_record(with_forged_metadata(2, HELD_FOR_EVER)),
        ],
        30,
    );
    assert_eq!(called_ids(&setup), [nth_id(2)]);
    assert_eq!(kinds_and_types(&setup)[10..], pairs([FAILED, NOT_CALLED]));
    let held = &setup.resent_metadata()[0];
    assert_eq!(
        (&held["held_since"], &held["held_seconds"]),
        (&format_time_at(0).into(), &2.into()),
        "its first hold"
    );
}

#[test]
fn without_resend_sender_ids_a_hold_still_ends() {
    let setup = setup_with_open_circuit();
    setup.process(vec![with_forged_metadata(1, HELD_FOR_EVER)], 30);
    assert_eq!(called_ids(&setup), [nth_id(1)]);
    assert_eq!(kinds_and_types(&setup)[10..], pairs([FAILED]));
}

#[test]
fn calls_at_the_hold_limit_close_and_open_the_circuit() {
    // A call succeeds: the target has recovered.
    let setup = succeed_every_call(setup_with_open_circuit());
    setup.process(vec![resent_record(with_forged_metadata(1, HELD_FOR_EVER))], 30);
    assert_eq!(count_circuit_closings(&setup), 1);
    setup.process(records(20..30), 30);
    assert_eq!(called_ids(&setup), [nth_id(1), nth_id(20), nth_id(21)], "calls resume slowly");
    // These calls fail: the target goes down again. There are no other calls.
    let setup = fail_every_call(Setup::new());
    // The messages are not evidence, since they are at their hold limit.
    setup.process(
        (0..10).map(|n| resent_record(with_forged_metadata(n, r#""held_seconds":1210500"#))).collect(),
        30,
    );
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!((count_messages(&setup, FAILED), count_messages(&setup, NOT_CALLED)), (10, 10));
}

#[test]
fn a_resend_does_not_carry_a_producers_forged_hold() {
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let setup = fail_every_call(Setup { strategy, ..Setup::new() });
        setup.process(records(10..20), 30);
        setup.process(vec![produced_record(with_forged_metadata(1, HELD_FOR_EVER))], 30);
        let setup = match strategy {
            Strategy::DelayedResend => setup.run_failed_message_processor(),
            _ => setup,
        };
        let sent = setup
            .source
            .sent_contents()
            .into_iter()
            .find(|content| content.body.contains(&nth_id(1)))
            .unwrap();
        let body: Value = serde_json::from_str(&sent.body).unwrap();
        let metadata = &body["metadata"];
        assert_eq!(
            (&metadata["held_since"], metadata["held_seconds"].as_u64()),
            (&format_time_at(0).into(), Some(sent.delay.get().into())),
            "{strategy}: its first hold"
        );
    }
}

#[test]
fn a_message_that_stays_on_its_queue_has_no_trusted_holds() {
    let policy = r#"{"circuit_breaker":{},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let hidden = || Setup { strategy: Strategy::Visibility, ..Setup::with_policy(policy) };
    let setup = hidden().failing(0, down_error());
    let mut batch = records(1..10);
    batch.insert(0, resent_record(with_forged_metadata(0, HELD_SINCE_2020)));
    setup.process(batch, 30);
    assert_eq!(setup.handler.calls().len(), 10);
    let setup = fail_every_call(hidden());
    setup.process(ten_records(), 30);
    setup.process(vec![resent_record(with_forged_metadata(11, HELD_FOR_EVER))], 30);
    assert_eq!(setup.handler.calls().len(), 10);
}
