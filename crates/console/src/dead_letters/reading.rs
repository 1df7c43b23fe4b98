//! Reads a complete DLQ without consuming it, on a separate thread and with the operator's current credentials.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redeliver_aws::SystemClock;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::groups::DeadLetterGroup;
use redeliver_dead_letters::{
    CauseNote, Coverage, DeadLetterReader, DeadLetterRecord, FileQueue, KnownCauses, Resolution,
};
use redeliver_operator::CommandFailure;
use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::dead_letter_source::{DeadLetterSource, OpenedSource};
use redeliver_operator::queues::queue_name_from_arn;
use redeliver_operator::sentences::describe_causes_beyond_table_limit;
use redeliver_operator::terminal::escape::shorten_text;

use crate::background::BackgroundTask;
use crate::dead_letters::snapshot::{CauseHistory, Snapshot, SnapshotBuilder};
use crate::dead_letters::spool::Spool;

/// Preliminary causes are shown once this many messages have been read, and again each time the number has doubled.
const FIRST_SHOWN: usize = 10;
/// Maximum length of a note, or of the description of a fix, in characters.
const NOTE_MAX: usize = 500;

/// The last snapshot, and the current reading.
#[derive(Debug)]
pub(crate) struct DlqReading {
    pub(crate) last_seen: Arc<BackgroundTask<Snapshot>>,
    /// The file of known causes.
    causes_file: PathBuf,
    seen: AtomicU64,
    approximate: AtomicU64,
    stopping: AtomicBool,
    /// The causes that the current reading has found so far, updated at intervals.
    so_far: Mutex<Arc<Vec<DeadLetterGroup>>>,
    /// The causes known before this console's first reading; if none were, the causes of its first reading.
    known_before: Mutex<Option<KnownCauses>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadingProgress {
    /// Messages read so far.
    pub(crate) seen: u64,
    /// Messages in the queue.
    pub(crate) approximate: u64,
}

impl DlqReading {
    pub(crate) fn new(causes_file: PathBuf) -> Self {
        Self {
            last_seen: Arc::default(),
            causes_file,
            seen: AtomicU64::new(0),
            approximate: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            so_far: Mutex::default(),
            known_before: Mutex::default(),
        }
    }

    /// Returns the progress of the current reading.
    pub(crate) fn current_progress(&self) -> Option<ReadingProgress> {
        self.last_seen.is_running().then(|| ReadingProgress {
            seen: self.seen.load(Ordering::Relaxed),
            approximate: self.approximate.load(Ordering::Relaxed),
        })
    }

    /// Returns the causes that the reading has found so far.
    pub(crate) fn causes_so_far(&self) -> Arc<Vec<DeadLetterGroup>> {
        Arc::clone(&self.lock_causes_so_far())
    }

    fn lock_causes_so_far(&self) -> MutexGuard<'_, Arc<Vec<DeadLetterGroup>>> {
        lock(&self.so_far)
    }

    /// Requests that the reading stop and release its messages. Returns true while a reading is running.
    pub(crate) fn request_stop(&self) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        self.last_seen.is_running()
    }

    /// Starts a reading unless one is running.
    pub(crate) fn start_reading(self: &Arc<Self>, source: &DeadLetterSource, period: PeriodArgs) {
        if self.last_seen.is_running() {
            return;
        }
        // Resets the counters first, so that the page never shows the progress of the previous reading.
        self.seen.store(0, Ordering::Relaxed);
        self.approximate.store(0, Ordering::Relaxed);
        *self.lock_causes_so_far() = Arc::default();
        let (reading, source) = (Arc::clone(self), source.clone());
        self.last_seen.start_task(move || async move {
            reading.last_seen.publish_result(reading.read_queue(&source, period).await)
        });
    }

    /// Starts the first reading. Later readings require a click or `--refresh-every`, since each of them receives every
    /// message.
    pub(crate) fn start_first_reading(self: &Arc<Self>, source: &DeadLetterSource, period: PeriodArgs) {
        if self.last_seen.last_result().is_none() && self.last_seen.last_error().is_none() {
            self.start_reading(source, period);
        }
    }

    /// Starts a reading if there was none, or if the last one is at least `every` old and the number of messages has
    /// changed since. After a failed reading, none starts automatically.
    pub(crate) fn start_if_due(
        self: &Arc<Self>,
        (source, period): (&DeadLetterSource, PeriodArgs),
        every: Duration,
        count: u64,
        now: Timestamp,
    ) {
        let is_due = |seen: &Snapshot| {
            let age = (now - seen.taken_at).to_std().unwrap_or_default();
            age >= every && seen.message_count() != count
        };
        let seen = self.last_seen.last_result();
        if self.last_seen.last_error().is_none() && seen.is_none_or(|seen| is_due(&seen)) {
            self.start_reading(source, period);
        }
    }

    async fn read_queue(
        &self,
        source: &DeadLetterSource,
        period: PeriodArgs,
    ) -> Result<Snapshot, CommandFailure> {
        let OpenedSource { dead_letters: queue, retention, .. } = source.open(period).await?;
        let taken_at = SystemClock.now();
        let virtual_now = queue.as_file().and_then(FileQueue::virtual_now);
        #[expect(clippy::disallowed_methods, reason = "the file has a random name, and is new")]
        let mut collecting = SnapshotBuilder::new(Spool::new(&std::env::temp_dir())?);
        let mut reader = DeadLetterReader::new(&queue, &SystemClock).await?;
        self.approximate.store(reader.approximate_count(), Ordering::Relaxed);
        let read = async {
            let mut shown_at = FIRST_SHOWN;
            while let Some(messages) = reader.next_messages().await? {
                self.seen.fetch_add(messages.len() as u64, Ordering::Relaxed);
                for message in messages {
                    collecting.add_record(&DeadLetterRecord::new(message))?;
                }
                if collecting.letter_count() >= shown_at {
                    *self.lock_causes_so_far() = Arc::new(collecting.current_causes());
                    shown_at = collecting.letter_count() * 2;
                }
                if collecting.is_full() || self.stopping.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Ok::<_, CommandFailure>(true)
        };
        let read = read.await;
        // Releases every message before an error is returned.
        let coverage = reader.finish().await;
        let coverage = Coverage { complete: coverage.complete && read?, ..coverage };
        let mut snapshot = collecting.into_snapshot(coverage, taken_at, retention);
        snapshot.now = virtual_now.unwrap_or(taken_at);
        // A file does not change, so none of its causes is new.
        if source.file.is_some() {
            return Ok(snapshot);
        }
        match self.update_causes(queue.arn(), &snapshot) {
            Ok(causes) => {
                snapshot.causes = causes;
                snapshot.remark = describe_causes_beyond_table_limit(&snapshot.groups);
            }
            Err(error) => {
                snapshot.remark = Some(format!("could not determine which causes are new: {error}"))
            }
        }
        Ok(snapshot)
    }

    /// Returns the causes that are new to this console, with the notes on all causes. In the very first reading, no
    /// cause is new.
    fn update_causes(&self, queue_arn: &str, snapshot: &Snapshot) -> Result<CauseHistory, CommandFailure> {
        let path = &self.causes_file;
        let is_first = !path.exists();
        let mut known = KnownCauses::read_file(path, queue_arn)?;
        let mut known_before = lock(&self.known_before);
        let before = known_before.get_or_insert_with(|| {
            let mut before = known.clone();
            if is_first {
                before.remember_groups(&snapshot.groups, snapshot.taken_at);
            }
            before
        });
        let new = before
            .groups_with_new_cause(&snapshot.groups)
            .into_iter()
            .map(|group| group.fingerprint.clone())
            .collect();
        let last_refresh = before.last_audit_at().filter(|_| !is_first);
        drop(known_before);
        known.remember_groups(&snapshot.groups, snapshot.taken_at);
        known.merge_into_file(path)?;
        Ok(CauseHistory::new(known, new, last_refresh))
    }

    /// Marks a cause of the last snapshot, both in the file and in the snapshot.
    pub(crate) fn mark_cause(
        &self,
        queue_arn: &str,
        snapshot: &Snapshot,
        fingerprint: &str,
        mark: Mark,
        now: Timestamp,
    ) -> Result<(), CommandFailure> {
        let path = &self.causes_file;
        let text = |text: String| shorten_text(text.trim(), NOTE_MAX);
        let group = snapshot.find_group(fingerprint);
        let changed = match mark {
            Mark::Known(note) => {
                let note = CauseNote { at: now, text: text(note) };
                KnownCauses::write_note(path, queue_arn, fingerprint, Some(note), group)?
            }
            Mark::NotKnown => KnownCauses::write_note(path, queue_arn, fingerprint, None, group)?,
            Mark::Resolved(by) => {
                let resolved = Resolution { at: now, by: Some(text(by)).filter(|by| !by.is_empty()) };
                KnownCauses::mark_resolved(path, queue_arn, fingerprint, resolved)?
            }
            Mark::NotResolved => KnownCauses::mark_unresolved(path, queue_arn, fingerprint)?,
        };
        *snapshot.causes.lock_known() = changed;
        Ok(())
    }
}

/// Returns the name of the file of known causes in the console's folder.
pub(crate) fn causes_file_name(queue_arn: &str) -> String {
    format!("redeliver-causes-{}.jsonl", queue_name_from_arn(queue_arn))
}

/// A user's mark on a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Known, with a note, possibly empty.
    Known(String),
    NotKnown,
    /// Resolved, with the fix, such as a version of the function; possibly empty.
    Resolved(String),
    NotResolved,
}

#[cfg(test)]
mod tests {
    use redeliver_operator::queues::{AwsConnection, DeadLetterQueue, OneQueue};
    use redeliver_testing::dead_letters::{at_seconds, retried_record};

    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

    #[tokio::test]
    async fn a_stopped_reading_is_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead-letters.jsonl");
        let messages = [1, 2, 3].map(|number| retried_record("NON_RETRYABLE_ERROR", "no such user", number));
        redeliver_dead_letters::ArchiveFile::create(&path).unwrap().write_messages(&messages).unwrap();
        let queue = DeadLetterQueue::new(OneQueue::default(), AwsConnection::from_parts(None, None, None));
        let source = DeadLetterSource { file: Some(path), queue };
        for stops in [false, true] {
            let reading = DlqReading::new(folder.path().join("causes.jsonl"));
            assert!(stops.then(|| reading.request_stop()).is_none_or(|is_running| !is_running));
            let snapshot = reading.read_queue(&source, PeriodArgs::default()).await.unwrap();
            assert_eq!((snapshot.letters.len(), snapshot.coverage.complete), (3, !stops));
        }
    }

    #[tokio::test]
    async fn an_old_reading_is_refreshed_when_the_queue_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead-letters.jsonl");
        let message = retried_record("NON_RETRYABLE_ERROR", "no such user", 1);
        redeliver_dead_letters::ArchiveFile::create(&path).unwrap().write_messages([&message]).unwrap();
        let queue = DeadLetterQueue::new(OneQueue::default(), AwsConnection::from_parts(None, None, None));
        let source = DeadLetterSource { file: Some(path), queue };
        let reading = Arc::new(DlqReading::new(folder.path().join("causes.jsonl")));
        let starts = |seconds, count| {
            let before = reading.last_seen.last_result();
            let now = before
                .as_ref()
                .map_or(at_seconds(0), |seen| seen.taken_at + chrono::TimeDelta::seconds(seconds));
            let every = Duration::from_secs(60);
            reading.start_if_due((&source, PeriodArgs::default()), every, count, now);
            while reading.last_seen.is_running() {
                std::thread::yield_now();
            }
            let after = reading.last_seen.last_result();
            after.map(|seen| Arc::as_ptr(&seen)) != before.map(|seen| Arc::as_ptr(&seen))
        };
        assert!(starts(0, 1), "nothing was read yet");
        assert!(!starts(59, 2), "it is not old yet");
        assert!(!starts(60, 1), "the queue has not changed");
        assert!(starts(60, 2));
        reading.last_seen.publish_result(Err("access denied".into()));
        assert!(!starts(60, 2), "the last one failed");
    }

    #[tokio::test]
    async fn ages_in_a_file_are_relative_to_the_end_of_its_virtual_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead-letters.jsonl");
        let archive = redeliver_dead_letters::ArchiveFile::create(&path).unwrap();
        let message = retried_record("NON_RETRYABLE_ERROR", "no such user", 1);
        archive.in_virtual_time(Some(at_seconds(86_400))).write_messages([&message]).unwrap();
        let queue = DeadLetterQueue::new(OneQueue::default(), AwsConnection::from_parts(None, None, None));
        let source = DeadLetterSource { file: Some(path), queue };
        let reading = DlqReading::new(folder.path().join("causes.jsonl"));
        let snapshot = reading.read_queue(&source, PeriodArgs::default()).await.unwrap();
        assert_eq!(snapshot.now, at_seconds(86_400));
        assert!(snapshot.taken_at > at_seconds(86_400));
    }

    #[test]
    fn a_cause_stays_new_for_the_console_that_found_it() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot_of = |second, details: &[&str]| {
            let mut collecting = SnapshotBuilder::new(Spool::new(folder.path()).unwrap());
            for (details, number) in details.iter().zip(1..) {
                let record = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", details, number));
                collecting.add_record(&record).unwrap();
            }
            collecting.into_snapshot(Coverage::default(), at_seconds(second), None)
        };
        let new = |reading: &DlqReading, snapshot: &Snapshot| {
            let causes = reading.update_causes(QUEUE, snapshot).unwrap();
            (causes.new.len(), causes.last_refresh)
        };
        let first = DlqReading::new(folder.path().join("causes.jsonl"));
        assert_eq!(
            new(&first, &snapshot_of(10, &["no such user"])),
            (0, None),
            "there was no reading before"
        );
        assert_eq!(new(&first, &snapshot_of(20, &["no such user", "too slow"])), (1, Some(at_seconds(10))));
        let second = DlqReading::new(folder.path().join("causes.jsonl"));
        let both = ["no such user", "card refused"];
        for second_of_refresh in [30, 40] {
            assert_eq!(new(&second, &snapshot_of(second_of_refresh, &both)), (1, Some(at_seconds(20))));
        }
    }
}
