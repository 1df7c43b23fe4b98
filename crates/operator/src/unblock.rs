//! The steps of unblocking groups: open and check the queues and the backup, then unblock each group.

use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::blocked::{UnblockDecision, UnblockReport, unblock_groups};

use crate::CommandFailure;
use crate::archive::BucketOwnerArgs;
use crate::backup_place::{BackupDestination, OpenBackup};
use crate::queues::{AwsConnection, OneQueue, QueueAddress};

/// A request to unblock groups, built from the user's options.
pub struct UnblockRequest<'a> {
    pub connection: &'a AwsConnection,
    /// The deployment, or the queue with the notices.
    pub queue: &'a OneQueue,
    /// The ordered queue; the deployment's if `None`.
    pub source: Option<&'a QueueAddress>,
    /// The groups to unblock; all if empty.
    pub groups: &'a [String],
    /// The backup for messages to remove. Without a backup, messages are retried instead of removed.
    pub backup: Option<&'a Path>,
    pub bucket_owner: BucketOwnerArgs,
    /// False to only list the groups.
    pub applied: bool,
}

/// A request with its queues and backup open.
pub struct OpenUnblockRequest<'a> {
    blocked: SqsQueue,
    source: SqsQueue,
    groups: &'a [String],
    backup: Option<OpenBackup>,
    applied: bool,
}

impl<'a> UnblockRequest<'a> {
    /// Opens the queues and the backup, even for a plan, so that a bad backup path is reported before anything is
    /// applied.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub async fn open(self) -> Result<OpenUnblockRequest<'a>, CommandFailure> {
        let Self { connection, queue, groups, applied, .. } = self;
        let place = self.backup.map(BackupDestination::new).transpose()?;
        let blocked =
            connection.find_queue(&queue.find_address(connection, Role::Blocked).await?).await?.queue;
        let source = match self.source {
            Some(source) => connection.find_queue(source).await?.queue,
            None => connection.find_queue(&queue.find_address(connection, Role::Source).await?).await?.queue,
        };
        let backup = match place {
            Some(place) => Some(place.open(connection, &source, self.bucket_owner).await?),
            None => None,
        };
        Ok(OpenUnblockRequest { blocked, source, groups, backup, applied })
    }
}

impl OpenUnblockRequest<'_> {
    /// Returns the ARN of the ordered queue.
    pub fn source_arn(&self) -> &str {
        self.source.arn()
    }

    /// Retries or removes the first message of each group, or only lists the groups.
    ///
    /// # Errors
    /// If the notices cannot be read.
    pub async fn run(mut self) -> Result<UnblockReport, CommandFailure> {
        let decision = match &mut self.backup {
            _ if !self.applied => UnblockDecision::ListOnly,
            Some(backup) => UnblockDecision::TakeOut(backup),
            None => UnblockDecision::Retry,
        };
        unblock_groups(&self.blocked, &self.source, &SystemClock, self.groups, decision).await
    }
}
