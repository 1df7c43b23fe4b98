//! One poll for a function: receive → invoke → delete the records that are done. An event source mapping, the pollers
//! of `redeliver work` and the model do the same.

use std::collections::HashSet;
use std::time::Duration;

use crate::deliver::deletion::delete;
use crate::message::ReceivedMessage;
use crate::ports::{Clock, EntryError, Function, Queue, Receive};

/// Receives up to `max_messages` records, or none if none arrives within `wait`.
///
/// # Errors
/// If the receive fails. If only its answer was lost, its records come back.
pub async fn receive<Q: Queue>(
    queue: &Q,
    max_messages: u8,
    wait: Duration,
) -> Result<Vec<ReceivedMessage>, EntryError> {
    queue.receive(Receive { max_messages, wait, visibility: None }).await
}

/// Invokes the function, with a deadline `timeout` from now, and deletes the records that it does not report as failed.
///
/// A failed record, or one that cannot be deleted, comes back when its visibility timeout ends. Returns the SQS message
/// ids of the records that are done and could not be deleted.
pub async fn invoke<Q: Queue>(
    queue: &Q,
    function: &impl Function,
    clock: &impl Clock,
    records: Vec<ReceivedMessage>,
    timeout: Duration,
) -> Vec<String> {
    let received: Vec<_> =
        records.iter().map(|record| (record.sqs_message_id.clone(), record.receipt_handle.clone())).collect();
    if received.is_empty() {
        return Vec::new();
    }
    let failed: HashSet<_> =
        function.batch_item_failures(records, clock.now() + timeout).await.into_iter().collect();
    let (done, handles): (Vec<_>, Vec<_>) =
        received.into_iter().filter(|(id, _)| !failed.contains(id)).unzip();
    // Deleted even after the deadline: the function has confirmed each of them.
    let deleted = delete(queue, clock, &handles).await;
    done.into_iter().zip(deleted).filter(|(_, deleted)| deleted.is_err()).map(|(id, _)| id).collect()
}
