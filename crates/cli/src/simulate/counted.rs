//! Counts what a function is asked to do.

use std::sync::atomic::{AtomicU64, Ordering};

use redeliver_core::failure::FAILURE;
use redeliver_core::message::{Attribute, ReceivedMessage, Timestamp};
use redeliver_core::ports::{BatchResponse, Function};
use redeliver_embedded::EmbeddedSqs;

/// A function whose invocations are counted.
pub(super) struct Counted<'a, F> {
    pub(super) function: F,
    sqs: &'a EmbeddedSqs,
    invocations: AtomicU64,
    looks: AtomicU64,
    held_first: AtomicU64,
}

impl<'a, F> Counted<'a, F> {
    pub(super) fn new(function: F, sqs: &'a EmbeddedSqs) -> Self {
        Self {
            function,
            sqs,
            invocations: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            held_first: AtomicU64::new(0),
        }
    }

    pub(super) fn invocations(&self) -> u64 {
        self.invocations.load(Ordering::Relaxed)
    }

    /// How often queues were looked at (`GetQueueAttributes`) while it was at work: by itself, if it runs alone.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Messages that came as held, each counted once.
    pub(super) fn held_first(&self) -> u64 {
        self.held_first.load(Ordering::Relaxed)
    }

    fn looks_so_far(&self) -> u64 {
        self.sqs.requests().get("GetQueueAttributes").copied().unwrap_or_default()
    }
}

impl<F: Function> Function for Counted<'_, F> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        let held_first = records.iter().filter(|record| is_held_first(record)).count() as u64;
        self.held_first.fetch_add(held_first, Ordering::Relaxed);
        let before = self.looks_so_far();
        let response = self.function.process(records, deadline).await;
        self.looks.fetch_add(self.looks_so_far() - before, Ordering::Relaxed);
        response
    }
}

/// Whether it is handed off as held, and was not before. The messages of a simulation have no such words of their own.
fn is_held_first(record: &ReceivedMessage) -> bool {
    let failure = record.attributes.get(FAILURE).and_then(Attribute::text);
    failure.is_some_and(|failure| failure.contains(r#""kind":"held""#))
        && !record.body.contains("\"held_seconds\"")
}
