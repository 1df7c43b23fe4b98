//! The interface to the target: the messages that a handler gets, and its possible answers.

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

/// Calls the user's target for one message. HTTP endpoints and Lambda functions are handlers, too.
///
/// The same message may come more than once: use only [`Message::idempotency_key`] as an idempotency key. Copies may be
/// at different attempts, since each copy counts its own. A handler must not block its thread; one that hangs is cut
/// off near the function's deadline, and its message is retried. A panic fails only this message.
pub trait Handler: Send + Sync {
    /// `Ok` when the message is done; the error says what to do with it.
    fn handle(&self, message: &Message<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// The version of the user's function that every call goes to, `NAME:VERSION`, if the target is one and it is known.
    fn function_version(&self) -> Option<&str> {
        None
    }

    /// The span of each call, if spans are written.
    fn call_span(&self) -> CallSpan<'_> {
        CallSpan::default()
    }

    /// [`Self::handle`] as the message-processor calls it: for handlers that need details of the receive, or that call
    /// their target more than once for a message.
    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self.handle(invocation.message)
    }
}

/// One invocation of a handler by the message-processor.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The message.
    pub message: &'a Message<'a>,
    /// The received record: SQS's ids, times and counts.
    pub record: &'a ReceivedMessage,
    /// The handler must answer by then. Soon afterwards it is cut off, and its answer is lost.
    pub end: Timestamp,
    /// The span of this call, if spans are written; see [`Self::trace_context`].
    pub trace: Option<&'a TraceContext>,
    /// For a handler that knows where the log lines of this call are.
    pub logs: Option<&'a CallLogs>,
}

impl Invocation<'_> {
    /// The trace context for the target: that of redeliver's own span if it writes spans, or else
    /// [`TraceContext::from_message`].
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.trace.cloned().or_else(|| TraceContext::from_message(self.message, self.record))
    }
}

/// The location of the log lines of a call: the message-processor's own, until the handler sets another one.
#[derive(Clone, Debug, Default)]
pub struct CallLogs(Arc<Mutex<LogLocation>>);

impl CallLogs {
    /// Logs in this location.
    #[must_use]
    pub fn new(location: LogLocation) -> Self {
        Self(Arc::new(Mutex::new(location)))
    }

    /// Replaces the request id: the lines are in the same log stream.
    pub fn set_request_id(&self, request_id: Option<&str>) {
        let mut location = lock(&self.0);
        *location = std::mem::take(&mut *location).with_request_id(request_id);
    }

    /// Replaces the location.
    pub fn set_location(&self, location: LogLocation) {
        *lock(&self.0) = location;
    }

    /// The location as far as it is known by now.
    #[must_use]
    pub fn location(&self) -> LogLocation {
        lock(&self.0).clone()
    }
}

impl TraceContext {
    /// The producer's context. The first valid one counts: the attribute `traceparent`, a CloudEvent's `traceparent`, the
    /// system attribute `AWSTraceHeader`.
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
    /// The body as it was received, byte for byte.
    pub body: &'a str,
    /// `metadata.message_id` as the producer wrote it. For a plain message: its id if that is a UUID, else a UUID
    /// derived from it.
    pub message_id: &'a str,
    /// Envelope or plain.
    pub form: &'a BodyForm,
    /// Retries made so far: 0 at the first delivery. Copies of a message may differ in it.
    pub retry_attempt: u32,
    /// Number of times it was sent back from the final DLQ.
    pub redrive_generation: u32,
    /// Seconds for which redeliver has held it because its target was down or busy.
    pub held_seconds: u32,
    /// The producer's message attributes.
    pub attributes: &'a Attributes,
}

impl Message<'_> {
    /// The same for all copies of the message: the producer's own id, or [`Message::message_id`] if it has none.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        match self.form {
            BodyForm::Plain { idempotency_key: Some(key) } => key,
            BodyForm::Plain { idempotency_key: None } | BodyForm::Envelope => self.message_id,
        }
    }

    /// Deserialises `data`, or the body of a plain message.
    ///
    /// # Errors
    /// A permanent `InvalidData` error that a handler can return as it is: the data does not have the type `T`, or the
    /// message has no `data`. It names the place, never the value.
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
    /// Matched by the policy's lists.
    pub error_type: ErrorType,
    /// For humans: recorded, truncated, in queue attributes and history; never logged.
    pub details: String,
    /// The next step for the message.
    pub kind: FailureKind,
    /// The version of the user's function that answered, `NAME:VERSION`, if [`Handler::function_version`] does not know
    /// it.
    pub function: Option<String>,
}

/// The next step for a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Retry by the policy's backoff.
    Transient,
    /// Retry, but not before this.
    TransientAfter(Duration),
    /// The target is down, whatever the policy's `opens_on`. Retry, but not before the delay, if one is given.
    Unavailable(Option<Duration>),
    /// Do not retry.
    Permanent,
    /// Not yet: retry after this delay, without spending an attempt.
    Snooze(Duration),
    /// Time ran out before the handler got the message. Spends no attempt.
    NotStarted,
}

/// The name of an error, e.g. `HttpStatus.503`. The variants distinguish our own names, which may be logged, from a
/// target's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A name from a program's source code: `Http.Timeout`, `Panic`, or a handler's own literal.
    Named(&'static str),
    /// A name and what was wrong, both from a program's source code: `Http.Tls`, `unknown issuer`. Logs have both.
    Explained(&'static str, &'static str),
    /// `HttpStatus.NNN`.
    HttpStatus(u16),
    /// `HttpStatus.NNN:CODE`, with the target's own code, which is never logged.
    HttpProblem(u16, String),
    /// Text from a target; never logged.
    FromTarget(String),
}

impl ErrorType {
    /// The whole name.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Named(name) | Self::Explained(name, _) => Cow::Borrowed(name),
            Self::HttpStatus(status) => Cow::Owned(format!("HttpStatus.{status}")),
            Self::HttpProblem(status, code) => Cow::Owned(format!("HttpStatus.{status}:{code}")),
            Self::FromTarget(name) => Cow::Borrowed(name),
        }
    }

    /// The name for logs: a target's text becomes `FromTarget`, and its code is left out.
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
    /// Retry by the policy's backoff.
    #[must_use]
    pub fn transient(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self {
            error_type: error_type.into(),
            details: details.to_string(),
            kind: FailureKind::Transient,
            function: None,
        }
    }

    /// A dependency of the handler is down: a retry as after [`Self::transient`], and an outage for the circuit
    /// breaker.
    #[must_use]
    pub fn unavailable(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Unavailable(None), ..Self::transient(error_type, details) }
    }

    /// Do not retry: the message goes to the final DLQ as `NON_RETRYABLE_ERROR`.
    #[must_use]
    pub fn permanent(error_type: impl Into<ErrorType>, details: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Permanent, ..Self::transient(error_type, details) }
    }

    /// Retry after this delay without spending an attempt. From the 101st snooze of a message on, each one spends an
    /// attempt.
    #[must_use]
    pub fn snooze(error_type: impl Into<ErrorType>, details: impl fmt::Display, after: Duration) -> Self {
        Self { kind: FailureKind::Snooze(after), ..Self::transient(error_type, details) }
    }

    /// Time ran out before the handler got the message.
    #[must_use]
    pub fn not_started() -> Self {
        let details = "time ran out before the call began";
        Self { kind: FailureKind::NotStarted, ..Self::transient("NotStarted", details) }
    }

    /// Adds a delay, like `Retry-After`: a floor for the policy's delay, cut to 900 s, or to 12 hours with
    /// `long_delays`. The message is retried even if the error was permanent.
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
