//! A queue as seen by a function: each request takes time.

use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{Clock as _, EntryOutcome, QueueSender, VisibilityControl};
use redeliver_embedded::{EmbeddedQueue, VirtualClock};

#[derive(Clone, Debug)]
pub(super) struct TimedQueue {
    pub(super) queue: EmbeddedQueue,
    pub(super) clock: VirtualClock,
    pub(super) request: Duration,
}

impl TimedQueue {
    async fn wait(&self) {
        self.clock.sleep(self.request).await;
    }
}

impl QueueSender for TimedQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.wait().await;
        self.queue.send_batch(batch).await
    }
}

impl VisibilityControl for TimedQueue {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.wait().await;
        self.queue.change_visibility_batch(entries).await
    }
}
