//! The journal's file: opened for one process at a time, and checked against the input and the queue before anything is sent.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Confirmed, Journal, JournalError, read};
use crate::send::reader::Form;

/// Why a journal cannot be used. The command ends with exit code 2.
#[derive(Debug, Error)]
pub enum JournalFileError {
    #[error("{}: cannot be used as the journal: {error}; name another with --journal", .path.display())]
    Io { path: PathBuf, error: io::Error },
    /// It is no journal.
    #[error(
        "{}: {error}; mend it, or name another file with --journal: then every line is sent, those of this journal too",
        .path.display()
    )]
    NoJournal { path: PathBuf, error: JournalError },
    /// Another process has it.
    #[error("{} is in use: another `redeliver send` is at work on it", .path.display())]
    InUse { path: PathBuf },
    /// Nothing was begun.
    #[error(
        "there is no journal {}: nothing to go on with; without --resume the send begins at the first line",
        .path.display()
    )]
    Missing { path: PathBuf },
    /// The lines were sent elsewhere.
    #[error(
        "{} is of a send to {queue}; to send the file to another queue, name another journal with --journal",
        .path.display()
    )]
    OtherQueue { path: PathBuf, queue: String },
    /// The input is another one now.
    #[error(
        "{} has changed: lines that {} calls sent are not the same any more (only lines that were not sent may be \
         corrected); to send all of it, name another journal with --journal",
        .input.display(), .path.display()
    )]
    Changed { input: PathBuf, path: PathBuf },
    #[error("{}: cannot be read: {error}", .input.display())]
    Input { input: PathBuf, error: io::Error },
}

/// Opens the journal of an input for a send to `queue`, or begins one unless `must_exist`; which lines are confirmed.
pub(in crate::send) fn open(
    path: &Path,
    input: &Path,
    queue: &str,
    form: &Form,
    must_exist: bool,
) -> Result<(Journal<File>, Confirmed), JournalFileError> {
    let path = path.to_owned();
    let failed = |error| JournalFileError::Io { path: path.clone(), error };
    if must_exist && !path.exists() {
        return Err(JournalFileError::Missing { path });
    }
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(JournalFileError::InUse { path }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let known = match read(BufReader::new(&file)) {
        Ok(known) => known,
        Err(error) => return Err(JournalFileError::NoJournal { path, error }),
    };
    if let Some(other) = known.queue.as_ref().filter(|known| *known != queue) {
        return Err(JournalFileError::OtherQueue { path, queue: other.clone() });
    }
    if !known.confirmed.is_empty() {
        let lines = File::open(input).map(BufReader::new).map(|input| form.lines(input));
        let same = lines.and_then(|lines| known.confirmed.is_of(lines));
        let same = same.map_err(|error| JournalFileError::Input { input: input.to_owned(), error })?;
        if !same {
            return Err(JournalFileError::Changed { input: input.to_owned(), path });
        }
    }
    // What a crash has left half-written must not be written on.
    let at_end = file.set_len(known.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
    at_end.map_err(failed)?;
    let journal = match known.queue {
        Some(_) => Journal::resume(file),
        None => Journal::begin(file, queue).map_err(failed)?,
    };
    Ok((journal, known.confirmed))
}

#[cfg(test)]
mod tests;
