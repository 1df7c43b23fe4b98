//! The reasons why a request or a batch entry is not confirmed.

use thiserror::Error;

/// The outcome of one entry of a batch request.
pub type EntryOutcome<T> = Result<T, EntryError>;

/// The error for an unconfirmed entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault} ({code})")]
pub struct EntryError {
    /// Determines whether a retry can help: see [`Fault::is_retryable`].
    pub fault: Fault,
    /// The error code from SQS, e.g. `InvalidMessageContents`; never a payload.
    pub code: String,
}

impl EntryError {
    #[must_use]
    pub fn new(fault: Fault, code: impl Into<String>) -> Self {
        Self { fault, code: code.into() }
    }
}

/// The cause of a failed request, which determines whether a retry is useful and safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Fault {
    /// The request was invalid: the same request would fail again.
    #[error("refused")]
    Sender,
    /// The request was refused temporarily, by throttling or with a 503: it may succeed later.
    #[error("throttled")]
    Throttled,
    /// The request did not reach the service, for example because the connection failed.
    #[error("not sent")]
    NotSent,
    /// The service failed (a 5xx): the request may have been carried out.
    #[error("the service failed")]
    Service,
    /// The response is missing: the request may have been carried out.
    #[error("no answer")]
    NoAnswer,
}

impl Fault {
    /// True if the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Sender)
    }

    /// True if the request may have been carried out, so that a retry may duplicate it.
    ///
    /// This includes a 5xx, even for a single entry: a 5xx does not show how far the request got. When a front end or
    /// gateway gives up on a slow service, the service may already have stored the message.
    #[must_use]
    pub const fn may_have_succeeded(self) -> bool {
        matches!(self, Self::Service | Self::NoAnswer)
    }
}
