//! Counts what the functions are asked to do, and what they ask for.

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

/// What all functions together were given and asked for.
#[derive(Debug, Default)]
pub(super) struct Counts {
    looks: AtomicU64,
    receives: AtomicU64,
    /// Bodies from their beginning to the end of `message_id`, which comes first.
    held: Mutex<BTreeSet<String>>,
}

impl Counts {
    /// How often the functions asked for a queue's depth (`GetQueueAttributes`). The engine does that too, which no
    /// deployment does.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Receives that brought a message.
    pub(super) fn receives(&self) -> u64 {
        self.receives.load(Ordering::Relaxed)
    }

    /// Messages that were held at least once.
    pub(super) fn held_messages(&self) -> u64 {
        lock(&self.held).len() as u64
    }
}

/// A function whose invocations are counted.
pub(super) struct Counted<'a, F> {
    pub(super) function: F,
    counts: &'a Counts,
    invocations: AtomicU64,
}

impl<'a, F> Counted<'a, F> {
    pub(super) fn new(function: F, counts: &'a Counts) -> Self {
        Self { function, counts, invocations: AtomicU64::new(0) }
    }

    pub(super) fn invocations(&self) -> u64 {
        self.invocations.load(Ordering::Relaxed)
    }
}

impl<F: Function> Function for Counted<'_, F> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        let held = records.iter().filter(|record| is_or_was_held(record));
        let ids =
            held.filter_map(|record| Some(record.body.split_once(',')?.0.trim_end_matches('}').to_owned()));
        lock(&self.counts.held).extend(ids);
        self.function.process(records, deadline).await
    }
}

/// Whether it is handed off as held, or was sent again so. The messages of a simulation have no such words of their own.
fn is_or_was_held(record: &ReceivedMessage) -> bool {
    let failure = record.attributes.get(FAILURE).and_then(Attribute::text);
    failure.is_some_and(|failure| failure.contains(r#""kind":"held""#))
        || record.body.contains("\"held_seconds\"")
}

/// A queue that counts some of what it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Watched<'a> {
    pub(super) queue: EmbeddedQueue,
    pub(super) counts: &'a Counts,
}

impl QueueSender for Watched<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.queue.send_batch(batch).await
    }
}

impl QueueDepth for Watched<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.counts.looks.fetch_add(1, Ordering::Relaxed);
        self.queue.depth().await
    }
}

impl VisibilityControl for Watched<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl Queue for Watched<'_> {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        let received = self.queue.receive(request).await;
        let brought = received.as_ref().is_ok_and(|records| !records.is_empty());
        self.counts.receives.fetch_add(brought.into(), Ordering::Relaxed);
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
