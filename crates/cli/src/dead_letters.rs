//! Reading dead letters without consuming them, and telling them apart: what `audit`, `redrive` and `purge` share.

mod archive;
mod delete;
mod filter;
mod picking;
mod reader;
mod record;

pub use archive::{Archive, ArchiveError, ArchivedAttribute, ArchivedMessage};
pub use delete::delete;
pub use filter::{Filter, FilterError};
pub use picking::{Pick, Picking};
pub(crate) use reader::HIDDEN;
pub use reader::{Coverage, Reader, ReaderError};
pub(crate) use record::plain;
pub use record::{DeadLetterRecord, UNANNOTATED};
