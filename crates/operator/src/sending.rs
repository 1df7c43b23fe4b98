//! Sends a file of messages ([`FileToSend`]): lines are read and checked ([`Rules`]), packed into batches, sent
//! ([`Sender`]), and recorded in a [`Journal`] once they are confirmed, so that a second run continues where the first
//! one ended.

mod batches;
mod confirmed;
mod file;
mod journal;
mod pace;
mod reader;
mod sender;
mod summary;

pub use confirmed::{Confirmed, Digest};
pub use file::{FileToSend, OpenFile};
pub use journal::{Journal, open as open_journal};
pub use reader::{Checked, Numbered, Rules, Step};
pub use sender::{Sender, Watcher, count};
pub use summary::{Stopped, Summary};

#[cfg(test)]
mod tests;
