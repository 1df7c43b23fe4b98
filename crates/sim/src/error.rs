//! Errors that end a run of the loop.

use redeliver_core::ports::{AsyncInvokeError, EntryError};
use redeliver_embedded::StuckError;
use thiserror::Error;

/// An error that ends a run.
#[derive(Debug, Error)]
pub enum LoopError {
    #[error("{doing}: {error}")]
    Sqs { doing: &'static str, error: EntryError },
    /// The run was stopped before all messages were sent.
    #[error("interrupted while sending the messages: at least {confirmed} of {total} were sent")]
    Interrupted {
        /// The number of messages that SQS has confirmed.
        confirmed: usize,
        total: usize,
    },
    #[error("invoking the function: {0}")]
    Invoke(#[from] AsyncInvokeError),
    #[error(transparent)]
    Stuck(#[from] StuckError),
    #[error("writing the final records: {0}")]
    Output(#[from] std::io::Error),
}

impl LoopError {
    /// Returns a function that adds the failed operation to an SQS error.
    pub fn while_doing(doing: &'static str) -> impl Fn(EntryError) -> Self {
        move |error| Self::Sqs { doing, error }
    }
}
