//! Why a request, or an entry of one, is not confirmed.

use thiserror::Error;

/// The outcome of one entry of a batch request.
pub type EntryOutcome<T> = Result<T, EntryError>;

/// The reason why an entry is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault} ({code})")]
pub struct EntryError {
    /// Shows if another try can help: see [`Fault::is_retryable`].
    pub fault: Fault,
    /// SQS's code, e.g. `InvalidMessageContents`; never a payload.
    pub code: String,
}

impl EntryError {
    #[must_use]
    pub fn new(fault: Fault, code: impl Into<String>) -> Self {
        Self { fault, code: code.into() }
    }
}

/// The party at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Fault {
    /// The request was invalid: the same request would fail again.
    #[error("refused")]
    Sender,
    /// Refused for now, by throttling or a 503: may succeed later.
    #[error("throttled")]
    Throttled,
    /// The request did not reach the service: no connection, for example.
    #[error("not sent")]
    NotSent,
    /// The service failed (a 5xx): the request may have been carried out.
    #[error("the service failed")]
    Service,
    /// No answer: the request may have been carried out.
    #[error("no answer")]
    NoAnswer,
}

impl Fault {
    /// True if the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Sender)
    }

    /// True if the request may have been carried out, so that a repetition may do it twice.
    ///
    /// That includes a 5xx, even for a single entry: a service that is slow behind its own front end, or behind a
    /// gateway, may have stored the message by the time these give up. A 5xx does not show how far the request got.
    #[must_use]
    pub const fn may_have_succeeded(self) -> bool {
        matches!(self, Self::Service | Self::NoAnswer)
    }
}
