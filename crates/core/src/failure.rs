//! The `Failure` documents, which messages carry between the functions in one attribute, or as a last resort in the
//! trace header.
//!
//! - A [`HandOff`] from the message-processor to the intermediate DLQ: the reason why the message failed.
//! - A [`Hop`] on the intermediate DLQ: a hand-off and the due time of its retry.
//! - A [`Verdict`] on the annotation queue: the reason why redeliver gave up on the message.
//!
//! A member identifies the document: a verdict has `verdict`, a hop has `due_at`.

pub mod annotation;
mod attach;
mod hold;
mod wire;

use std::fmt::Display;
use std::time::Duration;

pub use attach::AttachedDocument;
pub(crate) use attach::{SplitTraceHeader, split_trace_header};
pub use hold::{Hold, HoldReason, Outage};
use strum::{IntoStaticStr, VariantArray};
pub use wire::FAILURE_BYTES_MAX;
pub(crate) use wire::RawFailure;

use crate::handler::{FailureKind, HandlerError};
use crate::json::forward_compatible::{OpenEnum, OpenVariants, UnknownMembers};
use crate::message::attempt_logs::AttemptLogs;
pub use crate::message::metadata::DlqReturn;
use crate::message::metadata::{Metadata, format_rfc3339};
use crate::message::origin::Origin;
pub use crate::message::reason;
use crate::message::reason::{DeadLetterReason, ReasonCode};
pub use crate::message::reserved::{CIRCUIT_OPEN, FAILURE, NOT_STARTED, RATE_LIMITED, REDRIVE};
use crate::message::{ReceivedMessage, Timestamp};
use crate::span_context::SpanContext;
use crate::truncate;

/// The schema of the documents, JSON Schema 2020-12.
pub const FAILURE_SCHEMA: &str = include_str!("../schemas/failure.schema.json");

/// A parsed `Failure` document.
#[derive(Clone, Debug, PartialEq)]
pub enum FailureDocument {
    HandOff(HandOff),
    Hop(Hop),
    Verdict(Verdict),
}

/// A failure whose message is still to be retried or given up on.
#[derive(Clone, Debug, PartialEq)]
pub struct HandOff {
    pub error: LastError,
    /// The classification of the failure.
    pub classification: Classification,
    /// The delivery that failed.
    pub delivery: Delivery,
    /// The outage during which the message is held.
    pub outage: Option<Outage>,
    /// Unknown members, preserved unchanged.
    pub unknown: UnknownMembers,
}

/// A failure whose retry delay exceeds the limit of `DelaySeconds`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The original hand-off.
    pub hand_off: HandOff,
    /// Due time of the retry.
    pub due_at: Timestamp,
}

/// The decision to give up on a message, as sent to the annotator.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The reason's code.
    pub code: ReasonCode,
    /// The details; `None` if only the code is known.
    pub case: Option<VerdictDetails>,
}

/// The details of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictDetails {
    /// The function that gave up on the message, if the document names it.
    pub stage: Option<OpenEnum<Stage>>,
    /// Details beyond the last error; can be empty.
    pub explanation: String,
    pub failure: Failure,
}

/// The last failure of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub error: LastError,
    /// `None` if the target was not called because the message is invalid.
    pub classification: Option<Classification>,
    /// The delivery that failed.
    pub delivery: Delivery,
    /// Number of retries made, if the body does not contain it (strategy `visibility`, asynchronous invocations).
    pub attempts: Option<u32>,
    /// Unknown members, preserved unchanged.
    pub unknown: UnknownMembers,
}

/// An error, as it is shown to people and matched by the policy's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastError {
    pub error_type: String,
    pub details: String,
    /// The version of the user's function that failed, `NAME:VERSION`, if known.
    pub function: Option<String>,
}

/// The classification of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    /// The kind: transient, permanent, etc. Later versions may add kinds.
    pub kind: OpenEnum<FailureClass>,
    /// The delay that the target requested (`Retry-After` or a snooze), or the delay of the hold.
    pub retry_after_seconds: Option<u64>,
}

/// Prefix of the details of a message that was held without a call.
const NOT_CALLED_PREFIX: &str = "not called: ";

impl LastError {
    /// Converts a handler's error.
    #[must_use]
    pub fn from_handler_error(error: &HandlerError) -> Self {
        let error_type = truncate::clean_text(&error.error_type.name(), truncate::ERROR_TYPE_BYTES_MAX);
        Self { error_type, ..Self::new("", &error.details).with_function(error.function.as_deref()) }
    }

    /// Creates an error without a function.
    #[must_use]
    pub fn new(error_type: &str, details: &str) -> Self {
        Self { error_type: error_type.to_owned(), details: details.to_owned(), function: None }
    }

    /// Adds the version of the user's function, at most 128 bytes, unless the error already has one.
    #[must_use]
    pub fn with_function(self, function: Option<&str>) -> Self {
        let function =
            || function.map(|function| truncate::clean_text(function, truncate::FUNCTION_BYTES_MAX));
        Self { function: self.function.or_else(function), ..self }
    }

    /// True if the message was held without a call. The error type alone does not prove that, since handlers can use
    /// the same type.
    pub(crate) fn was_not_called(&self) -> bool {
        [CIRCUIT_OPEN, RATE_LIMITED].contains(&self.error_type.as_str())
            && self.details.starts_with(NOT_CALLED_PREFIX)
    }
}

impl Classification {
    /// Classifies the kind of failure that a handler reports.
    #[must_use]
    pub fn from_failure_kind(kind: FailureKind) -> Self {
        let (kind, after) = match kind {
            FailureKind::Transient => (FailureClass::Transient, None),
            FailureKind::TransientAfter(after) => (FailureClass::Transient, Some(after)),
            // Only the breaker distinguishes outages; for the message, this is an ordinary transient failure.
            FailureKind::Unavailable(after) => (FailureClass::Transient, after),
            FailureKind::Permanent => (FailureClass::Permanent, None),
            FailureKind::Snooze(after) => (FailureClass::Snooze, Some(after)),
            FailureKind::NotStarted => (FailureClass::NotStarted, None),
        };
        Self { kind: kind.into(), retry_after_seconds: after.map(round_up_seconds) }
    }

    /// Classifies a held message, with the delay of its hold.
    fn for_hold(hold: Hold) -> Self {
        Self { kind: FailureClass::Held.into(), retry_after_seconds: Some(round_up_seconds(hold.delay)) }
    }

    /// Creates a classification of this class, without a delay.
    #[must_use]
    pub fn without_delay(class: FailureClass) -> Self {
        Self { kind: class.into(), retry_after_seconds: None }
    }

    /// Returns the kind. An unknown kind becomes `Transient`, so that the message is retried.
    #[must_use]
    pub fn known_class(&self) -> FailureClass {
        self.kind.known().unwrap_or(FailureClass::Transient)
    }
}

/// Rounds up to whole seconds, since the delay is a minimum.
fn round_up_seconds(delay: Duration) -> u64 {
    delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0))
}

impl HandOff {
    /// Creates the hand-off of a message that failed in the handler.
    #[must_use]
    pub fn from_handler_error(error: &HandlerError, delivery: Delivery) -> Self {
        Self::without_outage(
            LastError::from_handler_error(error),
            Classification::from_failure_kind(error.kind),
            delivery,
        )
    }

    /// Creates the hand-off of a message whose call did not start before the deadline.
    #[must_use]
    pub fn for_unstarted_call(delivery: Delivery) -> Self {
        Self::without_outage(
            LastError::new(NOT_STARTED, ""),
            Classification::without_delay(FailureClass::NotStarted),
            delivery,
        )
    }

    /// Creates the hand-off of a message that is held without a call, because its target is down or limits calls.
    #[must_use]
    pub fn for_hold(hold: Hold, delivery: Delivery) -> Self {
        let since = format_rfc3339(hold.outage.since);
        let (error_type, why) = match hold.reason {
            HoldReason::Down => (CIRCUIT_OPEN, "the target has been down since"),
            HoldReason::NotNow | HoldReason::RateLimited => {
                (RATE_LIMITED, "the target has refused calls since")
            }
        };
        let error = LastError::new(error_type, &format!("{NOT_CALLED_PREFIX}{why} {since}"));
        let hand_off = Self::without_outage(error, Classification::for_hold(hold), delivery);
        Self { outage: Some(hold.outage), ..hand_off }
    }

    /// Creates the hand-off of a message that is held after its own call, which was answered "not now" or failed in an
    /// outage. It contains the call's error, but the call spends no attempt.
    #[must_use]
    pub fn for_hold_after_call(error: &HandlerError, hold: Hold, delivery: Delivery) -> Self {
        Self {
            classification: Classification::for_hold(hold),
            outage: Some(hold.outage),
            ..Self::from_handler_error(error, delivery)
        }
    }

    /// Creates the hand-off of a message that SQS moved after unanswered receives, for example because the function
    /// crashed. Only `details` is known.
    #[must_use]
    pub fn for_unanswered_receives(details: &str, delivery: Delivery) -> Self {
        let classification = Classification::without_delay(FailureClass::Unanswered);
        Self { classification, ..Self::for_unknown_cause(details, delivery) }
    }

    /// True if the target was called in this delivery; `None` if that is unknown.
    #[must_use]
    pub fn was_called(&self) -> Option<bool> {
        match self.classification.known_class() {
            FailureClass::Unanswered => None,
            FailureClass::NotStarted => Some(false),
            _ => Some(!self.error.was_not_called()),
        }
    }

    /// Creates the hand-off of a message that failed for an unknown reason.
    #[must_use]
    pub fn for_unknown_cause(details: &str, delivery: Delivery) -> Self {
        Self::without_outage(
            LastError::new(REDRIVE, details),
            Classification::without_delay(FailureClass::Transient),
            delivery,
        )
    }

    pub(crate) fn without_outage(
        error: LastError,
        classification: Classification,
        delivery: Delivery,
    ) -> Self {
        Self { error, classification, delivery, outage: None, unknown: UnknownMembers::default() }
    }
}

impl Failure {
    /// Creates the failure of an invalid message, for which the target was not called.
    #[must_use]
    pub fn for_invalid_message(reason: DeadLetterReason, why: &impl Display, delivery: Delivery) -> Self {
        let error = LastError::new(reason.as_str(), &why.to_string());
        Self { error, classification: None, delivery, attempts: None, unknown: UnknownMembers::default() }
    }

    /// Converts to the failure of a message that turned out to be invalid after its hand-off. Keeps the earlier
    /// classification.
    #[must_use]
    pub fn into_invalid_message_failure(self, reason: DeadLetterReason, why: &impl Display) -> Self {
        let Self { classification, delivery, unknown, .. } = self;
        Self { classification, unknown, ..Self::for_invalid_message(reason, why, delivery) }
    }
}

impl From<HandOff> for Failure {
    fn from(HandOff { error, classification, delivery, unknown, .. }: HandOff) -> Self {
        Self { error, classification: Some(classification), delivery, attempts: None, unknown }
    }
}

impl Verdict {
    /// Creates a verdict that consists only of a code.
    #[must_use]
    pub fn from_code(code: impl Into<ReasonCode>) -> Self {
        Self { code: code.into(), case: None }
    }

    /// Returns the human-readable explanation, built from the known parts: `Max retry attempts 5 exceeded; last error
    /// HttpStatus.503: HTTP 503`.
    #[must_use]
    pub fn full_explanation(&self) -> String {
        let Some(VerdictDetails { explanation, failure, .. }) = &self.case else { return String::new() };
        let LastError { error_type, details, .. } = &failure.error;
        let error = match (error_type.as_str(), details.as_str()) {
            (same, details) if same == self.code.as_str() => details.to_owned(),
            (error_type, "") => error_type.to_owned(),
            (error_type, details) => format!("{error_type}: {details}"),
        };
        match (explanation.as_str(), error.as_str()) {
            ("", _) => error,
            (explanation, "") => explanation.to_owned(),
            (explanation, _) => format!("{explanation}{}{error}", truncate::LAST_ERROR),
        }
    }
}

/// A failure that was handed off, and may have hopped since.
#[derive(Clone, Debug, PartialEq)]
pub struct HandedOffFailure {
    pub hand_off: HandOff,
    /// The due time of the retry, if the message has hopped.
    pub due_at: Option<Timestamp>,
}

impl From<HandOff> for HandedOffFailure {
    fn from(hand_off: HandOff) -> Self {
        Self { hand_off, due_at: None }
    }
}

impl FailureDocument {
    /// Returns the last error, if the document has one.
    #[must_use]
    pub fn into_error(self) -> Option<LastError> {
        match self {
            Self::HandOff(hand_off) | Self::Hop(Hop { hand_off, .. }) => Some(hand_off.error),
            Self::Verdict(verdict) => verdict.case.map(|case| case.failure.error),
        }
    }

    /// Returns the delivery that failed, if the document has one.
    #[must_use]
    pub fn failed_delivery(&self) -> Option<&Delivery> {
        match self {
            Self::HandOff(hand_off) | Self::Hop(Hop { hand_off, .. }) => Some(&hand_off.delivery),
            Self::Verdict(verdict) => verdict.case.as_ref().map(|case| &case.failure.delivery),
        }
    }

    /// Returns the handed-off failure, if the document has one.
    #[must_use]
    pub fn into_hand_off(self) -> Option<HandedOffFailure> {
        match self {
            Self::HandOff(hand_off) => Some(hand_off.into()),
            Self::Hop(Hop { hand_off, due_at }) => Some(HandedOffFailure { hand_off, due_at: Some(due_at) }),
            // A verdict arrives here only if a person moved its message from the annotation queue.
            Self::Verdict(Verdict { case, .. }) => {
                let Failure { error, classification, delivery, unknown, .. } = case?.failure;
                let classification =
                    classification.unwrap_or_else(|| Classification::without_delay(FailureClass::Transient));
                Some(HandOff { error, classification, delivery, outage: None, unknown }.into())
            }
        }
    }
}

/// The details of a failed delivery that do not depend on its error.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub failed_at: Timestamp,
    /// The SQS id of the message on the source queue.
    pub source_message_id: String,
    /// The queue that the message was received from.
    pub source_queue_arn: String,
    /// `SentTimestamp` of that delivery: a hand-off is a new SQS message with its own `SentTimestamp`.
    pub sent_at: Timestamp,
    /// The message's return from the final DLQ, if it was redriven from there.
    pub came_back: Option<DlqReturn>,
    /// The sender of the message.
    pub origin: Origin,
    /// The span of the delivery's call, or of the previous attempt if known; set only if spans are recorded.
    pub last_attempt: Option<SpanContext>,
    /// The log lines of the delivery's call, if a call was made and the location is known.
    pub last_attempt_logs: Option<AttemptLogs>,
}

impl Delivery {
    /// Creates the delivery of this record. `came_back` is the later of two returns from the final DLQ: the record's
    /// own and the one in its `Failure`.
    #[must_use]
    pub fn from_record(
        record: &ReceivedMessage,
        came_back: Option<DlqReturn>,
        origin: Origin,
        failed_at: Timestamp,
    ) -> Self {
        Self {
            failed_at,
            source_message_id: record.sqs_message_id.clone(),
            source_queue_arn: record.queue_arn.clone(),
            sent_at: record.sent_at,
            came_back,
            origin,
            last_attempt: came_back.and_then(|came_back| came_back.last_attempt),
            last_attempt_logs: None,
        }
    }

    /// Returns the request id in the log lines of the call, if known.
    #[must_use]
    pub fn request_id(&self) -> Option<String> {
        self.last_attempt_logs.as_ref()?.location().request_id().map(str::to_owned)
    }

    /// Returns the time of the failure, capped at `now` since clocks differ.
    #[must_use]
    pub fn failed_at(&self, now: Timestamp) -> Timestamp {
        self.failed_at.min(now)
    }
}

/// Returns the metadata in its current generation. Until the next re-send, the body contains the previous generation.
#[must_use]
pub fn metadata_in_current_generation(metadata: Metadata, came_back: Option<DlqReturn>) -> Metadata {
    match came_back {
        Some(came_back) => metadata.into_next_generation(came_back),
        None => metadata,
    }
}

/// The kind of a failure, which determines whether and how the message is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum FailureClass {
    Transient,
    Permanent,
    /// Retry later, without spending an attempt.
    Snooze,
    /// The call did not start before the deadline: retry, without spending an attempt.
    NotStarted,
    /// The message is held because its target is down, limits calls or responded "not now": retry, without spending an
    /// attempt.
    Held,
    /// SQS moved the message, and it is unknown whether the target was called: retry, with a separate limit.
    Unanswered,
}

impl FailureClass {
    /// Returns the name used in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl OpenVariants for FailureClass {}

/// The function that gave up on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Stage {
    /// The message is invalid, or must not be retried.
    MessageProcessor,
    /// The message must not be retried.
    FailedMessageProcessor,
    /// SQS moved the message through its redrive policy, without a verdict.
    FinalDlqAnnotator,
    /// The user's function must not be invoked again, or Lambda will never accept the invocation.
    AsyncRetryHandler,
}

impl OpenVariants for Stage {}

#[cfg(test)]
mod tests;
