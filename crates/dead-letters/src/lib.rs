//! Reads dead letters without consuming them, groups them by cause, and archives, redrives, or deletes them.
//!
//! A [`DeadLetterReader`] reads a DLQ, or a file of dead letters ([`FileQueue`]), and hides the messages it has read.
//! An [`archive_bucket`] can be exported to such a file. Each message becomes a [`DeadLetterRecord`], and a [`Pick`]
//! selects records. Selected records are counted in [`groups`], written to an [`ArchiveFile`], sent back by a
//! [`redrive`], or deleted by a [`purge`]. The crate itself prints nothing; it only returns values.

mod archive;
pub mod archive_bucket;
mod backup;
pub mod blocked;
pub mod edit;
mod exit_code;
mod file_queue;
pub mod files;
mod filter;
mod foreign;
pub mod groups;
mod headline;
mod known_causes;
mod pick;
pub mod purge;
mod reader;
mod record;
pub mod redrive;
mod retention;
mod surrogates;

/// A queue, file, or filter error that ends a purge or a redrive early. Work completed before the error is recorded in
/// the backup or the journal.
pub type DeadLetterError = Box<dyn std::error::Error + Send + Sync>;

pub use archive::{ArchiveFile, ArchivedAttribute, ArchivedMessage};
pub use backup::{BackupReader, LINE_BYTES_MAX};
pub use exit_code::ExitCode;
pub use file_queue::{BadLines, FileQueue};
pub use filter::{Filter, FilterError, MissingMembers};
pub use foreign::{BusEvents, ForeignDeadLetter, ForeignWriter, Stream, StreamBatch};
pub use known_causes::{CauseNote, CauseState, KnownCauses, Resolution};
pub use pick::{Choice, NotJudged, Pick};
pub use reader::{
    Coverage, DeadLetterReader, DeletionError, INITIAL_VISIBILITY_TIMEOUT, ReaderError, SEND_KEY_PERMISSIONS,
    explain_error,
};
pub use record::{DeadLetterRecord, UNANNOTATED, format_value};
pub use retention::Retention;
pub use surrogates::read_lossy;
