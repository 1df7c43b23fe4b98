//! The interface to the target: the messages that a handler receives, and the results that it can return.

#![warn(missing_docs)] // what a user's handler is written against

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::lock;
pub use crate::log_location::LogLocation;
pub use crate::message::BodyForm;
use crate::message::envelope::skim_body;
use crate::message::{Attributes, ReceivedMessage, Timestamp};
use crate::trace::{CallSpan, TraceContext};

/// Calls the user's target for one message. HTTP endpoints and Lambda functions are called through handlers, too.
///
/// The same message may be delivered more than once: use only [`Message::idempotency_key`] as an idempotency key.
/// Copies may differ in their attempt number, since each copy counts separately. A handler must not block its thread;
/// one that hangs is cancelled near the function's deadline, and its message is retried. A panic fails only this
/// message.
pub trait Handler: Send + Sync {
    /// `Ok` if the message was processed; otherwise the error determines the next step.
    fn handle(&self, message: &Message<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// The version of the user's function that handles every call, as `NAME:VERSION`; `None` if the target is not a
    /// function or the version is unknown.
    fn function_version(&self) -> Option<&str> {
        None
    }

    /// The template for the span of each call, if spans are recorded.
    fn call_span(&self) -> CallSpan<'_> {
        CallSpan::default()
    }

    /// [`Self::handle`] with the details of the receive; the message-processor calls this method. Override it in
    /// handlers that need those details, or that call their target more than once per message.
    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self.handle(invocation.message)
    }
}

/// One invocation of a handler by the message-processor.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The message.
    pub message: &'a Message<'a>,
    /// The received record, with SQS's ids, timestamps and counts.
    pub record: &'a ReceivedMessage,
    /// The deadline of the handler. Soon afterwards it is cancelled, and its result is lost.
    pub end: Timestamp,
    /// The span of this call, if spans are recorded; see [`Self::trace_context`].
    pub trace: Option<&'a TraceContext>,
    /// Lets a handler record the location of this call's log lines.
    pub logs: Option<&'a CallLogs>,
}

impl Invocation<'_> {
    /// The trace context for the target: that of redeliver's own span if spans are recorded, otherwise
    /// [`TraceContext::from_message`].
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.trace.cloned().or_else(|| TraceContext::from_message(self.message, self.record))
    }
}

/// The location of a call's log lines: the message-processor's own location unless the handler sets another one.
#[derive(Clone, Debug, Default)]
pub struct CallLogs(Arc<Mutex<LogLocation>>);

impl CallLogs {
    /// Starts with this location.
    #[must_use]
    pub fn new(location: LogLocation) -> Self {
        Self(Arc::new(Mutex::new(location)))
    }

    /// Replaces the request id; the log stream remains the same.
    pub fn set_request_id(&self, request_id: Option<&str>) {
        let mut location = lock(&self.0);
        *location = std::mem::take(&mut *location).with_request_id(request_id);
    }

    /// Replaces the location.
    pub fn set_location(&self, location: LogLocation) {
        *lock(&self.0) = location;
    }

    /// The location, as far as it is known so far.
    #[must_use]
    pub fn location(&self) -> LogLocation {
        lock(&self.0).clone()
    }
}

impl TraceContext {
    /// The producer's context: the first valid one of the attribute `traceparent`, a CloudEvent's `traceparent`, and
    /// the system attribute `AWSTraceHeader`.
    #[must_use]
    pub fn from_message(message: &Message<'_>, record: &ReceivedMessage) -> Option<Self> {
        let body = match message.form {
            BodyForm::Plain { .. } => message.body,
            BodyForm::Envelope => "",
        };
        Self::from_parts(message.attributes, body, record.trace_header.as_deref())
    }
}

/// A valid message, for a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The received body, byte for byte.
    pub body: &'a str,
    /// `metadata.message_id` as the producer wrote it. For a plain message: its id if that is a UUID, otherwise a UUID
    /// derived from it.
    pub message_id: &'a str,
    /// Envelope or plain message.
    pub form: &'a BodyForm,
    /// Retries made so far: 0 at the first delivery. It may differ between copies of a message.
    pub retry_attempt: u32,
    /// Number of redrives from the final DLQ.
    pub redrive_generation: u32,
    /// Total seconds for which redeliver has held the message because its target was down or busy.
    pub held_seconds: u32,
    /// The producer's message attributes.
    pub attributes: &'a Attributes,
}

impl Message<'_> {
    /// The idempotency key, the same for all copies of the message: the producer's own id, or [`Message::message_id`]
    /// if the producer set none.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        match self.form {
            BodyForm::Plain { idempotency_key: Some(key) } => key,
            BodyForm::Plain { idempotency_key: None } | BodyForm::Envelope => self.message_id,
        }
    }

    /// Deserializes `data`, or the body of a plain message.
    ///
    /// # Errors
    /// A permanent `InvalidData` error that a handler can return unchanged: the data does not have the type `T`, or the
    /// message has no `data`. It contains the location, never the value.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let invalid = |what: &str| HandlerError::permanent("InvalidData", what);
        let (place, text) = match self.form {
            BodyForm::Envelope => ("/data", skim_body(self.body).ok().and_then(|skimmed| skimmed.data_text)),
            BodyForm::Plain { .. } => ("the body", Some(self.body)),
        };
        let text = text.ok_or_else(|| invalid("the message has no /data"))?;
        serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            invalid(&format!("{place} does not have the handler's type: line {line} column {column}"))
        })
    }
}

/// The reason why a handler did not process a message, and the next step for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError {
    /// The error's name, which the policy's lists match.
    pub error_type: ErrorType,
    /// Text for humans: recorded in queue attributes and the retry history, truncated; never logged.
    pub details: String,
    /// The next step for the message.
    pub kind: FailureKind,
    /// The version of the user's function that responded, as `NAME:VERSION`, if [`Handler::function_version`] returns
    /// `None`.
    pub function: Option<String>,
}

/// The next step for a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Retry according to the policy's backoff.
    Transient,
    /// Retry, but not before this delay.
    TransientAfter(Duration),
    /// The target is down, regardless of the policy's `opens_on`. Retry, but not before the delay, if any.
    Unavailable(Option<Duration>),
    /// Do not retry.
    Permanent,
    /// Not ready yet: retry after this delay, without spending an attempt.
    Snooze(Duration),
    /// Time ran out before the handler received the message. Spends no attempt.
    NotStarted,
}

/// The name of an error, e.g. `HttpStatus.503`. The variants distinguish redeliver's own names, which may be logged,
/// from a target's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A name from source code: `Http.Timeout`, `Panic`, or a literal in a handler.
    Named(&'static str),
    /// A name and a cause, both from source code: `Http.Tls`, `unknown issuer`. Both are logged.
    Explained(&'static str, &'static str),
    /// `HttpStatus.NNN`.
    HttpStatus(u16),
    /// `HttpStatus.NNN:CODE`, with the target's own code, which is never logged.
    HttpProblem(u16, String),
    /// Text from a target; never logged.
    FromTarget(String),
}

impl ErrorType {
    /// The full name.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Named(name) | Self::Explained(name, _) => Cow::Borrowed(name),
            Self::HttpStatus(status) => Cow::Owned(format!("HttpStatus.{status}")),
            Self::HttpProblem(status, code) => Cow::Owned(format!("HttpStatus.{status}:{code}")),
            Self::FromTarget(name) => Cow::Borrowed(name),
        }
    }

    /// The name for logs: a target's text becomes `FromTarget`, and its code is omitted.
    #[must_use]
    pub fn loggable_name(&self) -> Cow<'_, str> {
        match self {
            Self::Explained(name, what) => Cow::Owned(format!("{name}: {what}")),
            Self::FromTarget(_) => Cow::Borrowed("FromTarget"),
            Self::HttpProblem(status, _) => Self::HttpStatus(*status).name().into_owned().into(),
            ours => ours.name(),
        }
    }
}

impl From<&'static str> for ErrorType {
    fn from(name: &'static str) -> Self {
        Self::Named(name)
    }
}

impl HandlerError {
    /// Retry according to the policy's backoff.
    #[must_use]
    pub fn transient(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self {
            error_type: error_type.into(),
            details: details.to_string(),
            kind: FailureKind::Transient,
            function: None,
        }
    }

    /// A dependency of the handler is down: retried like [`Self::transient`], and counted by the circuit breaker as an
    /// outage.
    #[must_use]
    pub fn unavailable(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Unavailable(None), ..Self::transient(error_type, details) }
    }

    /// Do not retry: the message goes to the final DLQ as `NON_RETRYABLE_ERROR`.
    #[must_use]
    pub fn permanent(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Permanent, ..Self::transient(error_type, details) }
    }

    /// Retry after this delay without spending an attempt. From the 101st snooze of a message onwards, each one spends
    /// an attempt.
    #[must_use]
    pub fn snooze(error_type: impl Into<ErrorType>, details: impl fmt::Display, after: Duration) -> Self {
        Self { kind: FailureKind::Snooze(after), ..Self::transient(error_type, details) }
    }

    /// Time ran out before the handler received the message.
    #[must_use]
    pub fn not_started() -> Self {
        let details = "time ran out before the call began";
        Self { kind: FailureKind::NotStarted, ..Self::transient("NotStarted", details) }
    }

    /// Sets a minimum for the policy's delay, like `Retry-After`: at most 900 s, or 12 hours with `long_delays`. The
    /// message is retried even if the error was permanent.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        let kind = match self.kind {
            FailureKind::Unavailable(_) => FailureKind::Unavailable(Some(delay)),
            _ => FailureKind::TransientAfter(delay),
        };
        Self { kind, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn data(body: &str) -> Result<BTreeMap<String, String>, HandlerError> {
        let attributes = Attributes::new();
        let message = Message {
            body,
            message_id: "",
            form: &BodyForm::Envelope,
            retry_attempt: 0,
            redrive_generation: 0,
            held_seconds: 0,
            attributes: &attributes,
        };
        message.data()
    }

    #[test]
    fn a_handler_reads_data_beside_unreadable_members() {
        let data =
            data(r#"{"\ud800":"\udfff","d\u0061ta":{"n":"12345678901234567890"},"metadata":1e999}"#).unwrap();
        assert_eq!(data["n"], "12345678901234567890");
    }

    #[test]
    fn data_that_a_handler_cannot_read_is_a_permanent_error_without_the_value() {
        for body in [r#"{"data":{"n":["canary"]}}"#, r#"{"data":"canary"}"#, "{}", "canary"] {
            let error = data(body).unwrap_err();
            assert_eq!(error.kind, FailureKind::Permanent);
            assert_eq!(error.error_type, ErrorType::Named("InvalidData"));
            assert!(!error.details.contains("canary"), "{}", error.details);
        }
    }

    #[test]
    fn only_error_names_of_redeliver_are_loggable() {
        let from_target = ErrorType::FromTarget("canary".to_owned());
        assert_eq!((from_target.name(), from_target.loggable_name()), ("canary".into(), "FromTarget".into()));
        assert_eq!(ErrorType::HttpStatus(503).name(), "HttpStatus.503");
        assert_eq!(ErrorType::HttpStatus(503).loggable_name(), "HttpStatus.503");
        assert_eq!(ErrorType::from("Db.Busy").loggable_name(), "Db.Busy");
        let problem = ErrorType::HttpProblem(422, "canary".to_owned());
        assert_eq!(
            (problem.name(), problem.loggable_name()),
            ("HttpStatus.422:canary".into(), "HttpStatus.422".into())
        );
        let explained = ErrorType::Explained("Http.Tls", "unknown issuer");
        assert_eq!(
            (explained.name(), explained.loggable_name()),
            ("Http.Tls".into(), "Http.Tls: unknown issuer".into())
        );
    }
}
