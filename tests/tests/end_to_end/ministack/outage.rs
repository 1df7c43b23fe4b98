//! The target is down: its messages are held, not called, and spend nothing.

use std::ops::RangeInclusive;

use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::topology::Setup;
use serde_json::{Value, json};

use super::{final_records, id, message, topology};

/// What has spent its attempt comes back after 17 s: the calls that failed in a batch before the one that opened it.
const POLICY: &str = r#"{"max_attempts":1,"backoff":{"kind":"fixed","delay_seconds":17,"jitter":"none"}}"#;

/// So many calls in a row that fail open it in a new environment.
const FAILING: RangeInclusive<u32> = 1..=10;

#[tokio::test]
async fn a_message_whose_target_is_down_is_held_and_comes_back_with_all_its_attempts() {
    let (topology, target) = (topology().await, HttpTarget::start().await);
    for failing in FAILING {
        target.script(&id(failing), [Reply::Status(503)]);
    }
    topology.send(FAILING.map(|n| message(n, &json!({ "n": n })))).await;
    let mut setup = Setup { policy: POLICY, ..Setup::http(target.url()) };
    setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    let running = topology.run(&setup);
    topology.settle(&running).await;

    let mut held = 0;
    for failing in FAILING {
        let calls = target.requests(&id(failing));
        assert_eq!(calls.len(), 2, "{}", running.log());
        let body: Value = serde_json::from_str(&calls[1].body).unwrap();
        let metadata = &body["metadata"];
        if metadata["held_since"].is_string() {
            held += 1;
            assert_eq!(metadata["retry_attempt"], json!(0), "{metadata}");
            assert_eq!(metadata["retry_history"][0]["attempt"], json!(0), "{metadata}");
        }
    }
    assert!(held > 0, "{}", running.log());
    assert!(final_records(&topology).await.is_empty());
    let log = running.log();
    for (event, times) in [("circuit_opened", 1), ("circuit_closed", 1)] {
        let told = log.lines().filter(|line| line.contains(&format!(r#""event":"{event}""#))).count();
        assert_eq!(told, times, "{event}\n{log}");
    }
}
