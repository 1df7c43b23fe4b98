//! An outage: calls, holds and reports.

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use serde_json::{Value, json};

use super::*;

mod failed_before;
mod forged;
mod keys;
mod new_environment;
mod not_now;
mod rate;

/// Returns the error of a target that is down. A single message can also cause this error, so only first calls indicate
/// the outage.
fn down_error() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(500), "HTTP 500")
}

/// Returns an error that means "not now" in any state of the circuit.
fn http_503_error() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503")
}

/// Returns the messages with these numbers.
fn records(numbers: std::ops::Range<usize>) -> Vec<ReceivedMessage> {
    numbers.map(|n| nth_record(n, nth_body(n))).collect()
}

/// Makes every call fail.
fn fail_every_call(setup: Setup) -> Setup {
    fail_every_call_with_error(setup, &down_error())
}

fn fail_every_call_with_error(setup: Setup, error: &HandlerError) -> Setup {
    (0..100).fold(setup, |setup, n| setup.failing(n, error.clone()))
}

/// Makes every call succeed: the target has recovered.
fn succeed_every_call(mut setup: Setup) -> Setup {
    setup.handler.steps.clear();
    setup
}

/// Creates a setup in which every call fails and the circuit was opened by ten failures at the start.
fn setup_with_open_circuit() -> Setup {
    let setup = fail_every_call(Setup::new());
    setup.process(ten_records(), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    setup
}

impl Setup {
    /// Returns the `Failure` documents of all hand-offs.
    fn failures(&self) -> Vec<Value> {
        self.intermediate
            .sent_contents()
            .iter()
            .map(|content| attribute_document(&content.attributes, FAILURE))
            .collect()
    }

    /// Returns the metadata of all re-sends.
    fn resent_metadata(&self) -> Vec<Value> {
        let metadata =
            |content: Content| serde_json::from_str::<Value>(&content.body).unwrap()["metadata"].take();
        self.source.sent_contents().into_iter().map(metadata).collect()
    }
}

/// Returns the kind and error type of each hand-off, followed by those of messages for which no call was made, which
/// `delayed-resend` re-sends directly.
fn kinds_and_types(setup: &Setup) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let handed_off =
        setup.failures().into_iter().map(|failure| (text(&failure["kind"]), text(&failure["type"])));
    let hold_kind = |metadata: Value| if metadata["held_since"].is_null() { LIMITED } else { NOT_CALLED };
    let sent_back = setup.resent_metadata().into_iter().map(hold_kind);
    let sent_back = sent_back.map(|(kind, error_type)| (kind.to_owned(), error_type.to_owned()));
    handed_off.chain(sent_back).collect()
}

/// Returns the delays of all re-sends.
fn delays(setup: &Setup) -> Vec<u16> {
    setup.source.sent_contents().iter().map(|sent| sent.delay.get()).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(kind, error_type)| (kind.to_owned(), error_type.to_owned())).into()
}

const CALLED: (&str, &str) = ("held", "HttpStatus.500");
const NOT_CALLED: (&str, &str) = ("held", "CircuitOpen");
const LIMITED: (&str, &str) = ("held", "RateLimited");
const FAILED: (&str, &str) = ("transient", "HttpStatus.500");

fn count_messages(setup: &Setup, pair: (&str, &str)) -> usize {
    kinds_and_types(setup).iter().filter(|(kind, error_type)| (&**kind, &**error_type) == pair).count()
}

fn count_circuit_closings(setup: &Setup) -> usize {
    let events = setup.world.seen.events();
    events.iter().filter(|event| matches!(event, Event::CircuitClosed { .. })).count()
}

/// Returns a message that redeliver held without a call, because of an outage that twelve first calls indicated, and
/// re-sent `sent_before` seconds before the start.
fn held_message(n: usize, held_seconds: u32, sent_before: i64) -> ReceivedMessage {
    let since = format_time_at(-2000);
    let body = body_with_metadata(
        n,
        &format!(r#""held_since":"{since}","outage_failures":12,"held_seconds":{held_seconds}"#),
    );
    let sent_at = start_time() - chrono::TimeDelta::seconds(sent_before);
    resent_record(ReceivedMessage { sent_at, ..nth_record(n, body) })
}

fn body_with_metadata(n: usize, members: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{}",{members}}},"data":{{}}}}"#, nth_id(n))
}

/// If these calls spent attempts, each outage would cost ten messages an attempt in each environment.
#[test]
fn messages_whose_calls_open_the_circuit_are_held_and_spend_no_attempt() {
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let setup = fail_every_call(Setup { strategy, max_concurrency: 1, ..Setup::new() });
        assert_eq!(setup.process(records(0..12), 30), [""; 0]);
        assert_eq!(setup.handler.called_message_ids(), (0..10).map(nth_id).collect::<Vec<_>>());
        let setup = match strategy {
            Strategy::DelayedResend => {
                assert_eq!((count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)), (10, 2));
                assert_eq!(setup.failures()[0]["outage_failures"], 10);
                setup.run_failed_message_processor()
            }
            _ => setup,
        };
        let mut re_sent = setup.resent_metadata();
        re_sent.sort_by_key(|metadata| metadata["message_id"].to_string());
        assert_eq!(re_sent.len(), 12, "{strategy}");
        for (n, metadata) in re_sent.iter().enumerate() {
            assert_eq!(metadata["retry_attempt"], 0, "{strategy} {n}");
            assert_eq!(
                (&metadata["held_since"], &metadata["held_seconds"]),
                (&format_time_at(0).into(), &2.into())
            );
            assert_eq!(metadata["outage_failures"], 10, "{strategy} {n}");
            let error = json!({
                "attempt": 0, "failed_at": format_time_at(0), "error_type": "HttpStatus.500", "error_details": "HTTP 500",
            });
            let history = if n < 10 { json!([error]) } else { Value::Null };
            assert_eq!(metadata["retry_history"], history, "{strategy} {n}");
        }
    }
}

#[test]
fn only_the_tenth_fault_opens_the_circuit() {
    let setup = fail_every_call(Setup::new());
    setup.process(records(0..9), 30);
    assert_eq!(kinds_and_types(&setup), vec![(FAILED.0.to_owned(), FAILED.1.to_owned()); 9]);
    setup.process(records(9..10), 30);
    assert_eq!(
        kinds_and_types(&setup)[9..],
        pairs([CALLED]),
        "the tenth consecutive failure, regardless of when it happens"
    );
}

#[test]
fn an_open_circuit_persists_across_batches_and_probes_the_target() {
    let setup = setup_with_open_circuit();
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 10, "no message is called");
    setup.sleep(15);
    setup.process(records(20..30), 30);
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20)], "one probe");
    assert_eq!(
        (count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)),
        (11, 19),
        "the probe spends no attempt"
    );
    let probed = &setup.failures()[10];
    assert_eq!((&probed["type"], &probed["details"]), (&"HttpStatus.500".into(), &"HTTP 500".into()));
    assert_eq!((&probed["kind"], &probed["retry_after_seconds"]), (&"held".into(), &2.into()));
    assert_eq!(delays(&setup), [2; 19], "each message is held for the first time");
    let setup = succeed_every_call(setup);
    setup.sleep(30);
    setup.process(records(30..40), 30);
    assert_eq!(
        setup.handler.called_message_ids()[11..],
        [nth_id(30), nth_id(31), nth_id(32)],
        "the target has recovered; calls resume slowly"
    );
}

#[test]
fn a_probe_that_was_not_started_is_replaced_by_the_next_message() {
    let setup = setup_with_open_circuit().failing(20, HandlerError::not_started());
    setup.sleep(15);
    setup.process(records(20..22), 30);
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20), nth_id(21)]);
    assert_eq!(
        kinds_and_types(&setup)[10..],
        pairs([("not_started", "NotStarted"), CALLED]),
        "the target is still down"
    );
}

#[test]
fn a_batch_reports_the_longest_hold_of_its_held_messages() {
    let setup = setup_with_open_circuit();
    setup.process(vec![held_message(10, 60, 5), held_message(11, 4320, 5), held_message(12, 0, 5)], 30);
    let events = setup.world.seen.events();
    let longest = events.iter().rev().find_map(|event| match event {
        Event::Held { messages, longest_hold_seconds, .. } => Some((*messages, *longest_hold_seconds)),
        _ => None,
    });
    assert_eq!(longest, Some((3, 4320)));
}

#[test]
fn an_outage_logs_one_opening_one_closing_and_one_line_per_batch() {
    let setup = setup_with_open_circuit();
    setup.process(records(10..20), 30);
    setup.sleep(15);
    setup.process(records(20..30), 30);
    let setup = succeed_every_call(setup);
    setup.sleep(30);
    setup.process(records(30..31), 30);
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
    let error_type = || "HttpStatus.500".to_owned();
    let in_seconds = |seconds| Duration::from_secs_f32(seconds).as_secs_f64();
    let expected = [
        // 0.75 to 1 s, drawn from the id of the tenth message.
        Event::CircuitOpened {
            outages: 10,
            error_type: error_type(),
            probe_in_seconds: in_seconds(1.5 * 0.834),
        },
        // Includes the messages for which the target was called.
        Event::Held { messages: 10, open_seconds: 0.0, longest_hold_seconds: 0 },
        Event::Held { messages: 10, open_seconds: 0.0, longest_hold_seconds: 0 },
        // Three quarters of the outage's age, times a random factor from three quarters to one.
        Event::ProbeFailed { error_type: error_type(), probe_in_seconds: in_seconds(1.5 * 0.781) },
        Event::Held { messages: 10, open_seconds: 15.0, longest_hold_seconds: 0 },
        Event::CircuitClosed { open_seconds: 45.0, probes: 2 },
    ];
    assert_eq!(circuit, expected);
    let handed_off =
        setup.world.seen.events().into_iter().filter(|event| matches!(event, Event::HandedOff { .. }));
    assert_eq!(handed_off.count(), 0, "a held message is not logged separately");
}

#[test]
fn environments_that_detect_an_outage_together_probe_at_different_times() {
    let probe_in_seconds = |numbers: std::ops::Range<usize>| {
        let setup = fail_every_call(Setup::new());
        setup.process(records(numbers), 30);
        let events = setup.world.seen.events().into_iter();
        let opened_probe = |event| match event {
            Event::CircuitOpened { probe_in_seconds, .. } => Some(probe_in_seconds),
            _ => None,
        };
        events.filter_map(opened_probe).collect::<Vec<_>>()
    };
    assert_ne!(probe_in_seconds(0..10), probe_in_seconds(10..20));
}

#[test]
fn a_probe_with_a_message_specific_error_is_an_ordinary_failure() {
    let setup = Setup::new().failing(0, HandlerError::transient("Stock.Empty", ""));
    setup.process(vec![held_message(0, 600, 700), held_message(1, 600, 700)], 30);
    assert_eq!(setup.handler.calls().len(), 2, "the target is available");
    assert_eq!(kinds_and_types(&setup), pairs([("transient", "Stock.Empty")]));
}

#[test]
fn a_probe_cut_off_at_the_deadline_fails_and_holds_the_others() {
    let setup = Setup::new().on(0, Step::Hang);
    let mut batch = vec![held_message(0, 600, 700)];
    batch.extend(records(1..10));
    setup.process(batch, 30);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0)]);
    assert_eq!(kinds_and_types(&setup)[0], ("held".to_owned(), "Timeout".to_owned()));
    assert_eq!(count_messages(&setup, NOT_CALLED), 9);
    let failed = setup.world.seen.events().into_iter().filter_map(|event| match event {
        Event::ProbeFailed { error_type, .. } => Some(error_type),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), ["Timeout"]);
}

/// If the waiting messages were not held, they would be received again immediately, while the target is still down.
#[test]
fn cut_off_calls_open_the_circuit_and_waiting_messages_are_held() {
    let setup = (0..10).fold(Setup::new(), |setup, n| setup.on(n, Step::Hang));
    setup.process(records(0..12), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!((count_messages(&setup, ("held", "Timeout")), count_messages(&setup, NOT_CALLED)), (10, 2));
    let setup = (0..7).fold(Setup::new(), |setup, n| setup.on(n, Step::Hang));
    setup.process(records(0..12), 30);
    assert_eq!(
        (count_messages(&setup, ("transient", "Timeout")), kinds_and_types(&setup).len()),
        (7, 7),
        "the other five succeed"
    );
}

/// If unstarted messages counted, one slow call would cause the messages of the next batches to be held.
#[test]
fn messages_not_started_by_the_deadline_do_not_indicate_an_outage() {
    let setup = Setup { max_concurrency: 1, ..Setup::new() }.on(0, Step::Hang);
    setup.process(records(0..20), 30);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0)]);
    assert_eq!(
        (
            count_messages(&setup, ("transient", "Timeout")),
            count_messages(&setup, ("not_started", "NotStarted"))
        ),
        (1, 19)
    );
    setup.process(records(20..30), 30);
    assert_eq!(setup.handler.calls().len(), 11);
}

#[test]
fn a_second_probe_in_a_batch_spends_no_attempt_when_cut_off() {
    // The message in between is at its hold limit, so its call is made, and it takes longer than the longest probe
    // interval.
    let setup = Setup { max_concurrency: 1, ..Setup::new() }
        .failing(0, down_error())
        .on(1, Step::FailLate(121, down_error()))
        .on(2, Step::Hang);
    setup.process(
        vec![held_message(0, 600, 700), held_message(1, 86_400, 700), held_message(2, 600, 700)],
        300,
    );
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1), nth_id(2)]);
    assert_eq!(kinds_and_types(&setup), pairs([CALLED, FAILED, ("held", "Timeout")]));
}

#[test]
fn only_a_first_failure_within_a_minute_of_an_outage_is_held() {
    // The second message is at its hold limit, so its call is made. It succeeds: the target has recovered.
    let setup =
        Setup::new().on(0, Step::Hang).on(1, Step::Take(1)).failing(2, down_error()).failing(3, down_error());
    setup.process(
        vec![held_message(0, 600, 700), held_message(1, 86_400, 700), nth_record(2, nth_body(2))],
        30,
    );
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1), nth_id(2)]);
    assert_eq!(kinds_and_types(&setup), pairs([("held", "Timeout"), CALLED]));
    setup.sleep(60);
    setup.process(records(3..4), 30);
    assert_eq!(kinds_and_types(&setup)[2..], pairs([FAILED]));
}

#[test]
fn the_target_is_called_for_a_message_at_its_hold_limit() {
    let setup = setup_with_open_circuit();
    setup.process(vec![held_message(20, 86_399, 700), held_message(21, 86_400, 700)], 30);
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(21)]);
    assert_eq!(kinds_and_types(&setup)[10..], pairs([FAILED, NOT_CALLED]));
}

/// If the call spent no attempt, the message's retries would never end.
#[test]
fn a_cut_off_call_at_the_hold_limit_spends_an_attempt() {
    let setup = setup_with_open_circuit().on(20, Step::Hang);
    setup.process(vec![held_message(20, 86_400, 700)], 30);
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20)]);
    assert_eq!(kinds_and_types(&setup)[10..], pairs([("transient", "Timeout")]));
}

#[test]
fn immediate_retries_obey_the_breaker() {
    let policy = r#"{"immediate":{"max_attempts":10,"delay_ms":100}}"#;
    let setup = fail_every_call(Setup { max_concurrency: 1, ..Setup::with_policy(policy) });
    setup.process(records(0..2), 30);
    assert_eq!(
        setup.handler.called_message_ids(),
        vec![nth_id(0); 10],
        "every immediate retry counts as a call"
    );
    assert_eq!(kinds_and_types(&setup), pairs([CALLED, NOT_CALLED]));
}

#[test]
fn message_specific_errors_and_a_disabled_breaker_hold_nothing() {
    for error in [busy_error(), HandlerError::permanent("HttpStatus.503", "")] {
        let setup = fail_every_call_with_error(Setup::new(), &error);
        (0..10).for_each(|batch| drop(setup.process(records(batch * 10..batch * 10 + 10), 30)));
        assert_eq!(setup.handler.calls().len(), 100, "{error:?}");
    }
    let setup = fail_every_call(Setup::with_policy(r#"{"circuit_breaker":false}"#));
    (0..10).for_each(|batch| drop(setup.process(records(batch * 10..batch * 10 + 10), 30)));
    assert_eq!(setup.handler.calls().len(), 100);
    assert_eq!(count_messages(&setup, FAILED), 100);
}

#[test]
fn a_handlers_unavailable_error_opens_the_circuit() {
    let setup =
        fail_every_call_with_error(Setup::new(), &HandlerError::unavailable("Db.Down", "no connection"));
    setup.process(ten_records(), 30);
    setup.process(records(10..20), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!((count_messages(&setup, ("held", "Db.Down")), count_messages(&setup, NOT_CALLED)), (10, 10));
}

#[test]
fn each_receive_of_a_hidden_message_is_an_attempt_even_without_a_call() {
    let policy = r#"{"circuit_breaker":{},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let setup = fail_every_call(Setup { strategy: Strategy::Visibility, ..Setup::with_policy(policy) });
    setup.process(ten_records(), 30);
    let received = ReceivedMessage { receive_count: 6, ..nth_record(10, nth_body(10)) };
    let mut batch = records(11..20);
    batch.push(received);
    setup.process(batch, 30);
    assert_eq!(setup.handler.calls().len(), 10);
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!(
        (&verdict["verdict"], &verdict["type"]),
        (&"RETRY_ATTEMPT_EXCEEDED".into(), &"CircuitOpen".into())
    );
}

/// Processes two batches concurrently, as `redeliver work` does.
fn process_two_batches(setup: &Setup, one: Vec<ReceivedMessage>, other: Vec<ReceivedMessage>) {
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
fn batches_in_one_process_share_the_circuit() {
    let setup = fail_every_call(Setup { max_concurrency: 1, ..Setup::new() });
    process_two_batches(&setup, records(0..6), records(6..12));
    assert_eq!(setup.handler.calls().len(), 10);
    // The first six messages had already been handed off.
    assert_eq!(
        (count_messages(&setup, FAILED), count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)),
        (6, 4, 2)
    );
}

#[test]
fn a_batch_waits_for_another_batchs_probe() {
    let setup = Setup::new().on(0, Step::Take(2));
    process_two_batches(&setup, vec![held_message(0, 600, 700)], vec![held_message(1, 600, 700)]);
    assert_eq!(setup.handler.calls().len(), 2);
    assert_eq!(setup.world.clock.now() - start_time(), chrono::TimeDelta::seconds(2));
    // The waiting batch checks every 100 ms from its start.
    let setup = Setup::new().on(0, Step::Take(2));
    let (processor, clock) = (setup.processor(), &setup.world.clock);
    let deadline = clock.now() + Duration::from_secs(30);
    let later = async {
        clock.sleep(Duration::from_millis(350)).await;
        processor.process_batch(vec![held_message(1, 600, 700)], deadline).await
    };
    clock.block_on(async {
        futures_util::join!(processor.process_batch(vec![held_message(0, 600, 700)], deadline), later)
    });
    assert_eq!(setup.handler.calls().len(), 2);
    assert_eq!(clock.now() - start_time(), chrono::TimeDelta::milliseconds(2050));
    let setup = Setup::new().on(0, Step::Hang);
    process_two_batches(
        &setup,
        vec![held_message(0, 600, 700)],
        vec![held_message(1, 600, 700), held_message(2, 600, 700)],
    );
    assert_eq!(setup.handler.calls().len(), 1);
    assert_eq!(kinds_and_types(&setup).len(), 3);
    // It also waits while it makes a call for a message at its hold limit, which bypasses the breaker.
    let setup = Setup::new().on(0, Step::Take(2)).on(1, Step::Take(20)).on(2, Step::Take(15));
    process_two_batches(
        &setup,
        vec![held_message(0, 600, 700)],
        vec![held_message(1, 86_400, 700), held_message(2, 600, 700)],
    );
    assert_eq!(setup.handler.calls().len(), 3);
    assert_eq!(
        setup.world.clock.now() - start_time(),
        chrono::TimeDelta::seconds(20),
        "the third call starts after 2 s"
    );
}
