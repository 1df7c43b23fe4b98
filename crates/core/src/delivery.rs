//! Delivery: pack → send → retry what can be retried → one outcome per message. And the same for changes of visibility.

mod report;

use std::ops::Range;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};

use crate::limits::{BATCH_ENTRIES_MAX, VisibilitySeconds};
use crate::message::{OutgoingMessage, Timestamp};
use crate::packing::pack;
use crate::ports::{Clock, EntryError, EntryOutcome, Fault, QueueSender, VisibilityControl};
pub use report::{Hiding, Outgoing, Reporter, keep_free};

/// Batches on their way at the same time.
const CONCURRENT_BATCHES: usize = 8;
/// Before the first resend of unconfirmed entries; doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between two resends at most.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Sends all messages before `deadline`. One outcome per message, in order: the SQS message id of each confirmed one.
///
/// Throttled entries, service faults and lost answers are tried again while time remains (a lost answer may have been
/// a success: then there is a copy). Sender faults are not. What is still on its way at the deadline is not confirmed.
pub async fn deliver(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<EntryOutcome<String>> {
    let mut tries = Tries::new(messages);
    loop {
        let mut first = 0;
        let sends = pack(&tries.pending).into_iter().map(|batch| {
            let places = first..first + batch.entries().len();
            first = places.end;
            async move { (places, queue.send_batch(batch).await) }
        });
        let sends: Vec<_> = sends.collect();
        let outcomes = answers_of(sends, tries.pending.len(), clock, deadline).await;
        if tries.end_with(outcomes, clock, deadline).await {
            return tries.outcomes;
        }
    }
}

/// Changes the visibility of receives, by receipt handle, before `deadline`: like [`deliver`], one outcome each, in order. A
/// change that is done twice is done once.
pub async fn change_visibility(
    queue: &impl VisibilityControl,
    clock: &impl Clock,
    deadline: Timestamp,
    receives: Vec<(String, VisibilitySeconds)>,
) -> Vec<EntryOutcome<()>> {
    let mut tries = Tries::new(receives);
    loop {
        let chunks = tries.pending.chunks(BATCH_ENTRIES_MAX).enumerate();
        let changes = chunks.map(|(index, chunk)| {
            let first = index * BATCH_ENTRIES_MAX;
            async move { (first..first + chunk.len(), queue.change_visibility_batch(chunk).await) }
        });
        let changes: Vec<_> = changes.collect();
        let outcomes = answers_of(changes, tries.pending.len(), clock, deadline).await;
        if tries.end_with(outcomes, clock, deadline).await {
            return tries.outcomes;
        }
    }
}

/// Entries that are tried until each has an outcome that another try cannot better.
struct Tries<T, R> {
    pending: Vec<T>,
    places: Vec<usize>,
    outcomes: Vec<EntryOutcome<R>>,
    round: u32,
}

impl<T, R> Tries<T, R> {
    fn new(entries: Vec<T>) -> Self {
        let places = (0..entries.len()).collect();
        let outcomes = entries.iter().map(|_| Err(no_answer())).collect();
        Self { pending: entries, places, outcomes, round: 0 }
    }

    /// Takes the outcomes of a round, and waits before the next one; whether there is none.
    async fn end_with(
        &mut self,
        outcomes: Vec<EntryOutcome<R>>,
        clock: &impl Clock,
        deadline: Timestamp,
    ) -> bool {
        let mut again = Vec::new();
        let tried = self.places.drain(..).zip(self.pending.drain(..));
        for ((place, entry), outcome) in tried.zip(outcomes) {
            if matches!(&outcome, Err(error) if error.fault.is_retryable()) {
                again.push((place, entry));
            }
            self.outcomes[place] = outcome;
        }
        self.round += 1;
        let wait = wait_before(self.round, clock.now());
        if again.is_empty() || clock.now() + wait >= deadline {
            return true;
        }
        clock.sleep(wait).await;
        (self.places, self.pending) = again.into_iter().unzip();
        false
    }
}

/// Makes each request once. What has no answer at the deadline has none.
async fn answers_of<R>(
    requests: Vec<impl Future<Output = (Range<usize>, Vec<EntryOutcome<R>>)>>,
    entries: usize,
    clock: &impl Clock,
    deadline: Timestamp,
) -> Vec<EntryOutcome<R>> {
    let mut outcomes: Vec<_> = (0..entries).map(|_| Err(no_answer())).collect();
    let answers = stream::iter(requests).buffer_unordered(CONCURRENT_BATCHES).fuse();
    let time_is_up = clock.sleep(until(clock.now(), deadline)).fuse();
    pin_mut!(answers, time_is_up);
    loop {
        select_biased! {
            answer = answers.next() => match answer {
                // Zipped with the batch's own places: a queue that answers too little leaves the rest unconfirmed, and one
                // that answers too much confirms nothing of another batch.
                Some((places, answered)) => {
                    for (place, outcome) in outcomes[places].iter_mut().zip(answered) {
                        *place = outcome;
                    }
                }
                None => return outcomes,
            },
            () = time_is_up => return outcomes,
        }
    }
}

/// Doubling, and the clock's own sub-second part takes up to half of it away, so that many instances do not move in step.
fn wait_before(round: u32, now: Timestamp) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(1 << (round - 1).min(16)).min(LONGEST_WAIT);
    wait - wait.mul_f64(f64::from(now.timestamp_subsec_micros()) / 2_000_000.0)
}

/// From `now` to `then`; zero where that is past.
#[must_use]
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    (then - now).to_std().unwrap_or(Duration::ZERO)
}

fn no_answer() -> EntryError {
    EntryError { fault: Fault::NoAnswer, code: "NoAnswerBeforeDeadline".to_owned() }
}

#[cfg(test)]
mod tests;
