//! The journal file. Only one process can lock it, and it is checked against the input and the queue before anything is
//! sent.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use redeliver_dead_letters::files::{make_private, open_own_file};

use super::{ConfirmedLines, ReplayedJournal, SendJournal, read_journal};
use crate::CommandFailure;
use crate::message_file::LineFormat;

/// Opens or starts the journal for sending `input` to `queue`. Also returns the lines that the journal records as
/// confirmed.
///
/// Returns an error if the file belongs to another queue or input, is not a journal, is in use, or cannot be written.
pub fn open_journal(
    path: &Path,
    input: &Path,
    queue: &str,
    form: &LineFormat,
) -> Result<(SendJournal<File>, ConfirmedLines), CommandFailure> {
    let shown = path.display();
    let unusable = |error: io::Error| {
        format!("{shown}: cannot be used as the journal: {error}; name another with --journal")
    };
    let mut file = open_own_file(path, true).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(format!("{shown} is in use by another `redeliver send`").into());
        }
        Err(TryLockError::Error(error)) => return Err(unusable(error).into()),
    }
    let replayed = read_journal(BufReader::new(&file)).map_err(|error| {
        format!(
            "{shown}: {error}; fix it, or name another file with --journal to send every line, including those in \
             this journal"
        )
    })?;
    check_owner(&replayed, path, input, queue, form)?;
    // A crash may have truncated the last record. Remove the fragment: otherwise, the next record would be appended to
    // it, and no run could read the resulting line. Its batch is sent again, since delivery is at least once.
    let at_end = file.set_len(replayed.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
    at_end.and_then(|_| make_private(&file)).map_err(unusable)?;
    let journal = match replayed.queue {
        Some(_) => SendJournal::resume(file),
        None => SendJournal::begin(file, queue).map_err(unusable)?,
    };
    Ok((journal, replayed.confirmed))
}

/// Rejects a journal for a send to a different queue, or for an input whose sent lines have changed.
fn check_owner(
    replayed: &ReplayedJournal,
    path: &Path,
    input: &Path,
    queue: &str,
    form: &LineFormat,
) -> Result<(), String> {
    let (shown, name) = (path.display(), input.display());
    if let Some(other) = replayed.queue.as_ref().filter(|recorded| *recorded != queue) {
        return Err(format!(
            "{shown} belongs to a send to {other}; to send the file to another queue, name another journal with \
             --journal"
        ));
    }
    if replayed.confirmed.is_empty() {
        return Ok(());
    }
    let lines = File::open(input).map(BufReader::new).map(|input| form.read_lines(input));
    let is_same = lines.and_then(|lines| replayed.confirmed.matches_input(lines));
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
