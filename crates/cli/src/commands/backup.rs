//! `--backup`: where messages go before they are deleted.

use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_core::archive::deployment_of;
use redeliver_dead_letters::archive_bucket::BucketBackup;
use redeliver_dead_letters::purge::BackupWriter;
use redeliver_dead_letters::{Archive, DeadLetterRecord};
use redeliver_operator::Failure;
use redeliver_operator::archive::ArchiveUri;
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

    /// For messages of the queue with this URL.
    pub async fn open(self, connection: &Connection, queue_url: &str) -> Result<Backup, Failure> {
        Ok(match self {
            Self::File(file) => Backup::File(file),
            Self::Bucket(archive) => {
                let bucket = archive.open(connection).await?;
                Backup::Bucket(Box::new(BucketBackup::new(bucket, deployment_of(queue_url))))
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
