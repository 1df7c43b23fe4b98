//! Packing: messages into batches that SQS takes.

use crate::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_MAX};
use crate::message::OutgoingMessage;

/// 1..=10 messages, at most 1 MiB together; only [`pack`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    entries: &'a [OutgoingMessage],
}

impl<'a> Batch<'a> {
    /// The messages, in order.
    #[must_use]
    pub fn entries(&self) -> &'a [OutgoingMessage] {
        self.entries
    }
}

/// Cuts messages into batches: in order, none lost, each as full as order and limits allow.
#[must_use]
pub fn pack(messages: &[OutgoingMessage]) -> Vec<Batch<'_>> {
    let mut batches = Vec::new();
    let mut rest = messages;
    while !rest.is_empty() {
        let (entries, after) = rest.split_at(fitting(rest));
        batches.push(Batch { entries });
        rest = after;
    }
    batches
}

/// How many of the first messages fit in one batch: at least one, since no message is larger than a batch.
fn fitting(messages: &[OutgoingMessage]) -> usize {
    let mut bytes = 0;
    let count = messages
        .iter()
        .take(BATCH_ENTRIES_MAX)
        .take_while(|message| {
            bytes += message.size();
            bytes <= BATCH_BYTES_MAX
        })
        .count();
    count.max(1)
}
