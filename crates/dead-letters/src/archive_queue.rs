//! Dead letters of an archive on their way back to a queue. Each one that was sent gets a mark, an object that other runs
//! find, on whatever machine; and one run at a time sends, the one that has the [`Lease`].

mod lease;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::future::{join_all, try_join_all};
use redeliver_core::archive::Folder;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Clock, Depth, EntryError, EntryOutcome, Fault, ObjectStore, Queue, QueueDepth, QueueSender, Receive,
    Unreadable, VisibilityControl,
};

use crate::FileQueue;
use crate::archive_bucket::{ArchiveError, ArchivedDeath, ReadDeath};

pub use lease::{Lease, LeaseError};

/// The dead letters of an archive as a queue. A deletion marks the dead letter as sent back, and only then keeps it from
/// coming out again.
#[derive(Debug)]
pub struct ArchiveQueue<S, C> {
    lines: FileQueue,
    lease: Lease<S, C>,
    /// By SQS's id. Of several lines with the same id one comes out, and all deaths are marked.
    deaths: HashMap<String, Vec<ArchivedDeath>>,
    /// SQS's ids by receipt handle.
    received: Mutex<HashMap<String, String>>,
}

impl<S: ObjectStore, C: Clock> ArchiveQueue<S, C> {
    /// A queue of the lines that were read from the archive, and their deaths.
    #[must_use]
    pub fn new(lines: FileQueue, read: Vec<ReadDeath>, lease: Lease<S, C>) -> Self {
        let mut deaths: HashMap<String, Vec<ArchivedDeath>> = HashMap::new();
        for ReadDeath { death, sqs_message_id } in read {
            deaths.entry(sqs_message_id).or_default().push(death);
        }
        Self { lines, lease, deaths, received: Mutex::default() }
    }

    /// The lines that were read.
    #[must_use]
    pub const fn lines(&self) -> &FileQueue {
        &self.lines
    }

    /// The lease of this run.
    #[must_use]
    pub const fn lease(&self) -> &Lease<S, C> {
        &self.lease
    }

    async fn mark(&self, handle: &str) -> EntryOutcome<()> {
        let id = lock(&self.received).get(handle).cloned();
        let deaths = id.and_then(|id| self.deaths.get(&id));
        let Some(deaths) = deaths.filter(|deaths| !deaths.is_empty()) else {
            return Err(EntryError::new(Fault::Sender, "NotOfTheArchive"));
        };
        let keys: Vec<_> = deaths.iter().map(|death| death.key(Folder::SentBack)).collect();
        // A mark that is there already is as good as a new one.
        let marks = keys.iter().map(|key| self.lease.bucket().create(key, &[]));
        try_join_all(marks).await.map(drop).map_err(ArchiveError::into_error)
    }
}

impl<S: ObjectStore, C: Clock> QueueSender for ArchiveQueue<S, C> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.lines.send_batch(batch).await
    }
}

impl<S: ObjectStore, C: Clock> VisibilityControl for ArchiveQueue<S, C> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        // As long as messages are held, this comes every minute, also while nothing is sent. A failure stops the next send.
        drop(self.lease.hold().await);
        self.lines.change_visibility_batch(entries).await
    }
}

impl<S: ObjectStore, C: Clock> QueueDepth for ArchiveQueue<S, C> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.lines.depth().await
    }
}

impl<S: ObjectStore, C: Clock> Queue for ArchiveQueue<S, C> {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        // Without the lease there is nothing left to do: the error ends the run.
        self.lease.hold().await?;
        let messages = self.lines.receive(request).await?;
        let ids =
            messages.iter().map(|message| (message.receipt_handle.clone(), message.sqs_message_id.clone()));
        lock(&self.received).extend(ids);
        Ok(messages)
    }

    fn take_unreadable(&self) -> Vec<Unreadable> {
        self.lines.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        // Also without the lease: these messages are sent, and the run that has it must know.
        let outcomes = join_all(handles.iter().map(|handle| self.mark(handle))).await;
        let marked: Vec<_> = handles.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).collect();
        let marked: Vec<_> = marked.into_iter().map(|(handle, _)| handle.clone()).collect();
        // In memory: it cannot fail.
        self.lines.delete_batch(&marked).await;
        let mut received = lock(&self.received);
        marked.iter().for_each(|handle| drop(received.remove(handle)));
        drop(received);
        outcomes
    }

    fn arn(&self) -> &str {
        self.lines.arn()
    }

    fn url(&self) -> &str {
        self.lines.url()
    }
}

/// A queue to which nothing is sent once the lease is lost, or cannot be renewed in time.
#[derive(Debug)]
pub struct Leased<'a, Q, S, C> {
    pub queue: &'a Q,
    /// `None`: the dead letters are not of an archive.
    pub lease: Option<&'a Lease<S, C>>,
}

impl<Q: QueueSender, S: ObjectStore, C: Clock> QueueSender for Leased<'_, Q, S, C> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        if let Some(lease) = self.lease
            && let Err(error) = lease.hold_to_send().await
        {
            return batch.entries().iter().map(|_| Err(error.clone())).collect();
        }
        self.queue.send_batch(batch).await
    }
}

impl<Q: QueueDepth, S: ObjectStore, C: Clock> QueueDepth for Leased<'_, Q, S, C> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}
