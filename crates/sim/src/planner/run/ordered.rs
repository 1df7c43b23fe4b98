//! Runs with the strategy `ordered`.

use redeliver_core::strategy::Strategy;

use super::*;
use crate::batching::Batching;
use crate::planner::{CallsInSecond, ModelTimes, TargetFault};

/// A policy without a circuit breaker, so that every figure follows from the delays.
const FIXED: &str = r#"{"max_attempts":9,"circuit_breaker":false,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;

/// Returns a scenario with one message per second for a minute, in three groups, one of which is down for 150 s.
fn scenario_with_a_failing_group(strategy: Strategy, batch_size: u8) -> Scenario {
    Scenario {
        strategy,
        messages: 60,
        fault: TargetFault::Outage(Duration::from_secs(150)),
        groups: Some(ScenarioGroups { count: 3, down: 1 }),
        over: Duration::from_secs(60),
        max_concurrency: 1,
        batching: Batching { size: batch_size, ..Batching::default() },
        times: ModelTimes::NONE,
        ..Scenario::default()
    }
}

fn measure_scenario(policy: &str, scenario: &Scenario) -> Measurements {
    run_policy(&scenario.strategy.definition().parse_policy(policy).unwrap(), scenario, &|_| {}).unwrap()
}

#[test]
fn a_group_waits_behind_its_failed_message_and_the_others_do_not() {
    let in_order = measure_scenario(FIXED, &scenario_with_a_failing_group(Strategy::Ordered, 1));
    let by_group = in_order.by_group.as_ref().unwrap();
    // The target is called for the first message of the group at 0, 60, 120 and 180 s, and for all messages behind it
    // immediately afterwards.
    assert_eq!(by_group.up, Some(DelayPercentiles { p50: 0.0, p90: 0.0, p99: 0.0, max: 0.0 }));
    assert_eq!(by_group.down.map(|delays| delays.max), Some(180.0));
    assert_eq!(in_order.load.calls_at_second(180), CallsInSecond { calls: 20, succeeded: 20 });
    assert_eq!((in_order.calls, in_order.retries, in_order.wasted.while_down), (63, 3, 3));
    assert_eq!((in_order.processed, by_group.overtaken), (60, 0));
    // Sends, receives, deletes and visibility changes, and one invocation per receive.
    let Usage { sqs_requests, sqs_fifo_requests, invocations, .. } = in_order.usage;
    assert_eq!((sqs_requests, sqs_fifo_requests), (0.0, f64::from(60 + 63 + 60 + 3)));
    assert_eq!(invocations.count, 63.0);
    // Messages sent in the first half minute are received again after the others.
    let resent = measure_scenario(FIXED, &scenario_with_a_failing_group(Strategy::DelayedResend, 10));
    assert_eq!(resent.by_group.unwrap().overtaken, 10);
}

#[test]
fn a_larger_batch_needs_fewer_requests() {
    let in_order = measure_scenario(FIXED, &scenario_with_a_failing_group(Strategy::Ordered, 10));
    assert_eq!((in_order.calls, in_order.retries, in_order.by_group.unwrap().overtaken), (63, 3, 0));
    // The other groups' messages are received one by one. The waiting group's twenty arrive in two batches at the end;
    // while its first message fails, one request hides all received messages.
    let (sends, receives, deletes, hides) = (60, 40 + 3 + 2, 40 + 2, 3);
    assert_eq!(in_order.usage.sqs_fifo_requests, f64::from(sends + receives + deletes + hides));
    assert_eq!(in_order.usage.invocations.count, f64::from(receives));
}

#[test]
fn a_dead_letter_is_billed_at_fifo_and_standard_prices() {
    let one = Scenario {
        messages: 1,
        fault: TargetFault::FailureRate(1.0),
        ..scenario_with_a_failing_group(Strategy::Ordered, 1)
    };
    let given_up = measure_scenario(r#"{"max_attempts":0,"circuit_breaker":false}"#, &one);
    assert_eq!(given_up.dead_lettered.values().sum::<u64>(), 1);
    let Usage { sqs_requests, sqs_fair_requests, sqs_fifo_requests, invocations, .. } = given_up.usage;
    // The message: send, receive, delete. The verdict: send, receive, delete. The final record: send. The verdict and
    // the final record keep the group, for which a fair queue charges extra.
    assert_eq!((sqs_fifo_requests, sqs_requests, sqs_fair_requests), (3.0, 4.0, 4.0));
    assert_eq!(invocations.count, 2.0);
}

/// A message that remains on its queue does not record that it was held.
#[test]
fn the_circuit_breaker_holds_one_message_per_group() {
    let all = Scenario {
        messages: 600,
        fault: TargetFault::Outage(Duration::from_secs(600)),
        groups: Some(ScenarioGroups { count: 20, down: 20 }),
        ..scenario_with_a_failing_group(Strategy::Ordered, 1)
    };
    let held = measure_scenario("{}", &all);
    let breaker = held.circuit_breaker.unwrap();
    assert_eq!((held.processed, held.retries, held.by_group.unwrap().overtaken), (600, 0, 0));
    // The tenth failure opens the circuit breaker. A 503 spends no attempt, either before or after that.
    assert_eq!((breaker.openings, breaker.held_messages), (1, 20));
}
