//! `--backup`: where messages go before they are deleted.

use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::archive::deployment_of;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::archive_bucket::BucketBackup;
use redeliver_dead_letters::purge::BackupWriter;
use redeliver_dead_letters::{Archive, DeadLetterRecord};
use redeliver_operator::Failure;
use redeliver_operator::archive::{ArchiveUri, BucketOwnerArgs};
use redeliver_operator::queues::Connection;

/// A file that does not exist yet, or an archive.
pub enum BackupPlace {
    File(Archive),
    Bucket(ArchiveUri),
}

pub enum Backup {
    File(Archive),
    Bucket(Box<BucketBackup<S3Bucket, SystemClock>>),
}

impl BackupPlace {
    /// Refuses a file that is there already.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        Ok(match ArchiveUri::of(path) {
            None => Self::File(Archive::on_demand(path)?),
            Some(archive) => Self::Bucket(archive?),
        })
    }

    /// For messages of this queue. Payloads go to no other account than its own, unless the options name one: the name of a
    /// deleted bucket is free for anybody.
    pub async fn open(
        self,
        connection: &Connection,
        queue: &SqsQueue,
        owner: BucketOwnerArgs,
    ) -> Result<Backup, Failure> {
        Ok(match self {
            Self::File(file) => Backup::File(file),
            Self::Bucket(archive) => {
                let account = || queue.arn().split(':').nth(4)?.parse().ok();
                let bucket = archive.open(connection, owner.bucket_owner.or_else(account)).await?;
                Backup::Bucket(Box::new(BucketBackup::new(bucket, deployment_of(queue.url()))))
            }
        })
    }
}

impl BackupWriter for Backup {
    async fn keep(&mut self, records: &[DeadLetterRecord]) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.keep(records).await,
            Self::Bucket(bucket) => bucket.keep(records).await,
        }
    }
}
