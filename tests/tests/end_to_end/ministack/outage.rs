//! The target is down: its messages are held, not called, and spend nothing.

use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::topology::Setup;
use serde_json::{Value, json};

use super::{final_records, id, message, topology};

/// Two calls that fail open it, for about ten seconds. What is held then comes back after 15 to 270 s, as its id is drawn,
/// and what has failed after 17.
const POLICY: &str = r#"{"max_attempts":1,"backoff":{"kind":"fixed","delay_seconds":17,"jitter":"none"},"circuit_breaker":{"minimum_calls":2,"probe_interval_seconds":12,"probe_interval_seconds_max":600}}"#;

const FAILING: [u32; 2] = [1, 2];
/// By the key of its id it is held for 15 s.
const HELD: u32 = 897;

#[tokio::test]
async fn a_message_whose_target_is_down_is_held_and_comes_back_with_all_its_attempts() {
    let (topology, target) = (topology().await, HttpTarget::start().await);
    for failing in FAILING {
        target.script(&id(failing), [Reply::Status(503)]);
    }
    let [first, second] = FAILING;
    topology.send([first, second, HELD].map(|n| message(n, &json!({ "n": n })))).await;
    let mut setup = Setup { policy: POLICY, ..Setup::http(target.url()) };
    setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    let running = topology.run(&setup);
    topology.settle(&running).await;

    let calls = target.requests(&id(HELD));
    assert_eq!(calls.len(), 1, "not while the target was down\n{}", running.log());
    let body: Value = serde_json::from_str(&calls[0].body).unwrap();
    let metadata = &body["metadata"];
    assert_eq!((&metadata["retry_attempt"], &metadata["held_seconds"]), (&json!(0), &json!(15)));
    assert!(metadata["held_since"].is_string() && metadata["retry_history"].is_null(), "{metadata}");
    for failing in FAILING {
        assert_eq!(target.requests(&id(failing)).len(), 2, "{}", running.log());
    }
    assert!(final_records(&topology).await.is_empty());
    let log = running.log();
    for (event, times) in [("circuit_opened", 1), ("circuit_closed", 1)] {
        let told = log.lines().filter(|line| line.contains(&format!(r#""event":"{event}""#))).count();
        assert_eq!(told, times, "{event}\n{log}");
    }
}
