//! The real programs with killed processes and unconfirmed sends: no message is lost or changed.

use std::iter::repeat_n;
use std::time::Duration;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtime_api::InvocationOutcome;
use redeliver_tests::topology::{RunningTopology, TopologySetup};
use redeliver_tests::wire::Tap;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{final_records, id, new_topology, test_message};

/// A held message would wait for minutes, so the circuit breaker is off.
const POLICY: &str = r#"{"circuit_breaker":false,"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
/// Long enough for a call and a repeated send.
const TIMEOUT: Duration = Duration::from_secs(8);
const MESSAGES: u32 = 40;
/// Rounds in which each of the three functions is killed if it is working.
const ROUNDS: u64 = 8;
/// More calls than a message gets, including those for its copies.
const ALWAYS: usize = 100;

/// Returns the scripted result for a message.
fn message_fate(n: u32) -> &'static str {
    ["succeeds", "succeeds", "fails once", "succeeds", "fails always", "is refused", "succeeds", "is no JSON"]
        [n as usize % 8]
}

#[tokio::test]
async fn delayed_resend_loses_no_message_to_crashes_and_failed_sends() {
    assert_no_loss_under_faults(&[]).await;
}

#[tokio::test]
async fn direct_resend_loses_no_message_to_crashes_and_failed_sends() {
    assert_no_loss_under_faults(&[("STRATEGY", "direct-resend")]).await;
}

async fn assert_no_loss_under_faults(strategy: &[(&'static str, &str)]) {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let tap = Tap::start(&Ministack::shared().endpoint_url()).await;
    tap.fail_sends_in_turn();
    let mut bodies = Vec::new();
    for n in 0..MESSAGES {
        match message_fate(n) {
            "fails once" => target.script_replies(&id(n), [Reply::Status(500)]),
            "fails always" => target.script_replies(&id(n), repeat_n(Reply::Status(500), ALWAYS)),
            "is refused" => target.script_replies(&id(n), repeat_n(Reply::Status(410), ALWAYS)),
            _ => {}
        }
        bodies.push(if message_fate(n) == "is no JSON" {
            format!("poison {n}")
        } else {
            test_message(n, &message_data(n))
        });
    }
    let endpoint_url = Some(tap.endpoint_url().to_owned());
    let mut setup = TopologySetup {
        endpoint_url,
        policy: POLICY,
        timeout: TIMEOUT,
        ..TopologySetup::for_http_target(target.url())
    };
    setup.processor_variables.extend(strategy.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let running = topology.start_functions(&setup);
    for batch in bodies.chunks(10) {
        topology.send_all(batch).await;
    }
    kill_functions_in_turn(&running).await;
    let sends = tap.stop_faults();
    topology.wait_until_settled(&running).await;

    assert!(sends >= 20, "each fault occurred several times: {sends} sends\n{}", running.full_log());
    for mapping in [&running.processor, &running.retrier, &running.annotator] {
        let died =
            mapping.invocations().iter().any(|invocation| invocation.outcome == InvocationOutcome::Died);
        assert!(died, "{} was killed\n{}", mapping.function().name(), running.full_log());
    }
    let records = final_records(&topology).await;
    for n in 0..MESSAGES {
        let calls = target.requests_for(&id(n));
        let given_up: Vec<_> =
            records.iter().filter(|record| record.text.contains(&body_marker(n))).collect();
        for call in &calls {
            let body: Value = serde_json::from_str(&call.body).unwrap();
            assert_eq!(body["data"], message_data(n), "message {n}");
        }
        let (calls_min, reason) = match message_fate(n) {
            "succeeds" => (1, None),
            "fails once" => (2, None),
            "fails always" => (3, Some("RETRY_ATTEMPT_EXCEEDED")),
            "is refused" => (1, Some("NON_RETRYABLE_ERROR")),
            _ => (0, Some("INVALID_MESSAGE_FORMAT")),
        };
        assert!(
            calls.len() >= calls_min,
            "message {n} was called {} times\n{}",
            calls.len(),
            running.full_log()
        );
        // Delivery is at least once: a lost response causes a copy, and so does a process that dies after the send.
        assert_eq!(given_up.is_empty(), reason.is_none(), "message {n}\n{}", running.full_log());
        for record in given_up {
            assert_eq!(Some(record.error_type.as_str()), reason, "message {n}\n{}", running.full_log());
            assert!(
                record.body.is_null() || record.body["data"] == message_data(n),
                "message {n}: {}",
                record.text
            );
        }
    }
}

fn message_data(n: u32) -> Value {
    json!({ "n": n, "kept": [1, 2] })
}

/// Returns a string that only the bodies of message `n` contain.
fn body_marker(n: u32) -> String {
    if message_fate(n) == "is no JSON" { format!("poison {n}") } else { id(n) }
}

/// Kills each function in turn if it is working, at the start or in the middle of an invocation.
async fn kill_functions_in_turn(running: &RunningTopology) {
    for round in 0..ROUNDS {
        for mapping in running.mappings() {
            let kill = mapping.function().kill_mid_invocation(Duration::from_millis(10 * round));
            let _idle = timeout(Duration::from_millis(1500), kill).await;
        }
    }
}
