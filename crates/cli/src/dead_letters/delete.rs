//! Deleting, batch by batch, entry by entry.

use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::ports::{Clock, Queue};

use super::reader::{FIRST_PAUSE, TRIES};

/// Deletes receives by handle; for each, in order, whether SQS has confirmed it. What fails for a while is tried again.
pub async fn delete<Q: Queue, C: Clock>(queue: &Q, clock: &C, handles: &[String]) -> Vec<bool> {
    let mut deleted = vec![false; handles.len()];
    let mut waiting: Vec<usize> = (0..handles.len()).collect();
    let mut pause = FIRST_PAUSE;
    for _ in 0..TRIES {
        let mut again = Vec::new();
        for places in waiting.chunks(BATCH_ENTRIES_MAX) {
            let batch: Vec<_> = places.iter().map(|place| handles[*place].clone()).collect();
            for (place, outcome) in places.iter().zip(queue.delete_batch(&batch).await) {
                match outcome {
                    Ok(()) => deleted[*place] = true,
                    Err(error) if error.fault.is_retryable() => again.push(*place),
                    Err(_) => {}
                }
            }
        }
        waiting = again;
        if waiting.is_empty() {
            break;
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
    deleted
}
