//! The interfaces between the rules and the outside world, implemented by `redeliver-aws` and `redeliver-embedded`.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::events::Event;
pub use crate::fault::{EntryError, EntryOutcome, Fault};
use crate::limits::VisibilitySeconds;
use crate::log_location::LogLocation;
use crate::message::packing::Batch;
use crate::message::{Confirmed, Receipt, ReceivedMessage, Timestamp};
use crate::trace::Tracer;

/// The clock: the only source of time.
pub trait Clock: Send + Sync {
    /// Returns the current time, in UTC.
    fn now(&self) -> Timestamp;
    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Receives domain events, for logs, metrics or counts.
pub trait Observer: Send + Sync {
    /// Handles an event. Must neither fail nor block.
    fn observe(&self, event: &Event);
    /// Handles several events; override it if one call is cheaper.
    fn observe_all(&self, events: &[Event]) {
        events.iter().for_each(|event| self.observe(event));
    }
    /// Ends a batch: writes the events buffered so far.
    fn flush(&self) {}
    /// Returns the tracer, if spans are recorded.
    fn tracer(&self) -> Option<&Tracer> {
        None
    }
    /// Starts an invocation with this Lambda request id.
    fn begin_invocation(&self, request_id: &str) {
        let _ = request_id;
    }
    /// Returns the location of the process's log lines for this invocation; empty outside Lambda.
    fn log_location(&self) -> LogLocation {
        LogLocation::default()
    }
}

/// Ends a batch when dropped, even if the function panics or is cancelled.
#[derive(Debug)]
pub struct FlushOnDrop<'a, O: Observer>(pub &'a O);

impl<O: Observer> Drop for FlushOnDrop<'_, O> {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// The sending half of a queue; most functions need no more.
pub trait QueueSender: Send + Sync {
    /// Sends one batch in one request. Returns one outcome per entry, in order: the SQS message id if the send is
    /// confirmed.
    fn send_batch(&self, batch: Batch<'_>) -> impl Future<Output = Vec<EntryOutcome<String>>> + Send;
    /// Returns the queue's name, for spans; empty if it is unknown.
    fn name(&self) -> &str {
        ""
    }
}

/// Control over a received message's visibility timeout.
pub trait VisibilityControl: Send + Sync {
    /// Changes the visibility timeouts, counted from now, of at most 10 messages in one request. Returns one outcome
    /// per entry, in order.
    fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> impl Future<Output = Vec<EntryOutcome<()>>> + Send;
}

/// A request to receive messages ("ReceiveMessage", Amazon SQS API Reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Maximum number of messages, 1..=10.
    pub max_messages: u8,
    /// Wait time for long polling, up to 20 s.
    pub wait: Duration,
    /// Visibility timeout; `None` for the queue's default.
    pub visibility: Option<VisibilitySeconds>,
}

/// A queue's message counts.
pub trait QueueDepth: Send + Sync {
    /// Returns SQS's approximate counts, which may be a minute old.
    fn depth(&self) -> impl Future<Output = Result<Depth, EntryError>> + Send;
}

/// A queue with all operations, for an event source mapping, an auditor or a test.
pub trait Queue: QueueSender + VisibilityControl + QueueDepth {
    /// Receives up to 10 messages; empty if none arrived within the wait time. Unreadable messages are omitted: see
    /// [`Queue::take_unreadable`].
    fn receive(
        &self,
        request: ReceiveOptions,
    ) -> impl Future<Output = Result<Vec<ReceivedMessage>, EntryError>> + Send;
    /// Takes the unreadable messages from all receives so far. They are not part of a receive's result, since only
    /// pollers need them: pollers report them, as the function itself does behind an event source mapping.
    fn take_unreadable(&self) -> Vec<UnreadableMessage>;
    /// Deletes at most 10 messages by receipt handle in one request. Returns one outcome per entry, in order.
    fn delete_batch(&self, handles: &[String]) -> impl Future<Output = Vec<EntryOutcome<()>>> + Send;
    /// Returns the queue's ARN.
    fn arn(&self) -> &str;
    /// Returns the queue's URL.
    fn url(&self) -> &str;
}

/// A received message that could not be parsed. It remains in its queue, and is visible again after its visibility
/// timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableMessage {
    /// SQS's message id; empty if the response has none.
    pub sqs_message_id: String,
    /// The receipt handle; empty if the response has none.
    pub receipt_handle: String,
    /// The message's group; `None` if it is missing or unreadable.
    pub message_group_id: Option<String>,
    /// Number of readable messages before it in the same receive or event.
    pub readable_before: usize,
}

/// The number of messages in a queue, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// `ApproximateNumberOfMessages`.
    pub visible: u64,
    /// `ApproximateNumberOfMessagesNotVisible`.
    pub in_flight: u64,
    /// `ApproximateNumberOfMessagesDelayed`.
    pub delayed: u64,
}

impl Depth {
    /// Returns the total number of messages in the queue.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

/// An object store that can be written to; the archive needs no more.
pub trait ObjectStore: Send + Sync {
    /// Creates an object; `Ok(false)`, without a write, if the key already exists.
    fn create_object(
        &self,
        key: &str,
        content: Vec<u8>,
    ) -> impl Future<Output = Result<bool, EntryError>> + Send;
}

/// An object store that can also be read; the command line needs this.
pub trait ReadableStore: ObjectStore {
    /// Reads an object; `None` if the key does not exist.
    fn read_object(&self, key: &str) -> impl Future<Output = Result<Option<Vec<u8>>, EntryError>> + Send;
    /// Lists one page of at most 1,000 keys, in key order.
    fn list_keys(&self, listing: Listing<'_>)
    -> impl Future<Output = Result<ListingPage, EntryError>> + Send;
}

/// The keys to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    pub prefix: &'a str,
    /// If true, keys that contain a further `/` after the prefix are listed as folders.
    pub by_folder: bool,
    /// [`ListingPage::next`] of the previous page.
    pub page: Option<&'a str>,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingPage {
    pub keys: Vec<String>,
    /// Folders; each ends with `/`.
    pub folders: Vec<String>,
    /// Token for the next page; `None` after the last page.
    pub next: Option<String>,
}

/// The object store of a deployment without an archive: no value of this type exists.
#[derive(Clone, Copy, Debug)]
pub enum NoStore {}

impl ObjectStore for NoStore {
    async fn create_object(&self, _: &str, _: Vec<u8>) -> Result<bool, EntryError> {
        match *self {}
    }
}

/// Invokes Lambda functions asynchronously.
pub trait AsyncInvoker: Send + Sync {
    /// Invokes the function with a JSON payload; `Ok` once Lambda has queued the event.
    fn invoke_async(
        &self,
        function_arn: &str,
        payload: &str,
    ) -> impl Future<Output = Result<(), AsyncInvokeError>> + Send;
}

/// The reason why Lambda did not confirm that it queued an event.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AsyncInvokeError {
    /// The payload exceeds Lambda's limit.
    #[error("too large")]
    TooLarge,
    /// Lambda rejected the payload as invalid JSON.
    #[error("not valid JSON")]
    Invalid,
    /// Throttling, a fault, a missing permission or function, or no response, in which case the event may be queued
    /// anyway. A retry may succeed.
    #[error("not now ({code})")]
    NotNow {
        /// Lambda's error code, or redeliver's own; never part of a payload.
        code: String,
    },
}

/// True for the name, ARN or URL of a FIFO queue. "Amazon SQS FIFO queue quotas": "To determine whether a queue is
/// FIFO, you can check whether the queue name ends with the suffix."
#[must_use]
pub fn is_fifo(queue: &str) -> bool {
    queue.ends_with(FIFO_SUFFIX)
}

/// The suffix of FIFO queue names; other queue names cannot end with it.
pub const FIFO_SUFFIX: &str = ".fifo";

/// Creates and deletes queues, for `redeliver local` and the tests.
pub trait QueueService: Send + Sync {
    type Queue: Queue + Clone;
    /// Creates a queue: a FIFO queue if its name [ends with `.fifo`](is_fifo), otherwise a standard queue.
    fn create_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
    ) -> impl Future<Output = Result<Self::Queue, EntryError>> + Send;
    /// Deletes a queue and its messages.
    fn delete_queue(&self, queue: &Self::Queue) -> impl Future<Output = Result<(), EntryError>> + Send;
}

/// Attributes for a new queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// `VisibilityTimeout`; SQS's default is 30 s.
    pub visibility: VisibilitySeconds,
    /// `MessageRetentionPeriod`, 60 s..=14 days; SQS's default is 4 days.
    pub retention: Duration,
    /// `RedrivePolicy`.
    pub redrive: Option<RedriveSettings>,
    /// Tags that show who owns the queue.
    pub tags: BTreeMap<String, String>,
}

/// The redrive policy for a new queue ("SetQueueAttributes", Amazon SQS API Reference).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveSettings {
    /// `deadLetterTargetArn`.
    pub target_arn: String,
    /// `maxReceiveCount`, 1..=1000: after that many receives, the next one moves the message to the DLQ instead.
    pub max_receive_count: u16,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility: VisibilitySeconds::new(30).unwrap_or(VisibilitySeconds::MAX),
            retention: Duration::from_secs(4 * 24 * 3600),
            redrive: None,
            tags: BTreeMap::new(),
        }
    }
}

/// A function behind an event source mapping.
pub trait Function: Send + Sync {
    /// Processes one batch before `deadline`, after which the process may be stopped. Returns the completed records;
    /// all others are received again.
    fn process_batch(
        &self,
        records: Vec<ReceivedMessage>,
        deadline: Timestamp,
    ) -> impl Future<Output = Vec<Confirmed>> + Send;

    /// True if a record must not be processed before all earlier records of its group.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Returns the function's tracer, if spans are recorded.
    fn tracer(&self) -> Option<&Tracer> {
        None
    }

    /// Starts an invocation with this Lambda request id.
    fn begin_invocation(&self, request_id: &str) {
        let _ = request_id;
    }

    /// Calls [`Self::process_batch`] and returns the response for an event source mapping: `batchItemFailures`, the SQS
    /// message ids of the unconfirmed records.
    fn batch_item_failures(
        &self,
        records: Vec<ReceivedMessage>,
        deadline: Timestamp,
    ) -> impl Future<Output = Vec<String>> + Send {
        async move {
            let received: Vec<_> = records.iter().map(ReceivedMessage::receipt).collect();
            unconfirmed_ids(received, self.process_batch(records, deadline).await)
        }
    }
}

fn unconfirmed_ids(received: Vec<Receipt>, confirmed: Vec<Confirmed>) -> Vec<String> {
    // Confirmations are counted: if only one of two identical records was confirmed, only one is done.
    let mut done: HashMap<Receipt, u32> = HashMap::with_capacity(confirmed.len());
    for record in confirmed {
        *done.entry(record.into_receipt()).or_default() += 1;
    }
    let is_done = |record: &Receipt| match done.get_mut(record) {
        Some(times @ 1..) => {
            *times -= 1;
            true
        }
        _ => false,
    };
    let (_, failed): (Vec<_>, Vec<_>) = received.into_iter().partition(is_done);
    failed.into_iter().map(Receipt::into_sqs_message_id).collect()
}

impl<T: Clock> Clock for &T {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        (**self).sleep(duration)
    }
}

impl<F: Function> Function for Arc<F> {
    fn process_batch(
        &self,
        records: Vec<ReceivedMessage>,
        deadline: Timestamp,
    ) -> impl Future<Output = Vec<Confirmed>> + Send {
        (**self).process_batch(records, deadline)
    }

    fn keeps_order(&self) -> bool {
        (**self).keeps_order()
    }

    fn tracer(&self) -> Option<&Tracer> {
        (**self).tracer()
    }

    fn begin_invocation(&self, request_id: &str) {
        (**self).begin_invocation(request_id);
    }
}

impl<T: AsyncInvoker> AsyncInvoker for &T {
    fn invoke_async(
        &self,
        function_arn: &str,
        payload: &str,
    ) -> impl Future<Output = Result<(), AsyncInvokeError>> + Send {
        (**self).invoke_async(function_arn, payload)
    }
}

/// Lets a reference or a shared pointer to an observer serve as an observer.
impl<P: Deref<Target: Observer> + Send + Sync> Observer for P {
    fn observe(&self, event: &Event) {
        (**self).observe(event);
    }

    fn observe_all(&self, events: &[Event]) {
        (**self).observe_all(events);
    }

    fn flush(&self) {
        (**self).flush();
    }

    fn tracer(&self) -> Option<&Tracer> {
        (**self).tracer()
    }

    fn begin_invocation(&self, request_id: &str) {
        (**self).begin_invocation(request_id);
    }

    fn log_location(&self) -> LogLocation {
        (**self).log_location()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::testing::{at, received_message};

    /// Confirms the records with these handles.
    struct ConfirmingFunction(&'static [&'static str]);

    impl Function for ConfirmingFunction {
        async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            let done = records.into_iter().filter(|record| self.0.contains(&record.receipt_handle.as_str()));
            done.map(|record| record.into_receipt().confirm()).collect()
        }
    }

    fn failures(confirms: &'static [&'static str], records: &[(&str, &str)]) -> Vec<String> {
        let record = |(id, handle): &(&str, &str)| ReceivedMessage {
            sqs_message_id: (*id).to_owned(),
            receipt_handle: (*handle).to_owned(),
            ..received_message(None)
        };
        let records = records.iter().map(record).collect();
        ConfirmingFunction(confirms).batch_item_failures(records, at(0)).now_or_never().unwrap()
    }

    #[test]
    fn an_unconfirmed_record_is_reported_as_failed() {
        let records = [("a", "1"), ("b", "2"), ("c", "3")];
        assert_eq!(failures(&["1", "3"], &records), ["b"]);
        assert_eq!(failures(&[], &records), ["a", "b", "c"]);
        assert_eq!(failures(&["1", "2", "3"], &records), [""; 0]);
    }

    /// An event source mapping deletes by message id: it must not delete the failed copy with the confirmed one.
    #[test]
    fn a_message_is_reported_if_one_of_two_receives_failed() {
        assert_eq!(failures(&["1"], &[("a", "1"), ("a", "2")]), ["a"]);
    }

    #[test]
    fn a_confirmation_completes_only_one_record() {
        let receipt = || received_message(None).into_receipt();
        assert_eq!(unconfirmed_ids(vec![receipt(), receipt()], vec![receipt().confirm()]), ["n"]);
    }
}
