//! Domain events: each is logged and counted from this one value. No payload, no attribute, no target's text.

use serde::{Serialize, Serializer};

use crate::limits::RetryDelay;

/// What happened to a message or to a batch. It is written as what it holds, without its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// The target is done with it.
    Processed {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before.
        retry_attempt: u32,
        /// From the first send to now.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
        /// How long the target took.
        #[serde(serialize_with = "milliseconds")]
        target_seconds: f64,
    },
    /// The target failed; the message was handed off with the reason.
    HandedOff {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before.
        retry_attempt: u32,
        /// Our name of the error, or `FromTarget`.
        error_type: String,
        /// `transient`, `permanent`, `snooze` or `not_started`; what is `held` is told of with its batch.
        kind: &'static str,
        /// From the first send to now.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
    },
    /// A hand-off, re-send, verdict or final record is not confirmed: the record is reported as failed.
    NotConfirmed {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// What was being done: `hand-off`, `re-send`, `hop`, `verdict`, `final record`, `visibility` or `invocation`.
        send: &'static str,
        /// SQS's error code, or why it could not be sent at all.
        code: String,
    },
    /// It will come back to the source queue; of an asynchronous invocation: the function is invoked again.
    RetryScheduled {
        /// `metadata.message_id`, or the request id of the asynchronous invocation that failed.
        message_id: String,
        /// The retry that this is: 1 for the first.
        retry_attempt: u32,
        /// Whether it spends an attempt (a snooze does not).
        spends_attempt: bool,
        /// How long it waits, hops included.
        delay_seconds: RetryDelay,
        /// From the first send to now.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
        /// Our name of the error, or `FromTarget`, if the message was not handed off before (strategies `direct-resend`
        /// and `visibility`, asynchronous invocations).
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
    },
    /// The retries of these messages are more than 900 s away: they are on the intermediate DLQ again, for the next
    /// hop. A failed asynchronous invocation waits so on the retry queue, however long.
    Hopped {
        /// How many of the batch.
        messages: u32,
    },
    /// Re-sends of a batch are stretched, since too many messages wait; or the rate cannot be held even so.
    Paced {
        /// Messages that wait with a delay, as SQS counts them: the number may be a minute old.
        waiting: u64,
        /// Re-sends of this batch whose own delays are too short on average, and are stretched.
        paced: u32,
        /// Whether delays of 900 s at most can hold `max_redelivery_per_second`.
        rate_is_held: bool,
    },
    /// How many messages wait is not known: the last known count paces on, or nothing is paced.
    NotCounted {
        /// SQS's error code, or ours if it did not answer.
        code: String,
    },
    /// The target failed and was called again at once, within the invocation.
    RetriedImmediately {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before, which this one is not.
        retry_attempt: u32,
        /// Our name of the error, or `FromTarget`.
        error_type: String,
    },
    /// So many calls met an outage that no more are made: messages are held instead, and one call now and then looks
    /// after the target.
    CircuitOpened {
        /// The calls that were looked at.
        calls: u32,
        /// Those that met an outage.
        outages: u32,
        /// Our name of the last error, or `FromTarget`.
        error_type: String,
        /// Until the next call.
        #[serde(serialize_with = "milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is still down.
    ProbeFailed {
        /// Our name of the error, or `FromTarget`.
        error_type: String,
        /// Until the next call.
        #[serde(serialize_with = "milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is back: calls are made again, a few at first.
    CircuitClosed {
        /// From its opening, or from when the first message was held that this environment has seen.
        #[serde(serialize_with = "milliseconds")]
        open_seconds: f64,
        /// Calls that asked whether the target was back.
        probes: u32,
    },
    /// Messages of a batch were not called, since their target is down.
    Held {
        /// How many of the batch.
        messages: u32,
        /// For how long the target has been down, as far as this environment knows.
        #[serde(serialize_with = "milliseconds")]
        open_seconds: f64,
    },
    /// The retry loop gave it up; a verdict is on its way to the annotator.
    GivenUp {
        /// `metadata.message_id`, if the message has one, or the request id of an asynchronous invocation.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// SQS's id of the record.
        sqs_message_id: String,
        /// A code of [`Event::DeadLettered`].
        error_type: &'static str,
    },
    /// A final record is in the final DLQ.
    DeadLettered {
        /// `metadata.message_id`, if the message has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// SQS's id of the record.
        sqs_message_id: String,
        /// `RETRY_ATTEMPT_EXCEEDED` and so on.
        error_type: &'static str,
        /// Retries made; 0 also if nothing says how many.
        retry_attempt: u32,
        /// From the first sending to now; if nothing says when that was, from SQS's `SentTimestamp`.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
    },
    /// A message reached the intermediate DLQ by SQS's redrive, not by hand-off: crash, timeout or throttle.
    ArrivedByRedrive {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// A message came out of the intermediate DLQ once more: it could be neither sent again nor given up before.
    ReceivedAgain {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`, which a redrive does not reset: a moved message brings the source queue's
        /// receives.
        receive_count: u32,
        /// From its `SentTimestamp`, which a redrive keeps, to now.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
    },
    /// A record of the event, or a received message, could not be read at all; it stays in its queue.
    UnreadableRecord {
        /// SQS's id of the record.
        sqs_message_id: String,
    },
    /// If no event source mapping polls: the queue could not be read; it is tried again after a pause.
    ReceiveFailed {
        /// SQS's error code, or ours if it did not answer.
        code: String,
        /// Until the next try.
        #[serde(serialize_with = "milliseconds")]
        pause_seconds: f64,
    },
    /// If no event source mapping invokes: a batch panicked or outlived its deadline. All of it comes back.
    BatchBrokenOff {
        /// How many records it had.
        records: usize,
        /// `panic` or `timeout`.
        reason: &'static str,
    },
    /// If no event source mapping deletes: a record that is done could not be deleted, so a copy of it comes back.
    NotDeleted {
        /// SQS's id of the record.
        sqs_message_id: String,
    },
    /// The secret of the target's headers cannot be read again, or is none any more: the headers that are known stay in
    /// use.
    HeadersNotRefreshed {
        /// Secrets Manager's error code, or ours for what is wrong with the secret; nothing of its text.
        code: String,
    },
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
