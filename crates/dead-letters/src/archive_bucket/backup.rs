//! A purge's backup in an archive bucket.

use futures_util::future::try_join_all;
use redeliver_core::archive::{ArchiveLayout, compress_line};
use redeliver_core::ports::{Clock, ReadableStore};

use super::{ArchiveBucket, extract_line};
use crate::purge::BackupWriter;
use crate::{ArchivedMessage, DeadLetterError, DeadLetterRecord};

/// A backup that writes dead letters to an archive bucket. An object that the annotator has already written is kept. If
/// values are omitted from it, the write fails.
#[derive(Debug)]
pub struct BucketBackup<S, C> {
    bucket: ArchiveBucket<S, C>,
    layout: ArchiveLayout,
}

impl<S: ReadableStore, C: Clock> BucketBackup<S, C> {
    /// Creates a backup for the dead letters of this deployment.
    #[must_use]
    pub fn new(bucket: ArchiveBucket<S, C>, deployment: String) -> Self {
        let layout = ArchiveLayout { prefix: bucket.prefix.clone(), deployment };
        Self { bucket, layout }
    }

    async fn write_record(&self, record: &DeadLetterRecord) -> Result<(), DeadLetterError> {
        let key = self.layout.object_key(&record.death());
        if self.bucket.create_object(&key, &compress_line(&ArchivedMessage::new(&record.message))).await? {
            return Ok(());
        }
        // The message is deleted next, and an object with omitted values could not restore it.
        let there = self.bucket.get_object(&key).await?.and_then(|object| extract_line(&object).ok());
        match there.and_then(|line| serde_json::from_slice::<ArchivedMessage>(&line).ok()) {
            Some(there) if there.omitted.is_empty() => Ok(()),
            Some(_) => Err(format!(
                "{key} is in the archive with values left out, so it could not be sent again from there: name a file \
                 with --backup"
            )
            .into()),
            None => Err(format!("{key} exists and is not a dead letter: name a file with --backup").into()),
        }
    }
}

impl<S: ReadableStore, C: Clock> BackupWriter for BucketBackup<S, C> {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), DeadLetterError> {
        let writes = records.iter().map(|record| self.write_record(record));
        try_join_all(writes).await.map(drop)
    }
}
