//! Delivery: pack → send → retry what can be retried → one outcome per message.

mod report;

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};

use crate::limits::BATCH_ENTRIES_MAX;
use crate::message::{OutgoingMessage, Timestamp};
use crate::packing::pack;
use crate::ports::{Clock, EntryError, EntryOutcome, Fault, QueueSender};
pub use report::{Outgoing, Reporter, keep_free};

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
    let mut outcomes = vec![Err(no_answer()); messages.len()];
    let mut pending: Vec<usize> = (0..messages.len()).collect();
    let mut unsent = messages;
    for round in 0.. {
        let round_outcomes = send_once(queue, clock, deadline, &unsent).await;
        let mut again = Vec::new();
        for ((index, message), outcome) in pending.into_iter().zip(unsent).zip(round_outcomes) {
            if matches!(&outcome, Err(error) if error.fault.is_retryable()) {
                again.push((index, message));
            }
            outcomes[index] = outcome;
        }
        let wait = wait_before(round + 1, clock.now());
        if again.is_empty() || clock.now() + wait >= deadline {
            break;
        }
        clock.sleep(wait).await;
        (pending, unsent) = again.into_iter().unzip();
    }
    outcomes
}

/// Sends every message once. What has no answer at the deadline has none.
async fn send_once(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: &[OutgoingMessage],
) -> Vec<EntryOutcome<String>> {
    let mut outcomes = vec![Err(no_answer()); messages.len()];
    let mut first = 0;
    let mut sends = Vec::with_capacity(messages.len() / BATCH_ENTRIES_MAX + 1);
    for batch in pack(messages) {
        let places = first..first + batch.entries().len();
        first = places.end;
        sends.push(async move { (places, queue.send_batch(batch).await) });
    }
    let answers = stream::iter(sends).buffer_unordered(CONCURRENT_BATCHES).fuse();
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
