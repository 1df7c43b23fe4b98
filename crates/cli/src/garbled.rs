//! A queue some of whose messages cannot be understood when they are received.

use std::sync::Mutex;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::packing::Batch;
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Queue, QueueDepth, QueueSender, Receive, Unreadable, VisibilityControl,
};
use redeliver_embedded::EmbeddedQueue;

/// Messages with the body [`GARBLED`] cannot be understood.
pub(crate) struct Garbled {
    queue: EmbeddedQueue,
    unreadable: Mutex<Vec<Unreadable>>,
}

/// The body of a message that cannot be understood.
pub(crate) const GARBLED: &str = "garbled";

impl Garbled {
    pub(crate) fn new(queue: &EmbeddedQueue) -> Self {
        Self { queue: queue.clone(), unreadable: Mutex::default() }
    }
}

impl Queue for Garbled {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        let messages = self.queue.receive(request).await?;
        let (garbled, readable): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.body == GARBLED);
        let garbled = garbled.into_iter().map(|message| Unreadable {
            sqs_message_id: message.sqs_message_id,
            receipt_handle: message.receipt_handle,
        });
        self.unreadable.lock().unwrap().extend(garbled);
        Ok(readable)
    }

    fn take_unreadable(&self) -> Vec<Unreadable> {
        std::mem::take(&mut self.unreadable.lock().unwrap())
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.queue.delete_batch(handles).await
    }

    fn arn(&self) -> &str {
        self.queue.arn()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }
}

impl QueueSender for Garbled {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.queue.send_batch(batch).await
    }
}

impl VisibilityControl for Garbled {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl QueueDepth for Garbled {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}
