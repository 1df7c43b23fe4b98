//! The journal of a redrive. Each entry is on disk before the next step depends on it, so that a second run can finish
//! the job.
//!
//! A line before each send records the intent, a line after it records the confirmation, and only then is the dead
//! letter deleted. The next run deletes sent messages, sends the others, and counts messages that may have been sent
//! twice.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use redeliver_core::deliver::MAX_AMBIGUOUS_SENDS;
use redeliver_core::message::metadata::Metadata;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::DeadLetterRecord;
use crate::files::{make_private, open_own_file, sync_parent_directory};

mod entry;
mod letter;

pub use entry::JournalEntry;
use letter::{LetterState, LetterStep};

/// The first bytes of every journal.
const FIRST_BYTES: &[u8] = br#"{"plan":{"#;

/// A journal that is open for appending.
#[derive(Debug)]
pub struct RedriveJournal {
    path: PathBuf,
    file: File,
    /// The states of dead letters, by SQS message id.
    letters: HashMap<String, LetterState>,
    /// Possible copies (messages beyond the first one per dead letter) that no run has reported yet.
    copies_not_reported: u64,
    /// The generation in which this run sent each message back, by the message's own id.
    generations: HashMap<String, u32>,
    /// The SQS message ids of the messages that this run sent. SQS keeps the id when it moves a message to its DLQ.
    sent_as: HashSet<String>,
}

/// The progress of a redrive over all of its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// Messages sent back and confirmed.
    pub sent: u64,
    /// The sent messages that an edit has changed.
    pub edited: u64,
    /// The sent messages that are deleted from the DLQ.
    pub deleted: u64,
    /// Messages that may be in the target queue beyond one per dead letter.
    pub possible_copies: u64,
    /// Messages that may have been sent: the run was killed before the outcome was recorded, or the send had no
    /// response.
    pub unknown: u64,
    /// The generation in which each message was, or may have been, sent back, by the message's own id.
    pub generations: HashMap<String, u32>,
}

/// The complete lines of a journal.
#[derive(Default)]
struct CompleteLines {
    entries: Vec<JournalEntry>,
    /// Their total length in bytes.
    bytes: u64,
}

/// The reason why a journal cannot be used.
#[derive(Debug, Error)]
#[error("the journal {}: {reason}", .path.display())]
pub struct JournalError {
    path: PathBuf,
    reason: String,
    /// The target queue of the redrive that the journal belongs to, if that is another redrive.
    other_target: Option<String>,
}

impl JournalError {
    fn new(path: &Path, reason: String) -> Self {
        Self { path: path.to_owned(), reason, other_target: None }
    }

    /// Returns true if the journal belongs to another redrive.
    #[must_use]
    pub const fn is_for_another_redrive(&self) -> bool {
        self.other_target.is_some()
    }

    /// Converts this error to the one for a redrive from a file. The journal of such a redrive cannot be replaced: with
    /// a new one, all messages would be sent again.
    #[must_use]
    pub fn for_file(self) -> Self {
        let Some(to) = &self.other_target else { return self };
        let reason = format!(
            "belongs to another redrive, to {to}, and is the only record of what was sent from the file: finish that \
             redrive first, with its queue and from where it was started"
        );
        Self { reason, ..self }
    }
}

impl RedriveJournal {
    /// Opens and locks the journal of this plan, or creates it. An incomplete last line, left by a crash, is removed.
    ///
    /// # Errors
    /// If it belongs to another plan or another user, is in use by another run, cannot be read or written, or is
    /// damaged anywhere but in its last line.
    pub fn open(path: &Path, id: &str, from: &str, to: &str) -> Result<Self, JournalError> {
        let journal_error = |reason: String| JournalError::new(path, reason);
        let file = open_own_file(path, true).map_err(|error| journal_error(error.to_string()))?;
        // Two concurrent runs would both treat a message as not sent, and both send it.
        file.try_lock().map_err(|_| {
            journal_error("is in use: another redrive with the same options is running".to_owned())
        })?;
        let mut journal = Self::without_entries(path, file);
        let plan = JournalEntry::Plan { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
        let first = journal.replay_file()?;
        // With `--edit`, the journal contains complete messages.
        make_private(&journal.file).map_err(|error| journal_error(error.to_string()))?;
        match first {
            None => {
                // The directory entry must be on disk as well: otherwise a crash loses the whole journal, and all
                // messages are sent again.
                journal.write_entries(&[plan])?;
                sync_parent_directory(path).map_err(|error| journal_error(error.to_string()))?;
            }
            Some(first) => check_plan(path, &first, &plan)?,
        }
        Ok(journal)
    }

    /// Reads the journal of this plan, even while its run is writing to it; `None` if it does not exist yet.
    ///
    /// # Errors
    /// If it belongs to another plan or another user, cannot be read, or is damaged anywhere but in its last line.
    pub fn read_existing(path: &Path, id: &str, from: &str, to: &str) -> Result<Option<Self>, JournalError> {
        let plan = JournalEntry::Plan { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
        Self::read_checked(path, |first| check_plan(path, first, &plan))
    }

    /// Reads the journal for redrives from a source to any queue; `None` if it does not exist yet.
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
        let file = open_own_file(path, false).map_err(|error| JournalError::new(path, error.to_string()))?;
        let mut journal = Self::without_entries(path, file);
        let entries = journal.read_lines()?.entries;
        let Some(first) = entries.first() else { return Ok(None) };
        check(first)?;
        for entry in &entries {
            journal.apply_entry(entry);
        }
        Ok(Some(journal))
    }

    /// Creates a journal whose entries have not been replayed yet.
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

    /// Reads the progress of a redrive, even while its run is writing to the journal.
    ///
    /// # Errors
    /// If it belongs to another user, cannot be read, or is damaged anywhere but in its last line.
    pub fn read_counts(path: &Path) -> Result<JournalCounts, JournalError> {
        let file = open_own_file(path, false).map_err(|error| JournalError::new(path, error.to_string()))?;
        let mut journal = Self::without_entries(path, file);
        for entry in journal.read_lines()?.entries {
            journal.apply_entry(&entry);
        }
        Ok(journal.counts())
    }

    /// Returns the combined progress of all runs.
    #[must_use]
    pub fn counts(&self) -> JournalCounts {
        let mut counts = JournalCounts::default();
        for letter in self.letters.values() {
            counts.sent += u64::from(letter.step >= LetterStep::Sent);
            counts.deleted += u64::from(letter.step == LetterStep::Deleted);
            counts.edited += u64::from(letter.step >= LetterStep::Sent && letter.is_edited);
            counts.possible_copies += letter.possible_copies();
            let is_unknown = letter.step < LetterStep::Sent
                && (letter.step == LetterStep::Intended || letter.may_have_been_sent());
            counts.unknown += u64::from(is_unknown);
            if is_unknown || letter.step >= LetterStep::Sent {
                counts.generations.insert(letter.message_id.clone(), letter.generation);
            }
        }
        counts
    }

    /// Returns true if no run of this plan has sent a message yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.letters.values().all(|letter| letter.step == LetterStep::NotSent)
    }

    /// Returns true if a dead letter was already sent back, so that it only needs to be deleted.
    #[must_use]
    pub fn was_sent(&self, sqs_message_id: &str) -> bool {
        self.letters.get(sqs_message_id).is_some_and(|letter| letter.step >= LetterStep::Sent)
    }

    /// Returns true if a dead letter may have been sent under another id: a nondeterministic edit would turn it into
    /// two messages.
    #[must_use]
    pub fn may_have_other_id(&self, sqs_message_id: &str, message_id: &str) -> bool {
        let letter = self.letters.get(sqs_message_id).filter(|letter| letter.may_have_been_sent());
        letter.is_some_and(|letter| letter.message_id != message_id)
    }

    /// Returns the SQS message ids of dead letters that a run has sent back and whose deletion is not confirmed.
    pub fn undeleted_ids(&self) -> impl Iterator<Item = &str> {
        let sent = self.letters.iter().filter(|(_, letter)| letter.step == LetterStep::Sent);
        sent.map(|(sqs_message_id, _)| sqs_message_id.as_str())
    }

    /// Returns the number of possible copies that no run has reported yet: messages beyond one per dead letter. They
    /// are from this run or from killed runs, which may have sent a message, even repeatedly, without recording it.
    #[must_use]
    pub fn possible_copies(&self) -> u64 {
        self.copies_not_reported
    }

    /// Returns true if a message has returned to the DLQ since this run sent it.
    #[must_use]
    pub fn came_back(&self, message_id: &str, generation: u32) -> bool {
        self.generations.get(message_id).is_some_and(|sent| generation >= *sent)
    }

    /// Returns true if a dead letter is a message that this run sent. It is identified by its SQS message id if SQS
    /// itself moved it, otherwise by its own id.
    #[must_use]
    pub fn has_come_back(&self, record: &DeadLetterRecord) -> bool {
        let by_own_id =
            |metadata: &Metadata| self.came_back(&metadata.message_id_text, metadata.generation());
        self.sent_as.contains(&record.message.sqs_message_id)
            || record.metadata.as_ref().is_some_and(by_own_id)
    }

    /// Writes entries and syncs them to disk.
    ///
    /// # Errors
    /// If the file cannot be written. In that case, no step that depends on these entries may be taken.
    pub fn write_entries(&mut self, entries: &[JournalEntry]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for entry in entries {
            lines += &serde_json::to_string(entry).expect("strings and numbers always serialize");
            lines.push('\n');
            // Applied before it is on disk, which is harmless: if the write fails, the run ends with that error.
            self.apply_entry(entry);
        }
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| JournalError::new(&self.path, error.to_string()))
    }

    /// Replays the file and returns its first entry. No step depends on a last line without a line break, so such a
    /// line is removed once the file is known to be a journal.
    fn replay_file(&mut self) -> Result<Option<JournalEntry>, JournalError> {
        let journal_error = |error: io::Error| JournalError::new(&self.path, error.to_string());
        let CompleteLines { entries, bytes } = self.read_lines()?;
        // Every complete line is an entry, so this is a journal. The incomplete line at its end is removed: an entry
        // appended to it would make the journal unreadable.
        self.file
            .set_len(bytes)
            .and_then(|()| self.file.seek(SeekFrom::Start(bytes)))
            .map_err(journal_error)?;
        for entry in &entries {
            self.apply_entry(entry);
        }
        Ok(entries.into_iter().next())
    }

    /// Reads the complete lines.
    fn read_lines(&self) -> Result<CompleteLines, JournalError> {
        let journal_error = |reason: String| JournalError::new(&self.path, reason);
        let mut reader = BufReader::new(&self.file);
        let mut complete = CompleteLines::default();
        let mut number = 0_u64;
        // Bytes instead of text: a crash can leave half a character.
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes =
                reader.read_until(b'\n', &mut line).map_err(|error| journal_error(error.to_string()))?;
            number += 1;
            if !line.ends_with(b"\n") {
                if number == 1 && !(line.starts_with(FIRST_BYTES) || FIRST_BYTES.starts_with(&line)) {
                    return Err(journal_error(
                        "is not a journal; name a file that does not exist with --journal".to_owned(),
                    ));
                }
                break;
            }
            let entry: JournalEntry = serde_json::from_slice(&line)
                .map_err(|error| journal_error(format!("line {number} is not a journal entry: {error}")))?;
            complete.bytes += bytes as u64;
            complete.entries.push(entry);
        }
        Ok(complete)
    }

    fn apply_entry(&mut self, entry: &JournalEntry) {
        match entry {
            JournalEntry::Plan { .. } => {}
            JournalEntry::Run { .. } => {
                // Intents without an outcome are from a killed run. Each message was sent at most as often as one
                // delivery allows, and the count assumes that maximum.
                for letter in self.letters.values_mut().filter(|letter| letter.step == LetterStep::Intended) {
                    letter.step = LetterStep::NotSent;
                    self.copies_not_reported += letter.add_possible_sends(MAX_AMBIGUOUS_SENDS);
                }
                // A message from an earlier run that is in the DLQ again has failed since, so it is a dead letter like
                // any other.
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

/// Rejects the journal of another plan, identified by its first entry.
fn check_plan(path: &Path, first: &JournalEntry, plan: &JournalEntry) -> Result<(), JournalError> {
    if first == plan { Ok(()) } else { Err(other_redrive_error(path, first)) }
}

fn other_redrive_error(path: &Path, first: &JournalEntry) -> JournalError {
    let reason =
        "belongs to another redrive (other queues, selection or edit); name another file with --journal";
    let other_target = match first {
        JournalEntry::Plan { to, .. } => Some(to.clone()),
        _ => None,
    };
    JournalError { other_target, ..JournalError::new(path, reason.to_owned()) }
}

/// Returns the id of a redrive, 16 hexadecimal digits: a digest of its queues, its selection and its edit. A journal is
/// valid only for the id that it was created with.
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
