//! The `Failure` documents: what a message carries between the functions, in one attribute, or at last in its trace
//! header.
//!
//! - A [`HandOff`] from the message-processor to the intermediate DLQ: why the message failed.
//! - A [`Hop`] on the intermediate DLQ: a hand-off, and when its retry is due.
//! - A [`Verdict`] on the annotation queue: why the message is given up.
//!
//! Which one it is its members say: a verdict has `verdict`, a hop has `due_at`.

pub mod annotation;
mod placing;
pub mod reason;
mod wire;

use std::fmt::Display;

pub(crate) use placing::taken_apart as taken_from_trace_header;
pub use placing::{FAILURE_BYTES_MAX, Placed};
use strum::{IntoStaticStr, VariantArray};
pub(crate) use wire::RawFailure;

use crate::failure::reason::{Code, DeadLetterReason};
use crate::handler::{FailureKind, HandlerError};
use crate::json::tolerant::{Unknown, Vocabulary, Word};
use crate::message::metadata::{Metadata, rfc3339};
use crate::message::origin::Origin;
pub use crate::message::reserved::FAILURE;
use crate::message::{ReceivedMessage, Timestamp};
use crate::text;

/// The error's name of a message that came by redrive: nobody could say why.
pub const REDRIVE: &str = "Redrive";
/// The error's name of a message that was not called, since its target is down.
pub const CIRCUIT_OPEN: &str = "CircuitOpen";

/// The schema of the documents, JSON Schema 2020-12.
pub const FAILURE_SCHEMA: &str = include_str!("../schemas/failure.schema.json");

/// What the attribute says.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    HandOff(HandOff),
    Hop(Hop),
    Verdict(Verdict),
}

/// A message that failed, on its way to who decides on it.
#[derive(Clone, Debug, PartialEq)]
pub struct HandOff {
    pub error: LastError,
    /// What is to be done, by who failed.
    pub answer: Answer,
    /// The delivery that failed.
    pub delivery: Delivery,
    /// Kept as they are.
    pub unknown: Unknown,
}

/// A message that waits longer than one `DelaySeconds` can say.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// As it was handed off.
    pub hand_off: HandOff,
    /// When its retry is due.
    pub due_at: Timestamp,
}

/// A message that is given up, on its way to who explains it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Why, in one word.
    pub code: Code,
    /// All else; `None` if only the code is known.
    pub case: Option<Case>,
}

/// What is known of a message that is given up.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Who gave it up, if the document says that.
    pub stage: Option<Word<Stage>>,
    /// Why, in addition to the last error; may be empty.
    pub explanation: String,
    pub failure: Failure,
}

/// The last failure of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub error: LastError,
    /// `None` if nobody was asked: the message was found invalid.
    pub answer: Option<Answer>,
    /// The delivery that failed.
    pub delivery: Delivery,
    /// Retries made, if the body does not say them (strategy `visibility`, asynchronous invocations).
    pub attempts: Option<u32>,
    /// Kept as they are.
    pub unknown: Unknown,
}

/// An error for people and for the policy's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastError {
    pub error_type: String,
    pub details: String,
}

/// What is to be done with a failed message, by who failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What, in one word.
    pub kind: Word<Kind>,
    /// The target's own delay: of `Retry-After`, or of a snooze.
    pub retry_after_seconds: Option<u64>,
}

impl LastError {
    /// What a handler answered.
    #[must_use]
    pub fn of(error: &HandlerError) -> Self {
        let error_type = text::clean(&error.error_type.name(), text::ERROR_TYPE_BYTES_MAX);
        Self { error_type, details: error.details.clone() }
    }
}

impl Answer {
    /// What a handler wants.
    #[must_use]
    pub fn of(kind: FailureKind) -> Self {
        let (kind, after) = match kind {
            FailureKind::Transient => (Kind::Transient, None),
            FailureKind::TransientAfter(after) => (Kind::Transient, Some(after)),
            // That it was an outage is for the breaker; of the message it says no more than any other failure.
            FailureKind::Unavailable(after) => (Kind::Transient, after),
            FailureKind::Permanent => (Kind::Permanent, None),
            FailureKind::Snooze(after) => (Kind::Snooze, Some(after)),
            FailureKind::NotStarted => (Kind::NotStarted, None),
        };
        // Rounded up: a floor must not be undercut.
        let seconds =
            |after: std::time::Duration| after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0));
        Self { kind: kind.into(), retry_after_seconds: after.map(seconds) }
    }

    /// By the kind alone.
    #[must_use]
    pub fn just(kind: Kind) -> Self {
        Self { kind: kind.into(), retry_after_seconds: None }
    }

    /// What this version makes of it: what it does not understand it tries again.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind.known().unwrap_or(Kind::Transient)
    }
}

impl HandOff {
    /// What a handler answered.
    #[must_use]
    pub fn of_handler(error: &HandlerError, delivery: Delivery) -> Self {
        let answer = Answer::of(error.kind);
        Self { error: LastError::of(error), answer, delivery, unknown: Unknown::default() }
    }

    /// The deadline came before its turn.
    #[must_use]
    pub fn not_started(delivery: Delivery) -> Self {
        let error = LastError { error_type: "NotStarted".to_owned(), details: String::new() };
        Self { error, answer: Answer::just(Kind::NotStarted), delivery, unknown: Unknown::default() }
    }

    /// Its target has been down since then, so it was not called.
    #[must_use]
    pub fn held(down_since: Timestamp, delivery: Delivery) -> Self {
        let details = format!("not called: the target has been down since {}", rfc3339(down_since));
        let error = LastError { error_type: CIRCUIT_OPEN.to_owned(), details };
        Self { error, answer: Answer::just(Kind::Held), delivery, unknown: Unknown::default() }
    }

    /// Its call was the probe of a target that is still down: what it met, which spends nothing either.
    #[must_use]
    pub fn probed(error: &HandlerError, delivery: Delivery) -> Self {
        Self { answer: Answer::just(Kind::Held), ..Self::of_handler(error, delivery) }
    }

    /// Nobody answered for the message; `details` say what is known.
    #[must_use]
    pub fn unanswered(details: &str, delivery: Delivery) -> Self {
        let answer = Answer::just(Kind::Unanswered);
        Self { answer, ..Self::unexplained(details, delivery) }
    }

    /// It failed, and why is lost.
    #[must_use]
    pub fn unexplained(details: &str, delivery: Delivery) -> Self {
        let error = LastError { error_type: REDRIVE.to_owned(), details: details.to_owned() };
        Self { error, answer: Answer::just(Kind::Transient), delivery, unknown: Unknown::default() }
    }
}

impl Failure {
    /// The message itself is wrong: nobody was asked.
    #[must_use]
    pub fn invalid(reason: DeadLetterReason, why: &impl Display, delivery: Delivery) -> Self {
        let error = LastError { error_type: reason.as_str().to_owned(), details: why.to_string() };
        Self { error, answer: None, delivery, attempts: None, unknown: Unknown::default() }
    }

    /// A message that was handed off is itself wrong; what was answered then stays on record.
    #[must_use]
    pub fn found_invalid(self, reason: DeadLetterReason, why: &impl Display) -> Self {
        let Self { answer, delivery, unknown, .. } = self;
        Self { answer, unknown, ..Self::invalid(reason, why, delivery) }
    }
}

impl From<HandOff> for Failure {
    fn from(HandOff { error, answer, delivery, unknown }: HandOff) -> Self {
        Self { error, answer: Some(answer), delivery, attempts: None, unknown }
    }
}

impl Verdict {
    /// With nothing but its code.
    #[must_use]
    pub fn bare(code: impl Into<Code>) -> Self {
        Self { code: code.into(), case: None }
    }

    /// For people: `Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503`, or the parts of it that are
    /// there.
    #[must_use]
    pub fn explained(&self) -> String {
        let Some(Case { explanation, failure, .. }) = &self.case else { return String::new() };
        let LastError { error_type, details } = &failure.error;
        let error = match (error_type.as_str(), details.as_str()) {
            (same, details) if same == self.code.as_str() => details.to_owned(),
            (error_type, "") => error_type.to_owned(),
            (error_type, details) => format!("{error_type}: {details}"),
        };
        match (explanation.as_str(), error.as_str()) {
            ("", _) => error,
            (explanation, "") => explanation.to_owned(),
            (explanation, _) => format!("{explanation}{}{error}", text::LAST_ERROR),
        }
    }
}

impl Document {
    /// The last error, if it says one.
    #[must_use]
    pub fn into_error(self) -> Option<LastError> {
        match self {
            Self::HandOff(hand_off) | Self::Hop(Hop { hand_off, .. }) => Some(hand_off.error),
            Self::Verdict(verdict) => verdict.case.map(|case| case.failure.error),
        }
    }

    /// The delivery that failed, if it says one.
    #[must_use]
    pub fn delivery(&self) -> Option<&Delivery> {
        match self {
            Self::HandOff(hand_off) | Self::Hop(Hop { hand_off, .. }) => Some(&hand_off.delivery),
            Self::Verdict(verdict) => verdict.case.as_ref().map(|case| &case.failure.delivery),
        }
    }

    /// For who decides: the hand-off, and when its retry is due if it has hopped.
    #[must_use]
    pub fn into_hand_off(self) -> Option<(HandOff, Option<Timestamp>)> {
        match self {
            Self::HandOff(hand_off) => Some((hand_off, None)),
            Self::Hop(Hop { hand_off, due_at }) => Some((hand_off, Some(due_at))),
            // Somebody has moved it here from the annotation queue.
            Self::Verdict(Verdict { case, .. }) => {
                let Failure { error, answer, delivery, unknown, .. } = case?.failure;
                let answer = answer.unwrap_or_else(|| Answer::just(Kind::Transient));
                Some((HandOff { error, answer, delivery, unknown }, None))
            }
        }
    }
}

/// What is known of a delivery whatever happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub failed_at: Timestamp,
    /// SQS's id of the message on the source queue.
    pub source_message_id: String,
    /// Where it was received.
    pub source_queue_arn: String,
    /// `SentTimestamp` of that delivery: a hand-off is a new SQS message with a clock of its own.
    pub sent_at: Timestamp,
    /// It came back from the final DLQ.
    pub came_back: Option<CameBack>,
    /// Who sent it.
    pub origin: Origin,
}

/// A message came back from the final DLQ as it was. The later generation is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CameBack {
    /// The generation in its final record, if there is one.
    pub generation_before: Option<u32>,
}

impl Delivery {
    /// The one that a record was received with.
    #[must_use]
    pub fn of(
        record: &ReceivedMessage,
        came_back: Option<CameBack>,
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
        }
    }

    /// When it failed; never later than `now`, since clocks differ.
    #[must_use]
    pub fn failed_at(&self, now: Timestamp) -> Timestamp {
        self.failed_at.min(now)
    }
}

/// What a body says of its message: until its next re-send it still says the generation before.
#[must_use]
pub fn in_its_generation(metadata: Metadata, came_back: Option<CameBack>) -> Metadata {
    match came_back {
        Some(CameBack { generation_before }) => metadata.into_next_generation(generation_before),
        None => metadata,
    }
}

/// What is to be done with a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Kind {
    Transient,
    Permanent,
    /// Later, without spending an attempt.
    Snooze,
    /// The deadline came before its turn: again, without spending an attempt.
    NotStarted,
    /// It was not called, since its target is down: again, without spending an attempt.
    Held,
    /// SQS moved it, and nobody knows whether it was called: again, within a budget of its own.
    Unanswered,
}

impl Kind {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl Vocabulary for Kind {}

/// The function that gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Stage {
    /// It found the message invalid, or decided against another retry.
    MessageProcessor,
    /// It decided against another retry.
    FailedMessageProcessor,
    /// The message came by redrive; nobody else had a say.
    FinalDlqAnnotator,
    /// It decided against another invocation, or Lambda will never take one.
    AsyncRetryHandler,
}

impl Vocabulary for Stage {}

#[cfg(test)]
mod tests;
