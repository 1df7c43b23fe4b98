//! The archive, in which dead letters outlive their queue. Each final record is written to a bucket as an object before
//! it is sent to the final DLQ, which deletes it after 14 days ("Amazon SQS message quotas").

mod layout;
mod line;
mod omit;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;

use crate::deliver::{PendingSend, settle_one};
use crate::events::Event;
use crate::fault::EntryError;
use crate::message::{Content, ReceivedMessage, Timestamp};
use crate::ports::{Clock, ObjectStore, Observer};
pub use layout::{ArchiveLayout, Death, Prefix, PrefixError, deployment_name};
pub use line::{ArchivedAttribute, ArchivedMessage};
pub use omit::{OMITTED, OmitError, OmitList};

/// The archive of a deployment.
#[derive(Clone, Debug)]
pub struct Archive<S> {
    pub store: S,
    pub layout: ArchiveLayout,
    /// Values that the archive must not contain.
    pub omit: OmitList,
}

/// A final record, to be written to the archive and sent to the final DLQ.
#[derive(Debug)]
#[must_use = "the record is received again unless it is archived and sent"]
pub struct FinalRecord {
    pub outgoing: PendingSend,
    pub death: Death,
    /// The received message on which the record is based, without its content.
    pub received: ReceivedMessage,
}

/// A final record that may be sent to the final DLQ: it is archived, or the deployment has no archive.
#[derive(Debug)]
#[must_use = "the record is received again unless it is sent"]
pub struct ReleasedRecord(PendingSend);

impl ReleasedRecord {
    /// Releases a record in a deployment without an archive.
    pub fn without_archive(record: FinalRecord) -> Self {
        Self(record.outgoing)
    }

    /// Returns the record to send.
    pub fn into_outgoing(self) -> PendingSend {
        self.0
    }
}

impl<S: ObjectStore> Archive<S> {
    /// Writes all records concurrently, with retries until `end`. Returns the archived records. The others must not be
    /// sent, so that they are received again; `observer` gets an [`Event::ArchiveRefused`] for each.
    ///
    /// A repeated write succeeds if the object already exists, since the object records the same death.
    pub async fn archive_records(
        &self,
        clock: &impl Clock,
        observer: &impl Observer,
        end: Timestamp,
        records: Vec<FinalRecord>,
    ) -> Vec<ReleasedRecord> {
        let writes = records.into_iter().map(|FinalRecord { outgoing, death, received }| async move {
            // SQS would refuse this message, so it is not archived. The send reports the refusal, and the record is
            // received again.
            let written = match &outgoing.message {
                Err(_) => Ok(()),
                Ok(message) => self.write_record(clock, end, &death, received, message.content()).await,
            };
            match written {
                Ok(()) => Ok(ReleasedRecord(outgoing)),
                Err(error) => Err((outgoing.receipt.sqs_message_id().to_owned(), error)),
            }
        });
        let report = |(sqs_message_id, EntryError { code, .. })| {
            observer.observe(&Event::ArchiveRefused { sqs_message_id, code });
        };
        join_all(writes).await.into_iter().filter_map(|written| written.map_err(report).ok()).collect()
    }

    async fn write_record(
        &self,
        clock: &impl Clock,
        end: Timestamp,
        death: &Death,
        received: ReceivedMessage,
        content: &Content,
    ) -> Result<(), EntryError> {
        let line = self.omit.apply_to(ArchivedMessage::from_final_record(received, content, death.at));
        let key = self.layout.object_key(death);
        let object = compress_line(&line);
        // Whether the object is new or already existed, it records the same death.
        settle_one(|| self.store.create_object(&key, object.clone()), clock, end).await.map(drop)
    }
}

/// Compresses the line with its line break. The result is deterministic: equal lines have equal bytes.
#[must_use]
pub fn compress_line(line: &ArchivedMessage) -> Vec<u8> {
    const IN_MEMORY: &str = "writing to memory does not fail";
    let mut text = serde_json::to_vec(line).expect("strings and maps with string keys always serialize");
    text.push(b'\n');
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&text).expect(IN_MEMORY);
    encoder.finish().expect(IN_MEMORY)
}

#[cfg(test)]
mod tests;
