//! Purges dead letters: each one is deleted after it is backed up.

use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, Queue};
use serde::Serialize;

use crate::groups::{DeadLetterGroup, GroupTable};
use crate::{
    ArchiveFile, Choice, Coverage, DeadLetterError, DeadLetterReader, DeadLetterRecord, DeletionError,
    NotJudged, Pick,
};

/// The result of a purge or a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PurgeReport {
    pub picked: u64,
    /// The groups of the picked messages, largest first.
    pub groups: Vec<DeadLetterGroup>,
    pub deleted: u64,
    /// Messages on which the filter failed. They remain in the queue.
    pub not_judged: NotJudged,
    /// The reason for the last deletion that failed.
    pub why_not_deleted: Option<DeletionError>,
    /// The error that ended the purge.
    pub failed: Option<String>,
    /// The part of the queue that was read.
    pub coverage: Option<Coverage>,
    pub interrupted: bool,
    /// True if [`Purge::max`] ended the purge. There may be more messages.
    pub max_reached: bool,
}

/// A backup to which messages are written before they are deleted.
pub trait BackupWriter {
    /// Returns once all records are stored durably.
    ///
    /// # Errors
    /// If any record is not stored. In that case, none of them may be deleted.
    fn store_records(
        &mut self,
        records: &[DeadLetterRecord],
    ) -> impl Future<Output = Result<(), DeadLetterError>>;
}

impl BackupWriter for ArchiveFile {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), DeadLetterError> {
        Ok(self.write_messages(records.iter().map(|record| &record.message))?)
    }
}

/// The number of consecutive failed deletions after which a purge ends.
const DELETIONS_FAILED_MAX: u64 = 10;

/// A purge with its queue, selection and limits.
pub struct Purge<'a, Q, C> {
    pub queue: &'a Q,
    pub clock: &'a C,
    pub pick: &'a Pick,
    /// The maximum number of messages to delete; `u64::MAX` by default.
    pub max: u64,
    /// Returns true to stop the purge early (Ctrl-C).
    pub interrupted: &'a dyn Fn() -> bool,
    /// Called with the number of deletions so far.
    pub progress: &'a dyn Fn(u64),
}

impl<'a, Q: Queue, C: Clock> Purge<'a, Q, C> {
    /// Creates a purge of all picked messages.
    pub fn new(queue: &'a Q, clock: &'a C, pick: &'a Pick) -> Self {
        Self { queue, clock, pick, max: u64::MAX, interrupted: &|| false, progress: &|_| {} }
    }

    /// Counts the messages that would be deleted, without deleting any.
    ///
    /// # Errors
    /// If the queue or the filter fails.
    pub async fn dry_run(self) -> Result<PurgeReport, DeadLetterError> {
        self.run_purge(None::<&mut ArchiveFile>).await
    }

    /// Deletes each message after it is backed up.
    ///
    /// # Errors
    /// If the queue, the backup or the filter fails before the first deletion. A later error is in
    /// [`PurgeReport::failed`], together with the work done before it.
    pub async fn apply(self, backup: &mut impl BackupWriter) -> Result<PurgeReport, DeadLetterError> {
        self.run_purge(Some(backup)).await
    }

    async fn run_purge(self, backup: Option<&mut impl BackupWriter>) -> Result<PurgeReport, DeadLetterError> {
        let mut reader = DeadLetterReader::new(self.queue, self.clock).await?;
        let (purged, groups) = (PurgeReport::default(), GroupTable::default());
        let mut run = PurgeRun { purge: &self, backup, purged, groups, deletions_failed: 0 };
        let outcome = run.process_queue(&mut reader).await.and_then(|()| Ok(self.pick.check_filter()?));
        let coverage = Some(reader.finish().await);
        let purged = PurgeReport { coverage, groups: run.groups.into_groups(), ..run.purged };
        match outcome {
            // Work completed before the error must still be reported.
            Err(error) if purged.deleted > 0 => Ok(PurgeReport { failed: Some(error.to_string()), ..purged }),
            outcome => outcome.map(|()| purged),
        }
    }
}

/// A running purge.
struct PurgeRun<'r, 'a, Q, C, B> {
    purge: &'r Purge<'a, Q, C>,
    backup: Option<&'r mut B>,
    purged: PurgeReport,
    groups: GroupTable,
    /// The number of failed deletions since the last successful one.
    deletions_failed: u64,
}

impl<'a, Q: Queue, C: Clock, B: BackupWriter> PurgeRun<'_, 'a, Q, C, B> {
    async fn process_queue(
        &mut self,
        reader: &mut DeadLetterReader<'a, Q, C>,
    ) -> Result<(), DeadLetterError> {
        while let Some(messages) = reader.next_messages().await? {
            let picked = self.pick_messages(messages)?;
            if let Some(backup) = &mut self.backup {
                // Backed up first: if the process dies before the deletion, messages are in both the backup and the
                // queue, never in neither.
                backup.store_records(&picked).await?;
                self.delete_picked(reader, &picked).await;
            }
            if self.should_stop() {
                break;
            }
        }
        Ok(())
    }

    /// Picks and counts messages. If the filter returns neither true nor false for a message, the filter is wrong, and
    /// none of them are deleted.
    fn pick_messages(
        &mut self,
        messages: Vec<ReceivedMessage>,
    ) -> Result<Vec<DeadLetterRecord>, DeadLetterError> {
        let mut picked = Vec::new();
        for record in messages.into_iter().map(DeadLetterRecord::new) {
            if self.purged.picked + picked.len() as u64 >= self.purge.max {
                break;
            }
            match self.purge.pick.judge_record(&record)? {
                Choice::Picked => picked.push(record),
                Choice::NotPicked => {}
                Choice::NotJudged(why) => self.purged.not_judged.count_record(&record, why),
            }
        }
        picked.iter().for_each(|record| self.groups.add_record(record));
        self.purged.picked += picked.len() as u64;
        Ok(picked)
    }

    async fn delete_picked(&mut self, reader: &mut DeadLetterReader<'a, Q, C>, picked: &[DeadLetterRecord]) {
        let messages: Vec<_> = picked.iter().map(|record| &record.message).collect();
        for outcome in reader.delete_messages(&messages).await {
            match outcome {
                Ok(()) => {
                    self.deletions_failed = 0;
                    self.purged.deleted += 1;
                }
                Err(why) => {
                    // If another program may have received this message, the next deletion can still succeed.
                    self.deletions_failed += u64::from(matches!(why, DeletionError::Failed(_)));
                    self.purged.why_not_deleted = Some(why);
                }
            }
        }
        (self.purge.progress)(self.purged.deleted);
    }

    fn should_stop(&mut self) -> bool {
        if self.deletions_failed >= DELETIONS_FAILED_MAX {
            return true;
        }
        self.purged.interrupted = (self.purge.interrupted)();
        self.purged.max_reached = !self.purged.interrupted && self.purged.picked >= self.purge.max;
        self.purged.interrupted || self.purged.max_reached
    }
}

#[cfg(test)]
mod tests;
