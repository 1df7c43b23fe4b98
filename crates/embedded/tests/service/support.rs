//! Helpers shared by the tests of the embedded service.

use std::time::Duration;

use redeliver_core::limits::{DelaySeconds, VisibilitySeconds};
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage, ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Clock, EntryOutcome, Queue, QueueSender, QueueService, QueueSettings, ReceiveOptions, RedriveSettings,
};
use redeliver_embedded::{ChangeKind, EmbeddedQueue, EmbeddedSqs, MessageChange, VirtualClock};

pub(crate) fn service() -> (VirtualClock, EmbeddedSqs) {
    let clock = VirtualClock::new(Timestamp::from_timestamp(1_700_000_000, 0).unwrap());
    (clock.clone(), EmbeddedSqs::new(clock, 1))
}

/// Returns the virtual time since the test began, in whole seconds.
pub(crate) fn elapsed(clock: &VirtualClock) -> i64 {
    clock.now().timestamp() - 1_700_000_000
}

pub(crate) fn seconds(seconds: u64) -> VisibilitySeconds {
    VisibilitySeconds::new(seconds).unwrap()
}

pub(crate) fn message(body: &str, delay_seconds: u64) -> OutgoingMessage {
    let delay = DelaySeconds::new(delay_seconds).unwrap();
    OutgoingMessage::new(Content { body: body.to_owned(), delay, ..Content::default() }).unwrap()
}

pub(crate) async fn send(queue: &EmbeddedQueue, messages: &[OutgoingMessage]) -> Vec<EntryOutcome<String>> {
    let mut outcomes = Vec::new();
    for batch in pack_batches(messages) {
        outcomes.extend(queue.send_batch(batch).await);
    }
    outcomes
}

pub(crate) async fn receive(queue: &EmbeddedQueue, wait_seconds: u64) -> Vec<ReceivedMessage> {
    let request =
        ReceiveOptions { max_messages: 10, wait: Duration::from_secs(wait_seconds), visibility: None };
    queue.receive(request).await.unwrap()
}

/// Creates a queue that moves messages after `max_receive_count` receives, and its dead-letter queue.
pub(crate) async fn create_queue_with_dlq(
    sqs: &EmbeddedSqs,
    max_receive_count: u16,
    settings: QueueSettings,
) -> (EmbeddedQueue, EmbeddedQueue) {
    let dlq = sqs.create_queue("dlq", &QueueSettings::default()).await.unwrap();
    let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count });
    let queue = sqs.create_queue("source", &QueueSettings { redrive, ..settings }).await.unwrap();
    (queue, dlq)
}

/// Counts of the changes to a queue's messages.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) sent: u64,
    pub(crate) moved_in: u64,
    pub(crate) moved_out: u64,
    pub(crate) deleted: u64,
    pub(crate) expired: u64,
}

impl Totals {
    pub(crate) fn from_changes(queue: &EmbeddedQueue, changes: &[MessageChange]) -> Self {
        let mut totals = Self::default();
        for MessageChange { queue_arn, what, .. } in changes {
            let is_here = u64::from(queue_arn == queue.arn());
            match what {
                ChangeKind::Sent(_) => totals.sent += is_here,
                ChangeKind::Moved(to) => {
                    totals.moved_out += is_here;
                    totals.moved_in += u64::from(to == queue.arn());
                }
                ChangeKind::Deleted => totals.deleted += is_here,
                ChangeKind::Expired => totals.expired += is_here,
                ChangeKind::Received { .. } | ChangeKind::Hidden { .. } => {}
            }
        }
        totals
    }
}
