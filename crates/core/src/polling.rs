//! The steps of one poll on behalf of a function: receive → invoke → delete the completed records. Event source
//! mappings, the pollers of `redeliver work` and the model all follow them.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use crate::deliver::deletion::delete_by_receipt_handle;
use crate::message::ReceivedMessage;
use crate::ports::{Clock, EntryError, Function, Queue, ReceiveOptions, UnreadableMessage};

/// Receives up to `max_messages` records, or none if none arrives within `wait`.
///
/// # Errors
/// The receive failed. If only the response was lost, the records are received again after their visibility timeout.
pub async fn receive_records<Q: Queue>(
    queue: &Q,
    max_messages: u8,
    wait: Duration,
) -> Result<Vec<ReceivedMessage>, EntryError> {
    queue.receive(ReceiveOptions { max_messages, wait, visibility: None }).await
}

/// Removes from a batch the records that must wait for an earlier unreadable record, if the function keeps the order
/// within groups. These are the later records of the same group, or all later records if the group is unreadable, too.
/// They remain in their queue, as does the unreadable record.
pub fn take_waiting_records(
    function: &impl Function,
    readable: &mut Vec<ReceivedMessage>,
    unreadable: &[UnreadableMessage],
) -> Vec<ReceivedMessage> {
    if !function.keeps_order() {
        return Vec::new();
    }
    let mut unreadable = unreadable.iter().peekable();
    let mut stopped = BTreeSet::new();
    let mut are_all_stopped = false;
    let mut place = 0;
    let must_wait = |record: &mut ReceivedMessage| {
        while let Some(before) = unreadable.next_if(|one| one.readable_before <= place) {
            match &before.message_group_id {
                Some(group) => stopped.extend([group.as_str()]),
                None => are_all_stopped = true,
            }
        }
        place += 1;
        are_all_stopped || stopped.contains(record.message_group_id.as_deref().unwrap_or_default())
    };
    readable.extract_if(.., must_wait).collect()
}

/// Invokes the function with a deadline `timeout` from now, and deletes the records that it does not report as failed.
///
/// Failed records and records that cannot be deleted are received again after their visibility timeout. Returns the SQS
/// message ids of the completed records that could not be deleted.
pub async fn invoke_function<Q: Queue>(
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
    // Deleted even after the deadline, since the function has confirmed each of these records.
    let deleted = delete_by_receipt_handle(queue, clock, &handles).await;
    done.into_iter().zip(deleted).filter(|(_, deleted)| deleted.is_err()).map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Confirmed, Timestamp};
    use crate::testing::received_message;

    /// Generates a record for a batch: its group, and a flag that is true if the record is readable.
    fn record() -> impl Strategy<Value = (Option<&'static str>, bool)> {
        (prop::sample::select(vec![Some("a"), Some("b"), None]), prop::bool::weighted(0.7))
    }

    struct OrderKeepingFunction(bool);

    impl Function for OrderKeepingFunction {
        async fn process_batch(&self, _: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            Vec::new()
        }

        fn keeps_order(&self) -> bool {
            self.0
        }
    }

    proptest! {
        /// By definition, a record waits if an unreadable record of the same group or of an unknown group precedes it.
        #[test]
        fn records_wait_behind_an_unreadable_record_in_their_group(
            batch in prop::collection::vec(record(), 0..10)
        ) {
            let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
            let (mut continued, mut waiting) = (Vec::new(), Vec::new());
            for (n, (group, is_readable)) in batch.iter().enumerate() {
                let (sqs_message_id, message_group_id) = (n.to_string(), group.map(str::to_owned));
                if *is_readable {
                    let stops = |(before, is_readable): &(Option<&str>, bool)| {
                        !is_readable && before.is_none_or(|before| Some(before) == *group)
                    };
                    let list = if batch[..n].iter().any(stops) { &mut waiting } else { &mut continued };
                    list.push(sqs_message_id.clone());
                    readable.push(ReceivedMessage { sqs_message_id, message_group_id, ..received_message(None) });
                } else {
                    unreadable.push(UnreadableMessage {
                        sqs_message_id,
                        receipt_handle: String::new(),
                        message_group_id,
                        readable_before: readable.len(),
                    });
                }
            }
            let ids = |records: Vec<ReceivedMessage>| -> Vec<_> {
                records.into_iter().map(|record| record.sqs_message_id).collect()
            };
            let before = readable.clone();
            prop_assert_eq!(take_waiting_records(&OrderKeepingFunction(false), &mut readable, &unreadable), []);
            prop_assert_eq!(&readable, &before);
            prop_assert_eq!(ids(take_waiting_records(&OrderKeepingFunction(true), &mut readable, &unreadable)), waiting);
            prop_assert_eq!(ids(readable), continued);
        }
    }
}
