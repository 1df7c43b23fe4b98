//! Embedded queues that differ from SQS's usual behavior in one respect.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Clock as _, Depth, EntryError, EntryOutcome, Fault, Queue, QueueDepth, QueueSender, ReceiveOptions,
    UnreadableMessage, VisibilityControl,
};
use redeliver_embedded::{EmbeddedQueue, VirtualClock};

/// The difference between a queue and its inner embedded queue. By default there is none.
pub trait Alteration: Send + Sync {
    fn inner_queue(&self) -> &EmbeddedQueue;

    fn run_request<T: Send>(
        &self,
        request: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        request
    }

    fn receive_messages(
        &self,
        request: ReceiveOptions,
    ) -> impl Future<Output = Result<Vec<ReceivedMessage>, EntryError>> + Send {
        self.inner_queue().receive(request)
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        self.inner_queue().take_unreadable()
    }
}

pub struct AlteredQueue<A>(pub A);

impl<A: Alteration> QueueSender for AlteredQueue<A> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.0.run_request(self.0.inner_queue().send_batch(batch)).await
    }
}

impl<A: Alteration> VisibilityControl for AlteredQueue<A> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.0.run_request(self.0.inner_queue().change_visibility_batch(entries)).await
    }
}

impl<A: Alteration> QueueDepth for AlteredQueue<A> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.0.run_request(self.0.inner_queue().depth()).await
    }
}

impl<A: Alteration> Queue for AlteredQueue<A> {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.0.run_request(self.0.receive_messages(request)).await
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        self.0.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.0.run_request(self.0.inner_queue().delete_batch(handles)).await
    }

    fn arn(&self) -> &str {
        self.0.inner_queue().arn()
    }

    fn url(&self) -> &str {
        self.0.inner_queue().url()
    }
}

/// A queue whose requests take time both before and after they are carried out, so that a program can die at either
/// point.
pub struct SlowRequests<'a> {
    pub queue: &'a EmbeddedQueue,
    pub clock: &'a VirtualClock,
}

impl Alteration for SlowRequests<'_> {
    fn inner_queue(&self) -> &EmbeddedQueue {
        self.queue
    }

    async fn run_request<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        self.clock.sleep(Duration::from_millis(5)).await;
        let answer = request.await;
        self.clock.sleep(Duration::from_millis(5)).await;
        answer
    }
}

/// A queue with a low limit on messages in flight.
pub struct FullQueue<'a> {
    pub queue: &'a EmbeddedQueue,
    pub in_flight_max: u64,
    /// The error code returned at the limit.
    pub code: &'static str,
    /// Number of receive requests so far.
    pub receives: AtomicU32,
}

impl Alteration for FullQueue<'_> {
    fn inner_queue(&self) -> &EmbeddedQueue {
        self.queue
    }

    async fn receive_messages(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.receives.fetch_add(1, Ordering::Relaxed);
        if self.queue.depth().await?.in_flight >= self.in_flight_max {
            return Err(EntryError::new(Fault::Throttled, self.code));
        }
        self.queue.receive(request).await
    }
}

/// A queue on which messages with the body [`GARBLED`] are unreadable.
pub struct GarbledBodies {
    queue: EmbeddedQueue,
    unreadable: Mutex<Vec<UnreadableMessage>>,
}

/// The body of an unreadable message.
pub const GARBLED: &str = "garbled";

impl GarbledBodies {
    pub fn wrap_queue(queue: &EmbeddedQueue) -> AlteredQueue<Self> {
        AlteredQueue(Self { queue: queue.clone(), unreadable: Mutex::default() })
    }
}

impl Alteration for GarbledBodies {
    fn inner_queue(&self) -> &EmbeddedQueue {
        &self.queue
    }

    async fn receive_messages(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let mut readable = Vec::new();
        for message in self.queue.receive(request).await? {
            if message.body != GARBLED {
                readable.push(message);
                continue;
            }
            lock(&self.unreadable).push(UnreadableMessage {
                sqs_message_id: message.sqs_message_id,
                receipt_handle: message.receipt_handle,
                message_group_id: message.message_group_id,
                readable_before: readable.len(),
            });
        }
        Ok(readable)
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        std::mem::take(&mut lock(&self.unreadable))
    }
}
