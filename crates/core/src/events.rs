//! Domain events: each is logged and counted from this one value. No payload, no attribute, no target's text.

use serde::{Serialize, Serializer};

use crate::limits::RetryDelay;

/// What happened to a message or to a batch. It is written as what it holds, without its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// The target is done with it.
    Processed(Processed),
    /// The target failed; the message was handed off with the reason.
    HandedOff(HandedOff),
    /// A hand-off, re-send, verdict or final record is not confirmed: the record is reported as failed.
    NotConfirmed(NotConfirmed),
    /// It will come back to the source queue; of an asynchronous invocation: the function is invoked again.
    RetryScheduled(RetryScheduled),
    /// The retries of these messages are more than 900 s away: they are on the intermediate DLQ again, for the next
    /// hop. A failed asynchronous invocation waits so on the retry queue, however long.
    Hopped(Hopped),
    /// Re-sends of a batch are stretched, since too many messages wait; or the rate cannot be held even so.
    Paced(Paced),
    /// How many messages wait is not known: the last known count paces on, or nothing is paced.
    NotCounted(NotCounted),
    /// The target failed and was called again at once, within the invocation.
    RetriedImmediately(RetriedImmediately),
    /// So many calls met an outage that no more are made: messages are held instead, and one call now and then looks
    /// after the target.
    CircuitOpened(CircuitOpened),
    /// The target is still down.
    ProbeFailed(ProbeFailed),
    /// The target is back: calls are made again, a few at first.
    CircuitClosed(CircuitClosed),
    /// Messages of a batch were not called, since their target is down.
    Held(Held),
    /// The retry loop gave it up; a verdict is on its way to the annotator.
    GivenUp(GivenUp),
    /// A final record is in the final DLQ.
    DeadLettered(DeadLettered),
    /// A message reached the intermediate DLQ by SQS's redrive, not by hand-off: crash, timeout or throttle.
    ArrivedByRedrive(ArrivedByRedrive),
    /// A message came out of the intermediate DLQ once more: it could be neither sent again nor given up before.
    ReceivedAgain(ReceivedAgain),
    /// A record of the event, or a received message, could not be read at all; it stays in its queue.
    UnreadableRecord(UnreadableRecord),
    /// If no event source mapping polls: the queue could not be read; it is tried again after a pause.
    ReceiveFailed(ReceiveFailed),
    /// If no event source mapping invokes: a batch panicked or outlived its deadline. All of it comes back.
    BatchBrokenOff(BatchBrokenOff),
    /// If no event source mapping deletes: a record that is done could not be deleted, so a copy of it comes back.
    NotDeleted(NotDeleted),
    /// The secret of the target's headers cannot be read again, or is none any more: the headers that are known stay in
    /// use.
    HeadersNotRefreshed(HeadersNotRefreshed),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processed {
    /// `metadata.message_id`.
    pub message_id: String,
    /// Retries made before.
    pub retry_attempt: u32,
    /// From the first send to now.
    #[serde(serialize_with = "milliseconds")]
    pub age_seconds: f64,
    /// How long the target took.
    #[serde(serialize_with = "milliseconds")]
    pub target_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HandedOff {
    /// `metadata.message_id`.
    pub message_id: String,
    /// Retries made before.
    pub retry_attempt: u32,
    /// Our name of the error, or `FromTarget`.
    pub error_type: String,
    /// `transient`, `permanent`, `snooze` or `not_started`; what is `held` is told of with its batch.
    pub kind: &'static str,
    /// From the first send to now.
    #[serde(serialize_with = "milliseconds")]
    pub age_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotConfirmed {
    /// SQS's id of the record.
    pub sqs_message_id: String,
    /// What was being done: `hand-off`, `re-send`, `hop`, `verdict`, `final record`, `visibility` or `invocation`.
    pub send: &'static str,
    /// SQS's error code, or why it could not be sent at all.
    pub code: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetryScheduled {
    /// `metadata.message_id`, or the request id of the asynchronous invocation that failed.
    pub message_id: String,
    /// The retry that this is: 1 for the first.
    pub retry_attempt: u32,
    /// Whether it spends an attempt (a snooze does not).
    pub spends_attempt: bool,
    /// How long it waits, hops included.
    pub delay_seconds: RetryDelay,
    /// From the first send to now.
    #[serde(serialize_with = "milliseconds")]
    pub age_seconds: f64,
    /// Our name of the error, or `FromTarget`, if the message was not handed off before (strategies `direct-resend` and
    /// `visibility`, asynchronous invocations).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hopped {
    /// How many of the batch.
    pub messages: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paced {
    /// Messages that wait with a delay, as SQS counts them: the number may be a minute old.
    pub waiting: u64,
    /// Re-sends of this batch whose own delays are too short on average, and are stretched.
    pub paced: u32,
    /// Whether delays of 900 s at most can hold `max_redelivery_per_second`.
    pub rate_is_held: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotCounted {
    /// SQS's error code, or ours if it did not answer.
    pub code: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetriedImmediately {
    /// `metadata.message_id`.
    pub message_id: String,
    /// Retries made before, which this one is not.
    pub retry_attempt: u32,
    /// Our name of the error, or `FromTarget`.
    pub error_type: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CircuitOpened {
    /// The calls that were looked at.
    pub calls: u32,
    /// Those that met an outage.
    pub outages: u32,
    /// Our name of the last error, or `FromTarget`.
    pub error_type: String,
    /// Until the next call.
    #[serde(serialize_with = "milliseconds")]
    pub probe_in_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeFailed {
    /// Our name of the error, or `FromTarget`.
    pub error_type: String,
    /// Until the next call.
    #[serde(serialize_with = "milliseconds")]
    pub probe_in_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CircuitClosed {
    /// From its opening, or from when the first message was held that this environment has seen.
    #[serde(serialize_with = "milliseconds")]
    pub open_seconds: f64,
    /// Calls that asked whether the target was back.
    pub probes: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// How many of the batch.
    pub messages: u32,
    /// For how long the target has been down, as far as this environment knows.
    #[serde(serialize_with = "milliseconds")]
    pub open_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GivenUp {
    /// `metadata.message_id`, if the message has one, or the request id of an asynchronous invocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// SQS's id of the record.
    pub sqs_message_id: String,
    /// A code of [`crate::events::DeadLettered`].
    pub error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLettered {
    /// `metadata.message_id`, if the message has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// SQS's id of the record.
    pub sqs_message_id: String,
    /// `RETRY_ATTEMPT_EXCEEDED` and so on.
    pub error_type: &'static str,
    pub retry_attempt: u32,
    /// From the first send to now, if that is known.
    #[serde(serialize_with = "milliseconds")]
    pub age_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivedByRedrive {
    /// SQS's id of the record.
    pub sqs_message_id: String,
    /// `ApproximateReceiveCount`.
    pub receive_count: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceivedAgain {
    /// SQS's id of the record.
    pub sqs_message_id: String,
    /// `ApproximateReceiveCount`, which a redrive does not reset: a moved message brings the source queue's receives.
    pub receive_count: u32,
    /// From its `SentTimestamp`, which a redrive keeps, to now.
    #[serde(serialize_with = "milliseconds")]
    pub age_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreadableRecord {
    /// SQS's id of the record.
    pub sqs_message_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceiveFailed {
    /// SQS's error code, or ours if it did not answer.
    pub code: String,
    /// Until the next try.
    #[serde(serialize_with = "milliseconds")]
    pub pause_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchBrokenOff {
    /// How many records it had.
    pub records: usize,
    /// `panic` or `timeout`.
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotDeleted {
    /// SQS's id of the record.
    pub sqs_message_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadersNotRefreshed {
    /// Secrets Manager's error code, or ours for what is wrong with the secret; nothing of its text.
    pub code: String,
}

/// A log is read by people too, and no clock of ours is better than that.
#[must_use]
pub fn to_milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn milliseconds<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(to_milliseconds(*seconds))
}
