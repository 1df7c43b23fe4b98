//! What an event source mapping does: receive → invoke → delete what is done.

use std::collections::HashSet;
use std::time::Duration;

use redeliver_core::deliver::deletion::delete;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, EntryError, Function, Queue, Receive};

/// Receives up to ten records; none if none came within `wait`.
///
/// # Errors
/// If the receive fails; nothing was taken then, or the answer got lost: what was in it comes back.
pub async fn receive<Q: Queue>(queue: &Q, wait: Duration) -> Result<Vec<ReceivedMessage>, EntryError> {
    queue.receive(Receive { max_messages: 10, wait, visibility: None }).await
}

/// Invokes the function, which has the time `invocation` for it, and deletes the records that are not among its
/// failures.
///
/// A record that is reported failed, or whose deletion fails, comes back when its visibility timeout ends, as behind an
/// event source mapping. Answers with SQS's ids of those that are done and could not be deleted.
pub async fn handle<Q: Queue>(
    queue: &Q,
    function: &impl Function,
    clock: &impl Clock,
    records: Vec<ReceivedMessage>,
    invocation: Duration,
) -> Vec<String> {
    // The function takes the records, so what is needed to delete them is kept.
    let received: Vec<_> =
        records.iter().map(|record| (record.sqs_message_id.clone(), record.receipt_handle.clone())).collect();
    if received.is_empty() {
        return Vec::new();
    }
    let failed: HashSet<_> =
        function.batch_item_failures(records, clock.now() + invocation).await.into_iter().collect();
    let (done, handles): (Vec<_>, Vec<_>) =
        received.into_iter().filter(|(id, _)| !failed.contains(id)).unzip();
    // Deleted even if the function took longer than it had: it has confirmed what became of each, and nobody else
    // would.
    let deleted = delete(queue, clock, &handles).await;
    done.into_iter().zip(deleted).filter(|(_, deleted)| deleted.is_err()).map(|(id, _)| id).collect()
}
