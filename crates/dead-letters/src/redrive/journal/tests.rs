use tempfile::TempDir;

use super::*;

/// A temporary file, removed at the end of the test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("redrive.jsonl")
    }

    fn open(&self) -> Result<RedriveJournal, JournalError> {
        RedriveJournal::open(&self.path(), "plan", "dlq", "source")
    }

    /// Returns the result of opening a file with this content, and the content afterwards.
    fn reopen_with_content(&self, content: &[u8]) -> (Result<RedriveJournal, JournalError>, Vec<u8>) {
        crate::files::replace_file(&self.path(), content).unwrap();
        let opened = self.open();
        (opened, std::fs::read(self.path()).unwrap())
    }
}

impl RedriveJournal {
    /// Returns another handle to the journal's file, with the same position.
    pub(in crate::redrive) fn file(&self) -> File {
        self.file.try_clone().unwrap()
    }
}

fn intent() -> JournalEntry {
    JournalEntry::Intent {
        sqs_message_id: "s".to_owned(),
        message_id: "m".to_owned(),
        old_message_id: Some("o".to_owned()),
        generation: 1,
        original_body: Some("{\"name\":\"é😀\"}".to_owned()),
    }
}

fn copies_after_a_run_starts(mut journal: RedriveJournal) -> u64 {
    journal.write_entries(&[JournalEntry::Run { at: "1970-01-01T00:00:00Z".to_owned() }]).unwrap();
    journal.possible_copies()
}

#[test]
fn an_incomplete_last_line_of_a_journal_is_removed() {
    let scratch = Scratch::new();
    let complete = {
        let mut journal = scratch.open().unwrap();
        journal.write_entries(&[intent()]).unwrap();
        std::fs::read(scratch.path()).unwrap()
    };
    let header = complete.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in 0..complete.len() {
        let (opened, left) = scratch.reopen_with_content(&complete[..cut]);
        let journal = opened.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert_eq!(copies_after_a_run_starts(journal), 0, "cut at {cut}");
        assert_eq!(left, complete[..header], "cut at {cut}");
    }
    let (opened, left) = scratch.reopen_with_content(&complete);
    assert_eq!(left, complete);
    // It may have been sent twice: a send without a response is retried.
    assert_eq!(copies_after_a_run_starts(opened.unwrap()), 1);
}

#[test]
fn a_file_that_is_not_a_redrive_journal_is_refused_and_unchanged() {
    let scratch = Scratch::new();
    for foreign in [
        &b"notes of somebody"[..],
        b"{\"metadata\":{}}",
        b"{\"metadata\":{}}\n",
        b"\n",
        b"\xff\xfe",
        b"{\"intent\":{\"sqs_message_id\":\"s\"",
    ] {
        let (opened, left) = scratch.reopen_with_content(foreign);
        assert!(opened.is_err(), "{}", String::from_utf8_lossy(foreign));
        assert_eq!(left, foreign);
    }
}

#[test]
#[cfg(unix)]
fn a_file_mistaken_for_a_journal_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    crate::files::publish_file(&scratch.path(), b"a page for everybody\n").unwrap();
    let rights = scratch.path().metadata().unwrap().permissions().mode();
    scratch.open().unwrap_err();
    assert_eq!(scratch.path().metadata().unwrap().permissions().mode(), rights);
}

#[test]
fn a_message_journaled_as_sent_is_never_sent_again() {
    let scratch = Scratch::new();
    let mut journal = scratch.open().unwrap();
    let sqs_message_id = || "s".to_owned();
    let sent = JournalEntry::Sent { sqs_message_id: sqs_message_id(), sent_as: "t".to_owned(), sends: 1 };
    let not_sent = JournalEntry::NotSent { sqs_message_id: sqs_message_id(), code: "c".to_owned(), sends: 0 };
    let deleted = JournalEntry::Deleted { sqs_message_id: sqs_message_id() };
    let was_sent = [intent(), sent, not_sent, deleted, intent()].map(|entry| {
        journal.write_entries(&[entry]).unwrap();
        journal.was_sent("s")
    });
    // SQS can return a deleted message once more.
    assert_eq!(was_sent, [false, true, true, true, true]);
    drop(journal);
    assert!(scratch.open().unwrap().was_sent("s"), "not by another run either");
}

#[test]
#[cfg(unix)]
fn a_redrive_journal_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    scratch.open().unwrap();
    assert_eq!(scratch.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
#[cfg(unix)]
fn a_journal_that_another_user_can_write_is_refused_and_unchanged() {
    let scratch = Scratch::new();
    let path = scratch.path();
    let forged = "{\"plan\":{\"id\":\"plan\",\"from\":\"dlq\",\"to\":\"source\"}}\n{\"intent\":{";
    for text in [forged, ""] {
        redeliver_testing::planted::check_each_planted_file(&path, text, |why| {
            let error = scratch.open().unwrap_err().to_string();
            assert_eq!(error, format!("the journal {}: {why}", path.display()));
            if path.symlink_metadata().unwrap().is_file() {
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            }
        });
    }
}

#[test]
#[cfg(unix)]
fn a_journal_that_others_can_read_becomes_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    crate::files::replace_file(&scratch.path(), b"").unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    scratch.open().unwrap();
    assert_eq!(scratch.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_progress_of_a_redrive_adds_up_over_its_runs() {
    let scratch = Scratch::new();
    let mut journal = scratch.open().unwrap();
    let run = || JournalEntry::Run { at: "1970-01-01T00:00:00Z".to_owned() };
    let intent = |n: u32| JournalEntry::Intent {
        sqs_message_id: n.to_string(),
        message_id: format!("m{n}"),
        old_message_id: None,
        generation: n,
        original_body: (n == 2).then(|| "{}".to_owned()),
    };
    let sent =
        |n: u32| JournalEntry::Sent { sqs_message_id: n.to_string(), sent_as: "t".to_owned(), sends: 1 };
    let deleted = |n: u32| JournalEntry::Deleted { sqs_message_id: n.to_string() };
    let not_sent =
        |n: u32, sends| JournalEntry::NotSent { sqs_message_id: n.to_string(), code: "c".to_owned(), sends };
    journal.write_entries(&[run(), intent(1), intent(2), intent(3), sent(1), deleted(1)]).unwrap();
    // The first run was killed while sending 2 and 3; the second run recorded the outcome of 2, and 4 was rejected.
    journal
        .write_entries(&[run(), intent(2), sent(2), intent(4), not_sent(4, 0), intent(5), not_sent(5, 1)])
        .unwrap();
    let expected = JournalCounts {
        sent: 2,
        edited: 1,
        deleted: 1,
        // 2 and 3 may have been sent twice when the first run was killed, and 2 once more.
        possible_copies: 3,
        unknown: 2,
        generations: [1, 2, 3, 5].map(|n| (format!("m{n}"), n)).into(),
    };
    assert_eq!(journal.counts(), expected);
    assert_eq!(RedriveJournal::read_counts(&scratch.path()).unwrap(), expected);
    let torn = [&std::fs::read(scratch.path()).unwrap()[..], b"{\"sent\":{\"sqs\xc3"].concat();
    crate::files::replace_file(&scratch.path(), &torn).unwrap();
    assert_eq!(RedriveJournal::read_counts(&scratch.path()).unwrap(), expected);
    assert_eq!(std::fs::read(scratch.path()).unwrap(), torn, "it is only read");
    assert!(RedriveJournal::read_counts(&scratch.0.path().join("none")).is_err());
}
