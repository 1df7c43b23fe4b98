//! A program that dies: its future is dropped between two polls, and its requests take time, so that there are many. And a queue
//! that hands out no more.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::packing::Batch;
use redeliver_core::ports::{
    Clock as _, Depth, EntryError, EntryOutcome, Fault, Queue, QueueDepth, QueueSender, Receive, Unreadable,
    VisibilityControl,
};
use redeliver_embedded::{EmbeddedQueue, VirtualClock};

/// Polls a future so many times and then drops it, as a kill does.
pub(crate) struct Killed<F> {
    pub(crate) future: Pin<Box<F>>,
    pub(crate) polls: u32,
}

impl<F: Future> Future for Killed<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.future.as_mut().poll(context).map(Some)
    }
}

/// A queue whose requests take time, before and after they are done: there a program can die.
pub(crate) struct Slow<'a> {
    pub(crate) queue: &'a EmbeddedQueue,
    pub(crate) clock: &'a VirtualClock,
}

impl Slow<'_> {
    async fn slowly<T>(&self, request: impl Future<Output = T>) -> T {
        self.clock.sleep(Duration::from_millis(5)).await;
        let answer = request.await;
        self.clock.sleep(Duration::from_millis(5)).await;
        answer
    }
}

impl QueueSender for Slow<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.slowly(self.queue.send_batch(batch)).await
    }
}

impl VisibilityControl for Slow<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.slowly(self.queue.change_visibility_batch(entries)).await
    }
}

impl QueueDepth for Slow<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.slowly(self.queue.depth()).await
    }
}

impl Queue for Slow<'_> {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.slowly(self.queue.receive(request)).await
    }

    fn take_unreadable(&self) -> Vec<Unreadable> {
        self.queue.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.slowly(self.queue.delete_batch(handles)).await
    }

    fn arn(&self) -> &str {
        self.queue.arn()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }
}

/// A queue whose limit of messages in flight is low.
pub(crate) struct Full<'a> {
    pub(crate) queue: &'a EmbeddedQueue,
    pub(crate) in_flight_max: u64,
    /// What it answers at the limit.
    pub(crate) code: &'static str,
    /// Requests to receive so far.
    pub(crate) receives: AtomicU32,
}

impl VisibilityControl for Full<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl QueueSender for Full<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.queue.send_batch(batch).await
    }
}

impl QueueDepth for Full<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

impl Queue for Full<'_> {
    async fn receive(&self, request: Receive) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.receives.fetch_add(1, Ordering::Relaxed);
        if self.queue.depth().await?.in_flight >= self.in_flight_max {
            return Err(EntryError { fault: Fault::Throttled, code: self.code.to_owned() });
        }
        self.queue.receive(request).await
    }

    fn take_unreadable(&self) -> Vec<Unreadable> {
        self.queue.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.queue.delete_batch(handles).await
    }

    fn arn(&self) -> &str {
        self.queue.arn()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }
}
