//! Sends a file of messages ([`FileToSend`]). Lines are read and checked ([`LineRules`]), packed into batches, sent
//! ([`FileSender`]), and recorded in a [`SendJournal`] once confirmed, so that a second run continues where the first
//! one stopped.

mod batches;
mod confirmed;
mod file;
mod journal;
mod pace;
mod reader;
mod sender;
mod summary;

pub use confirmed::{ConfirmedLines, Digest};
pub use file::{FileToSend, OpenFile};
pub use journal::{SendJournal, open_journal};
pub use reader::{InputStep, LineCheck, LineRules, NumberedMessage};
pub use sender::{FileSender, Watcher, count_step};
pub use summary::{StopReason, Summary};

#[cfg(test)]
mod tests;
