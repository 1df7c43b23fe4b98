//! Dead letters in a file, a line each: all that is needed to send one again.

mod line;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use redeliver_core::message::ReceivedMessage;

use crate::files::{FileError, create_new, sync_directory_of};
pub use line::{ArchivedAttribute, ArchivedMessage};

/// A new file of dead letters, for its owner's eyes only: it holds whole messages.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Archive {
    /// Starts a file.
    ///
    /// # Errors
    /// If it is there already, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let created = create_new(path).and_then(|file| sync_directory_of(path).map(|()| file));
        let file = created.map_err(|error| FileError::new(path, error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Writes messages and waits until they are on disk.
    ///
    /// # Errors
    /// If the disk refuses: they must not be deleted then.
    pub fn write<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m ReceivedMessage>,
    ) -> Result<(), FileError> {
        messages.into_iter().try_for_each(|message| self.append(message))?;
        self.sync()
    }

    /// Writes a message that may not be on disk before [`Archive::sync`].
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn append(&mut self, message: &ReceivedMessage) -> Result<(), FileError> {
        let line = serde_json::to_string(&ArchivedMessage::new(message))
            .expect("strings and maps with string keys always serialise");
        writeln!(self.file, "{line}").map_err(|error| FileError::new(&self.path, error))
    }

    /// Waits until all that was written is on disk.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn sync(&mut self) -> Result<(), FileError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        synced.map_err(|error| FileError::new(&self.path, error))
    }
}

#[cfg(test)]
mod tests;
