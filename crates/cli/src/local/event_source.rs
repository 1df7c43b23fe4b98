//! What an event source mapping does: receive → invoke → delete what is done.

use std::collections::HashSet;
use std::time::Duration;

use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::ports::{Clock, EntryError, Function, Queue, Receive};

/// The functions' timeout.
pub(super) const INVOCATION_TIMEOUT: Duration = Duration::from_secs(30);

/// One poll: receives up to ten records, invokes the function and deletes those that are not among its failures. A record
/// that is reported failed, or whose deletion fails, comes back when its visibility timeout ends.
///
/// # Errors
/// If the receive fails; nothing was taken then.
pub async fn poll<Q: Queue>(
    queue: &Q,
    function: &impl Function,
    clock: &impl Clock,
    wait: Duration,
) -> Result<(), EntryError> {
    let records = queue.receive(Receive { max_messages: 10, wait, visibility: None }).await?;
    if records.is_empty() {
        return Ok(());
    }
    let received: Vec<_> =
        records.iter().map(|record| (record.sqs_message_id.clone(), record.receipt_handle.clone())).collect();
    let failed: HashSet<_> =
        function.process(records, clock.now() + INVOCATION_TIMEOUT).await.failed.into_iter().collect();
    let done: Vec<_> =
        received.into_iter().filter(|(id, _)| !failed.contains(id)).map(|(_, handle)| handle).collect();
    delete(queue, &done).await;
    Ok(())
}

/// Deletes receives; what fails comes back, which at-least-once allows.
pub(super) async fn delete<Q: Queue>(queue: &Q, handles: &[String]) {
    for handles in handles.chunks(BATCH_ENTRIES_MAX) {
        let _ = queue.delete_batch(handles).await;
    }
}
