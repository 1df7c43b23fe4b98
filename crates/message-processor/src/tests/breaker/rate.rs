//! A target that temporarily refuses calls: the call rate, and messages that wait for their turn.

use super::*;

fn refusal_error() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429")
}

const REFUSED: (&str, &str) = ("held", "HttpStatus.429");

/// If refused calls spent attempts, a busy hour would dead-letter the messages that the target cannot handle.
#[test]
fn a_call_refused_by_a_busy_target_waits_without_spending_an_attempt() {
    for (error, delay) in [(refusal_error(), 2), (refusal_error().retry_after(Duration::from_secs(40)), 40)] {
        for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
            // Two messages are refused, so neither of them is the cause.
            let setup =
                Setup { strategy, ..Setup::new() }.failing(0, error.clone()).failing(1, error.clone());
            setup.process(records(0..2), 30);
            let setup = match strategy {
                Strategy::DelayedResend => {
                    assert_eq!(kinds_and_types(&setup), pairs([REFUSED, REFUSED]));
                    setup.run_failed_message_processor()
                }
                _ => setup,
            };
            for metadata in setup.resent_metadata() {
                assert_eq!(metadata["retry_attempt"], 0, "{strategy}");
                assert!(metadata["held_seconds"].as_u64().unwrap() >= delay, "{strategy}: {metadata}");
                assert_eq!(metadata["retry_history"][0]["error_type"], "HttpStatus.429");
            }
        }
    }
}

#[test]
fn a_message_waits_for_the_rate_limit_while_its_batch_runs() {
    let setup = Setup::new().failing(0, refusal_error());
    setup.process(records(0..1), 30);
    // 0.8 calls per second, and the burst of one and a half calls is used up.
    let setup = setup.on(1, Step::Take(10));
    setup.sleep(2);
    setup.process(records(1..4), 30);
    assert_eq!(setup.handler.calls().len(), 4);
    assert_eq!(kinds_and_types(&setup), pairs([REFUSED]));
    assert_eq!(setup.world.elapsed_seconds(), 12);
}

#[test]
fn a_rate_limited_message_is_held_and_reports_no_outage() {
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let setup = Setup { strategy, ..Setup::new() }.failing(0, refusal_error());
        setup.process(records(0..1), 30);
        setup.process(records(1..10), 30);
        assert_eq!(setup.handler.calls().len(), 1, "{strategy}");
        assert_eq!(
            setup.world.clock.now() - start_time(),
            chrono::TimeDelta::milliseconds(500),
            "the message waits briefly"
        );
        let called = match strategy {
            Strategy::DelayedResend => {
                assert_eq!(kinds_and_types(&setup)[..1], pairs([REFUSED]));
                0
            }
            _ => 1,
        };
        let held = setup.source.sent_contents().split_off(called);
        assert_eq!(held.len(), 9, "{strategy}");
        for metadata in &setup.resent_metadata()[called..] {
            assert_eq!((&metadata["retry_attempt"], &metadata["held_since"]), (&0.into(), &Value::Null));
            assert_eq!((&metadata["held_seconds"], &metadata["retry_history"]), (&1.into(), &Value::Null));
        }
        // Other environments are not informed: a new environment makes all calls.
        let other = fail_every_call(Setup::new());
        let held = held.into_iter().enumerate().map(|(n, sent)| resent_record(nth_record(n, sent.body)));
        other.process(held.collect(), 30);
        assert_eq!(other.handler.calls().len(), 9);
    }
}

/// A message held after a refusal is not evidence of an outage either, regardless of its metadata.
#[test]
fn a_refused_message_reports_no_outage_to_other_environments() {
    let setup = Setup { strategy: Strategy::DirectResend, ..Setup::new() }.failing(0, refusal_error());
    setup.process(records(0..1), 30);
    let other = fail_every_call(Setup::new());
    let mut batch = vec![resent_record(nth_record(0, setup.source.only_sent_content().body))];
    batch.extend(records(1..9));
    other.process(batch, 30);
    assert_eq!(other.handler.calls().len(), 9);
}

#[test]
fn calls_resume_slowly_after_an_outage() {
    let setup = succeed_every_call(setup_with_open_circuit());
    setup.sleep(15);
    setup.process(records(10..20), 30);
    // The probe, one immediate call, and one call in the half second for which the batch waits.
    assert_eq!((setup.handler.calls().len() - 10, count_messages(&setup, LIMITED)), (3, 7));
}

/// If the target were probed earlier, Lambda would bill time for calls that the target has forbidden.
#[test]
fn a_target_is_not_probed_before_its_retry_after_expires() {
    let setup = setup_with_open_circuit();
    setup.sleep(15);
    let setup = setup.failing(10, refusal_error().retry_after(Duration::from_secs(800)));
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 11);
    let probed = setup.failures()[10]["retry_after_seconds"].as_u64().unwrap();
    let delays = delays(&setup);
    assert!((800..=880).contains(&probed) && delays.len() == 9, "{probed}");
    assert!(delays.iter().all(|delay| (800..=890).contains(delay)), "no message returns earlier: {delays:?}");
    setup.sleep(799);
    setup.process(records(20..30), 30);
    assert_eq!(setup.handler.calls().len(), 11);
    setup.sleep(1);
    setup.process(records(20..30), 30);
    assert_eq!(setup.handler.called_message_ids()[11..], [nth_id(20)]);
}
