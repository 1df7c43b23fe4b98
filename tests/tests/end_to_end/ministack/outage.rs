//! During an outage of the target, messages are held without a call and spend no attempts.

use std::time::Duration;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::topology::TopologySetup;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{final_records, id, new_topology, test_message};

const POLICY: &str = r#"{"max_attempts":1,"backoff":{"kind":"fixed","delay_seconds":5,"jitter":"none"}}"#;

/// The number of failed calls before the one that opens the circuit: ten in a row open it.
const CALLS_BEFORE_OPENING: u32 = 9;
const OPENING: u32 = 10;
const HELD: u32 = 11;

#[tokio::test]
async fn a_message_held_during_an_outage_keeps_its_attempts() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    for failing in 1..=OPENING {
        target.script_replies(&id(failing), [Reply::Status(500)]);
    }
    let mut setup = TopologySetup { policy: POLICY, ..TopologySetup::for_http_target(target.url()) };
    setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    let running = topology.start_functions(&setup);
    let before: Vec<_> = (1..=CALLS_BEFORE_OPENING).map(|n| test_message(n, &json!({ "n": n }))).collect();
    topology.send_all(&before).await;
    while target.request_count() < before.len() {
        sleep(Duration::from_millis(20)).await;
    }
    // One batch: its first message opens the circuit.
    topology.send_batch([OPENING, HELD].map(|n| test_message(n, &json!({ "n": n })))).await;
    topology.wait_until_settled(&running).await;

    let metadata = |n: u32, call: usize| {
        let body: Value = serde_json::from_str(&target.requests_for(&id(n))[call].body).unwrap();
        body["metadata"].clone()
    };
    assert_eq!(
        target.requests_for(&id(HELD)).len(),
        1,
        "not while the target was down\n{}",
        running.full_log()
    );
    let held = metadata(HELD, 0);
    assert_eq!((&held["retry_attempt"], &held["retry_history"]), (&json!(0), &Value::Null));
    assert!(held["held_seconds"].as_u64() >= Some(1), "{held}");
    for failing in 1..=OPENING {
        assert_eq!(target.requests_for(&id(failing)).len(), 2, "{}", running.full_log());
        let again = metadata(failing, 1);
        let attempts = u32::from(failing <= CALLS_BEFORE_OPENING);
        assert_eq!(
            again["retry_attempt"], attempts,
            "the call that opens the circuit spends no attempt: {again}"
        );
        assert_eq!(again["retry_history"][0]["error_type"], "HttpStatus.500");
    }
    assert!(final_records(&topology).await.is_empty());
    let log = running.full_log();
    for (event, times) in [("circuit_opened", 1), ("circuit_closed", 1)] {
        let reported = log.lines().filter(|line| line.contains(&format!(r#""event":"{event}""#))).count();
        assert_eq!(reported, times, "{event}\n{log}");
    }
}
