//! One look at a DLQ: all of it is read without consuming it, on a thread of its own, with the operator's credentials
//! of now.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::{Coverage, DeadLetterRecord, Known, Reader};

use super::latest::Latest;
use super::letters::{Collecting, Letters};
use super::spool::Spool;
use redeliver_operator::Failure;
use redeliver_operator::dead_letter_source::{OpenSource, Source};
use redeliver_operator::queues::name_in;
use redeliver_operator::sentences::causes_beyond_the_table;

/// The last look, and the one that is under way.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) latest: Arc<Latest<Letters>>,
    /// Where the causes are kept that were seen before.
    folder: PathBuf,
    seen: AtomicU64,
    approximate: AtomicU64,
    stopping: AtomicBool,
}

impl Looks {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            latest: Arc::default(),
            folder,
            seen: AtomicU64::new(0),
            approximate: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// How many messages were read, and how many there are, of the look under way.
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        let progress = || (self.seen.load(Ordering::Relaxed), self.approximate.load(Ordering::Relaxed));
        self.latest.is_running().then(progress)
    }

    /// Asks the look to end: it gives back what it has read. Whether there is one.
    pub(super) fn stop(&self) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        self.latest.is_running()
    }

    /// Starts to look, unless a look is under way.
    pub(super) fn begin(self: &Arc<Self>, source: &Source) {
        if self.latest.is_running() {
            return;
        }
        // Before it is told that it runs: the page must not show how far the look before it has come.
        self.seen.store(0, Ordering::Relaxed);
        self.approximate.store(0, Ordering::Relaxed);
        let (looks, source) = (Arc::clone(self), source.clone());
        self.latest.begin(move || async move { looks.latest.tell(looks.look(&source).await) });
    }

    /// The first look begins by itself, and no other one: each receives all messages.
    pub(super) fn begin_if_never(self: &Arc<Self>, source: &Source) {
        if self.latest.seen().is_none() && self.latest.failed().is_none() {
            self.begin(source);
        }
    }

    async fn look(&self, source: &Source) -> Result<Letters, Failure> {
        let OpenSource { dead_letters: queue, retention, .. } = source.open().await?;
        let retention = retention.and_then(|retention| TimeDelta::from_std(retention).ok());
        let taken_at = SystemClock.now();
        #[expect(clippy::disallowed_methods, reason = "the file has a random name, and is new")]
        let mut collecting = Collecting::new(Spool::new(&std::env::temp_dir())?);
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
        // Whatever happened, first everything is given back.
        let coverage = reader.finish().await;
        let coverage = Coverage { complete: coverage.complete && read?, ..coverage };
        let mut letters = collecting.into_letters(coverage, taken_at, retention);
        // In a file nothing is new from one look to the next.
        if source.file.is_some() {
            return Ok(letters);
        }
        match self.new_causes(queue.arn(), &letters) {
            Ok(new) => {
                letters.new_causes = new;
                letters.remark = causes_beyond_the_table(&letters.groups);
            }
            Err(error) => letters.remark = Some(format!("which causes are new is not known: {error}")),
        }
        Ok(letters)
    }

    /// The causes that no earlier look has seen, also one of an earlier console; none at the first look.
    fn new_causes(&self, queue_arn: &str, letters: &Letters) -> Result<BTreeSet<String>, Failure> {
        let path = self.folder.join(format!("redeliver-causes-{}.jsonl", name_in(queue_arn)));
        let is_first = !path.exists();
        let mut known = Known::read(&path, queue_arn)?;
        let new = known.new_among(&letters.groups).into_iter().map(|group| group.fingerprint.clone());
        let new = if is_first { BTreeSet::new() } else { new.collect() };
        known.remember(&letters.groups, letters.taken_at);
        known.write(&path)?;
        Ok(new)
    }
}
