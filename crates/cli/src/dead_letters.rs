//! Reading dead letters without consuming them, and telling them apart: what `audit`, `redrive` and `purge` share.

mod delete;
mod filter;
mod reader;
mod record;

pub use delete::delete;
pub use filter::{Filter, FilterError};
pub use reader::{Coverage, Reader, ReaderError};
pub use record::{DeadLetterRecord, UNANNOTATED};
