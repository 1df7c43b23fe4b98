//! The queues in `schemas/vectors/queues.json`, which the stack's tests also read.

use std::sync::Mutex;

use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};
use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Deserialize)]
struct Vector {
    name: String,
    strategy: String,
    policy: Value,
    queues: BTreeMap<String, ExpectedQueue>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct ExpectedQueue {
    retention_seconds: u64,
    max_receive_count: Option<u16>,
    dead_letter_queue: Option<String>,
}

/// A queue service that records the settings of created queues, keyed by name suffix.
struct Recorder {
    sqs: EmbeddedSqs,
    requested: Mutex<BTreeMap<String, ExpectedQueue>>,
}

impl QueueService for Recorder {
    type Queue = EmbeddedQueue;

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<EmbeddedQueue, EntryError> {
        let suffix = |name: &str| name.rsplit("p-s-").next().unwrap().to_owned();
        let redrive = settings.redrive.as_ref();
        let created = ExpectedQueue {
            retention_seconds: settings.retention.as_secs(),
            max_receive_count: redrive.map(|redrive| redrive.max_receive_count),
            dead_letter_queue: redrive.map(|redrive| suffix(&redrive.target_arn)),
        };
        self.requested.lock().unwrap().insert(suffix(name), created);
        self.sqs.create_queue(name, settings).await
    }

    async fn delete_queue(&self, queue: &EmbeddedQueue) -> Result<(), EntryError> {
        self.sqs.delete_queue(queue).await
    }
}

#[test]
fn the_retry_loops_queues_match_the_vectors() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../schemas/vectors/queues.json")).unwrap();
    for Vector { name, strategy, policy, queues } in vectors {
        let Policy { max_attempts, .. } = Policy::from_json(&policy.to_string()).unwrap();
        let retry_loop =
            RetryLoop::from_name(&strategy).unwrap_or_else(|| panic!("{name}: no strategy {strategy}"));
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let recorder = Recorder { sqs: EmbeddedSqs::new(clock.clone(), 1), requested: Mutex::default() };
        clock
            .block_on(Topology::create_queues(
                &recorder,
                "p-s",
                retry_loop,
                max_attempts,
                Batching::default(),
            ))
            .unwrap();
        assert_eq!(recorder.requested.into_inner().unwrap(), queues, "{name}");
    }
}
