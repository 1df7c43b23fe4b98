//! Delivery: pack → send → try again what can be → one outcome per message. And the same for changes of visibility.

pub mod deletion;
mod outbox;
mod tries;

use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use crate::limits::{BATCH_ENTRIES_MAX, VisibilitySeconds};
use crate::message::packing::{Batch, pack};
use crate::message::{OutgoingMessage, Timestamp};
use crate::ports::{Clock, EntryOutcome, QueueSender, VisibilityControl};
pub use outbox::{Hiding, Outbox, Outgoing, keep_free};
use tries::settle;

/// Batches on their way at the same time.
const CONCURRENT_BATCHES: usize = 8;
/// So often a message may be sent without an answer that says that it was refused: each but the first may make a copy.
pub const SENDS_PERHAPS_DONE_MAX: u32 = 2;

/// Sends all messages before `deadline`. One outcome per message, in order: the SQS message id of each confirmed one.
///
/// What was refused for a while, or did not get to SQS, is sent again while time remains. What *may* have been accepted
/// (see [`Fault::may_be_done`](crate::ports::Fault::may_be_done)) is sent once more and no further: each such send may
/// make a copy, and a service that accepts everything and answers nothing must not make a storm of them. Sender faults
/// are final. What has no answer at the deadline is not confirmed.
pub async fn deliver(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<EntryOutcome<String>> {
    let delivered = deliver_counted(queue, clock, deadline, messages).await;
    delivered.into_iter().map(|delivered| delivered.outcome).collect()
}

/// What became of one entry, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered<R> {
    /// Whether it is confirmed.
    pub outcome: EntryOutcome<R>,
    /// The requests of which no answer says that they were not done, the confirmed one among them: so many messages
    /// there may be.
    pub perhaps_done: u32,
}

/// [`deliver`], for callers that show people how many copies there may be.
pub async fn deliver_counted(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<Delivered<String>> {
    let batches = pack(&messages).into_iter().map(|batch| async move {
        // Each batch has its own tries: a refusal in one must not make the entries of another wait.
        let request = |places| send(queue, batch, places);
        settle(batch.entries().len(), SENDS_PERHAPS_DONE_MAX, request, clock, deadline).await
    });
    all_of(batches).await
}

/// Changes the visibility of receives, by receipt handle, before `deadline`: like [`deliver`], one outcome each, in
/// order. A change that is done twice is done once, so it is tried while time remains.
pub async fn change_visibility(
    queue: &impl VisibilityControl,
    clock: &impl Clock,
    deadline: Timestamp,
    receives: Vec<(String, VisibilitySeconds)>,
) -> Vec<EntryOutcome<()>> {
    let batches = receives.chunks(BATCH_ENTRIES_MAX).map(|chunk| async move {
        let request = |places: Vec<usize>| async move {
            let some: Vec<_> = places.into_iter().map(|place| chunk[place].clone()).collect();
            queue.change_visibility_batch(&some).await
        };
        settle(chunk.len(), u32::MAX, request, clock, deadline).await
    });
    all_of(batches).await.into_iter().map(|changed| changed.outcome).collect()
}

/// One request for those entries of a batch that have these numbers.
async fn send(queue: &impl QueueSender, batch: Batch<'_>, places: Vec<usize>) -> Vec<EntryOutcome<String>> {
    let entries = batch.entries();
    if places.len() == entries.len() {
        return queue.send_batch(batch).await;
    }
    let some: Vec<_> = places.into_iter().map(|place| entries[place].clone()).collect();
    // What is left of a batch is one batch.
    queue.send_batch(pack(&some)[0]).await
}

/// The outcomes of all batches, in order. A batch that waits holds up no other, unless eight of them do.
async fn all_of<R>(
    batches: impl Iterator<Item = impl Future<Output = Vec<Delivered<R>>>>,
) -> Vec<Delivered<R>> {
    let numbered: Vec<_> =
        batches.enumerate().map(|(number, batch)| async move { (number, batch.await) }).collect();
    // `buffered` would keep the order by itself, but it starts no ninth batch while the first one waits.
    let mut outcomes: Vec<_> = stream::iter(numbered).buffer_unordered(CONCURRENT_BATCHES).collect().await;
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

/// From `now` to `then`; zero if that is past.
#[must_use]
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    (then - now).to_std().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
