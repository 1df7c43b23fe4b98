use std::path::PathBuf;

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::send::confirmed::Digest;

/// A directory of this test's own, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("redeliver-journal-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("input"), "a\nb\nc\n").unwrap();
        Self(path)
    }

    fn refusal(&self, queue: &str, must_exist: bool) -> String {
        self.open(queue, must_exist).unwrap_err().to_string()
    }

    fn open(&self, queue: &str, must_exist: bool) -> Result<(Journal<File>, Confirmed), Failure> {
        let form = Form::Body(Box::default());
        open(&self.0.join("input.sent"), &self.0.join("input"), queue, &form, must_exist)
    }

    /// The first two lines are sent.
    fn begun(&self) {
        let (mut journal, _) = self.open("arn:one", false).unwrap();
        journal.confirm(&[(1, Digest::of(1, b"a")), (2, Digest::of(2, b"b"))]).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_journal_is_gone_on_with_after_what_a_crash_left_of_its_last_record() {
    let directory = Directory::new();
    directory.begun();
    let path = directory.0.join("input.sent");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole, &b"{\"lines\":[[3,3]"[..]].concat()).unwrap();
    let (mut journal, confirmed) = directory.open("arn:one", true).unwrap();
    assert!(confirmed.contains(2) && !confirmed.contains(3));
    journal.confirm(&[(3, Digest::of(3, b"c"))]).unwrap();
    drop(journal);
    assert!(directory.open("arn:one", true).unwrap().1.contains(3));
}

#[test]
fn a_journal_of_something_else_is_refused() {
    let directory = Directory::new();
    assert!(directory.refusal("arn:one", true).contains("there is no journal"));
    directory.begun();
    assert!(directory.refusal("arn:two", false).contains("is of a send to arn:one"));
    std::fs::write(directory.0.join("input"), "a\nb\nanother\nmore\n").unwrap();
    assert!(directory.open("arn:one", false).is_ok(), "what was not sent may change");
    std::fs::write(directory.0.join("input"), "x\na\nb\nc\n").unwrap();
    assert!(directory.refusal("arn:one", false).contains("has changed: lines that"));
}

#[test]
fn somebody_elses_file_is_refused_and_stays_as_it_is() {
    let directory = Directory::new();
    for content in ["notes\n", "notes"] {
        std::fs::write(directory.0.join("input.sent"), content).unwrap();
        assert!(directory.refusal("arn:one", false).contains("mend it, or name another file"));
        assert_eq!(std::fs::read_to_string(directory.0.join("input.sent")).unwrap(), content);
    }
}

#[test]
fn two_sends_at_once_do_not_share_a_journal() {
    let directory = Directory::new();
    let first = directory.open("arn:one", false).unwrap();
    assert!(directory.refusal("arn:one", false).contains("is in use"));
    drop(first);
    assert!(directory.open("arn:one", false).is_ok());
}
