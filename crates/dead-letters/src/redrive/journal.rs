//! The journal of a redrive, on disk before anything depends on it, so that a second run can finish the job.
//!
//! A line before a send says that it may happen, a line after it that it is confirmed, and only then is the dead letter
//! deleted. The next run deletes what was sent, sends what was not, and counts what may have been sent twice.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use redeliver_core::deliver::MAX_AMBIGUOUS_SENDS;
use redeliver_core::message::metadata::Metadata;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::DeadLetterRecord;
use crate::files::{keep_private, open_own, sync_directory_of};

mod entry;
mod letter;

pub use entry::JournalEntry;
use letter::{LetterState, LetterStep};

/// The beginning of every journal.
const BEGINNING: &[u8] = br#"{"plan":{"#;

/// A journal, open for more.
#[derive(Debug)]
pub struct RedriveJournal {
    path: PathBuf,
    file: File,
    /// By SQS's id of the dead letter.
    letters: HashMap<String, LetterState>,
    /// Messages beyond the first one of each dead letter that no run has reported yet.
    copies_not_reported: u64,
    /// The generation in which this run sent a message back; by the message's own id.
    generations: HashMap<String, u32>,
    /// SQS's ids of the messages that this run sent. SQS keeps them if it moves a message to its DLQ.
    sent_as: HashSet<String>,
}

/// The progress of a redrive over all of its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// Sent back and confirmed.
    pub sent: u64,
    /// Those among them that an edit has changed.
    pub edited: u64,
    /// Those among them that are deleted from the DLQ.
    pub deleted: u64,
    /// Messages that may be in the target queue beyond one for each dead letter.
    pub possible_copies: u64,
    /// About to be sent when a run was killed, or sent without an answer: they may have been sent.
    pub unknown: u64,
    /// The generation in which each message was sent back or may have been; by the message's own id.
    pub generations: HashMap<String, u32>,
}

/// The whole lines of a journal.
#[derive(Default)]
struct WholeLines {
    entries: Vec<JournalEntry>,
    /// Their length.
    bytes: u64,
}

/// The reason why a journal cannot be used.
#[derive(Debug, Error)]
#[error("the journal {}: {reason}", .path.display())]
pub struct JournalError {
    path: PathBuf,
    reason: String,
    /// The queue of the redrive that it belongs to, if that is another one.
    to_other: Option<String>,
}

impl JournalError {
    fn new(path: &Path, reason: String) -> Self {
        Self { path: path.to_owned(), reason, to_other: None }
    }

    /// True if it is the journal of another redrive.
    #[must_use]
    pub const fn is_other_redrive(&self) -> bool {
        self.to_other.is_some()
    }

    /// The error for a redrive from a file, whose only journal this is: with another one all would be sent again.
    #[must_use]
    pub fn for_file(self) -> Self {
        let Some(to) = &self.to_other else { return self };
        let reason = format!(
            "belongs to another redrive, to {to}, and is the only record of what was sent from the file: finish that \
             redrive first, with its queue and where it was started"
        );
        Self { reason, ..self }
    }
}

impl RedriveJournal {
    /// Opens the journal of this plan and locks it, or creates it. A torn last line, as a crash leaves it, is cut off.
    ///
    /// # Errors
    /// If it belongs to another plan or another user, is in use by another run, cannot be read or written, or is
    /// damaged anywhere but in its last line.
    pub fn open(path: &Path, id: &str, from: &str, to: &str) -> Result<Self, JournalError> {
        let failed = |reason: String| JournalError::new(path, reason);
        let file = open_own(path, true).map_err(|error| failed(error.to_string()))?;
        // Two runs at once would both read a message as not sent, and both send it.
        file.try_lock()
            .map_err(|_| failed("is in use: another redrive with the same options is running".to_owned()))?;
        let mut journal = Self::without_entries(path, file);
        let plan = JournalEntry::Plan { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
        let first = journal.replay_file()?;
        // `--edit` puts whole messages into it.
        keep_private(&journal.file).map_err(|error| failed(error.to_string()))?;
        match first {
            None => {
                // The file's name must be on disk as well: without it a crash loses the whole journal, and everything
                // is sent again.
                journal.write_entries(&[plan])?;
                sync_directory_of(path).map_err(|error| failed(error.to_string()))?;
            }
            Some(first) => check_plan(path, &first, &plan)?,
        }
        Ok(journal)
    }

    /// Reads the journal of this plan, also while its run is writing to it; `None` if it does not exist yet.
    ///
    /// # Errors
    /// If it belongs to another plan or another user, cannot be read, or is damaged anywhere but in its last line.
    pub fn read_existing(path: &Path, id: &str, from: &str, to: &str) -> Result<Option<Self>, JournalError> {
        let plan = JournalEntry::Plan { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
        Self::read_checked(path, |first| check_plan(path, first, &plan))
    }

    /// Reads the journal of redrives from a source, to any queue; `None` if it does not exist yet.
    ///
    /// # Errors
    /// If it belongs to another source or another user, cannot be read, or is damaged anywhere but in its last line.
    pub fn read_for_source(path: &Path, source: &str) -> Result<Option<Self>, JournalError> {
        Self::read_checked(path, |first| match first {
            JournalEntry::Plan { from, .. } if from == source => Ok(()),
            _ => Err(other_redrive_error(path, first)),
        })
    }

    fn read_checked(
        path: &Path,
        check: impl FnOnce(&JournalEntry) -> Result<(), JournalError>,
    ) -> Result<Option<Self>, JournalError> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let file = open_own(path, false).map_err(|error| JournalError::new(path, error.to_string()))?;
        let mut journal = Self::without_entries(path, file);
        let entries = journal.read_lines()?.entries;
        let Some(first) = entries.first() else { return Ok(None) };
        check(first)?;
        for entry in &entries {
            journal.apply_entry(entry);
        }
        Ok(Some(journal))
    }

    /// A journal whose entries are not replayed yet.
    fn without_entries(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            letters: HashMap::new(),
            copies_not_reported: 0,
            generations: HashMap::new(),
            sent_as: HashSet::new(),
        }
    }

    /// Reads the progress of a redrive, also while its run is writing to the journal.
    ///
    /// # Errors
    /// If it belongs to another user, cannot be read, or is damaged anywhere but in its last line.
    pub fn read_counts(path: &Path) -> Result<JournalCounts, JournalError> {
        let file = open_own(path, false).map_err(|error| JournalError::new(path, error.to_string()))?;
        let mut journal = Self::without_entries(path, file);
        for entry in journal.read_lines()?.entries {
            journal.apply_entry(&entry);
        }
        Ok(journal.counts())
    }

    /// The progress of all runs together.
    #[must_use]
    pub fn counts(&self) -> JournalCounts {
        let mut counts = JournalCounts::default();
        for letter in self.letters.values() {
            counts.sent += u64::from(letter.step >= LetterStep::Sent);
            counts.deleted += u64::from(letter.step == LetterStep::Deleted);
            counts.edited += u64::from(letter.step >= LetterStep::Sent && letter.is_edited);
            counts.possible_copies += letter.possible_copies();
            let is_unknown = letter.step < LetterStep::Sent
                && (letter.step == LetterStep::Intended || letter.may_be_sent());
            counts.unknown += u64::from(is_unknown);
            if is_unknown || letter.step >= LetterStep::Sent {
                counts.generations.insert(letter.message_id.clone(), letter.generation);
            }
        }
        counts
    }

    /// True if no run has sent anything by this plan yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.letters.values().all(|letter| letter.step == LetterStep::NotSent)
    }

    /// True if a dead letter was sent back before. It only needs to be deleted.
    #[must_use]
    pub fn was_sent(&self, sqs_message_id: &str) -> bool {
        self.letters.get(sqs_message_id).is_some_and(|letter| letter.step >= LetterStep::Sent)
    }

    /// True if a dead letter may have been sent under another id: an edit with a different result each time would make
    /// two messages of it.
    #[must_use]
    pub fn may_have_other_id(&self, sqs_message_id: &str, message_id: &str) -> bool {
        let letter = self.letters.get(sqs_message_id).filter(|letter| letter.may_be_sent());
        letter.is_some_and(|letter| letter.message_id != message_id)
    }

    /// SQS's ids of the dead letters that any run has sent back and whose deletion is not confirmed.
    pub fn not_deleted(&self) -> impl Iterator<Item = &str> {
        let sent = self.letters.iter().filter(|(_, letter)| letter.step == LetterStep::Sent);
        sent.map(|(sqs_message_id, _)| sqs_message_id.as_str())
    }

    /// The number of possible copies that no run has reported yet: messages beyond one for each dead letter. They are
    /// from this run or from killed ones. A killed run may have sent a message that it was about to send, and sent it
    /// once more.
    #[must_use]
    pub fn possible_copies(&self) -> u64 {
        self.copies_not_reported
    }

    /// True if a message has come back since this run sent it.
    #[must_use]
    pub fn came_back(&self, message_id: &str, generation: u32) -> bool {
        self.generations.get(message_id).is_some_and(|sent| generation >= *sent)
    }

    /// True if a dead letter is a message that this run sent: by SQS's id if SQS itself has moved it, else by its own
    /// id.
    #[must_use]
    pub fn has_come_back(&self, record: &DeadLetterRecord) -> bool {
        let by_own_id =
            |metadata: &Metadata| self.came_back(&metadata.message_id_text, metadata.generation());
        self.sent_as.contains(&record.message.sqs_message_id)
            || record.metadata.as_ref().is_some_and(by_own_id)
    }

    /// Writes entries and waits until they are on disk.
    ///
    /// # Errors
    /// If the file cannot be written: nothing that depends on these entries may be done then.
    pub fn write_entries(&mut self, entries: &[JournalEntry]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for entry in entries {
            lines += &serde_json::to_string(entry).expect("strings and numbers always serialise");
            lines.push('\n');
            // Before it is on disk, which does no harm: if the disk refuses, the run ends with that error.
            self.apply_entry(entry);
        }
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| JournalError::new(&self.path, error.to_string()))
    }

    /// Replays the file and returns its first entry. Nothing was done after a last line without its line break, so that
    /// line is cut off, after a check that the file is a journal.
    fn replay_file(&mut self) -> Result<Option<JournalEntry>, JournalError> {
        let failed = |error: io::Error| JournalError::new(&self.path, error.to_string());
        let WholeLines { entries, bytes } = self.read_lines()?;
        // Every whole line is an entry, so this is a journal. Cut off the torn line at its end: an entry appended to it
        // would make the journal unreadable.
        self.file.set_len(bytes).and_then(|()| self.file.seek(SeekFrom::Start(bytes))).map_err(failed)?;
        for entry in &entries {
            self.apply_entry(entry);
        }
        Ok(entries.into_iter().next())
    }

    /// Reads its whole lines.
    fn read_lines(&self) -> Result<WholeLines, JournalError> {
        let failed = |reason: String| JournalError::new(&self.path, reason);
        let mut reader = BufReader::new(&self.file);
        let mut whole = WholeLines::default();
        let mut number = 0_u64;
        // Bytes: a crash may leave half a character.
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line).map_err(|error| failed(error.to_string()))?;
            number += 1;
            if !line.ends_with(b"\n") {
                if number == 1 && !(line.starts_with(BEGINNING) || BEGINNING.starts_with(&line)) {
                    return Err(failed(
                        "is another file; name one that does not exist with --journal".to_owned(),
                    ));
                }
                break;
            }
            let entry: JournalEntry = serde_json::from_slice(&line)
                .map_err(|error| failed(format!("line {number} is not a journal entry: {error}")))?;
            whole.bytes += bytes as u64;
            whole.entries.push(entry);
        }
        Ok(whole)
    }

    fn apply_entry(&mut self, entry: &JournalEntry) {
        match entry {
            JournalEntry::Plan { .. } => {}
            JournalEntry::Run { .. } => {
                // Intents that still stand are of a run that was killed: they were sent as often as one delivery may
                // send, or never. The count assumes the worst.
                for letter in self.letters.values_mut().filter(|letter| letter.step == LetterStep::Intended) {
                    letter.step = LetterStep::NotSent;
                    self.copies_not_reported += letter.add_possible_sends(MAX_AMBIGUOUS_SENDS);
                }
                // A message of an earlier run that is in the DLQ again has failed since, and is a dead letter like any
                // other.
                self.generations.clear();
                self.sent_as.clear();
            }
            JournalEntry::Intent { sqs_message_id, message_id, generation, original_body, .. } => {
                let letter = self.letter_mut(sqs_message_id);
                letter.step = letter.step.max(LetterStep::Intended);
                letter.message_id.clone_from(message_id);
                letter.generation = *generation;
                letter.is_edited = original_body.is_some();
                self.generations.insert(message_id.clone(), *generation);
            }
            JournalEntry::Sent { sqs_message_id, sent_as, sends } => {
                self.sent_as.insert(sent_as.clone());
                let letter = self.letter_mut(sqs_message_id);
                letter.step = letter.step.max(LetterStep::Sent);
                self.copies_not_reported += letter.add_possible_sends(*sends);
            }
            JournalEntry::NotSent { sqs_message_id, sends, .. } => {
                let letter = self.letter_mut(sqs_message_id);
                if letter.step == LetterStep::Intended {
                    letter.step = LetterStep::NotSent;
                }
                self.copies_not_reported += letter.add_possible_sends(*sends);
            }
            JournalEntry::Deleted { sqs_message_id } => {
                let letter = self.letter_mut(sqs_message_id);
                if letter.step == LetterStep::Sent {
                    letter.step = LetterStep::Deleted;
                }
            }
            JournalEntry::Ended { .. } => self.copies_not_reported = 0,
        }
    }

    fn letter_mut(&mut self, sqs_message_id: &str) -> &mut LetterState {
        self.letters.entry(sqs_message_id.to_owned()).or_default()
    }
}

/// Refuses the journal of another plan, which its first entry names.
fn check_plan(path: &Path, first: &JournalEntry, plan: &JournalEntry) -> Result<(), JournalError> {
    if first == plan { Ok(()) } else { Err(other_redrive_error(path, first)) }
}

fn other_redrive_error(path: &Path, first: &JournalEntry) -> JournalError {
    let reason =
        "belongs to another redrive (other queues, selection or edit); name another file with --journal";
    let to_other = match first {
        JournalEntry::Plan { to, .. } => Some(to.clone()),
        _ => None,
    };
    JournalError { to_other, ..JournalError::new(path, reason.to_owned()) }
}

/// The id of a redrive, 16 hexadecimal digits: a digest of its queues, its selection and its edit. A journal is valid
/// only for the id that it was created with.
#[must_use]
pub fn plan_id(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
