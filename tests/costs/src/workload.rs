//! The measured work: one message in the failed-message-processor, from the received record to the re-sent message,
//! without any requests.

use std::hint::black_box;

use redeliver_core::accepted::FailedMessage;
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::{Decision, decide};
use redeliver_core::failure::{Delivery, FAILURE, HandOff, HandedOffFailure, Stage};
use redeliver_core::handler::HandlerError;
use redeliver_core::message::metadata::{PastFailure, RetryMetadata, parse_rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::message::{Attributes, OutgoingMessage, ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;
use serde_json::value::RawValue;

/// A schema for the orders in `data`: types, required members, a pattern and a limit.
const DATA_SCHEMA: &str = r#"{"type":"object","required":["order","lines"],"properties":{
    "order":{"type":"string","pattern":"^[A-Z]{2}-[0-9]+$"},
    "lines":{"type":"array","items":{"type":"object","required":["sku","quantity","price"],"properties":{
        "sku":{"type":"string","maxLength":16},"quantity":{"type":"integer","minimum":1},"price":{"type":"number"},
        "gift":{"type":"boolean"},"note":{"type":["string","null"]}}}}}}"#;

/// The measured operation.
#[derive(Clone, Copy)]
pub enum Operation {
    /// Skimming with `serde_json`, as the baseline.
    Skim,
    /// From the received record to the re-sent message: open, parse, validate, decide, splice, check.
    Resend,
    /// Like [`Operation::Resend`], with a schema for `data`.
    ResendWithDataSchema,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Skim => "serde_json skims",
            Self::Resend => "re-send",
            Self::ResendWithDataSchema => "re-send by a data schema",
        }
    }
}

/// A message and its operation.
pub struct WorkloadCase {
    /// The operation, the message's state and, after a slash, its size.
    pub name: String,
    pub operation: Operation,
    pub record: ReceivedMessage,
}

/// The schemas and the policy of a run.
pub struct Workload {
    policy: Policy,
    schema: MessageSchema,
    schema_with_data: MessageSchema,
    now: Timestamp,
}

impl Default for Workload {
    /// Creates a workload with the default policy, and message schemas with and without a schema for `data`.
    fn default() -> Self {
        let data = DataSchema::new(DATA_SCHEMA).expect("the schema above is valid");
        Self {
            policy: Policy::default(),
            schema: MessageSchema::default(),
            schema_with_data: MessageSchema::new(Some(data)),
            now: parse_rfc3339("2026-07-25T17:20:00.25Z").expect("a time"),
        }
    }
}

impl Workload {
    /// Returns all cases. Bodies of "1 MiB" leave room for the members that a re-send adds.
    pub fn cases(&self) -> Vec<WorkloadCase> {
        let records = [
            ("first failure/1 KiB", self.received_record(body_of_size(1 << 10))),
            ("third failure/1 KiB", self.received_record(self.body_retried_twice(1 << 10))),
            ("first failure/64 KiB", self.received_record(body_of_size(1 << 16))),
            ("first failure/1 MiB", self.received_record(body_of_size((1 << 20) - 1024))),
        ];
        let mut cases = Vec::new();
        for (state, record) in records {
            for operation in [Operation::Skim, Operation::Resend, Operation::ResendWithDataSchema] {
                let name = format!("{}, {state}", operation.name());
                cases.push(WorkloadCase { name, operation, record: record.clone() });
            }
        }
        cases
    }

    /// Returns a body of this size whose `metadata` records two retries.
    fn body_retried_twice(&self, bytes: usize) -> String {
        let details = "the target answered 503 after 1.2 s";
        let past = |attempt| PastFailure::new(attempt, self.now, "HttpStatus.503", details);
        let retry = RetryMetadata {
            last_attempt: None,
            retry_attempt: 2,
            next_retry_time: self.now,
            first_sent_time: self.now,
            retry_history: vec![past(0), past(1)],
            snooze_count: 0,
            redrive_generation: None,
            held_since: None,
            outage_failures: 0,
            held_seconds: 0,
            redrive_count: 0,
            redrive_count_at_answer: 0,
        };
        let written = |body: String| {
            let envelope = self.schema.parse_envelope(&body).expect("valid");
            envelope.with_retry_metadata(&retry)
        };
        let added = written(body_of_size(512)).len() - body_of_size(512).len();
        written(body_of_size(bytes - added))
    }

    fn received_record(&self, body: String) -> ReceivedMessage {
        let delivery = Delivery {
            last_attempt: None,
            last_attempt_logs: None,
            failed_at: self.now,
            source_message_id: "f5b9a7f4-6a0b-4a26-9a0f-2f4f3f2c1d00".to_owned(),
            source_queue_arn: "arn:aws:sqs:eu-central-1:123456789012:orders".to_owned(),
            sent_at: self.now,
            came_back: None,
            origin: Origin::Unknown,
        };
        let error = HandlerError::transient("HttpStatus.503", "the target answered 503 after 1.2 s");
        let hand_off = HandOff::from_handler_error(&error, delivery);
        let attributes = hand_off.attach_to(&Attributes::new(), body.len(), None).attributes;
        assert!(attributes.contains_key(FAILURE));
        ReceivedMessage {
            sqs_message_id: "0a4de8ea-9f0e-4f0c-8c35-0d2b5c4e6f11".to_owned(),
            receipt_handle: "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a".to_owned(),
            body,
            attributes,
            sent_at: self.now,
            first_received_at: Some(self.now),
            receive_count: 1,
            message_group_id: None,
            trace_header: None,
            sender_id: None,
            redriven_from: None,
            queue_arn: "arn:aws:sqs:eu-central-1:123456789012:orders-intermediate-dlq".to_owned(),
            omitted: Vec::new(),
        }
    }

    /// Performs [`Operation::Resend`].
    pub fn resend(&self, record: ReceivedMessage) -> OutgoingMessage {
        self.resend_with_schema(&self.schema, record)
    }

    /// Performs [`Operation::ResendWithDataSchema`].
    pub fn resend_with_data_schema(&self, record: ReceivedMessage) -> OutgoingMessage {
        self.resend_with_schema(&self.schema_with_data, record)
    }

    fn resend_with_schema(&self, schema: &MessageSchema, record: ReceivedMessage) -> OutgoingMessage {
        let mut arrival = Arrival::from_record(record, self.now);
        let HandedOffFailure { hand_off, due_at } = arrival.take_hand_off(self.now);
        let accepted = arrival.accept(schema, Some(&hand_off.delivery)).expect("the bodies are valid");
        let stage = Stage::FailedMessageProcessor;
        let failed = FailedMessage { span: None, accepted, hand_off, due_at, stage, error_type: None };
        let Decision::Resend(resend) = decide(&self.policy, &failed, self.now) else {
            panic!("a first failure is sent again")
        };
        let arrival = failed.accepted.into_arrival().with_rewrite(resend.rewritten);
        arrival.pass_on(resend.delay, None).message.expect("sendable")
    }
}

/// Skims the body as the baseline for the ratios: `serde_json` finds the body's end without interpreting it.
pub fn skim_body(body: &str) -> &RawValue {
    serde_json::from_str(black_box(body)).expect("the bodies are JSON")
}

/// Returns an order of about this size, with short strings, numbers and some prose.
fn body_of_size(bytes: usize) -> String {
    let head = r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","tenant":"acme","source":"checkout/4.11"},"data":{"order":"DE-20260725","lines":["#;
    const END: &str = r#"],"comment":"$"}}"#;
    let mut body = head.to_owned();
    for line in 1.. {
        let comma = if line > 1 { "," } else { "" };
        let gift = line % 3 == 0;
        let note = if line % 4 == 0 { r#""Bitte beim Nachbarn \"Müller\" abgeben""# } else { "null" };
        let sku = line * 7919 % 100_000;
        let cents = line * 37 % 100;
        let line = format!(
            r#"{comma}{{"sku":"SKU-{sku:05}","quantity":{},"price":{}.{cents:02},"gift":{gift},"note":{note}}}"#,
            line % 9 + 1,
            line % 400,
        );
        if body.len() + line.len() + END.len() > bytes {
            break;
        }
        body.push_str(&line);
    }
    let missing = bytes - body.len() - END.len();
    body + &END.replace("$", &"x".repeat(missing + 1))
}
