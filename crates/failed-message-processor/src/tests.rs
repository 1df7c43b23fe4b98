mod events;
mod failing_sends;
mod generations;
mod held;
mod hops;
mod later_version;
mod on_aws;
mod plain;
mod redriven;
mod resends;
mod silences;
mod spans;
mod verdicts;

use std::time::Duration;

use redeliver_core::decide::backoff::{JitterKey, retry_after_delay, retry_delay};
use redeliver_core::failure::FAILURE;
use redeliver_core::limits::{DelaySeconds, RetryDelay};
use redeliver_core::message::{Attribute, Attributes, Content};
use redeliver_embedded::VirtualClock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use redeliver_testing::functions::*;

/// The role that re-sends messages.
const RESENDER: &str = "AROAREDELIVER00000000";

/// A failed-message-processor with its queues.
struct Setup {
    world: FunctionWorld,
    source: SpyQueue,
    intermediate: SpyQueue,
    annotation: SpyQueue,
    policy: Policy,
    schema: MessageSchema,
}

impl Setup {
    fn new() -> Self {
        let world = FunctionWorld::new();
        let (source, annotation) = (world.add_queue("source"), world.add_queue("annotation"));
        let intermediate = world.add_queue("intermediate");
        Self {
            world,
            source,
            intermediate,
            annotation,
            policy: Policy::default(),
            schema: MessageSchema::default(),
        }
    }

    fn with_policy(policy: &str) -> Self {
        Self { policy: Policy::from_json(policy).unwrap(), ..Self::new() }
    }

    fn processor(&self) -> FailedMessageProcessor<SpyQueue, VirtualClock, EventRecorder> {
        FailedMessageProcessor {
            redelivery: Redelivery {
                source_queue: self.source.clone(),
                intermediate_dlq: self.intermediate.clone(),
            },
            annotation_queue: self.annotation.clone(),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
            schema: self.schema.clone(),
            policy: self.policy.clone(),
            resenders: Resenders::parse(RESENDER).unwrap(),
        }
    }

    /// Processes a batch with 30 s until the deadline. Returns the ids of the records reported as failed.
    fn process(&self, records: Vec<ReceivedMessage>) -> Vec<String> {
        self.process_within(Duration::from_secs(30), records)
    }

    fn process_within(&self, time: Duration, records: Vec<ReceivedMessage>) -> Vec<String> {
        self.world.invoke_function(&self.processor(), records, time)
    }

    /// Returns the `Failure` of the only verdict.
    fn verdict(&self) -> Value {
        assert!(self.source.sent_contents().is_empty(), "given up, so it is not re-sent");
        attribute_document(&self.annotation.only_sent_content().attributes, FAILURE)
    }
}

/// Returns the message-processor's document for a transient failure of record n.
fn busy_failure(n: usize) -> Value {
    json!({
        "type": "Db.Busy",
        "details": "come later",
        "kind": "transient",
        "failed_at": format_time_at(-1),
        "source_message_id": format!("source-{n}"),
        "source_queue_arn": SOURCE_ARN,
        "first_sent_time": format_time_at(-10),
    })
}

/// Returns `document` with members changed or added.
fn with_members(mut document: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    document.as_object_mut().unwrap().extend(more);
    document
}

/// Returns the n-th record, handed off a second ago with this `Failure`.
fn handed_off_message(n: usize, body: impl Into<String>, failure: &Value) -> ReceivedMessage {
    ReceivedMessage {
        attributes: Attributes::from([(FAILURE.to_owned(), Attribute::string(failure.to_string()))]),
        sent_at: start_time() - chrono::TimeDelta::seconds(1),
        queue_arn: INTERMEDIATE_ARN.to_owned(),
        ..nth_record(n, body)
    }
}

/// Returns the n-th record, moved by SQS.
fn redriven_message(n: usize, body: impl Into<String>) -> ReceivedMessage {
    ReceivedMessage {
        receive_count: 2,
        redriven_from: Some(SOURCE_ARN.to_owned()),
        queue_arn: INTERMEDIATE_ARN.to_owned(),
        ..nth_record(n, body)
    }
}

/// Returns the n-th body with additional metadata members.
fn body_with_metadata(n: usize, metadata: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{}",{metadata}}},"data":{{"n":{n}}}}}"#, nth_id(n))
}

fn key(n: usize, generation: u32, attempt: u32) -> JitterKey {
    JitterKey { message_id: Uuid::parse_str(&nth_id(n)).unwrap(), generation, attempt }
}

const FIXED: &str = r#"{"backoff":{"kind":"fixed","delay_seconds":100,"jitter":"none"}}"#;
