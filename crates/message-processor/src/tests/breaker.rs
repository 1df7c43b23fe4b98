//! An outage: calls, holds and reports.

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use serde_json::Value;

use super::*;

mod forged;

fn down() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503")
}

/// The messages with these numbers.
fn records(numbers: std::ops::Range<usize>) -> Vec<ReceivedMessage> {
    numbers.map(|n| record(n, body(n))).collect()
}

/// Every call fails.
fn outage(setup: Setup) -> Setup {
    (0..100).fold(setup, |setup, n| setup.failing(n, down()))
}

/// The target is back.
fn healed(mut setup: Setup) -> Setup {
    setup.handler.steps.clear();
    setup
}

fn kinds(setup: &Setup) -> Vec<(String, Value)> {
    let sent = setup.intermediate.sent().into_iter();
    sent.map(|content| {
        let failure = document(&content.attributes, FAILURE);
        (failure["kind"].as_str().unwrap().to_owned(), failure["type"].clone())
    })
    .collect()
}

fn count(setup: &Setup, kind: &str) -> usize {
    kinds(setup).into_iter().filter(|(found, _)| found == kind).count()
}

/// A message that redeliver has held, re-sent `sent_before` seconds before the start.
fn held(n: usize, held_seconds: u32, sent_before: i64) -> ReceivedMessage {
    let (id, since) = (id(n), moment(-2000));
    let body = format!(
        r#"{{"metadata":{{"message_id":"{id}","held_since":"{since}","held_seconds":{held_seconds}}},"data":{{}}}}"#
    );
    let sent_at = start() - chrono::TimeDelta::seconds(sent_before);
    resent(ReceivedMessage { sent_at, ..record(n, body) })
}

#[test]
fn the_second_half_of_a_batch_is_held_if_the_first_half_opened_it() {
    let policy = r#"{"circuit_breaker":{"minimum_calls":5}}"#;
    let setup = outage(Setup { max_concurrency: 1, ..Setup::with_policy(policy) });
    assert!(setup.process(ten(), 30).is_empty());
    assert_eq!(setup.handler.called(), (0..5).map(id).collect::<Vec<_>>());
    assert_eq!((count(&setup, "transient"), count(&setup, "held")), (5, 5));
    let first_held = document(&setup.intermediate.sent()[5].attributes, FAILURE);
    assert_eq!(first_held["type"], "CircuitOpen");
    assert_eq!(first_held["details"], format!("not called: the target has been down since {}", moment(0)));
}

#[test]
fn an_environment_remembers_it_for_the_next_batches_and_probes_the_target_now_and_then() {
    let setup = outage(Setup::new()).failing(20, down().retry_after(Duration::from_secs(60)));
    setup.process(ten(), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 10, "none is called");
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(15)));
    setup.process(records(20..30), 30);
    assert_eq!(setup.handler.called()[10..], [id(20)], "one probe");
    assert_eq!((count(&setup, "transient"), count(&setup, "held")), (10, 20), "it spends nothing");
    let probed = document(&setup.intermediate.sent()[20].attributes, FAILURE);
    assert_eq!((&probed["kind"], &probed["type"]), (&"held".into(), &"HttpStatus.503".into()));
    assert_eq!(probed["details"], "HTTP 503");
    assert_eq!(probed["retry_after_seconds"], Value::Null, "a hold has its own delay");
    let setup = healed(setup);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(30)));
    setup.process(records(30..40), 30);
    assert_eq!(setup.handler.calls().len(), 21, "the target is back, and all are called");
    assert_eq!((count(&setup, "transient"), count(&setup, "held")), (10, 20));
}

#[test]
fn a_probe_that_did_not_reach_its_target_in_time_says_nothing_and_the_next_message_is_the_probe() {
    let setup = outage(Setup::new());
    setup.process(ten(), 30);
    let setup = setup.failing(20, HandlerError::not_started());
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(15)));
    setup.process(records(20..22), 30);
    assert_eq!(setup.handler.called()[10..], [id(20), id(21)]);
    let last: Vec<_> = kinds(&setup).into_iter().skip(10).map(|(kind, _)| kind).collect();
    assert_eq!(last, ["not_started", "held"], "the target is still down");
}

#[test]
fn what_is_told_of_an_outage_is_one_opening_one_closing_and_a_line_a_batch() {
    let setup = outage(Setup::new());
    setup.process(ten(), 30);
    setup.process(records(10..20), 30);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(15)));
    setup.process(records(20..30), 30);
    let setup = healed(setup);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(30)));
    setup.process(records(30..40), 30);
    let circuit: Vec<_> = setup
        .world
        .seen
        .events()
        .into_iter()
        .filter(|event| {
            use Event as E;
            matches!(
                event,
                E::CircuitOpened { .. } | E::ProbeFailed { .. } | E::CircuitClosed { .. } | E::Held { .. }
            )
        })
        .collect();
    let probe_in_seconds = |event: &Event| match event {
        Event::CircuitOpened { probe_in_seconds, .. } | Event::ProbeFailed { probe_in_seconds, .. } => {
            Some(*probe_in_seconds)
        }
        _ => None,
    };
    let probes: Vec<_> = circuit.iter().filter_map(probe_in_seconds).collect();
    let [first, second] = probes[..] else { panic!("{circuit:?}") };
    assert!((11.25..=15.0).contains(&first));
    assert!((22.5..=30.0).contains(&second));
    let error_type = || "HttpStatus.503".to_owned();
    let expected = [
        Event::CircuitOpened { calls: 10, outages: 10, error_type: error_type(), probe_in_seconds: first },
        Event::Held { messages: 10, open_seconds: 0.0 },
        Event::ProbeFailed { error_type: error_type(), probe_in_seconds: second },
        // Including the probe.
        Event::Held { messages: 10, open_seconds: 15.0 },
        Event::CircuitClosed { open_seconds: 45.0, probes: 2 },
    ];
    assert_eq!(circuit, expected);
    let handed_off =
        setup.world.seen.events().into_iter().filter(|event| matches!(event, Event::HandedOff { .. }));
    assert_eq!(handed_off.count(), 10, "a held message has no line of its own");
}

#[test]
fn a_new_environment_believes_a_message_that_was_held_a_moment_ago() {
    let setup = outage(Setup::new());
    let mut batch = vec![held(0, 600, 700)];
    batch.extend(records(1..10));
    setup.process(batch, 30);
    assert_eq!(setup.handler.called(), [id(0)], "one probe instead of ten calls that fail");
    assert_eq!(count(&setup, "held"), 10);
    let held_back = document(&setup.intermediate.sent()[1].attributes, FAILURE);
    assert_eq!(held_back["details"], format!("not called: the target has been down since {}", moment(-2000)));
}

#[test]
fn what_says_that_it_was_held_and_was_not_is_not_believed() {
    // A hold of 0 s, and an outage that begins after the send, are ignored.
    for (held_seconds, sent_before) in [(0, 700), (600, 2001)] {
        let setup = outage(Setup::new());
        let mut batch = vec![held(0, held_seconds, sent_before)];
        batch.extend(records(1..10));
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len(), 10, "{held_seconds} {sent_before}");
    }
}

#[test]
fn of_a_batch_the_longest_outage_and_the_newest_word_of_it_count() {
    // The other one was first held a thousand seconds later.
    let later = |n: usize, sent_before| {
        let held = held(n, 600, sent_before);
        ReceivedMessage { body: held.body.replace(&moment(-2000), &moment(-1000)), ..held }
    };
    for batch in [[held(0, 600, 700), later(1, 700)], [later(1, 700), held(0, 600, 700)]] {
        let setup = Setup::new().on(0, Step::Hang).on(1, Step::Hang);
        setup.process(batch.into(), 30);
        let held = document(&setup.intermediate.sent()[1].attributes, FAILURE);
        assert_eq!(held["details"], format!("not called: the target has been down since {}", moment(-2000)));
    }
    // In this environment the target was back at second 15.
    let setup = outage(Setup::new());
    setup.process(ten(), 30);
    let setup = healed(setup);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(15)));
    (0..7).for_each(|batch| drop(setup.process(records(batch * 10..batch * 10 + 10), 30)));
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(60)));
    let closings = || {
        let closed = |event: &Event| matches!(event, Event::CircuitClosed { .. });
        setup.world.seen.events().iter().filter(|event| closed(event)).count()
    };
    setup.process(vec![held(0, 600, 10), held(1, 600, -14)], 30);
    assert_eq!(closings(), 1, "both were held before");
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(60)));
    setup.process(vec![held(0, 600, 10), held(1, 600, -16)], 30);
    assert_eq!(closings(), 2, "another environment has found it down since");
}

#[test]
fn environments_that_find_out_at_the_same_moment_probe_at_different_ones() {
    let probe_in_seconds = |numbers: std::ops::Range<usize>| {
        let setup = outage(Setup::new());
        setup.process(records(numbers), 30);
        let events = setup.world.seen.events().into_iter();
        let of_opened = |event| match event {
            Event::CircuitOpened { probe_in_seconds, .. } => Some(probe_in_seconds),
            _ => None,
        };
        events.filter_map(of_opened).collect::<Vec<_>>()
    };
    assert_ne!(probe_in_seconds(0..10), probe_in_seconds(10..20));
}

#[test]
fn what_was_held_long_ago_says_nothing() {
    for (sent_before, calls) in [(1799, 1), (1800, 10)] {
        let setup = outage(Setup::new());
        let mut batch = vec![held(0, 600, sent_before)];
        batch.extend(records(1..10));
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len(), calls, "{sent_before}");
    }
}

#[test]
fn the_others_of_a_batch_wait_for_the_probe_and_are_called_if_it_is_answered() {
    let setup = Setup::new().on(0, Step::Take(2));
    let mut batch = vec![held(0, 600, 700)];
    batch.extend(records(1..10));
    setup.process(batch, 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert!(setup.intermediate.sent().is_empty());
    assert_eq!(setup.world.elapsed(), 2);
}

#[test]
fn a_probe_that_is_answered_with_an_error_of_the_messages_own_is_a_failure_like_any_other() {
    let setup = Setup::new().failing(0, HandlerError::transient("Stock.Empty", ""));
    setup.process(vec![held(0, 600, 700), held(1, 600, 700)], 30);
    assert_eq!(setup.handler.calls().len(), 2, "the target is there");
    assert_eq!(kinds(&setup), [("transient".to_owned(), Value::from("Stock.Empty"))]);
}

#[test]
fn a_probe_that_the_end_cuts_off_has_failed_and_those_that_wait_are_held() {
    let setup = Setup::new().on(0, Step::Hang);
    let mut batch = vec![held(0, 600, 700)];
    batch.extend(records(1..10));
    setup.process(batch, 30);
    assert_eq!(setup.handler.called(), [id(0)]);
    let (probe, other) = (Value::from("Timeout"), Value::from("CircuitOpen"));
    let types: Vec<_> = kinds(&setup).into_iter().map(|(_, error_type)| error_type).collect();
    assert_eq!((count(&setup, "held"), &types[0], &types[1..]), (10, &probe, &vec![other; 9][..]));
    let failed = setup.world.seen.events().into_iter().filter_map(|event| match event {
        Event::ProbeFailed { error_type, .. } => Some(error_type),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), ["Timeout"]);
}

#[test]
fn the_second_probe_of_a_batch_that_the_end_cuts_off_spends_nothing_either() {
    let policy = r#"{"circuit_breaker":{"probe_interval_seconds":2,"probe_interval_seconds_max":2}}"#;
    // The one in between is at its hold limit, so it is called, and takes longer than the interval.
    let setup = Setup { max_concurrency: 1, ..Setup::with_policy(policy) }
        .failing(0, down())
        .on(1, Step::FailLate(3, down()))
        .on(2, Step::Hang);
    setup.process(vec![held(0, 600, 700), held(1, 86_400, 700), held(2, 600, 700)], 30);
    assert_eq!(setup.handler.called(), [id(0), id(1), id(2)]);
    let expected = [("held", "HttpStatus.503"), ("transient", "HttpStatus.503"), ("held", "Timeout")];
    assert_eq!(kinds(&setup), expected.map(|(kind, error_type)| (kind.to_owned(), Value::from(error_type))));
}

#[test]
fn a_call_that_was_the_probe_of_an_earlier_outage_is_a_timeout_like_any_other() {
    let policy = r#"{"circuit_breaker":{"minimum_calls":1}}"#;
    // The second one is at its hold limit, so it is called, and is answered: the target is back, and then down again.
    let setup = Setup::with_policy(policy).on(0, Step::Hang).on(1, Step::Take(1)).failing(2, down());
    setup.process(vec![held(0, 600, 700), held(1, 86_400, 700), record(2, body(2))], 30);
    assert_eq!(setup.handler.called(), [id(0), id(1), id(2)]);
    let expected = [("transient", "Timeout"), ("transient", "HttpStatus.503")];
    assert_eq!(kinds(&setup), expected.map(|(kind, error_type)| (kind.to_owned(), Value::from(error_type))));
}

#[test]
fn what_was_held_for_as_long_as_it_may_be_is_called() {
    let setup = outage(Setup::new());
    setup.process(ten(), 30);
    setup.process(vec![held(20, 86_399, 700), held(21, 86_400, 700)], 30);
    assert_eq!(setup.handler.called()[10..], [id(21)]);
    assert_eq!(
        kinds(&setup)[10..].iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
        ["held", "transient"]
    );
}

#[test]
fn calls_at_once_ask_too() {
    let policy = r#"{"immediate":{"max_attempts":10,"delay_ms":100},"circuit_breaker":{"minimum_calls":3}}"#;
    let setup = outage(Setup { max_concurrency: 1, ..Setup::with_policy(policy) });
    setup.process(records(0..2), 30);
    assert_eq!(setup.handler.called(), [id(0), id(0), id(0)], "each is a call that counts");
    assert_eq!(kinds(&setup).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>(), ["transient", "held"]);
}

#[test]
fn errors_of_the_messages_own_and_a_policy_without_a_breaker_hold_nothing() {
    for error in [busy(), HandlerError::permanent("HttpStatus.503", "")] {
        let setup = (0..100).fold(Setup::new(), |setup, n| setup.failing(n, error.clone()));
        (0..10).for_each(|batch| drop(setup.process(records(batch * 10..batch * 10 + 10), 30)));
        assert_eq!(setup.handler.calls().len(), 100, "{error:?}");
    }
    let setup = outage(Setup::with_policy(r#"{"circuit_breaker":false}"#));
    (0..10).for_each(|batch| drop(setup.process(records(batch * 10..batch * 10 + 10), 30)));
    assert_eq!(setup.handler.calls().len(), 100);
}

#[test]
fn a_handler_of_ones_own_says_that_what_it_needs_is_down() {
    let unavailable = HandlerError::unavailable("Db.Down", "no connection");
    let setup = (0..20).fold(Setup::new(), |setup, n| setup.failing(n, unavailable.clone()));
    setup.process(ten(), 30);
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!(
        kinds(&setup)[0],
        ("transient".to_owned(), Value::from("Db.Down")),
        "it was called, and failed"
    );
}

#[test]
fn one_tenants_failures_hold_nobody_elses_messages() {
    let setup = (1..100).fold(Setup::new(), |setup, n| setup.failing(n, down()));
    let of = |tenant: &str, n: usize| ReceivedMessage {
        message_group_id: Some(tenant.to_owned()),
        ..record(n, body(n))
    };
    for batch in 0..9 {
        let mut records: Vec<_> = (1..10).map(|n| of("poisoned", batch * 10 + n)).collect();
        records.push(of("healthy", 0));
        setup.process(records, 30);
    }
    assert_eq!(setup.handler.calls().len(), 90);
}

#[test]
fn hidden_messages_are_not_called_either_but_their_receive_is_an_attempt() {
    let policy = r#"{"circuit_breaker":{},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let setup = outage(Setup { strategy: Strategy::Visibility, ..Setup::with_policy(policy) });
    setup.process(ten(), 30);
    let received = ReceivedMessage { receive_count: 6, ..record(10, body(10)) };
    let mut batch = records(11..20);
    batch.push(received);
    setup.process(batch, 30);
    assert_eq!(setup.handler.calls().len(), 10);
    let verdict = document(&setup.annotation.only().attributes, FAILURE);
    assert_eq!(
        (&verdict["verdict"], &verdict["type"]),
        (&"RETRY_ATTEMPT_EXCEEDED".into(), &"CircuitOpen".into())
    );
}

/// `redeliver work` processes several batches at once.
fn two_batches(setup: &Setup, one: Vec<ReceivedMessage>, other: Vec<ReceivedMessage>) {
    let processor = setup.processor();
    let deadline = setup.world.clock.now() + Duration::from_secs(30);
    let both = async {
        let (one, other) =
            (processor.batch_item_failures(one, deadline), processor.batch_item_failures(other, deadline));
        futures_util::join!(one, other)
    };
    let (one, other) = setup.world.clock.block_on(both);
    assert_eq!([one, other].concat(), [""; 0]);
}

#[test]
fn batches_of_one_process_share_what_their_calls_have_met() {
    let setup = outage(Setup {
        max_concurrency: 1,
        ..Setup::with_policy(r#"{"circuit_breaker":{"minimum_calls":6}}"#)
    });
    two_batches(&setup, records(0..5), records(5..10));
    assert_eq!(setup.handler.calls().len(), 6);
    assert_eq!((count(&setup, "transient"), count(&setup, "held")), (6, 4));
}

#[test]
fn a_batch_waits_for_the_probe_of_another_one() {
    let setup = Setup::new().on(0, Step::Take(2));
    two_batches(&setup, vec![held(0, 600, 700)], vec![held(1, 600, 700), held(2, 600, 700)]);
    assert_eq!(setup.handler.calls().len(), 3);
    assert_eq!(setup.world.clock.now() - start(), chrono::TimeDelta::seconds(2));
    // It checks every 100 ms, whenever it began.
    let setup = Setup::new().on(0, Step::Take(2));
    let (processor, clock) = (setup.processor(), &setup.world.clock);
    let deadline = clock.now() + Duration::from_secs(30);
    let later = async {
        clock.sleep(Duration::from_millis(350)).await;
        processor.process(vec![held(1, 600, 700)], deadline).await
    };
    clock
        .block_on(async { futures_util::join!(processor.process(vec![held(0, 600, 700)], deadline), later) });
    assert_eq!(setup.handler.calls().len(), 2);
    assert_eq!(clock.now() - start(), chrono::TimeDelta::milliseconds(2050));
    let setup = Setup::new().on(0, Step::Hang);
    two_batches(&setup, vec![held(0, 600, 700)], vec![held(1, 600, 700), held(2, 600, 700)]);
    assert_eq!(setup.handler.calls().len(), 1);
    assert_eq!(count(&setup, "held"), 3);
    // Also during a call of its own that bypasses the breaker: that message was at its hold limit.
    let setup = Setup::new().on(0, Step::Take(2)).on(1, Step::Take(20)).on(2, Step::Take(15));
    two_batches(&setup, vec![held(0, 600, 700)], vec![held(1, 86_400, 700), held(2, 600, 700)]);
    assert_eq!(setup.handler.calls().len(), 3);
    assert_eq!(
        setup.world.clock.now() - start(),
        chrono::TimeDelta::seconds(20),
        "the third begins after 2 s"
    );
}
