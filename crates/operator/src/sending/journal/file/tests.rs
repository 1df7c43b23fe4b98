use std::path::PathBuf;

use redeliver_dead_letters::files::replace_file;
use tempfile::TempDir;

use super::*;
use crate::sending::confirmed::Digest;

/// A temporary directory with an input file. It is removed at the end of the test.
struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        replace_file(&directory.file("input"), b"a\nb\nc\n").unwrap();
        directory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn refusal(&self, queue: &str) -> String {
        self.open(queue).unwrap_err().to_string()
    }

    fn open(&self, queue: &str) -> Result<(SendJournal<File>, ConfirmedLines), CommandFailure> {
        let form = LineFormat::Body(Box::default());
        open_journal(&self.file("input.sent"), &self.file("input"), queue, &form)
    }

    /// Records the first two lines as sent.
    fn record_two_lines(&self) {
        let (mut journal, _) = self.open("arn:one").unwrap();
        journal.record_confirmed(&[(1, Digest::for_line(1, b"a")), (2, Digest::for_line(2, b"b"))]).unwrap();
    }
}

#[test]
fn a_journal_with_a_torn_last_record_is_continued() {
    let directory = Directory::new();
    directory.record_two_lines();
    let path = directory.file("input.sent");
    let complete = std::fs::read(&path).unwrap();
    replace_file(&path, &[&complete, &b"{\"lines\":[[3,3]"[..]].concat()).unwrap();
    let (mut journal, confirmed) = directory.open("arn:one").unwrap();
    assert!(confirmed.contains(2) && !confirmed.contains(3));
    journal.record_confirmed(&[(3, Digest::for_line(3, b"c"))]).unwrap();
    drop(journal);
    assert!(directory.open("arn:one").unwrap().1.contains(3));
}

#[test]
fn a_journal_for_another_input_or_queue_is_refused() {
    let directory = Directory::new();
    directory.record_two_lines();
    assert!(directory.refusal("arn:two").contains("belongs to a send to arn:one"));
    replace_file(&directory.file("input"), b"a\nb\nanother\nmore\n").unwrap();
    assert!(directory.open("arn:one").is_ok(), "unsent lines may change");
    replace_file(&directory.file("input"), b"x\na\nb\nc\n").unwrap();
    assert!(directory.refusal("arn:one").contains("has changed: lines that"));
}

#[test]
fn a_file_that_is_not_a_journal_is_refused_and_unchanged() {
    let directory = Directory::new();
    for content in ["notes\n", "notes"] {
        replace_file(&directory.file("input.sent"), content.as_bytes()).unwrap();
        assert!(directory.refusal("arn:one").contains("fix it, or name another file"));
        assert_eq!(std::fs::read_to_string(directory.file("input.sent")).unwrap(), content);
    }
}

#[test]
fn concurrent_sends_cannot_share_a_journal() {
    let directory = Directory::new();
    let first = directory.open("arn:one").unwrap();
    assert!(directory.refusal("arn:one").contains("is in use"));
    drop(first);
    assert!(directory.open("arn:one").is_ok());
}

#[test]
#[cfg(unix)]
fn a_journal_that_another_user_can_write_is_refused_and_unchanged() {
    let directory = Directory::new();
    let path = directory.file("input.sent");
    let forged = "{\"redeliver_send\":1,\"queue\":\"arn:one\"}\n{\"lines\":[[1,3";
    redeliver_testing::planted::check_each_planted_file(&path, forged, |why| {
        let refusal = directory.refusal("arn:one");
        let expected = format!("cannot be used as the journal: {why}; name another with --journal");
        assert_eq!(refusal, format!("{}: {expected}", path.display()));
        if path.symlink_metadata().unwrap().is_file() {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), forged);
        }
    });
}

#[test]
#[cfg(unix)]
fn a_send_journal_is_private_to_its_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new();
    directory.record_two_lines();
    let mode = directory.file("input.sent").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
