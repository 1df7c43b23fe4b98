//! The steps of a purge: open and check the DLQ and the backup, then delete each dead letter once it has been backed
//! up.

use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::Pick;
use redeliver_dead_letters::purge::{Purge, PurgeReport};

use crate::CommandFailure;
use crate::archive::BucketOwnerArgs;
use crate::backup_place::{BackupDestination, OpenBackup};
use crate::queues::DeadLetterQueue;
use crate::sentences::{describe_missing_members, describe_unjudged_messages};

/// A request for a purge, built from the user's options.
pub struct PurgeRequest<'a> {
    pub queue: &'a DeadLetterQueue,
    pub pick: Pick,
    /// Maximum number of messages in total.
    pub max: u64,
    /// A file that does not exist yet, or an archive.
    pub backup: &'a Path,
    pub bucket_owner: BucketOwnerArgs,
    /// False if only a plan is requested.
    pub applied: bool,
}

/// A purge with its queue and backup open.
pub struct OpenPurge {
    queue: SqsQueue,
    backup: OpenBackup,
    pick: Pick,
    max: u64,
    applied: bool,
}

/// The result of a plan or a run.
pub struct PurgeOutcome {
    pub purged: PurgeReport,
    /// Sentences about requested ids and groups that were not found. Empty if the queue was not read completely.
    pub missing: Vec<String>,
    /// Remarks about the selection.
    pub remarks: Vec<String>,
}

impl PurgeRequest<'_> {
    /// Opens the queue and the backup, even for a plan, so that a bad backup path is reported before anything is
    /// applied.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub async fn open(self) -> Result<OpenPurge, CommandFailure> {
        let Self { pick, max, applied, .. } = self;
        let place = BackupDestination::new(self.backup)?;
        let queue = self.queue.open().await?.queue;
        let backup = place.open(&self.queue.connection, &queue, self.bucket_owner).await?;
        Ok(OpenPurge { queue, backup, pick, max, applied })
    }
}

impl OpenPurge {
    /// Returns the ARN of the DLQ.
    pub fn dlq_arn(&self) -> &str {
        self.queue.arn()
    }

    /// Deletes the dead letters, or reports what would be deleted.
    ///
    /// # Errors
    /// If the queue, the backup or the filter fails before the first deletion.
    pub async fn run(
        mut self,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(u64),
    ) -> Result<PurgeOutcome, CommandFailure> {
        let purge = Purge {
            max: self.max,
            interrupted,
            progress,
            ..Purge::new(&self.queue, &SystemClock, &self.pick)
        };
        let purged =
            if self.applied { purge.apply(&mut self.backup).await? } else { purge.dry_run().await? };
        let is_covered = purged.coverage.is_some_and(|coverage| coverage.complete);
        let missing = if is_covered { self.pick.describe_missing() } else { Vec::new() };
        let remarks = describe_missing_members(&self.pick).into_iter();
        let remarks = remarks.chain(describe_unjudged_messages(&purged.not_judged)).collect();
        Ok(PurgeOutcome { purged, missing, remarks })
    }
}
