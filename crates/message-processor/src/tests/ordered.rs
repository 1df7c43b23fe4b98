//! The strategy `ordered`: the calls for a group, and the group's order on the FIFO queue.

mod blocked;
mod held;

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::ports::{Queue as _, QueueSettings, ReceiveOptions};
use redeliver_embedded::{FaultPlan, FaultScope, FaultTrigger, Injection};
use serde_json::json;

use super::*;

const DELAYS: &str = r#"{"circuit_breaker":false,"max_age_seconds":3600,"max_attempts":3,
    "backoff":{"kind":"schedule","delays_seconds":[5,10,20],"jitter":"none"}}"#;

/// Creates a setup that receives batches of this size.
fn setup(batch_size: u16) -> Setup {
    setup_with_policy(batch_size, DELAYS)
}

fn setup_with_policy(batch_size: u16, policy: &str) -> Setup {
    let setup = Setup { strategy: Strategy::Ordered, batch_size, ..Setup::with_policy(policy) };
    let settings =
        QueueSettings { retention: Duration::from_secs(14 * 24 * 3600), ..QueueSettings::default() };
    Setup { source: setup.world.add_queue_with_settings("source.fifo", &settings), ..setup }
}

type Environment = MessageProcessor<ScriptedHandler, SpyQueue, VirtualClock, EventRecorder>;

impl Setup {
    /// Sends messages in this group.
    fn send_to_group(&self, group: &str, numbers: impl IntoIterator<Item = usize>) {
        self.send_bodies_to_group(group, numbers.into_iter().map(|n| (n, nth_body(n))));
    }

    fn send_bodies_to_group(&self, group: &str, bodies: impl IntoIterator<Item = (usize, String)>) {
        let message = |(n, body): (usize, String)| {
            let content = Content {
                body,
                message_group_id: Some(group.to_owned()),
                deduplication_id: Some(n.to_string()),
                ..Content::default()
            };
            OutgoingMessage::new(content).unwrap()
        };
        let messages: Vec<_> = bodies.into_iter().map(message).collect();
        let sent = async {
            for batch in pack_batches(&messages) {
                for outcome in self.source.queue.send_batch(batch).await {
                    outcome.unwrap();
                }
            }
        };
        self.world.clock.block_on(sent);
    }

    fn receive_batch(&self) -> Vec<ReceivedMessage> {
        let max_messages = self.batch_size.try_into().unwrap();
        let request =
            ReceiveOptions { max_messages, wait: Duration::ZERO, visibility: VisibilitySeconds::new(180) };
        self.world.clock.block_on(self.source.queue.receive(request)).unwrap()
    }

    /// Receives a batch, processes it, and deletes completed messages. Returns the batch's message numbers.
    fn poll_once(&self, environment: &Environment) -> Vec<usize> {
        let records = self.receive_batch();
        let message_number = |record: &ReceivedMessage| {
            let body: serde_json::Value = serde_json::from_str(&record.body).unwrap();
            usize::try_from(body["data"]["n"].as_u64().unwrap()).unwrap()
        };
        let numbers = records.iter().map(message_number).collect();
        let handles: Vec<_> =
            records.iter().map(|one| (one.sqs_message_id.clone(), one.receipt_handle.clone())).collect();
        let failed = self.world.invoke_function(environment, records, Duration::from_secs(30));
        let done: Vec<_> =
            handles.into_iter().filter(|(id, _)| !failed.contains(id)).map(|(_, handle)| handle).collect();
        self.world.clock.block_on(self.source.queue.delete_batch(&done));
        numbers
    }

    /// Returns the seconds until the next non-empty batch, and its message numbers.
    fn poll_until_nonempty(&self, environment: &Environment) -> (u64, Vec<usize>) {
        for seconds in 0..100_000 {
            match self.poll_once(environment) {
                numbers if numbers.is_empty() => self.sleep(1),
                numbers => return (seconds, numbers),
            }
        }
        panic!("no more messages arrive");
    }

    /// Returns the message numbers of the next non-empty batch, if it is received within this many seconds.
    fn poll_within(&self, environment: &Environment, seconds: u64) -> Option<Vec<usize>> {
        for _ in 0..seconds {
            let numbers = self.poll_once(environment);
            if !numbers.is_empty() {
                return Some(numbers);
            }
            self.sleep(1);
        }
        None
    }

    /// Returns the retry numbers of all calls for message n so far.
    fn retry_numbers(&self, n: usize) -> Vec<u32> {
        let calls = self.handler.calls();
        calls.iter().filter(|call| call.message_id == nth_id(n)).map(|call| call.retry_attempt).collect()
    }
}

/// Returns each reported retry: its message, its number, and true if the failure spends an attempt.
fn reported_retries(setup: &Setup) -> Vec<(String, u32, bool)> {
    let reported = |event| match event {
        Event::RetryScheduled { message_id, retry_attempt, spends_attempt, .. } => {
            Some((message_id, retry_attempt, spends_attempt))
        }
        _ => None,
    };
    setup.world.seen.events().into_iter().filter_map(reported).collect()
}

/// An unreadable record stops its group only if the function keeps the order.
#[test]
fn only_the_ordered_strategy_keeps_the_order_within_a_group() {
    assert!(setup(10).processor().keeps_order());
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend, Strategy::Visibility] {
        assert!(!Setup { strategy, ..Setup::new() }.processor().keeps_order(), "{strategy}");
    }
}

#[test]
fn calls_within_a_group_are_sequential_and_groups_run_concurrently() {
    let setup = (0..4).fold(setup(10), |setup, n| setup.on(n, Step::Take(3)));
    setup.send_to_group("a", [0, 1]);
    setup.send_to_group("b", [2, 3]);
    assert_eq!(setup.poll_once(&setup.processor()), [0, 1, 2, 3]);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(2), nth_id(1), nth_id(3)]);
    assert_eq!(setup.world.elapsed_seconds(), 6);
    assert_eq!(setup.poll_within(&setup.processor(), 600), None, "all messages are deleted");
}

#[test]
fn a_concurrency_limit_of_one_keeps_the_order() {
    let setup = Setup { max_concurrency: 1, ..setup(10).failing(0, busy_error()) };
    setup.send_to_group("a", [0, 1]);
    setup.send_to_group("b", [2, 3]);
    setup.poll_once(&setup.processor());
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(2), nth_id(3)]);
}

#[test]
fn a_failure_stops_its_group_which_returns_in_order_after_the_delay() {
    let setup = setup(10).on(1, Step::Blip(1));
    setup.send_to_group("a", [0, 1, 2, 3]);
    setup.send_to_group("b", [4, 5]);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment), [0, 1, 2, 3, 4, 5]);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(4), nth_id(1), nth_id(5)]);
    assert_eq!(setup.poll_until_nonempty(&environment), (5, vec![1, 2, 3]));
    assert_eq!(setup.handler.called_message_ids()[4..], [nth_id(1), nth_id(2), nth_id(3)]);
}

#[test]
fn a_message_that_waited_in_batches_keeps_all_its_attempts() {
    let setup = setup(10).on(0, Step::Blip(3)).failing(1, busy_error());
    setup.send_to_group("a", [0, 1, 2]);
    let environment = setup.processor();
    let waits: Vec<_> = (0..7).map(|_| setup.poll_until_nonempty(&environment)).collect();
    let all = vec![0, 1, 2];
    let expected = [(0, all.clone()), (5, all.clone()), (10, all.clone()), (20, all)];
    assert_eq!(waits[..4], expected, "message 0 has its retries, and succeeds");
    let rest = vec![1, 2];
    assert_eq!(
        waits[4..],
        [(5, rest.clone()), (10, rest.clone()), (20, rest)],
        "message 1 has its own retries"
    );
    assert_eq!(setup.retry_numbers(1), [0, 1, 2, 3]);
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!((&verdict["verdict"], &verdict["attempts"]), (&json!("RETRY_ATTEMPT_EXCEEDED"), &json!(3)));
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![2]), "the group continues");
    assert_eq!(setup.retry_numbers(2), [0]);
}

#[test]
fn a_new_environment_continues_the_count_only_for_batches_of_one() {
    let calls = |batch_size| {
        let setup = setup(batch_size).failing(0, busy_error());
        setup.send_to_group("a", [0]);
        let waits: Vec<_> = (0..3).map(|_| setup.poll_until_nonempty(&setup.processor()).0).collect();
        (waits, setup.retry_numbers(0))
    };
    assert_eq!(calls(10), (vec![0, 5, 5], vec![0, 0, 0]));
    assert_eq!(calls(1), (vec![0, 5, 10], vec![0, 1, 2]));
}

#[test]
fn the_age_limit_counts_from_the_first_receive_not_the_send() {
    let hour = r#"{"circuit_breaker":false,"max_age_seconds":3600,
        "backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#;
    let setup = Setup { policy: Policy::from_json(hour).unwrap(), ..setup(1).failing(0, busy_error()) };
    let setup = setup.failing(1, busy_error());
    setup.send_to_group("a", [0, 1]);
    let environment = setup.processor();
    let waits: Vec<_> = (0..10).map(|_| setup.poll_until_nonempty(&environment)).collect();
    let expected = |n, first| [first, 900, 900, 900, 900].map(|seconds| (seconds, vec![n]));
    assert_eq!(waits[..5], expected(0, 0));
    assert_eq!(waits[5..], expected(1, 0), "the message behind it has its own hour");
    let verdicts = setup.annotation.sent_contents();
    let verdict = |n: usize| attribute_document(&verdicts[n].attributes, FAILURE)["verdict"].clone();
    assert_eq!([verdict(0), verdict(1)], ["MESSAGE_EXPIRED", "MESSAGE_EXPIRED"]);
}

#[test]
fn a_message_whose_verdict_is_refused_is_given_up_after_its_next_call() {
    let setup = setup(10).failing(0, busy_error());
    setup.send_to_group("a", [0]);
    let environment = setup.processor();
    (0..3).for_each(|_| drop(setup.poll_until_nonempty(&environment)));
    setup.world.fail_sends(
        &setup.annotation,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Throttled,
    );
    setup.poll_until_nonempty(&environment);
    setup.world.sqs.set_faults(FaultPlan::default());
    setup.poll_until_nonempty(&environment);
    assert_eq!(setup.retry_numbers(0), [0, 1, 2, 3, 4], "its attempts do not start from zero");
    assert_eq!(setup.poll_within(&environment, 600), None);
}

#[test]
fn a_permanent_error_causes_an_immediate_verdict_and_the_group_continues() {
    let setup = setup(10).failing(0, HandlerError::permanent("Gone", "for good"));
    setup.send_to_group("a", [0, 1]);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment), [0, 1]);
    assert_eq!(
        setup.handler.called_message_ids(),
        [nth_id(0)],
        "message 1 waits until the send of the verdict is confirmed"
    );
    assert_eq!(setup.annotation.only_sent_content().body, nth_body(0));
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![1]));
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1)]);
}

#[test]
fn a_call_that_was_not_made_stops_its_group() {
    let setup = setup(10).on(1, Step::FailThenNotStart);
    setup.send_to_group("a", [0]);
    setup.send_to_group("b", [1, 2]);
    let environment = setup.processor();
    setup.poll_once(&environment);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(1)]);
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![1, 2]));
}

#[test]
fn only_the_failed_message_of_a_group_is_reported() {
    for batch_size in [1, 10] {
        let setup = setup(batch_size).failing(0, busy_error());
        setup.send_to_group("a", [0, 1]);
        let environment = setup.processor();
        (0..3).for_each(|_| drop(setup.poll_until_nonempty(&environment)));
        assert_eq!(reported_retries(&setup), [1, 2, 3].map(|retry| (nth_id(0), retry, true)), "{batch_size}");
    }
}

/// If calls for completed messages were remembered, they would displace those for failed messages.
#[test]
fn calls_for_completed_messages_are_forgotten() {
    let setup = setup(10).on(0, Step::Blip(1)).failing(1, HandlerError::permanent("Gone", "for good"));
    setup.send_to_group("a", [0]);
    setup.send_to_group("b", [1]);
    let environment = setup.processor();
    for seconds in [5, 180, 0] {
        // No message is deleted.
        let records = setup.receive_batch();
        setup.world.invoke_function(&environment, records, Duration::from_secs(30));
        setup.sleep(seconds);
    }
    assert_eq!(setup.retry_numbers(0), [0, 1, 0]);
    assert_eq!(setup.retry_numbers(1), [0, 0]);
}

#[test]
fn a_cut_off_message_is_retried_before_its_successors() {
    let setup = setup(10).on(0, Step::Hang);
    setup.send_to_group("a", [0, 1]);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment), [0, 1]);
    assert_eq!(setup.poll_until_nonempty(&environment), (5, vec![0, 1]));
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0), nth_id(0)]);
}

#[test]
fn an_outage_holds_each_group_and_causes_no_dead_letters() {
    let down = HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503");
    let failing = (0..40).fold(setup(1), |setup, n| setup.failing(n, down.clone()));
    let policy = Strategy::Ordered.definition().parse_policy("{}").unwrap();
    let mut setup = Setup { policy, ..failing };
    for n in 0..20 {
        setup.send_to_group(&format!("group-{n}"), [n, n + 20]);
    }
    let environment = setup.processor();
    let mut turns = 0;
    while setup.world.elapsed_seconds() < 12 * 3600 {
        turns += setup.poll_until_nonempty(&environment).1.len();
    }
    let calls = setup.handler.calls().len();
    assert!(calls < turns / 3, "{calls} calls in {turns} turns: most are holds");
    assert!(
        setup.handler.called_message_ids().iter().all(|called| (0..20).any(|n| *called == nth_id(n))),
        "calls are in order"
    );
    assert_eq!(setup.annotation.sent_contents(), []);

    setup.handler.steps.clear();
    let environment = setup.processor();
    while setup.poll_within(&environment, 2000).is_some() {}
    let last: Vec<_> = setup.handler.called_message_ids()[calls..].to_vec();
    assert_eq!(last.len(), 40, "each message is done exactly once");
}

/// Runs twenty groups whose calls all fail as in an outage, until each message is given up after a last call. Returns
/// the seconds until the last receive. `quiet_seconds` must be longer than any hold.
fn run_until_all_given_up(policy: &str, quiet_seconds: u64) -> i64 {
    let down = HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503");
    let failing = (0..20).fold(setup(1), |setup, n| setup.failing(n, down.clone()));
    let setup = Setup { policy: Strategy::Ordered.definition().parse_policy(policy).unwrap(), ..failing };
    (0..20).for_each(|n| setup.send_to_group(&format!("group-{n}"), [n]));
    let environment = setup.processor();
    while setup.poll_within(&environment, quiet_seconds).is_some() {}
    let verdicts = setup.annotation.sent_contents();
    assert_eq!(verdicts.len(), 20);
    for verdict in verdicts {
        let failure = attribute_document(&verdict.attributes, FAILURE);
        assert_eq!(
            (&failure["verdict"], &failure["type"]),
            (&json!("MESSAGE_EXPIRED"), &json!("HttpStatus.503"))
        );
    }
    setup.world.elapsed_seconds() - i64::try_from(quiet_seconds).unwrap()
}

#[test]
fn the_maximum_age_ends_holds_with_a_last_call() {
    let seconds = run_until_all_given_up(r#"{"max_age_seconds":600}"#, 700);
    assert!((590..=610).contains(&seconds), "{seconds}");
}

#[test]
fn a_message_is_held_for_at_most_a_day_and_tried_before_it_is_given_up() {
    let seconds = run_until_all_given_up("{}", 2000);
    assert!((86_390..=87_300).contains(&seconds), "{seconds}");
}
