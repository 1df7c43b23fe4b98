//! Why a run of the loop cannot go on.

use redeliver_core::ports::{EntryError, NotInvoked};
use thiserror::Error;

/// Why a run cannot go on.
#[derive(Debug, Error)]
pub enum LoopError {
    #[error("{doing}: {error}")]
    Sqs { doing: &'static str, error: EntryError },
    /// Ctrl-C before the loop began.
    #[error("interrupted while sending the messages: at least {confirmed} of {total} were sent")]
    Interrupted {
        /// Messages whose send is confirmed.
        confirmed: usize,
        total: usize,
    },
    /// The function could not be invoked.
    #[error("invoking the function: {0}")]
    Invoke(#[from] NotInvoked),
    #[error("the final records cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

impl LoopError {
    /// What was tried, for SQS's answer to it.
    pub fn sqs(doing: &'static str) -> impl Fn(EntryError) -> Self {
        move |error| Self::Sqs { doing, error }
    }
}
