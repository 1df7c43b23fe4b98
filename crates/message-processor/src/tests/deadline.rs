//! Near the deadline, running calls are cut off, unstarted calls are reported as not started, and finished calls remain
//! done.

use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::DelayedResend;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::task::{Context, Waker};

use redeliver_core::deliver::time_until;
use redeliver_core::failure::FAILURE;
use serde_json::json;

use super::*;

/// Returns `type` and `kind` of each hand-off, by message id.
fn hand_off_types(setup: &Setup) -> BTreeMap<String, (String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    setup
        .intermediate
        .sent_contents()
        .into_iter()
        .map(|content| {
            let body: serde_json::Value = serde_json::from_str(&content.body).unwrap();
            let document = attribute_document(&content.attributes, FAILURE);
            (text(&body["metadata"]["message_id"]), (text(&document["type"]), text(&document["kind"])))
        })
        .collect()
}

fn pair(error_type: &str, kind: &str) -> (String, String) {
    (error_type.to_owned(), kind.to_owned())
}

#[test]
fn a_hung_record_without_concurrency_leaves_the_rest_unstarted() {
    let setup = Setup { max_concurrency: 1, ..Setup::new().on(2, Step::Hang) };
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    assert_eq!(setup.world.elapsed_seconds(), 25, "the function responds 5 s before the deadline");
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1), nth_id(2)]);
    let mut expected = BTreeMap::from([(nth_id(2), pair("Timeout", "transient"))]);
    expected.extend((3..10).map(|n| (nth_id(n), pair("NotStarted", "not_started"))));
    assert_eq!(hand_off_types(&setup), expected);
}

#[test]
fn with_concurrency_three_a_hung_record_delays_no_other_record() {
    let setup = Setup { max_concurrency: 3, ..Setup::new().on(2, Step::Hang).on(5, Step::Take(24)) };
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!(hand_off_types(&setup), BTreeMap::from([(nth_id(2), pair("Timeout", "transient"))]));
    assert_eq!(setup.world.elapsed_seconds(), 25);
}

#[test]
fn three_hung_records_with_concurrency_three_leave_the_rest_unstarted() {
    let setup = (1..4).fold(Setup::new(), |setup, n| setup.on(n, Step::Hang));
    let setup = Setup { max_concurrency: 3, ..setup };
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    let mut expected: BTreeMap<_, _> = (1..4).map(|n| (nth_id(n), pair("Timeout", "transient"))).collect();
    expected.extend((4..10).map(|n| (nth_id(n), pair("NotStarted", "not_started"))));
    assert_eq!(hand_off_types(&setup), expected);
    assert_eq!(setup.world.elapsed_seconds(), 25);
}

#[test]
fn a_call_ending_at_the_cutoff_is_done_and_the_next_is_not_started() {
    let setup = Setup { max_concurrency: 1, ..Setup::new().on(0, Step::Take(25)) };
    assert_eq!(setup.process(vec![nth_record(0, nth_body(0)), nth_record(1, nth_body(1))], 30), [""; 0]);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0)]);
    assert_eq!(hand_off_types(&setup), BTreeMap::from([(nth_id(1), pair("NotStarted", "not_started"))]));
}

/// A call with no time left would be cut off immediately and waste an attempt.
#[test]
fn a_call_starts_only_with_time_left() {
    for (milliseconds, calls) in [(200, 0), (202, 1)] {
        let setup = Setup::new();
        let records = vec![nth_record(0, nth_body(0))];
        // With so little time left, half of it is reserved for the sends, and no call starts in the 100 ms before that.
        setup.world.invoke_function(&setup.processor(), records, Duration::from_millis(milliseconds));
        assert_eq!(setup.handler.calls().len(), calls, "{milliseconds}");
    }
}

#[test]
fn a_message_not_started_behind_a_hung_one_is_not_a_timeout() {
    let setup = Setup { max_concurrency: 2, ..Setup::new().on(0, Step::Take(25)).on(1, Step::Hang) };
    let records = (0..4).map(|n| nth_record(n, nth_body(n))).collect();
    assert_eq!(setup.process(records, 30), [""; 0]);
    let expected = BTreeMap::from([
        (nth_id(1), pair("Timeout", "transient")),
        (nth_id(2), pair("NotStarted", "not_started")),
        (nth_id(3), pair("NotStarted", "not_started")),
    ]);
    assert_eq!(hand_off_types(&setup), expected);
}

#[test]
fn a_message_not_started_in_time_spends_no_attempt() {
    let setup = Setup::new().failing(1, HandlerError::not_started());
    assert_eq!(setup.process(vec![nth_record(0, nth_body(0)), nth_record(1, nth_body(1))], 30), [""; 0]);
    assert_eq!(hand_off_types(&setup), BTreeMap::from([(nth_id(1), pair("NotStarted", "not_started"))]));
}

#[test]
fn a_short_remaining_time_is_used_for_calls() {
    let setup = Setup { max_concurrency: 1, ..Setup::new().on(0, Step::Take(1)).on(1, Step::Hang) };
    let records = (0..3).map(|n| nth_record(n, nth_body(n))).collect();
    assert_eq!(setup.process(records, 3), [""; 0]);
    let expected = BTreeMap::from([
        (nth_id(1), pair("Timeout", "transient")),
        (nth_id(2), pair("NotStarted", "not_started")),
    ]);
    assert_eq!(hand_off_types(&setup), expected, "the first record is done");
    assert_eq!(setup.world.clock.now() - start_time(), chrono::TimeDelta::milliseconds(1500));
}

#[test]
fn a_past_deadline_loses_no_message() {
    let setup = Setup::new();
    assert_eq!(
        setup.process(vec![nth_record(0, nth_body(0)), nth_record(1, nth_body(1))], 0),
        ["sqs-0", "sqs-1"]
    );
    assert!(setup.handler.calls().is_empty());
    assert!(
        setup.intermediate.sent_contents().is_empty(),
        "the deadline has passed: SQS's redrive moves the messages"
    );
}

#[test]
fn a_timeout_is_timestamped_at_the_cutoff() {
    let setup = Setup::new().on(1, Step::Hang);
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    let document = attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE);
    assert_eq!(document["failed_at"], format_time_at(25));
    assert_eq!(document["first_sent_time"], json!(format_time_at(-10)));
    assert_eq!(document["details"], "the target did not answer before the invocation's end");
}

/// A clock that advances only while a handler blocks its thread.
#[derive(Clone, Default)]
struct BlockedClock(Arc<AtomicI64>);

impl Clock for BlockedClock {
    fn now(&self) -> Timestamp {
        start_time() + chrono::TimeDelta::seconds(self.0.load(SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            pending::<()>().await;
        }
    }
}

/// A handler that blocks for ten seconds without awaiting. The target is down for message 2.
struct BlockingHandler(BlockedClock);

impl Handler for BlockingHandler {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.0.0.fetch_add(10, SeqCst);
        if message.message_id == nth_id(2) { Err(HandlerError::unavailable("Db.Down", "")) } else { Ok(()) }
    }
}

#[test]
fn a_blocking_handler_is_not_started_again_after_the_cutoff() {
    let world = FunctionWorld::new();
    let clock = BlockedClock::default();
    let intermediate = world.add_queue("intermediate");
    let processor = MessageProcessor {
        handler: BlockingHandler(clock.clone()),
        on_failure: OnFailure::DelayedResend(DelayedResend(Redelivery {
            source_queue: world.add_queue("source"),
            intermediate_dlq: intermediate.clone(),
        })),
        breaker: SharedBreaker::from_policy(&Policy::default()),
        policy: Policy::default(),
        annotation_queue: world.add_queue("annotation"),
        clock: clock.clone(),
        observer: world.seen.clone(),
        schema: MessageSchema::default(),
        resenders: Resenders::parse(RESENDER).unwrap(),
        max_concurrency: NonZeroUsize::MIN,
    };
    let records = (10..20).map(|n| nth_record(n, nth_body(n))).collect();
    let response = processor.batch_item_failures(records, start_time() + Duration::from_secs(31));
    let response = world.clock.block_on(response);
    assert!(response.is_empty());
    let not_started: Vec<_> = intermediate.sent_contents().into_iter().map(|content| content.body).collect();
    assert_eq!(
        not_started,
        (13..20).map(nth_body).collect::<Vec<_>>(),
        "three calls of 10 s reach the end at 26 s"
    );
}

#[test]
fn a_call_that_starts_too_late_is_neither_an_outage_nor_a_probe() {
    let world = FunctionWorld::new();
    let clock = BlockedClock::default();
    let intermediate = world.add_queue("intermediate");
    let processor = MessageProcessor {
        handler: BlockingHandler(clock.clone()),
        on_failure: OnFailure::DelayedResend(DelayedResend(Redelivery {
            source_queue: world.add_queue("source"),
            intermediate_dlq: intermediate.clone(),
        })),
        breaker: SharedBreaker::from_policy(&Policy::default()),
        policy: Policy::default(),
        annotation_queue: world.add_queue("annotation"),
        clock: clock.clone(),
        observer: world.seen.clone(),
        schema: MessageSchema::default(),
        resenders: Resenders::parse(RESENDER).unwrap(),
        max_concurrency: NonZeroUsize::new(20).unwrap(),
    };
    let process = |records, seconds| {
        let deadline = clock.now() + Duration::from_secs(seconds);
        world.clock.block_on(processor.process_batch(records, deadline))
    };
    let reported = |name: fn(&Event) -> bool| world.seen.events().iter().filter(|event| name(event)).count();
    // The other messages get their turn only after the first call has used up the time.
    process((10..21).map(|n| nth_record(n, nth_body(n))).collect(), 14);
    let handed_off: Vec<_> = intermediate.sent_contents().into_iter().map(|content| content.body).collect();
    assert_eq!(handed_off, (11..21).map(nth_body).collect::<Vec<_>>());
    assert_eq!(reported(|event| matches!(event, Event::CircuitOpened { .. })), 0);
    // The call for the first message is made since it is at its hold limit. The second would be the probe.
    clock.0.fetch_add(600, SeqCst);
    let held = |n, held_seconds| {
        let since = format_time_at(-600);
        let (id, sent_at) = (nth_id(n), start_time());
        let body = format!(
            r#"{{"metadata":{{"message_id":"{id}","held_since":"{since}","outage_failures":12,"held_seconds":{held_seconds}}},"data":{{}}}}"#
        );
        resent_record(ReceivedMessage { sent_at, ..nth_record(n, body) })
    };
    process(vec![held(2, 86_400), held(3, 600)], 14);
    assert_eq!(intermediate.sent_contents().len(), 12);
    assert_eq!(reported(|event| matches!(event, Event::ProbeFailed { .. } | Event::CircuitClosed { .. })), 0);
    process(vec![held(3, 600)], 30);
    assert_eq!(reported(|event| matches!(event, Event::CircuitClosed { .. })), 0, "the answer is newer");
    assert_eq!(intermediate.sent_contents().len(), 12);
}

/// A handler that knows its error earlier, but returns it only at the end of the call.
struct LateErrorHandler(VirtualClock);

impl Handler for LateErrorHandler {
    async fn handle(&self, _: &Message<'_>) -> Result<(), HandlerError> {
        unreachable!("the message-processor passes the end of the call")
    }

    async fn invoke(&self, Invocation { end, .. }: Invocation<'_>) -> Result<(), HandlerError> {
        self.0.sleep(time_until(self.0.now(), end)).await;
        Err(HandlerError::permanent("Known", "the error was known in time"))
    }
}

#[test]
fn a_handler_that_ends_at_its_deadline_is_not_cut_off() {
    let setup = Setup::new();
    let processor = MessageProcessor {
        handler: LateErrorHandler(setup.world.clock.clone()),
        on_failure: OnFailure::from_wiring(setup.strategy, &setup).expect("it has a message-processor"),
        breaker: SharedBreaker::from_policy(&setup.policy),
        policy: setup.policy.clone(),
        annotation_queue: setup.annotation.clone(),
        clock: setup.world.clock.clone(),
        observer: setup.world.seen.clone(),
        schema: MessageSchema::default(),
        resenders: Resenders::parse(RESENDER).unwrap(),
        max_concurrency: NonZeroUsize::MIN,
    };
    let response = processor
        .batch_item_failures(vec![nth_record(0, nth_body(0))], start_time() + Duration::from_secs(30));
    assert!(setup.world.clock.block_on(response).is_empty());
    assert_eq!(setup.world.clock.now() - start_time(), chrono::TimeDelta::milliseconds(24_900));
    assert_eq!(hand_off_types(&setup), BTreeMap::from([(nth_id(0), pair("Known", "permanent"))]));
}

#[test]
fn a_cut_off_batch_reports_its_events() {
    let mut setup = Setup::new().failing(1, HandlerError::transient("Db.Busy", "come later"));
    setup.intermediate = setup.intermediate.clone().with_pauses(Duration::from_secs(1), Duration::ZERO);
    let FunctionWorld { clock, seen, .. } = &setup.world;
    let processor = setup.processor();
    let time_stands_still = clock.hold_time();
    let mut batch =
        Box::pin(clock.run(processor.process_batch(ten_records(), start_time() + Duration::from_secs(30))));
    assert!(batch.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(
        seen.unflushed_count(),
        9,
        "all messages except the second are done, and its hand-off takes long"
    );
    drop((batch, time_stands_still));
    assert_eq!(seen.unflushed_count(), 0);
}
