//! A broken message-processor: it crashes, is throttled, or cannot start.

use std::collections::BTreeMap;

use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;

use super::*;
use crate::functions::{failed_message_processor, final_dlq_annotator, message_processor};

/// A target that is always up and records the attempt number of each message.
struct Target<'a> {
    clock: &'a VirtualClock,
    tracker: &'a Mutex<Tracker>,
    attempts: &'a Mutex<Vec<u32>>,
}

impl Handler for Target<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.attempts.lock().unwrap().push(message.retry_attempt);
        self.tracker.lock().unwrap().record_processed(message.body, self.clock.now());
        Ok(())
    }
}

/// A function that fails every batch before the time `until`, and any batch with a body that contains `kills`.
struct BrokenFunction<'a, F> {
    clock: &'a VirtualClock,
    until: Timestamp,
    function: F,
}

impl<F: Function> Function for BrokenFunction<'_, F> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        if self.clock.now() < self.until || records.iter().any(|record| record.body.contains("kills")) {
            return Vec::new();
        }
        self.function.process_batch(records, deadline).await
    }
}

/// Returns the final records by code, the attempts that the target saw, and the duration of the run in seconds.
fn run_after_outage(seconds: i64, bodies: &[String]) -> (BTreeMap<String, u64>, Vec<u32>, i64) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    clock.block_on(async {
        let topology =
            Topology::create_queues(&sqs, "engine", Strategy::DelayedResend, 5, Batching::default())
                .await
                .unwrap();
        let (tracker, attempts) = (Mutex::default(), Mutex::default());
        let target = Target { clock: &clock, tracker: &tracker, attempts: &attempts };
        let (schema, policy) = (MessageSchema::default, Policy::default);
        let queues = topology.for_functions();
        let functions = LoopFunctions {
            source_function: BrokenFunction {
                clock: &clock,
                until: clock.now() + Duration::from_secs(seconds.unsigned_abs()),
                function: message_processor(&queues, target, &clock, &SilentObserver, schema(), policy()),
            },
            failed_message_processor: failed_message_processor(
                &queues,
                &clock,
                &SilentObserver,
                schema(),
                policy(),
            ),
            final_dlq_annotator: final_dlq_annotator(&topology, &clock, &SilentObserver),
        };
        let engine = engine(&topology, &clock, &tracker);
        let start = clock.now();
        let messages = bodies.iter().map(|body| message(body)).collect();
        engine.send_messages(messages, pending()).await.unwrap();
        engine.run_functions(&functions, &mut std::io::sink(), pending()).await.unwrap();
        let tracker = tracker.lock().unwrap();
        let duration_seconds = (tracker.last_settled_at().unwrap() - start).num_seconds();
        (tracker.dead_letters().clone(), attempts.lock().unwrap().clone(), duration_seconds)
    })
}

fn bodies(count: usize, data: &str) -> Vec<String> {
    let body = |n: usize| {
        format!(
            r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-{n:012}"}},"data":{{"x":"{data}"}}}}"#
        )
    };
    (0..count).map(body).collect()
}

#[test]
fn a_function_that_cannot_start_for_an_hour_spends_no_attempt() {
    let (dead_letters, attempts, duration_seconds) = run_after_outage(3600, &bodies(100, ""));
    assert_eq!(dead_letters, BTreeMap::new());
    assert_eq!(attempts, [0; 100]);
    assert!((3600..3600 + 900 + 400).contains(&duration_seconds), "{duration_seconds}");
}

#[test]
fn a_message_that_kills_its_function_is_given_up_after_about_4_hours() {
    let (dead_letters, attempts, duration_seconds) = run_after_outage(0, &bodies(1, "kills"));
    assert_eq!(dead_letters, BTreeMap::from([("ORCHESTRATION_FAILED".to_owned(), 1)]));
    assert!(attempts.is_empty(), "{attempts:?}");
    assert!((3 * 3600..5 * 3600).contains(&duration_seconds), "{duration_seconds}");
}
