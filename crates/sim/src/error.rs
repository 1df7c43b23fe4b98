//! The errors that end a run of the loop.

use redeliver_core::ports::{EntryError, NotInvoked};
use redeliver_embedded::Stuck;
use thiserror::Error;

/// The error that ended a run.
#[derive(Debug, Error)]
pub enum LoopError {
    #[error("{doing}: {error}")]
    Sqs { doing: &'static str, error: EntryError },
    /// Stopped before all messages were sent.
    #[error("interrupted while sending the messages: at least {confirmed} of {total} were sent")]
    Interrupted {
        /// Messages whose send SQS has confirmed.
        confirmed: usize,
        total: usize,
    },
    #[error("invoking the function: {0}")]
    Invoke(#[from] NotInvoked),
    #[error(transparent)]
    Stuck(#[from] Stuck),
    #[error("writing the final records: {0}")]
    Output(#[from] std::io::Error),
}

impl LoopError {
    /// An SQS error, with the request that failed.
    pub fn while_doing(doing: &'static str) -> impl Fn(EntryError) -> Self {
        move |error| Self::Sqs { doing, error }
    }
}
