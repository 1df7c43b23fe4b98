//! Deletion by receipt handle, with one outcome per entry.

use std::time::Duration;

use crate::fault::{EntryError, EntryOutcome, Fault};
use crate::limits::BATCH_ENTRIES_MAX;
use crate::ports::{Clock, Queue};

/// Maximum number of requests per batch. The pause between them doubles each time.
const REQUESTS_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Deletes messages by receipt handle. Retries transient errors, and returns one final outcome per handle, in order.
pub async fn delete_by_receipt_handle<Q: Queue, C: Clock>(
    queue: &Q,
    clock: &C,
    handles: &[String],
) -> Vec<EntryOutcome<()>> {
    let no_answer = || Err(EntryError::new(Fault::NoAnswer, "NoAnswer"));
    let mut outcomes: Vec<_> = handles.iter().map(|_| no_answer()).collect();
    let mut waiting: Vec<usize> = (0..handles.len()).collect();
    let mut pause = FIRST_PAUSE;
    for _ in 0..REQUESTS_MAX {
        for places in waiting.chunks(BATCH_ENTRIES_MAX) {
            let batch: Vec<_> = places.iter().map(|place| handles[*place].clone()).collect();
            for (place, outcome) in places.iter().zip(queue.delete_batch(&batch).await) {
                outcomes[*place] = outcome;
            }
        }
        // Deletions are idempotent, so a deletion without a response can be repeated.
        waiting.retain(|place| matches!(&outcomes[*place], Err(error) if error.fault.is_retryable()));
        if waiting.is_empty() {
            break;
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
    outcomes
}
