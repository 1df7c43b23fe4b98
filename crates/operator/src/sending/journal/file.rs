//! The journal's file: locked by one process at a time, and checked against the input and the queue before anything is
//! sent.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use redeliver_dead_letters::files::{keep_private, open_own};

use super::{ConfirmedLines, Replayed, SendJournal, read_journal};
use crate::CommandFailure;
use crate::message_file::LineForm;

/// Opens the journal of an input for a send to `queue`, or starts one unless `must_exist`. Also returns the confirmed
/// lines.
///
/// Rejects a file that belongs to another queue or input, is not a journal, is in use, or cannot be written.
pub fn open_journal(
    path: &Path,
    input: &Path,
    queue: &str,
    form: &LineForm,
) -> Result<(SendJournal<File>, ConfirmedLines), CommandFailure> {
    let shown = path.display();
    let unusable = |error: io::Error| {
        format!("{shown}: cannot be used as the journal: {error}; name another with --journal")
    };
    let mut file = open_own(path, true).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(format!("{shown} is in use by another `redeliver send`").into());
        }
        Err(TryLockError::Error(error)) => return Err(unusable(error).into()),
    }
    let known = read_journal(BufReader::new(&file)).map_err(|error| {
        format!(
            "{shown}: {error}; fix it, or name another file with --journal to send every line, also those in this \
             journal"
        )
    })?;
    check_owner(&known, path, input, queue, form)?;
    // A crash may have truncated the last record. The remainder is removed: otherwise the next record would be appended
    // to its line, which no run could read. Its batch is sent again, since delivery is at least once.
    let at_end = file.set_len(known.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
    at_end.and_then(|_| keep_private(&file)).map_err(unusable)?;
    let journal = match known.queue {
        Some(_) => SendJournal::resume(file),
        None => SendJournal::begin(file, queue).map_err(unusable)?,
    };
    Ok((journal, known.confirmed))
}

/// Rejects the journal of a send to a different queue, or of an input whose sent lines have changed.
fn check_owner(
    known: &Replayed,
    path: &Path,
    input: &Path,
    queue: &str,
    form: &LineForm,
) -> Result<(), String> {
    let (shown, name) = (path.display(), input.display());
    if let Some(other) = known.queue.as_ref().filter(|known| *known != queue) {
        return Err(format!(
            "{shown} belongs to a send to {other}; to send the file to another queue, name another journal with \
             --journal"
        ));
    }
    if known.confirmed.is_empty() {
        return Ok(());
    }
    let lines = File::open(input).map(BufReader::new).map(|input| form.read_lines(input));
    let is_same = lines.and_then(|lines| known.confirmed.has_same_lines(lines));
    if is_same.map_err(|error| format!("{name}: cannot be read: {error}"))? {
        return Ok(());
    }
    Err(format!(
        "{name} has changed: lines that were sent according to {shown} are different now (only lines that were not \
         sent may be corrected); to send all of it, name another journal with --journal"
    ))
}

#[cfg(test)]
mod tests;
