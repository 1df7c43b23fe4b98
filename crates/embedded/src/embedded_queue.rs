//! The service's queues, which implement the ports.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::select;
use redeliver_core::limits::{BATCH_BYTES_MAX, VisibilitySeconds};
use redeliver_core::message::packing::Batch;
use redeliver_core::message::{OutgoingMessage, ReceivedMessage};
use redeliver_core::ports::{
    Clock, Depth, EntryError, EntryOutcome, Queue, QueueDepth, QueueSender, QueueService, QueueSettings,
    ReceiveOptions, UnreadableMessage, VisibilityControl,
};

use crate::checks::sender_fault;
use crate::clock::add_duration;
use crate::faults::SqsAction;
use crate::service::EmbeddedSqs;

const ARN_PREFIX: &str = "arn:aws:sqs:us-east-1:000000000000:";
const URL_PREFIX: &str = "https://sqs.us-east-1.amazonaws.com/000000000000/";

/// The longest long poll ("Amazon SQS short and long polling").
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The default sender: an IAM user.
const PRODUCER_ID: &str = "AIDAPRODUCER000000000";

/// A queue of an [`EmbeddedSqs`]. Clones share the queue and the request count.
#[derive(Clone, Debug)]
pub struct EmbeddedQueue {
    sqs: EmbeddedSqs,
    arn: Arc<str>,
    url: Arc<str>,
    sender_id: Arc<str>,
    message_requests: Arc<AtomicU64>,
}

impl EmbeddedQueue {
    pub(crate) fn new(sqs: EmbeddedSqs, arn: String, url: String) -> Self {
        Self {
            sqs,
            arn: arn.into(),
            url: url.into(),
            sender_id: PRODUCER_ID.into(),
            message_requests: Arc::default(),
        }
    }

    /// Returns the same queue for another sender. `sender_id` becomes the `SenderId` of its messages, and its requests
    /// are counted separately. The default sender is the IAM user `AIDAPRODUCER000000000`.
    #[must_use]
    pub fn with_sender(&self, sender_id: &str) -> Self {
        Self { sender_id: sender_id.into(), message_requests: Arc::default(), ..self.clone() }
    }

    /// Returns the number of this sender's requests: sends, visibility changes and deletes, and receives that returned
    /// a message.
    #[must_use]
    pub fn message_requests(&self) -> u64 {
        self.message_requests.load(Ordering::Relaxed)
    }

    fn count_request(&self, has_messages: bool) {
        self.message_requests.fetch_add(has_messages.into(), Ordering::Relaxed);
    }

    async fn long_poll(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let clock = self.sqs.clock();
        let deadline = add_duration(clock.now(), request.wait);
        loop {
            let now = clock.now();
            let arrivals = self.sqs.lock_state().queue_mut(&self.arn)?.arrivals();
            // Registered before the attempt, so that any later arrival ends the wait immediately.
            let arrival = pin!(arrivals.notified());
            let attempt = self.sqs.run_request(|state| state.receive_messages(now, &self.arn, request))?;
            if !attempt.messages.is_empty() || now >= deadline {
                return Ok(attempt.messages);
            }
            let until = attempt.next_visible.map_or(deadline, |visible| visible.min(deadline));
            select(clock.sleep_until(until), arrival).await;
        }
    }
}

impl QueueSender for EmbeddedQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        let now = self.sqs.clock().now();
        let entries = batch.entries();
        self.count_request(!entries.is_empty());
        let bytes: usize = entries.iter().map(OutgoingMessage::size).sum();
        self.sqs.run_request(|state| {
            state.apply_batch(SqsAction::SendMessageBatch, &self.arn, entries, |state, entry| {
                if bytes > BATCH_BYTES_MAX {
                    return Err(sender_fault("BatchRequestTooLong"));
                }
                state.send_message(now, &self.arn, &self.sender_id, entry.content())
            })
        })
    }
}

impl VisibilityControl for EmbeddedQueue {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        let now = self.sqs.clock().now();
        self.count_request(!entries.is_empty());
        self.sqs.run_request(|state| {
            state.apply_batch(
                SqsAction::ChangeMessageVisibilityBatch,
                &self.arn,
                entries,
                |state, (handle, visibility)| state.change_visibility(now, &self.arn, handle, *visibility),
            )
        })
    }
}

impl QueueDepth for EmbeddedQueue {
    async fn depth(&self) -> Result<Depth, EntryError> {
        let now = self.sqs.clock().now();
        self.sqs.lock_state().apply_request(SqsAction::GetQueueAttributes, &self.arn, |state| {
            state.queue_depth(now, &self.arn)
        })
    }
}

impl Queue for EmbeddedQueue {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let fault = self.sqs.lock_state().begin_request(SqsAction::ReceiveMessage, &self.arn);
        if let Some(fault) = fault.filter(|fault| !fault.takes_effect()) {
            return Err(fault.to_error());
        }
        if !(1..=10).contains(&request.max_messages) || request.wait > WAIT_MAX {
            return Err(sender_fault("InvalidParameterValue"));
        }
        let received = self.long_poll(request).await?;
        self.count_request(!received.is_empty());
        fault.map_or(Ok(received), |fault| Err(fault.to_error()))
    }

    /// Returns no messages, since every message in the embedded service is readable.
    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        Vec::new()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        let now = self.sqs.clock().now();
        self.count_request(!handles.is_empty());
        self.sqs.run_request(|state| {
            state.apply_batch(SqsAction::DeleteMessageBatch, &self.arn, handles, |state, handle| {
                state.delete_message(now, &self.arn, handle)
            })
        })
    }

    fn arn(&self) -> &str {
        &self.arn
    }

    fn url(&self) -> &str {
        &self.url
    }
}

impl QueueService for EmbeddedSqs {
    type Queue = EmbeddedQueue;

    /// Creates a queue. As in SQS, an existing queue with the same settings is returned, and a dead-letter queue must
    /// be created first.
    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<EmbeddedQueue, EntryError> {
        let (arn, url) = (format!("{ARN_PREFIX}{name}"), format!("{URL_PREFIX}{name}"));
        let queue = EmbeddedQueue::new(self.clone(), arn, url);
        let arn = queue.arn();
        self.lock_state()
            .apply_request(SqsAction::CreateQueue, arn, |state| state.create_queue(name, arn, settings))?;
        Ok(queue)
    }

    async fn delete_queue(&self, queue: &EmbeddedQueue) -> Result<(), EntryError> {
        let arn = queue.arn();
        self.run_request(|state| {
            state.apply_request(SqsAction::DeleteQueue, arn, |state| state.delete_queue(arn))
        })
    }
}
