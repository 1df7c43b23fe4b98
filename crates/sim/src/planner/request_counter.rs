//! Counts invocations of the functions, and requests to the queues.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use redeliver_core::failure::FAILURE;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::Batch;
use redeliver_core::message::{Attribute, Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Function, Queue, QueueDepth, QueueSender, Receive, Unreadable,
    VisibilityControl,
};
use redeliver_embedded::EmbeddedQueue;

use crate::sync::lock;

/// A counter that several functions or queues may share.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// The messages that were held at least once, by the beginning of their body up to the end of `message_id`.
#[derive(Debug, Default)]
pub(super) struct HeldMessages(Mutex<BTreeSet<String>>);

impl HeldMessages {
    pub(super) fn count(&self) -> u64 {
        lock(&self.0).len() as u64
    }

    fn note(&self, records: &[ReceivedMessage]) {
        let ids = records.iter().filter(|record| was_held(record)).filter_map(|record| {
            let (id, _) = record.body.split_once(',')?;
            Some(id.trim_end_matches('}').to_owned())
        });
        lock(&self.0).extend(ids);
    }
}

/// True if the message was handed off as held, or re-sent after that. The simulated bodies themselves never say so.
fn was_held(record: &ReceivedMessage) -> bool {
    let failure = record.attributes.get(FAILURE).and_then(Attribute::text);
    failure.is_some_and(|failure| failure.contains(r#""kind":"held""#))
        || record.body.contains("\"held_seconds\"")
}

/// A function whose invocations are counted.
pub(super) struct CountedFunction<'a, F> {
    pub(super) function: F,
    pub(super) invocations: &'a Counter,
    pub(super) held: &'a HeldMessages,
}

impl<F: Function> Function for CountedFunction<'_, F> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        self.invocations.add(1);
        self.held.note(&records);
        self.function.process(records, deadline).await
    }
}

/// Requests to queues that the simulated service itself does not tell apart.
#[derive(Debug, Default)]
pub(super) struct QueueRequests {
    /// `GetQueueAttributes`.
    pub(super) depths: Counter,
    /// `ReceiveMessage`, if it brings a message.
    pub(super) receives: Counter,
}

/// A queue whose requests are counted.
#[derive(Clone, Debug)]
pub(super) struct CountedQueue<'a> {
    pub(super) queue: EmbeddedQueue,
    pub(super) requests: &'a QueueRequests,
}

impl QueueSender for CountedQueue<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.queue.send_batch(batch).await
    }
}

impl QueueDepth for CountedQueue<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.requests.depths.add(1);
        self.queue.depth().await
    }
}

impl VisibilityControl for CountedQueue<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl Queue for CountedQueue<'_> {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        let received = self.queue.receive(request).await;
        let is_empty = received.as_ref().map_or(true, Vec::is_empty);
        self.requests.receives.add((!is_empty).into());
        received
    }

    fn take_unreadable(&self) -> Vec<Unreadable> {
        self.queue.take_unreadable()
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
