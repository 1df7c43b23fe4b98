//! The journals beside a file of dead letters. `send --backup` and `redrive` have one each, and neither knows what the
//! other has sent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The journal of `redeliver send`.
pub fn journal_of_send(file: &Path) -> PathBuf {
    with_suffix(file, ".sent")
}

/// The journal of `redeliver redrive`, whatever is selected: of a file each dead letter is sent once.
pub fn journal_of_redrive(file: &Path) -> PathBuf {
    with_suffix(file, ".redriven")
}

/// Refuses a file that another command has begun to send, which has this journal.
pub fn check_not_begun(journal_of_other: &Path, other: &str) -> Result<(), String> {
    if journal_of_other.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(format!(
        "`{other}` has begun to send this file, and only its journal {} says what it has sent: finish with that command",
        journal_of_other.display()
    ))
}

/// Adds what a command with --journal can do instead.
pub fn or_all_once_more(refusal: String) -> String {
    refusal + ". To send all of the file once more, name a new journal with --journal"
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}
