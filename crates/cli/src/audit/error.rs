//! Why an audit has no outcome.

use std::io;

use thiserror::Error;

use crate::connection::ConnectionError;
use crate::files::FileError;
use redeliver_dead_letters::{ArchiveError, FilterError, ReaderError};

/// Why an audit has no outcome. The command ends with exit code 2.
#[derive(Debug, Error)]
pub enum AuditError {
    /// There is no such queue, or it may not be read.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The filter is wrong, or fails.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The queue cannot be read on.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The messages cannot be archived.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(io::Error),
    /// The program cannot start its work.
    #[error("the program cannot start: {0}")]
    Start(io::Error),
    /// It was interrupted before anything was read.
    #[error("interrupted before anything was read")]
    Interrupted,
}
