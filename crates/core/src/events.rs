//! Domain events: the only source of log lines and metrics. They contain no payload, no attribute and no text from a
//! target.

use serde::{Serialize, Serializer};

use crate::limits::RetryDelay;
use crate::log_location::LogLocation;

/// An event in the life of a message or a batch. Only its fields are serialized, not its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// The target processed the message.
    Processed {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before this call.
        retry_attempt: u32,
        /// Time since the first send.
        #[serde(serialize_with = "serialize_milliseconds")]
        age_seconds: f64,
        /// Duration of the call.
        #[serde(serialize_with = "serialize_milliseconds")]
        target_seconds: f64,
    },
    /// The target failed; the message was handed off with the reason.
    HandedOff {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before this call.
        retry_attempt: u32,
        /// redeliver's name for the error, or `FromTarget`.
        error_type: String,
        /// `transient`, `permanent`, `snooze` or `not_started`; `held` messages are reported per batch.
        kind: &'static str,
        /// The request id in the log lines of its call, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Time since the first send.
        #[serde(serialize_with = "serialize_milliseconds")]
        age_seconds: f64,
    },
    /// A hand-off, re-send, verdict or final record was not confirmed, so the record is reported as failed.
    NotConfirmed {
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// The kind of operation: `hand-off`, `re-send`, `hop`, `verdict`, `block`, `final record`, `visibility` or
        /// `invocation`.
        send: &'static str,
        /// SQS's error code, or the reason why the message could not be sent.
        code: String,
    },
    /// A retry is scheduled: the message returns to the source queue, or the asynchronous invocation is repeated.
    RetryScheduled {
        /// `metadata.message_id`, or the request id of the asynchronous invocation that failed.
        message_id: String,
        /// Number of this retry, 1 for the first.
        retry_attempt: u32,
        /// False for a snooze, for example.
        spends_attempt: bool,
        /// The total delay, including hops.
        delay_seconds: RetryDelay,
        /// Time since the first send.
        #[serde(serialize_with = "serialize_milliseconds")]
        age_seconds: f64,
        /// redeliver's name for the error, or `FromTarget`. Present only if no hand-off has reported the error
        /// (strategies `direct-resend` and `visibility`, asynchronous invocations).
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
        /// The request id in the log lines of the failed call, if known; present only with `error_type`.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// The retries of these messages are due in more than 900 s, so the messages were sent to the intermediate DLQ
    /// again for the next hop. The record of a failed asynchronous invocation hops on the retry queue, even for a short
    /// delay.
    Hopped {
        /// Number of messages in the batch.
        messages: u32,
    },
    /// The target failed and was called again immediately, within the same invocation.
    RetriedImmediately {
        /// `metadata.message_id`.
        message_id: String,
        /// Retries made before this one.
        retry_attempt: u32,
        /// redeliver's name for the error, or `FromTarget`.
        error_type: String,
    },
    /// An outage was detected: calls stop, messages are held, and occasional probes check the target.
    CircuitOpened {
        /// Number of consecutive outages.
        outages: u32,
        /// redeliver's name for the last error, or `FromTarget`.
        error_type: String,
        /// Time until the next probe.
        #[serde(serialize_with = "serialize_milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is still down.
    ProbeFailed {
        /// redeliver's name for the error, or `FromTarget`.
        error_type: String,
        /// Time until the next probe.
        #[serde(serialize_with = "serialize_milliseconds")]
        probe_in_seconds: f64,
    },
    /// The target is up again: calls resume, initially at a low rate.
    CircuitClosed {
        /// Time since the breaker opened, or since the first hold reported by a message that this environment received.
        #[serde(serialize_with = "serialize_milliseconds")]
        open_seconds: f64,
        /// Number of probes made.
        probes: u32,
    },
    /// Messages in a batch were held without a call because their target is down.
    Held {
        /// Number of messages in the batch.
        messages: u32,
        /// Duration of the outage so far, as observed by this environment.
        #[serde(serialize_with = "serialize_milliseconds")]
        open_seconds: f64,
        /// The longest total time for which any of them was held before this hold.
        longest_hold_seconds: u32,
    },
    /// Calls in a batch failed with "not now", so their messages are held. The target is not known to be down.
    NotNow {
        /// Number of messages in the batch.
        messages: u32,
        /// redeliver's name for the first error, or `FromTarget`.
        error_type: String,
        /// The longest total time for which any of them was held before this hold.
        longest_hold_seconds: u32,
    },
    /// Messages were held because the target is busy. A hold spends no attempt, and has no event of its own.
    RateLimited {
        /// Number of messages in the batch.
        messages: u32,
        /// Duration of the rate limit so far, as observed by this environment.
        #[serde(serialize_with = "serialize_milliseconds")]
        limited_seconds: f64,
        /// The longest total time for which any of them was held before this hold.
        longest_hold_seconds: u32,
    },
    /// redeliver gave up on the message; a verdict was sent to the annotator.
    GivenUp {
        /// `metadata.message_id`, if the message has one, or the request id of an asynchronous invocation.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// The reason's code, as in [`Event::DeadLettered`].
        error_type: &'static str,
        /// The request id in the log lines of its last call, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// redeliver gave up on a message that remains on its ordered queue, where it blocks its group until a person
    /// decides.
    Blocked {
        /// `metadata.message_id`, if the message has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// The reason's code, as in [`Event::DeadLettered`].
        error_type: &'static str,
        /// The request id in the log lines of its last call, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// A final record was sent to the final DLQ.
    DeadLettered {
        /// `metadata.message_id`, if the message has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// The reason's code, such as `RETRY_ATTEMPT_EXCEEDED`.
        error_type: &'static str,
        /// Retries made; also 0 if the number is unknown.
        retry_attempt: u32,
        /// Time since the first send, or since SQS's `SentTimestamp` if the time of the first send is unknown.
        #[serde(serialize_with = "serialize_milliseconds")]
        age_seconds: f64,
        /// The trace of its last attempt, or else the producer's.
        #[serde(skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// The location of the log lines of its last call, if known.
        #[serde(flatten)]
        logs: LogLocation,
    },
    /// A message reached the intermediate DLQ through SQS's redrive policy, not through a hand-off: a crash, timeout or
    /// throttle.
    ArrivedByRedrive {
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// A message was received from the intermediate DLQ again, because redeliver could neither re-send it nor give up
    /// on it earlier.
    ReceivedAgain {
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// `ApproximateReceiveCount`, which a redrive does not reset: a moved message keeps its receive count from the
        /// source queue.
        receive_count: u32,
        /// Time since the message's `SentTimestamp`, which a redrive does not change.
        #[serde(serialize_with = "serialize_milliseconds")]
        age_seconds: f64,
    },
    /// A record of a Lambda event, or a received message, could not be parsed. It remains in its queue.
    UnreadableRecord {
        /// The SQS message id of the record.
        sqs_message_id: String,
    },
    /// Without an event source mapping: receiving from the queue failed. The poller retries after a pause.
    ReceiveFailed {
        /// SQS's error code, or redeliver's own if SQS did not respond.
        code: String,
        /// Time until the next receive.
        #[serde(serialize_with = "serialize_milliseconds")]
        pause_seconds: f64,
    },
    /// Without an event source mapping: a batch panicked or exceeded its deadline. All its records are received again.
    BatchBrokenOff {
        /// Number of records in the batch.
        records: usize,
        /// `panic` or `timeout`.
        reason: &'static str,
    },
    /// Without an event source mapping: a completed record could not be deleted, so it is received again.
    NotDeleted {
        /// The SQS message id of the record.
        sqs_message_id: String,
    },
    /// A final record could not be written to the archive. It is not sent to the final DLQ, and its record is received
    /// again.
    ArchiveRefused {
        /// The SQS message id of the record.
        sqs_message_id: String,
        /// S3's error code, or redeliver's own if S3 did not respond.
        code: String,
    },
    /// A notice about a cause was published.
    NoticePublished {
        /// The cause.
        fingerprint: String,
    },
    /// A notice could not be published, and the environment retries after a minute; or the limit on remembered causes
    /// was reached.
    NoticeRefused {
        /// The cause.
        fingerprint: String,
        /// The service's error code, or redeliver's own if the service did not respond.
        code: String,
    },
    /// The target's `Retry-After` is invalid, so the policy alone determines the delay.
    RetryAfterUnreadable {
        /// `metadata.message_id`.
        message_id: String,
        /// redeliver's name for the error.
        error_type: String,
    },
    /// A user's own function returned a value that resembles a failure report, but counts as a success, as it does in
    /// Lambda. Reported once per environment and shape.
    AnswerTakenAsSuccess {
        /// redeliver's name for the shape: a member, or the JSON type of a message's identifier.
        shape: &'static str,
    },
    /// The secret with the target's headers could not be refreshed, or is no longer valid: the previous headers remain
    /// in use.
    HeadersNotRefreshed {
        /// Secrets Manager's error code, or redeliver's own for an invalid secret; never text from the secret.
        code: String,
    },
}

/// Rounds to milliseconds: people read the logs, and the clocks are no more precise.
#[must_use]
pub fn round_to_milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn serialize_milliseconds<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(round_to_milliseconds(*seconds))
}
