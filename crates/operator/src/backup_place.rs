//! `--backup`: where messages are saved before they are deleted.

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
pub enum BackupPlace {
    File(ArchiveFile),
    Bucket(ArchiveUri),
}

/// An open backup. Messages are deleted from the queue only after they are saved in it.
pub enum OpenBackup {
    File(ArchiveFile),
    Bucket(Box<BucketBackup<S3Bucket, SystemClock>>),
}

impl BackupPlace {
    /// Rejects a file that already exists.
    pub fn new(path: &Path) -> Result<Self, CommandFailure> {
        Ok(match ArchiveUri::from_path(path) {
            None => Self::File(ArchiveFile::on_demand(path)?),
            Some(archive) => Self::Bucket(archive?),
        })
    }

    /// Opens the backup for messages of this queue. A bucket of a different account than the queue's is rejected,
    /// unless `--bucket-owner` names it: any account may create a bucket with a deleted one's name.
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
    async fn keep(&mut self, records: &[DeadLetterRecord]) -> Result<(), CommandFailure> {
        match self {
            Self::File(file) => file.keep(records).await,
            Self::Bucket(bucket) => bucket.keep(records).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use redeliver_aws::start::sqs_client;

    use super::*;

    /// Any account may create a bucket with the name of a deleted one, and would receive the payloads.
    #[tokio::test]
    async fn a_backup_bucket_belongs_to_the_queues_or_the_named_account() {
        let endpoint = "http://127.0.0.1:9".to_owned();
        let connection = AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(endpoint));
        let client = sqs_client(&connection.sdk_config(None).await.unwrap());
        let arn = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";
        let queue = SqsQueue::new(client, "http://127.0.0.1:9/123456789012/orders-final-dlq", arn);
        for (bucket_owner, expected) in [(None, "123456789012"), (Some("444455556666"), "444455556666")] {
            let options = BucketOwnerArgs { bucket_owner: bucket_owner.map(|id| id.parse().unwrap()) };
            let place = BackupPlace::new(Path::new("s3://letters")).unwrap();
            let OpenBackup::Bucket(bucket) = place.open(&connection, &queue, options).await.unwrap() else {
                panic!("it is a bucket");
            };
            let (bucket, owner) = (format!("{bucket:?}"), format!("owner: Some(\"{expected}\")"));
            assert!(bucket.contains(&owner), "{owner} in {bucket}");
        }
    }
}
