//! The journals next to a file of dead letters. `send --backup` and `redrive` each have their own, and each rejects a
//! file that the other has started to send. A symbolic link uses the journals of its target, so that the file is not
//! sent again under another name.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the path of the journal of `redeliver send`: `FILE.sent`.
pub fn send_journal_path(file: &Path) -> PathBuf {
    with_suffix(file, ".sent")
}

/// Returns the path of the journal of `redeliver redrive`: `FILE.redriven`. All selections share it, so that each dead
/// letter in the file is sent only once.
pub fn redrive_journal_path(file: &Path) -> PathBuf {
    with_suffix(file, ".redriven")
}

/// Rejects a file that another command has started to send, that is, one for which that command's journal exists.
///
/// # Errors
/// If the journal exists. The error names the other command and its journal.
pub fn check_not_started(journal_of_other: &Path, other: &str) -> Result<(), String> {
    if journal_of_other.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(format!(
        "`{other}` has begun to send this file, and its journal {} lists the messages sent so far: finish with \
         that command",
        journal_of_other.display()
    ))
}

/// Adds a hint for commands that have the option `--journal`.
pub fn with_journal_hint(refusal: String) -> String {
    refusal + ". To send the entire file again, name a new journal with --journal"
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let target = if file.is_symlink() { fs::canonicalize(file).ok() } else { None };
    let mut name = target.map_or_else(|| OsString::from(file), OsString::from);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If each name had its own journal, the file would be sent once under each name.
    #[test]
    #[cfg(unix)]
    fn a_symbolic_link_uses_the_journals_of_its_target() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [file, link, links_link, lost] =
            ["dead.jsonl", "link.jsonl", "links-link.jsonl", "lost.jsonl"].map(|name| folder.join(name));
        redeliver_dead_letters::files::replace_file(&file, b"").unwrap();
        symlink("dead.jsonl", &link).unwrap();
        symlink(&link, &links_link).unwrap();
        symlink("nowhere", &lost).unwrap();
        for name in [&file, &link, &links_link] {
            assert_eq!(redrive_journal_path(name), folder.join("dead.jsonl.redriven"), "{}", name.display());
            assert_eq!(send_journal_path(name), folder.join("dead.jsonl.sent"), "{}", name.display());
        }
        assert_eq!(redrive_journal_path(&lost), folder.join("lost.jsonl.redriven"));
        assert_eq!(redrive_journal_path(Path::new("dead.jsonl")), Path::new("dead.jsonl.redriven"));
    }
}
