//! Counts what a function is asked to do.

use std::sync::atomic::{AtomicU64, Ordering};

use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{BatchResponse, Function};
use redeliver_embedded::EmbeddedSqs;

/// A function whose invocations are counted.
pub(super) struct Counted<'a, F> {
    function: F,
    sqs: &'a EmbeddedSqs,
    invocations: AtomicU64,
    looks: AtomicU64,
}

impl<'a, F> Counted<'a, F> {
    pub(super) fn new(function: F, sqs: &'a EmbeddedSqs) -> Self {
        Self { function, sqs, invocations: AtomicU64::new(0), looks: AtomicU64::new(0) }
    }

    pub(super) fn invocations(&self) -> u64 {
        self.invocations.load(Ordering::Relaxed)
    }

    /// How often queues were looked at (`GetQueueAttributes`) while it was at work: by itself, if it runs alone.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    fn looks_so_far(&self) -> u64 {
        self.sqs.requests().get("GetQueueAttributes").copied().unwrap_or_default()
    }
}

impl<F: Function> Function for Counted<'_, F> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        let before = self.looks_so_far();
        let response = self.function.process(records, deadline).await;
        self.looks.fetch_add(self.looks_so_far() - before, Ordering::Relaxed);
        response
    }
}
