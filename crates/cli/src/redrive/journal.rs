//! What a redrive has done, on disk before anything depends on it: a second run finishes the job.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// How every journal begins.
const BEGINNING: &[u8] = br#"{"plan":{"#;

/// A journal, open for more.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Sent back and confirmed, by SQS's id of the dead letter.
    sent: HashSet<String>,
    /// About to be sent when the program ended: perhaps it was.
    unsure: HashSet<String>,
    /// The generation in which this run, or one that it finishes, sent a message back; by the message's own id.
    generations: HashMap<String, u32>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The first line: what this is the journal of.
    Plan {
        /// [`plan_id`]'s answer.
        id: String,
        /// The DLQ's ARN.
        from: String,
        /// The ARN of the queue that messages are sent back to.
        to: String,
    },
    /// About to be sent.
    Intent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        /// The message's own id.
        message_id: String,
        /// The id that it had, where it got a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_message_id: Option<String>,
        /// Its new generation.
        generation: u32,
        /// The body before `--edit` changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_body: Option<String>,
    },
    /// Confirmed by SQS.
    Sent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        /// SQS's id of the message that was sent back.
        sent_as: String,
    },
    /// Refused: it stays. (Without an answer, nobody knows.)
    NotSent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        /// SQS's code.
        code: String,
    },
    /// Gone from the DLQ.
    Deleted {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
    },
    /// A run came to its end: what comes back from now on may be sent back by the next one.
    Done {
        /// Messages sent back, since the first line.
        sent: u64,
    },
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
#[error("the journal {}: {reason}", .path.display())]
pub struct JournalError {
    path: PathBuf,
    reason: String,
}

impl Journal {
    /// Opens a journal, or starts it, for this plan.
    ///
    /// # Errors
    /// If it is another plan's, cannot be read or written, or is damaged elsewhere than at its very end.
    pub fn open(path: &Path, id: &str, from: &str, to: &str) -> Result<Self, JournalError> {
        let failed = |reason: String| JournalError { path: path.to_owned(), reason };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| failed(error.to_string()))?;
        file.try_lock()
            .map_err(|_| failed("is in use: another redrive with the same options is running".to_owned()))?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            sent: HashSet::new(),
            unsure: HashSet::new(),
            generations: HashMap::new(),
        };
        let plan = Entry::Plan { id: id.to_owned(), from: from.to_owned(), to: to.to_owned() };
        match journal.replay()? {
            None => journal.write(&[plan])?,
            Some(first) if first == plan => {}
            Some(_) => {
                return Err(failed(
                    "belongs to another redrive (other queues, selection or edit); name another file with --journal"
                        .to_owned(),
                ));
            }
        }
        Ok(journal)
    }

    /// Whether no run has sent anything by this plan yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.sent.is_empty() && self.unsure.is_empty()
    }

    /// Whether a dead letter was sent back before: it only needs to be deleted.
    #[must_use]
    pub fn was_sent(&self, sqs_message_id: &str) -> bool {
        self.sent.contains(sqs_message_id)
    }

    /// Whether a dead letter may have been sent back before, so that sending it makes a copy.
    #[must_use]
    pub fn may_have_been_sent(&self, sqs_message_id: &str) -> bool {
        self.unsure.contains(sqs_message_id)
    }

    /// Whether a message has come back since this run sent it.
    #[must_use]
    pub fn came_back(&self, message_id: &str, generation: u32) -> bool {
        self.generations.get(message_id).is_some_and(|sent| generation >= *sent)
    }

    /// Writes entries and waits until they are on disk.
    ///
    /// # Errors
    /// If the disk refuses: nothing that depends on them may be done then.
    pub fn write(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        let mut lines = String::new();
        for entry in entries {
            lines += &serde_json::to_string(entry).expect("strings and numbers always serialise");
            lines.push('\n');
            self.note(entry);
        }
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| JournalError { path: self.path.clone(), reason: error.to_string() })
    }

    /// Reads what is there; the first entry. A last line without its end was never acted upon: it is cut off, so it must not
    /// be somebody else's.
    fn replay(&mut self) -> Result<Option<Entry>, JournalError> {
        let failed = |reason: String| JournalError { path: self.path.clone(), reason };
        let mut reader = BufReader::new(&self.file);
        let (mut first, mut whole, mut number) = (None, 0_u64, 0_u64);
        let mut entries = Vec::new();
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
            let entry: Entry = serde_json::from_slice(&line)
                .map_err(|error| failed(format!("line {number} is not a journal entry: {error}")))?;
            whole += bytes as u64;
            first.get_or_insert_with(|| entry.clone());
            entries.push(entry);
        }
        drop(reader);
        self.file.set_len(whole).map_err(|error| failed(error.to_string()))?;
        for entry in &entries {
            self.note(entry);
        }
        Ok(first)
    }

    fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Intent { sqs_message_id, message_id, generation, .. } => {
                self.unsure.insert(sqs_message_id.clone());
                self.generations.insert(message_id.clone(), *generation);
            }
            Entry::Sent { sqs_message_id, .. } => {
                self.unsure.remove(sqs_message_id);
                self.sent.insert(sqs_message_id.clone());
            }
            Entry::NotSent { sqs_message_id, .. } => {
                self.unsure.remove(sqs_message_id);
            }
            Entry::Done { .. } => self.generations.clear(),
            Entry::Plan { .. } | Entry::Deleted { .. } => {}
        }
    }
}

/// What tells one redrive from another: its queues and everything that decides what is sent.
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
