//! The interface to the target: the messages that a handler receives and the results that it can return.

#![warn(missing_docs)] // users write their handlers against this module

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

/// Calls the user's target for one message. redeliver has its own handlers for HTTP endpoints and Lambda functions.
///
/// The same message may be delivered more than once: use only [`Message::idempotency_key`] as an idempotency key.
/// Copies may differ in their attempt numbers, since each copy counts its own attempts. A handler must not block its
/// thread. If it hangs, it is cancelled near the function's deadline, and its message is retried. A panic fails only
/// its own message.
pub trait Handler: Send + Sync {
    /// Returns `Ok` if the message was processed; otherwise, the error determines the next step.
    fn handle(&self, message: &Message<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Returns the version of the user's function that handles all calls, as `NAME:VERSION`; `None` if the target is
    /// not a function or the version is unknown.
    fn function_version(&self) -> Option<&str> {
        None
    }

    /// Returns the template for the span of each call, if spans are recorded.
    fn call_span(&self) -> CallSpan<'_> {
        CallSpan::default()
    }

    /// Handles a message like [`Self::handle`], with the details of the receive; the message-processor calls this
    /// method. Override it in handlers that need those details or that call their target more than once per message.
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
    /// The handler's deadline. The handler is cancelled soon afterwards, and its result is lost.
    pub end: Timestamp,
    /// The span of this call, if spans are recorded; see [`Self::trace_context`].
    pub trace: Option<&'a TraceContext>,
    /// The location of this call's log lines, which the handler can change.
    pub logs: Option<&'a CallLogs>,
}

impl Invocation<'_> {
    /// Returns the trace context for the target: redeliver's own span if spans are recorded, otherwise
    /// [`TraceContext::from_message`].
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.trace.cloned().or_else(|| TraceContext::from_message(self.message, self.record))
    }
}

/// The location of a call's log lines: the message-processor's location unless the handler sets another.
#[derive(Clone, Debug, Default)]
pub struct CallLogs(Arc<Mutex<LogLocation>>);

impl CallLogs {
    /// Creates call logs with this initial location.
    #[must_use]
    pub fn new(location: LogLocation) -> Self {
        Self(Arc::new(Mutex::new(location)))
    }

    /// Replaces the request id, but not the log stream.
    pub fn set_request_id(&self, request_id: Option<&str>) {
        let mut location = lock(&self.0);
        *location = std::mem::take(&mut *location).with_request_id(request_id);
    }

    /// Replaces the location.
    pub fn set_location(&self, location: LogLocation) {
        *lock(&self.0) = location;
    }

    /// Returns the location, as far as it is known.
    #[must_use]
    pub fn location(&self) -> LogLocation {
        lock(&self.0).clone()
    }
}

impl TraceContext {
    /// Returns the producer's context, from the first of these that is valid: the attribute `traceparent`, a
    /// CloudEvent's `traceparent`, and the system attribute `AWSTraceHeader`.
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
    /// `metadata.message_id` as the producer wrote it. For a plain message, its id if that is a UUID, otherwise a UUID
    /// derived from the id.
    pub message_id: &'a str,
    /// The form of the body: an envelope or a plain message.
    pub form: &'a BodyForm,
    /// Number of retries made so far: 0 on the first delivery. It may differ between copies of a message.
    pub retry_attempt: u32,
    /// Number of redrives from the final DLQ.
    pub redrive_generation: u32,
    /// Total seconds for which redeliver has held the message because its target was down or busy.
    pub held_seconds: u32,
    /// The producer's message attributes.
    pub attributes: &'a Attributes,
}

impl Message<'_> {
    /// Returns the idempotency key, the same for all copies of the message: the producer's own id, or
    /// [`Message::message_id`] if the producer set none.
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
    /// The data does not have the type `T`, or the message has no `data`. The error is a permanent `InvalidData` that a
    /// handler can return unchanged; it contains the location, never the value.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let invalid = |details: &str| HandlerError::permanent("InvalidData", details);
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

/// A handler's reason for not processing a message, and the next step for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError {
    /// The error's name, matched against the policy's lists.
    pub error_type: ErrorType,
    /// Text for people: truncated and recorded in queue attributes and the retry history, but never logged.
    pub details: String,
    /// The next step for the message.
    pub kind: FailureKind,
    /// The version of the user's function that responded, as `NAME:VERSION`. Used if [`Handler::function_version`]
    /// returns `None`.
    pub function: Option<String>,
}

/// The next step for a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Retry according to the policy's backoff.
    Transient,
    /// Retry, but not before this delay has passed.
    TransientAfter(Duration),
    /// The target is down, regardless of the policy's `opens_on`. Retry, but not before the delay, if any, has passed.
    Unavailable(Option<Duration>),
    /// Do not retry.
    Permanent,
    /// Not ready yet: retry after this delay, without spending an attempt.
    Snooze(Duration),
    /// Time ran out before the handler received the message. This spends no attempt.
    NotStarted,
}

/// The name of an error, e.g. `HttpStatus.503`. The variants distinguish redeliver's own names, which may be logged,
/// from a target's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A name from source code: `Http.Timeout`, `Panic`, or a literal in a handler.
    Named(&'static str),
    /// A name and a cause, both from source code and both logged: `Http.Tls`, `unknown issuer`.
    Explained(&'static str, &'static str),
    /// `HttpStatus.NNN`.
    HttpStatus(u16),
    /// `HttpStatus.NNN:CODE`. The code is the target's, and is never logged.
    HttpProblem(u16, String),
    /// Text from a target; never logged.
    FromTarget(String),
}

impl ErrorType {
    /// Returns the full name.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Named(name) | Self::Explained(name, _) => Cow::Borrowed(name),
            Self::HttpStatus(status) => Cow::Owned(format!("HttpStatus.{status}")),
            Self::HttpProblem(status, code) => Cow::Owned(format!("HttpStatus.{status}:{code}")),
            Self::FromTarget(name) => Cow::Borrowed(name),
        }
    }

    /// Returns the name for logs: `FromTarget` replaces a target's text, and a target's code is omitted.
    #[must_use]
    pub fn loggable_name(&self) -> Cow<'_, str> {
        match self {
            Self::Explained(name, cause) => Cow::Owned(format!("{name}: {cause}")),
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
    /// Creates an error after which the message is retried according to the policy's backoff.
    #[must_use]
    pub fn transient(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self {
            error_type: error_type.into(),
            details: details.to_string(),
            kind: FailureKind::Transient,
            function: None,
        }
    }

    /// Creates an error for a dependency that is down. The message is retried as for [`Self::transient`], and the
    /// circuit breaker counts the error as an outage.
    #[must_use]
    pub fn unavailable(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Unavailable(None), ..Self::transient(error_type, details) }
    }

    /// Creates an error after which the message is not retried: it goes to the final DLQ as `NON_RETRYABLE_ERROR`.
    #[must_use]
    pub fn permanent(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Permanent, ..Self::transient(error_type, details) }
    }

    /// Creates an error after which the message is retried with this delay, without spending an attempt. From the 101st
    /// snooze of a message onwards, each snooze spends an attempt.
    #[must_use]
    pub fn snooze(error_type: impl Into<ErrorType>, details: impl fmt::Display, after: Duration) -> Self {
        Self { kind: FailureKind::Snooze(after), ..Self::transient(error_type, details) }
    }

    /// Creates the error for a message that the handler did not receive in time.
    #[must_use]
    pub fn not_started() -> Self {
        let details = "time ran out before the call began";
        Self { kind: FailureKind::NotStarted, ..Self::transient("NotStarted", details) }
    }

    /// Sets a minimum for the policy's delay, like `Retry-After`: at most 900 s, or 12 hours with `long_delays`. A
    /// permanent error becomes transient.
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

    fn read_data(body: &str) -> Result<BTreeMap<String, String>, HandlerError> {
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
    fn a_handler_can_read_data_next_to_unreadable_members() {
        let data =
            read_data(r#"{"\ud800":"\udfff","d\u0061ta":{"n":"12345678901234567890"},"metadata":1e999}"#)
                .unwrap();
        assert_eq!(data["n"], "12345678901234567890");
    }

    #[test]
    fn invalid_data_is_a_permanent_error_without_the_value() {
        for body in [r#"{"data":{"n":["canary"]}}"#, r#"{"data":"canary"}"#, "{}", "canary"] {
            let error = read_data(body).unwrap_err();
            assert_eq!(error.kind, FailureKind::Permanent);
            assert_eq!(error.error_type, ErrorType::Named("InvalidData"));
            assert!(!error.details.contains("canary"), "{}", error.details);
        }
    }

    #[test]
    fn only_redelivers_own_error_names_are_loggable() {
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
