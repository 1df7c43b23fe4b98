//! The destination of `--backup`. Messages are saved there before they are deleted.

use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::archive::deployment_name;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::archive_bucket::BucketBackup;
use redeliver_dead_letters::purge::BackupWriter;
use redeliver_dead_letters::{ArchiveFile, DeadLetterRecord};

use crate::CommandFailure;
use crate::archive::{ArchiveUri, BucketOwnerArgs};
use crate::queues::AwsConnection;

/// A file that does not exist yet, or an archive.
pub enum BackupDestination {
    File(ArchiveFile),
    Bucket(ArchiveUri),
}

/// An open backup. Messages are deleted from the queue only after they have been saved to the backup.
pub enum OpenBackup {
    File(ArchiveFile),
    Bucket(Box<BucketBackup<S3Bucket, SystemClock>>),
}

impl BackupDestination {
    /// Parses the destination of a backup. Rejects a file that already exists.
    pub fn new(path: &Path) -> Result<Self, CommandFailure> {
        Ok(match ArchiveUri::from_path(path) {
            None => Self::File(ArchiveFile::on_demand(path)?),
            Some(archive) => Self::Bucket(archive?),
        })
    }

    /// Opens the backup for messages from `queue`. The bucket must belong to the queue's account, or to the one named
    /// by `--bucket-owner`: any account can create a bucket with the name of a deleted one.
    pub async fn open(
        self,
        connection: &AwsConnection,
        queue: &SqsQueue,
        owner: BucketOwnerArgs,
    ) -> Result<OpenBackup, CommandFailure> {
        Ok(match self {
            Self::File(file) => OpenBackup::File(file),
            Self::Bucket(archive) => {
                let account = || queue.arn().split(':').nth(4)?.parse().ok();
                let bucket = archive.open(connection, owner.bucket_owner.or_else(account)).await?;
                OpenBackup::Bucket(Box::new(BucketBackup::new(bucket, deployment_name(queue.url()))))
            }
        })
    }
}

impl BackupWriter for OpenBackup {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), CommandFailure> {
        match self {
            Self::File(file) => file.store_records(records).await,
            Self::Bucket(bucket) => bucket.store_records(records).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use redeliver_aws::start::sqs_client;

    use super::*;

    /// Any account can create a bucket with the name of a deleted one, and would receive the payloads.
    #[tokio::test]
    async fn a_backup_bucket_must_belong_to_the_queues_account_or_the_named_one() {
        let endpoint = "http://127.0.0.1:9".to_owned();
        let connection = AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(endpoint));
        let client = sqs_client(&connection.sdk_config(None).await.unwrap());
        let arn = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";
        let queue = SqsQueue::new(client, "http://127.0.0.1:9/123456789012/orders-final-dlq", arn);
        for (bucket_owner, expected) in [(None, "123456789012"), (Some("444455556666"), "444455556666")] {
            let options = BucketOwnerArgs { bucket_owner: bucket_owner.map(|id| id.parse().unwrap()) };
            let place = BackupDestination::new(Path::new("s3://letters")).unwrap();
            let OpenBackup::Bucket(bucket) = place.open(&connection, &queue, options).await.unwrap() else {
                panic!("it is a bucket");
            };
            let (bucket, owner) = (format!("{bucket:?}"), format!("owner: Some(\"{expected}\")"));
            assert!(bucket.contains(&owner), "{owner} in {bucket}");
        }
    }
}
