//! Reads a whole DLQ without consuming it, on a thread of its own and with the operator's current credentials.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::{Coverage, DeadLetterRecord, KnownCauses, Reader};
use redeliver_operator::Failure;
use redeliver_operator::dead_letter_source::{DeadLetterSource, OpenSource};
use redeliver_operator::queues::name_in;
use redeliver_operator::sentences::causes_beyond_the_table;

use crate::background::LastSeen;
use crate::dead_letters::snapshot::{Snapshot, SnapshotBuilder};
use crate::dead_letters::spool::Spool;

/// The last snapshot, and the reading that is under way.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) last_seen: Arc<LastSeen<Snapshot>>,
    /// The folder of the file with the causes that were seen before.
    folder: PathBuf,
    seen: AtomicU64,
    approximate: AtomicU64,
    stopping: AtomicBool,
}

impl Reading {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            last_seen: Arc::default(),
            folder,
            seen: AtomicU64::new(0),
            approximate: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// Messages read so far, and messages in the queue, while a reading is under way.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        let progress = || (self.seen.load(Ordering::Relaxed), self.approximate.load(Ordering::Relaxed));
        self.last_seen.is_running().then(progress)
    }

    /// Asks the reading to stop and give its messages back. Returns true while one is under way.
    pub(crate) fn stop(&self) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        self.last_seen.is_running()
    }

    /// Starts to read, unless a reading is under way.
    pub(crate) fn begin(self: &Arc<Self>, source: &DeadLetterSource) {
        if self.last_seen.is_running() {
            return;
        }
        // First, so that the page never shows the progress of the previous reading.
        self.seen.store(0, Ordering::Relaxed);
        self.approximate.store(0, Ordering::Relaxed);
        let (reading, source) = (Arc::clone(self), source.clone());
        self.last_seen.begin(move || async move { reading.last_seen.tell(reading.look(&source).await) });
    }

    /// Starts the first reading. Later ones need a click, since each of them receives every message.
    pub(crate) fn begin_if_never(self: &Arc<Self>, source: &DeadLetterSource) {
        if self.last_seen.seen().is_none() && self.last_seen.failed().is_none() {
            self.begin(source);
        }
    }

    async fn look(&self, source: &DeadLetterSource) -> Result<Snapshot, Failure> {
        let OpenSource { dead_letters: queue, retention, .. } = source.open().await?;
        let taken_at = SystemClock.now();
        #[expect(clippy::disallowed_methods, reason = "the file has a random name, and is new")]
        let mut collecting = SnapshotBuilder::new(Spool::new(&std::env::temp_dir())?);
        let mut reader = Reader::new(&queue, &SystemClock).await?;
        self.approximate.store(reader.approximate(), Ordering::Relaxed);
        let read = async {
            while let Some(messages) = reader.next().await? {
                self.seen.fetch_add(messages.len() as u64, Ordering::Relaxed);
                for message in messages {
                    collecting.add(&DeadLetterRecord::new(message))?;
                }
                if collecting.is_full() || self.stopping.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Ok::<_, Failure>(true)
        };
        let read = read.await;
        // Give every message back first, whatever happened.
        let coverage = reader.finish().await;
        let coverage = Coverage { complete: coverage.complete && read?, ..coverage };
        let mut snapshot = collecting.into_snapshot(coverage, taken_at, retention);
        // A file does not change, so nothing in it is new.
        if source.file.is_some() {
            return Ok(snapshot);
        }
        match self.new_causes(queue.arn(), &snapshot) {
            Ok(new) => {
                snapshot.new_causes = new;
                snapshot.remark = causes_beyond_the_table(&snapshot.groups);
            }
            Err(error) => snapshot.remark = Some(format!("it is not known which causes are new: {error}")),
        }
        Ok(snapshot)
    }

    /// Returns the causes that no earlier reading has seen, in this or an earlier console. At the first reading nothing
    /// is new.
    fn new_causes(&self, queue_arn: &str, snapshot: &Snapshot) -> Result<BTreeSet<String>, Failure> {
        let path = self.folder.join(format!("redeliver-causes-{}.jsonl", name_in(queue_arn)));
        let is_first = !path.exists();
        let mut known = KnownCauses::read(&path, queue_arn)?;
        let new = known.new_among(&snapshot.groups).into_iter().map(|group| group.fingerprint.clone());
        let new = if is_first { BTreeSet::new() } else { new.collect() };
        known.remember(&snapshot.groups, snapshot.taken_at);
        known.write(&path)?;
        Ok(new)
    }
}
