//! Writes dead letters to a JSON Lines file. Each line contains everything needed to send its message again.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

pub use redeliver_core::archive::{ArchivedAttribute, ArchivedMessage};
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use serde::Serialize;

use crate::files::{FileError, check_new_file, create_new, sync_parent_directory};

/// A new file of dead letters. It contains complete messages, so only its owner can read it (mode 600).
#[derive(Debug)]
pub struct ArchiveFile {
    path: PathBuf,
    /// `None` before the first message if the file is created on demand.
    file: Option<BufWriter<File>>,
    virtual_now: Option<Timestamp>,
}

/// A line of the file.
#[derive(Serialize)]
struct ArchiveLine {
    #[serde(flatten)]
    message: ArchivedMessage,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_now: Option<String>,
}

impl ArchiveFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If the file already exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        Ok(Self { path: path.to_owned(), file: Some(create_synced(path)?), virtual_now: None })
    }

    /// Creates an archive that creates its file with the first message. If there is no message, no file is left behind,
    /// so a retry can use the same name.
    ///
    /// # Errors
    /// If the file already exists, or its directory does not. If another program creates it later, the first write
    /// fails.
    pub fn on_demand(path: &Path) -> Result<Self, FileError> {
        check_new_file(path)?;
        Ok(Self { path: path.to_owned(), file: None, virtual_now: None })
    }

    /// Marks the messages as dead letters from a run in virtual time that ended at this timestamp (`redeliver local`);
    /// `None` means real time.
    #[must_use]
    pub fn in_virtual_time(self, virtual_now: Option<Timestamp>) -> Self {
        Self { virtual_now, ..self }
    }

    /// Writes messages and syncs them to disk.
    ///
    /// # Errors
    /// If the file cannot be written. In that case, the messages must not be deleted.
    pub fn write_messages<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m ReceivedMessage>,
    ) -> Result<(), FileError> {
        messages.into_iter().try_for_each(|message| self.append_message(message))?;
        self.sync()
    }

    /// Writes a message, which is only guaranteed to be on disk after [`ArchiveFile::sync`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append_message(&mut self, message: &ReceivedMessage) -> Result<(), FileError> {
        let line = ArchiveLine {
            message: ArchivedMessage::new(message),
            virtual_now: self.virtual_now.map(format_rfc3339),
        };
        let line = serde_json::to_string(&line).expect("strings and maps with string keys always serialize");
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(create_synced(&self.path)?),
        };
        writeln!(file, "{line}").map_err(|error| FileError::new(&self.path, error))
    }

    /// Syncs everything written so far to disk.
    ///
    /// # Errors
    /// If the file cannot be written or synchronized.
    pub fn sync(&mut self) -> Result<(), FileError> {
        let Some(file) = &mut self.file else {
            return Ok(()); // nothing was written
        };
        let synced = file.flush().and_then(|()| file.get_ref().sync_data());
        synced.map_err(|error| FileError::new(&self.path, error))
    }
}

/// Creates the file and syncs its directory, so that the directory entry also survives a crash.
fn create_synced(path: &Path) -> Result<BufWriter<File>, FileError> {
    let created = create_new(path).and_then(|file| sync_parent_directory(path).map(|()| file));
    created.map(BufWriter::new).map_err(|error| FileError::new(path, error))
}

#[cfg(test)]
mod tests;
