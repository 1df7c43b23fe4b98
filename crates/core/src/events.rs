//! Domain events: each is logged and counted from this one value. No payload, no attribute, no target's text.

use serde::{Serialize, Serializer};

use crate::limits::RetryDelay;
use crate::log_location::LogLocation;

/// An event in the life of a message or a batch. Serialised as its fields, without its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// The target has processed the message.
    Processed {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before this call.
        retry_attempt: u32,
        /// Since the first send.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
        /// Duration of the call.
        #[serde(serialize_with = "milliseconds")]
        target_seconds: f64,
    },
    /// The target failed; the message was handed off with the reason.
    HandedOff {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before this call.
        retry_attempt: u32,
        /// Our name of the error, or `FromTarget`.
        error_type: String,
        /// `transient`, `permanent`, `snooze` or `not_started`; `held` messages are reported per batch.
        kind: &'static str,
        /// The request id of the log lines of its call, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Since the first send.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
    },
    /// A hand-off, re-send, verdict or final record is not confirmed: the record is reported as failed.
    NotConfirmed {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// The operation: `hand-off`, `re-send`, `hop`, `verdict`, `block`, `final record`, `visibility` or `invocation`.
        send: &'static str,
        /// SQS's error code, or the reason why it could not be sent at all.
        code: String,
    },
    /// The message will come back to the source queue, or the function of an asynchronous invocation is invoked again.
    RetryScheduled {
        /// `metadata.message_id`, or the request id of the asynchronous invocation that failed.
        message_id: String,
        /// Number of this retry, 1 for the first.
        retry_attempt: u32,
        /// False for a snooze, for example.
        spends_attempt: bool,
        /// The whole delay, hops included.
        delay_seconds: RetryDelay,
        /// Since the first send.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
        /// Our name of the error, or `FromTarget`, if the message was not handed off before (strategies `direct-resend`
        /// and `visibility`, asynchronous invocations).
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
        /// The request id of the log lines of the call that failed, if it is known; with `error_type`.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// The retries of these messages are more than 900 s away: they are on the intermediate DLQ again, for the next
    /// hop. A failed asynchronous invocation hops on the retry queue, even for a short delay.
    Hopped {
        /// Number in the batch.
        messages: u32,
    },
    /// The target failed and was called again at once, within the invocation.
    RetriedImmediately {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before, not counting this one.
        retry_attempt: u32,
        /// Our name of the error, or `FromTarget`.
        error_type: String,
    },
    /// An outage: calls stop, messages are held, and a probe now and then checks the target.
    CircuitOpened {
        /// Outages in a row.
        outages: u32,
        /// Our name of the last error, or `FromTarget`.
        error_type: String,
        /// Until the next probe.
        #[serde(serialize_with = "milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is still down.
    ProbeFailed {
        /// Our name of the error, or `FromTarget`.
        error_type: String,
        /// Until the next probe.
        #[serde(serialize_with = "milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is back: calls are made again, a few at first.
    CircuitClosed {
        /// Since the breaker opened, or since the first hold reported by a message that this environment received.
        #[serde(serialize_with = "milliseconds")]
        open_seconds: f64,
        /// Calls that checked if the target was back.
        probes: u32,
    },
    /// Messages of a batch were not called because their target is down.
    Held {
        /// Number in the batch.
        messages: u32,
        /// Duration of the outage so far, as far as this environment knows.
        #[serde(serialize_with = "milliseconds")]
        open_seconds: f64,
        /// The longest time that one of them has been held in all, before this hold.
        longest_hold_seconds: u32,
    },
    /// Calls of a batch were answered "not now", and their messages are held. The target is not known to be down.
    NotNow {
        /// Number in the batch.
        messages: u32,
        /// The error of the first one. Our name of the error, or `FromTarget`.
        error_type: String,
        /// The longest time that one of them has been held in all, before this hold.
        longest_hold_seconds: u32,
    },
    /// Messages were held because the target is busy. They spend no attempt, and have no events of their own.
    RateLimited {
        /// Number in the batch.
        messages: u32,
        /// Duration of the rate limit so far, as far as this environment knows.
        #[serde(serialize_with = "milliseconds")]
        limited_seconds: f64,
        /// The longest time that one of them has been held in all, before this hold.
        longest_hold_seconds: u32,
    },
    /// The retry loop gave the message up; a verdict is on its way to the annotator.
    GivenUp {
        /// `metadata.message_id`, if the message has one, or the request id of an asynchronous invocation.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// SQS's id of the record.
        sqs_message_id: String,
        /// A code of [`Event::DeadLettered`].
        error_type: &'static str,
        /// The request id of the log lines of its last call, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// A message was given up and stays on its ordered queue, where it blocks its group until a person decides.
    Blocked {
        /// `metadata.message_id`, if the message has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// SQS's id of the record.
        sqs_message_id: String,
        /// A code of [`Event::DeadLettered`].
        error_type: &'static str,
        /// The request id of the log lines of its last call, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
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
        /// Retries made; also 0 if unknown.
        retry_attempt: u32,
        /// Since the first send, or since SQS's `SentTimestamp` if that is unknown.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
        /// The trace of its last attempt, or else its producer's.
        #[serde(skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// The log lines of its last call, if it is known where they are.
        #[serde(flatten)]
        logs: LogLocation,
    },
    /// A message reached the intermediate DLQ by SQS's redrive, not by hand-off: crash, timeout or throttle.
    ArrivedByRedrive {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// A message was received from the intermediate DLQ again: earlier it could be neither re-sent nor given up.
    ReceivedAgain {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`, which a redrive does not reset: a moved message brings the source queue's
        /// receives along.
        receive_count: u32,
        /// Since its `SentTimestamp`, which a redrive keeps.
        #[serde(serialize_with = "milliseconds")]
        age_seconds: f64,
    },
    /// A record of the event, or a received message, could not be read at all. It stays in its queue.
    UnreadableRecord {
        /// SQS's id of the record.
        sqs_message_id: String,
    },
    /// Without an event source mapping: the queue could not be read. The poller retries after a pause.
    ReceiveFailed {
        /// SQS's error code, or ours if it did not answer.
        code: String,
        /// Until the next try.
        #[serde(serialize_with = "milliseconds")]
        pause_seconds: f64,
    },
    /// Without an event source mapping: a batch panicked or outlived its deadline. All its records come back.
    BatchBrokenOff {
        /// Number of its records.
        records: usize,
        /// `panic` or `timeout`.
        reason: &'static str,
    },
    /// Without an event source mapping: a record that is done could not be deleted, so a copy of it comes back.
    NotDeleted {
        /// SQS's id of the record.
        sqs_message_id: String,
    },
    /// A final record could not be written to the archive. It is not sent to the final DLQ, and its record comes back.
    ArchiveRefused {
        /// SQS's id of the record.
        sqs_message_id: String,
        /// S3's error code, or ours if it did not answer.
        code: String,
    },
    /// A notice about a cause was published.
    NoticePublished {
        /// The cause.
        fingerprint: String,
    },
    /// A notice could not be published, and the environment tries again in a minute; or there was no room for its cause.
    NoticeRefused {
        /// The cause.
        fingerprint: String,
        /// The service's error code, or ours if it did not answer.
        code: String,
    },
    /// The target's `Retry-After` cannot be read, so the policy alone decides.
    RetryAfterUnreadable {
        /// `metadata.message_id`.
        message_id: String,
        /// Our name of the error.
        error_type: String,
    },
    /// A user's own function answered with something like a report of failures that counts as a success, as for Lambda.
    /// Once per environment and shape.
    AnswerTakenAsSuccess {
        /// A name of ours: a member, or the type of JSON value that names a message.
        shape: &'static str,
    },
    /// The secret with the target's headers could not be read again, or is no longer valid: the known headers stay in
    /// use.
    HeadersNotRefreshed {
        /// Secrets Manager's error code, or ours for an invalid secret; never text of the secret.
        code: String,
    },
}

/// Rounds to milliseconds: logs are read by humans, too, and the clocks are not more exact than that.
#[must_use]
pub fn to_milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn milliseconds<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(to_milliseconds(*seconds))
}
