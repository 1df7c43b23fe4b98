//! Presents a file of dead letters as a queue, so that it can be read like a DLQ. The file never changes: a deletion
//! only prevents a message from being received again.

mod line;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::sync::{Mutex, MutexGuard};

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::packing::Batch;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Fault, Queue, QueueDepth, QueueSender, ReceiveOptions,
    UnreadableMessage, VisibilityControl,
};

use crate::LINE_BYTES_MAX;
use line::virtual_now;
pub(crate) use line::{BadLine, parse_line as read_line};

/// The maximum number of bad lines whose reasons are kept.
const REASONS_MAX: usize = 20;

/// A queue of the dead letters in a file, one per line. Only their positions are kept in memory.
#[derive(Debug)]
pub struct FileQueue {
    name: String,
    arn: String,
    opened_at: Timestamp,
    bad: BadLines,
    repeated: u64,
    /// ARNs of the queues from which the dead letters were read.
    source_arns: BTreeSet<String>,
    /// The latest virtual timestamp of any line; `None` if a line was written in real time.
    virtual_now: Option<Timestamp>,
    state: Mutex<FileQueueState>,
}

/// Lines that are not dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    pub count: u64,
    /// The line numbers of the first bad lines, counted from 1, each with a reason that contains no values.
    pub first: Vec<(usize, String)>,
}

#[derive(Debug)]
struct FileQueueState {
    file: File,
    lines: Vec<LinePosition>,
    /// The messages to be received next, by their index in `lines`.
    visible: BTreeSet<usize>,
    in_flight: BTreeSet<usize>,
    unreadable: Vec<UnreadableMessage>,
}

#[derive(Debug)]
struct LinePosition {
    start: u64,
    bytes: usize,
    is_good: bool,
}

impl FileQueue {
    /// Opens a file and reads it once to index its lines; `name` is shown to users. Empty lines are ignored, and a
    /// message on several lines counts once. `opened_at` is the send time for messages whose line has none.
    ///
    /// # Errors
    /// If the file cannot be read, or does not support random access.
    pub fn open(mut file: File, name: &str, arn: &str, opened_at: Timestamp) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut queue = Self {
            name: name.to_owned(),
            arn: arn.to_owned(),
            opened_at,
            bad: BadLines::default(),
            repeated: 0,
            source_arns: BTreeSet::new(),
            virtual_now: None,
            state: Mutex::new(FileQueueState {
                file: file.try_clone()?,
                lines: Vec::new(),
                visible: BTreeSet::new(),
                in_flight: BTreeSet::new(),
                unreadable: Vec::new(),
            }),
        };
        let (mut reader, mut start, mut number) = (BufReader::new(file), 0_u64, 0);
        let (mut lines, mut ids) = (Vec::new(), HashSet::new());
        loop {
            let mut content = Vec::new();
            let mut bytes = reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut content)?;
            if bytes == LINE_BYTES_MAX && !content.ends_with(b"\n") {
                bytes += reader.skip_until(b'\n')?;
            }
            let is_cut = bytes > content.len();
            if bytes == 0 {
                break;
            }
            number += 1;
            if is_cut || !content.trim_ascii().is_empty() {
                let is_good =
                    queue.record_line(number, if is_cut { Err(bytes) } else { Ok(&content) }, &mut ids);
                lines.extend(is_good.map(|is_good| LinePosition { start, bytes: content.len(), is_good }));
            }
            start += bytes as u64;
        }
        let mut state = queue.lock_state();
        state.visible = (0..lines.len()).collect();
        state.lines = lines;
        drop(state);
        Ok(queue)
    }

    /// Records a line. Returns true if it is a dead letter, false if it is not, or `None` if an earlier line has the
    /// same one.
    fn record_line(
        &mut self,
        number: usize,
        line: Result<&[u8], usize>,
        ids: &mut HashSet<String>,
    ) -> Option<bool> {
        match line.map_err(BadLine::TooLong).and_then(|line| read_line(line, self.opened_at)) {
            Ok(message) => {
                let written_at = line.ok().and_then(virtual_now);
                self.virtual_now = match self.virtual_now {
                    None if !self.source_arns.is_empty() => None,
                    earlier => written_at.max(earlier).filter(|_| written_at.is_some()),
                };
                self.source_arns.insert(message.queue_arn);
                let is_new = ids.insert(message.sqs_message_id);
                self.repeated += u64::from(!is_new);
                is_new.then_some(true)
            }
            Err(why) => {
                self.bad.count += 1;
                if self.bad.first.len() < REASONS_MAX {
                    self.bad.first.push((number, why.to_string()));
                }
                Some(false)
            }
        }
    }

    /// Adds messages that are missing from the file, such as objects skipped in an archive, each with a unique name.
    /// They count as [`Coverage::unreadable`](crate::Coverage::unreadable).
    #[must_use]
    pub fn with_unreadable(self, names: impl IntoIterator<Item = String>) -> Self {
        let unreadable_message = |sqs_message_id| UnreadableMessage {
            sqs_message_id,
            receipt_handle: String::new(),
            message_group_id: None,
            readable_before: 0,
        };
        self.lock_state().unreadable.extend(names.into_iter().map(unreadable_message));
        self
    }

    /// Returns the SQS message ids of the dead letters, in order.
    ///
    /// # Errors
    /// If the file cannot be read again.
    pub fn message_ids(&self) -> io::Result<Vec<String>> {
        let mut state = self.lock_state();
        let good: Vec<_> = (0..state.lines.len()).filter(|place| state.lines[*place].is_good).collect();
        good.into_iter().map(|place| Ok(state.read_message(place, self.opened_at)?.sqs_message_id)).collect()
    }

    /// Returns the name that is shown to users.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the lines that are not dead letters, which count as unreadable messages.
    #[must_use]
    pub const fn bad_lines(&self) -> &BadLines {
        &self.bad
    }

    /// Returns the number of lines that repeat an earlier line's message.
    #[must_use]
    pub const fn repeated_lines(&self) -> u64 {
        self.repeated
    }

    /// Returns the latest virtual timestamp of the dead letters, or `None` if any of them has a real timestamp.
    #[must_use]
    pub const fn virtual_now(&self) -> Option<Timestamp> {
        self.virtual_now
    }

    /// Returns true if the file has lines, but no dead letters.
    #[must_use]
    pub fn has_only_bad_lines(&self) -> bool {
        self.bad.count > 0 && self.source_arns.is_empty()
    }

    /// Returns true if any of the dead letters was read from the queue with this ARN.
    #[must_use]
    pub fn was_read_from(&self, arn: &str) -> bool {
        self.source_arns.contains(arn)
    }

    fn lock_state(&self) -> MutexGuard<'_, FileQueueState> {
        // A panic while the lock is held leaves no partial change.
        lock(&self.state)
    }
}

impl FileQueueState {
    fn read_message(&mut self, place: usize, opened_at: Timestamp) -> io::Result<ReceivedMessage> {
        let LinePosition { start, bytes, .. } = self.lines[place];
        let mut content = vec![0; bytes];
        self.file.seek(SeekFrom::Start(start))?;
        self.file.read_exact(&mut content)?;
        read_line(&content, opened_at).map_err(io::Error::other)
    }

    /// Reads the next lines. Lines that are not dead letters are recorded separately.
    fn next_messages(
        &mut self,
        messages_max: usize,
        opened_at: Timestamp,
    ) -> io::Result<Vec<ReceivedMessage>> {
        let mut messages = Vec::new();
        for place in self.visible.iter().take(messages_max).copied().collect::<Vec<_>>() {
            let LinePosition { start, is_good, .. } = self.lines[place];
            let receipt_handle = place.to_string();
            if is_good {
                let message = self.read_message(place, opened_at)?;
                messages.push(ReceivedMessage { receipt_handle, ..message });
            } else {
                self.unreadable.push(UnreadableMessage {
                    sqs_message_id: format!("byte {start}"),
                    receipt_handle,
                    message_group_id: None,
                    readable_before: messages.len(),
                });
            }
            self.visible.remove(&place);
            self.in_flight.insert(place);
        }
        Ok(messages)
    }
}

impl QueueSender for FileQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        batch.entries().iter().map(|_| Err(EntryError::new(Fault::Sender, "NotWritable"))).collect()
    }
}

impl VisibilityControl for FileQueue {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        let mut state = self.lock_state();
        for (handle, seconds) in entries {
            let Ok(place) = handle.parse() else { continue };
            if seconds.duration().is_zero() && state.in_flight.remove(&place) {
                state.visible.insert(place);
            }
        }
        vec![Ok(()); entries.len()]
    }
}

impl QueueDepth for FileQueue {
    async fn depth(&self) -> Result<Depth, EntryError> {
        let state = self.lock_state();
        Ok(Depth { visible: state.visible.len() as u64, in_flight: state.in_flight.len() as u64, delayed: 0 })
    }
}

impl Queue for FileQueue {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let messages = self.lock_state().next_messages(request.max_messages.into(), self.opened_at);
        messages.map_err(|_| EntryError::new(Fault::Sender, "ChangedWhileItWasRead"))
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        std::mem::take(&mut self.lock_state().unreadable)
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        let mut state = self.lock_state();
        for place in handles.iter().filter_map(|handle| handle.parse().ok()) {
            state.in_flight.remove(&place);
        }
        vec![Ok(()); handles.len()]
    }

    fn arn(&self) -> &str {
        &self.arn
    }

    fn url(&self) -> &str {
        &self.name
    }
}
