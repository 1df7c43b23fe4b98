//! Environments that are informed of an outage by a held message.

use super::*;

/// Returns one held message without a key, and nine new messages.
fn one_held_and_nine_new(sent_before: i64) -> Vec<ReceivedMessage> {
    let mut batch = vec![held_message(0, 600, sent_before)];
    batch.extend(records(1..10));
    batch
}

#[test]
fn a_recently_held_message_opens_the_circuit_in_a_new_environment() {
    let setup = fail_every_call(Setup::new());
    setup.process(one_held_and_nine_new(700), 30);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0)], "one probe instead of ten calls that fail");
    assert_eq!((count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)), (1, 9));
    let probed = &setup.failures()[0];
    assert_eq!(
        (&probed["held_since"], &probed["outage_failures"]),
        (&format_time_at(-2000).into(), &13.into())
    );
    // This is the environment's first failure, which may be due to chance. The other messages have never been held.
    assert_eq!((&probed["retry_after_seconds"], delays(&setup)), (&2.into(), vec![2; 9]));
    for metadata in setup.resent_metadata() {
        assert_eq!(
            (&metadata["held_since"], &metadata["outage_failures"]),
            (&format_time_at(-2000).into(), &13.into())
        );
    }
}

#[test]
fn a_forged_hold_opens_no_circuit() {
    // A hold of 0 s, and an outage that begins after the send, are ignored.
    for (held_seconds, sent_before) in [(0, 700), (600, 2001)] {
        let setup = fail_every_call(Setup::new());
        let mut batch = vec![held_message(0, held_seconds, sent_before)];
        batch.extend(records(1..10));
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len(), 10, "{held_seconds} {sent_before}");
    }
}

#[test]
fn an_old_hold_opens_no_circuit() {
    for (sent_before, calls) in [(1799, 1), (1800, 10)] {
        let setup = fail_every_call(Setup::new());
        setup.process(one_held_and_nine_new(sent_before), 30);
        assert_eq!(setup.handler.calls().len(), calls, "{sent_before}");
    }
}

/// The held message carries the number of first calls that failed in its environment. If the message's own failures
/// counted, they would hold other messages in each new environment.
#[test]
fn a_new_environment_continues_the_outage_count_of_a_held_message() {
    let past = r#"{"attempt":0,"failed_at":"2026-07-25T16:50:00Z","error_type":"HttpStatus.500","error_details":""}"#;
    for failed in [format!(r#""retry_history":[{past}],"#), r#""retry_attempt":1,"#.to_owned()] {
        for (first_failures, called, open) in [(0, 10, false), (1, 10, true), (12, 1, true)] {
            let setup = fail_every_call(Setup::new());
            let mut batch = one_held_and_nine_new(700);
            let members = format!(r#"{failed}"outage_failures":{first_failures}"#);
            batch[0].body = batch[0].body.replace(r#""outage_failures":12"#, &members);
            setup.process(batch, 30);
            assert_eq!(setup.handler.calls().len(), called, "{failed} {first_failures}");
            let expected = if open { (called, 10 - called) } else { (0, 0) };
            assert_eq!(
                (count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)),
                expected,
                "{failed} {first_failures}"
            );
        }
    }
}

#[test]
fn only_a_report_newer_than_the_last_response_counts() {
    let setup = setup_with_open_circuit();
    let setup = succeed_every_call(setup);
    setup.sleep(15);
    setup.process(records(10..11), 30);
    assert_eq!(count_circuit_closings(&setup), 1, "at second 15");
    setup.sleep(60);
    setup.process(vec![held_message(0, 600, 10), held_message(1, 600, -15)], 30);
    assert_eq!(count_circuit_closings(&setup), 1, "both messages were held before the answer");
    setup.sleep(60);
    setup.process(vec![held_message(0, 600, 10), held_message(1, 600, -75)], 30);
    assert_eq!(count_circuit_closings(&setup), 1, "the target answered at second 75");
    setup.sleep(60);
    // After an outage, a run of failures may be due to chance, so the next outage takes more failures to detect.
    let mut newer = held_message(1, 600, -136);
    newer.body = newer.body.replace(r#""outage_failures":12"#, r#""outage_failures":200"#);
    setup.process(vec![held_message(0, 600, 10), newer], 30);
    assert_eq!(count_circuit_closings(&setup), 2, "another environment has since found the target down");
}

/// If the held message counted more, one environment's outage would stop all others, regardless of their own evidence.
#[test]
fn a_response_in_the_last_30_seconds_outweighs_a_held_message() {
    for (seconds, calls) in [(29, 10), (30, 1)] {
        let setup = (1..11).fold(Setup::new(), |setup, n| setup.failing(n, down_error()));
        // A key gets its own circuit only after a failure.
        setup.process(records(1..2), 30);
        setup.process(records(11..12), 30);
        let before = setup.handler.calls().len();
        setup.sleep(seconds);
        // Half of the calls have failed, so twelve consecutive failures may be due to chance.
        let mut report = held_message(2, 600, -1);
        report.body = report.body.replace(r#""outage_failures":12"#, r#""outage_failures":40"#);
        let batch = vec![report].into_iter().chain(records(3..12)).collect();
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len() - before, calls, "{seconds}");
    }
}

#[test]
fn the_rest_of_a_batch_waits_for_the_probe_then_the_rate_limit() {
    let setup = Setup::new().on(0, Step::Take(2));
    setup.process(one_held_and_nine_new(700), 30);
    assert_eq!(setup.world.elapsed_seconds(), 2);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1)]);
    assert_eq!(count_messages(&setup, ("held", "RateLimited")), 8);
}
