//! Errors that mean "not now". They spend the hold budget but never an attempt, in any state of the circuit.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

fn not_now_error() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429").retry_after(Duration::from_secs(800))
}

/// If a 503 spent an attempt, an outage would dead-letter every message of a low-traffic queue, where no environment
/// ever receives ten messages.
#[test]
fn a_message_with_a_503_in_a_new_environment_is_held_with_its_error() {
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let setup = Setup { strategy, ..Setup::new() }.failing(0, http_503_error());
        assert_eq!(setup.process(records(0..1), 30), [""; 0]);
        let error_type = "HttpStatus.503".to_owned();
        let not_now = Event::NotNow { messages: 1, error_type, longest_hold_seconds: 0 };
        assert_eq!(setup.world.seen.events(), [not_now], "{strategy}");
        let setup = match strategy {
            Strategy::DelayedResend => {
                let failure = &setup.failures()[0];
                let hold = (&failure["kind"], &failure["retry_after_seconds"]);
                assert_eq!((&failure["type"], hold), (&"HttpStatus.503".into(), (&"held".into(), &2.into())));
                assert_eq!(
                    (&failure["held_since"], &failure["outage_failures"]),
                    (&format_time_at(0).into(), &1.into())
                );
                setup.run_failed_message_processor()
            }
            _ => setup,
        };
        assert_eq!(delays(&setup), [2]);
        let expected = json!({
            "message_id": nth_id(0),
            "retry_attempt": 0,
            "next_retry_time": format_time_at(2),
            "first_sent_time": format_time_at(-10),
            "retry_history": [
                { "attempt": 0, "failed_at": format_time_at(0), "error_type": "HttpStatus.503", "error_details": "HTTP 503" },
            ],
            "held_since": format_time_at(0),
            "outage_failures": 1,
            "held_seconds": 2,
        });
        assert_eq!(setup.resent_metadata(), [expected], "{strategy}");
    }
}

#[test]
fn not_now_errors_in_a_batch_are_logged_on_one_line_without_target_text() {
    let named = HandlerError::unavailable(ErrorType::FromTarget(CANARY.to_owned()), CANARY);
    let setup = Setup::new().failing(0, named.clone()).failing(1, named).failing(2, http_503_error());
    setup.process(records(0..3), 30);
    let error_type = "FromTarget".to_owned();
    let not_now = Event::NotNow { messages: 3, error_type, longest_hold_seconds: 0 };
    assert_eq!(setup.world.seen.events(), [not_now]);
}

/// No decision is needed, so the message bypasses the intermediate DLQ.
#[test]
fn a_message_held_without_a_call_is_confirmed_once_it_is_re_sent() {
    let setup = setup_with_open_circuit();
    assert_eq!(setup.process(records(10..12), 30), [""; 0]);
    assert_eq!((delays(&setup), setup.intermediate.sent_contents().len()), (vec![2, 2], 10));
    for scope in [FaultScope::Request, FaultScope::Entry] {
        let setup = setup_with_open_circuit();
        setup.world.fail_sends(&setup.source, scope, FaultTrigger::Chance(1.0), Injection::Sender);
        assert_eq!(setup.process(records(10..12), 30), ["sqs-10", "sqs-11"], "{scope:?}");
        assert_eq!(setup.intermediate.sent_contents().len(), 10);
    }
}

#[test]
fn the_next_not_now_error_gives_up_a_message_at_its_hold_limit() {
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let setup =
            Setup { strategy, ..Setup::new() }.failing(0, http_503_error()).failing(1, http_503_error());
        assert_eq!(
            setup.process(vec![held_message(0, 86_399, 700), held_message(1, 86_400, 700)], 30),
            [""; 0]
        );
        assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1)]);
        let setup = match strategy {
            Strategy::DelayedResend => setup.run_failed_message_processor(),
            _ => setup,
        };
        assert_eq!(setup.resent_metadata().len(), 1, "{strategy}");
        let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
        assert_eq!(
            (&verdict["verdict"], &verdict["type"], &verdict["explanation"]),
            (
                &"HOLD_TIME_EXCEEDED".into(),
                &"HttpStatus.503".into(),
                &"Held for 86400 s without a successful call (hold_seconds_max is 86400)".into()
            ),
            "{strategy}"
        );
    }
}

/// Asserts that the target is not called before second 800, and that it is called afterwards.
fn assert_waits(setup: &Setup, since: i64, state: &str) {
    let calls = setup.handler.calls().len();
    for (n, second) in [0, 1, 60, 299, 301, 799].into_iter().enumerate() {
        setup.sleep(u64::try_from(since + second - setup.world.elapsed_seconds()).unwrap());
        // The second message is at its hold limit, and the third has failed before.
        let failed = resent_record(nth_record(92, body_with_metadata(92, r#""retry_attempt":1"#)));
        setup.process(vec![nth_record(90, nth_body(90)), held_message(91, 86_400, 700), failed], 30);
        assert_eq!(setup.handler.calls().len(), calls, "{state}: second {second}");
        let left = 800 - second;
        for delay in delays(setup).split_off(delays(setup).len() - 3) {
            assert!(i64::from(delay) >= left, "{state}: held for {delay} s at second {second}, batch {n}");
        }
    }
    setup.sleep(2);
    setup.process(records(93..94), 30);
    assert_eq!(setup.handler.called_message_ids().split_off(calls), [nth_id(93)], "{state}");
}

#[test]
fn a_retry_after_holds_all_calls_in_any_circuit_state() {
    let setup = Setup::new().failing(0, not_now_error());
    setup.process(records(0..1), 30);
    assert_waits(&setup, 0, "closed");

    let refused = HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429");
    let setup = Setup::new().failing(0, refused).failing(1, not_now_error());
    setup.process(records(0..1), 30);
    setup.sleep(5);
    setup.process(records(1..2), 30);
    assert_waits(&setup, 5, "limited");

    let setup = setup_with_open_circuit().failing(10, not_now_error());
    setup.sleep(15);
    setup.process(records(10..11), 30);
    assert_waits(&setup, 15, "open");

    let setup =
        (0..9).fold(Setup::new(), |setup, n| setup.failing(n, down_error())).failing(9, not_now_error());
    setup.process(ten_records(), 30);
    assert_eq!(count_messages(&setup, CALLED), 9, "the refusal opened the circuit");
    assert_waits(&setup, 0, "the circuit was opened by the refusal");
}

#[test]
fn holds_over_a_minute_end_on_multiples_of_ten_seconds() {
    let setup = setup_with_open_circuit();
    setup.sleep(3);
    setup.process(records(10..11), 30);
    let now = setup.world.elapsed_seconds();
    // The first message is the probe.
    setup.process(
        vec![
            held_message(11, 100, 0),
            held_message(12, 300, 0),
            held_message(13, 1000, 0),
            held_message(14, 40_000, 0),
        ],
        30,
    );
    let delays = delays(&setup);
    let ends: Vec<_> = delays.iter().map(|delay| now + i64::from(*delay)).collect();
    assert_eq!(delays.len(), 4, "{delays:?}");
    assert!(delays[0] < 60 && delays[1..].iter().all(|delay| *delay > 60), "{delays:?}");
    assert!(ends[1..].iter().all(|end| end % 10 == 0), "{ends:?}");
}
