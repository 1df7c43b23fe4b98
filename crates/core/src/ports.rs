//! The interfaces between the rules and the outside world. Implemented by `redeliver-aws` and `redeliver-embedded`.

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
    /// The current time, in UTC.
    fn now(&self) -> Timestamp;
    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// The receiver of domain events, which writes logs and metrics or counts them.
pub trait Observer: Send + Sync {
    /// Must not fail and must not block.
    fn observe(&self, event: &Event);
    /// Observes several events at once, if that costs less.
    fn observe_all(&self, events: &[Event]) {
        events.iter().for_each(|event| self.observe(event));
    }
    /// Ends a batch: writes the events gathered so far.
    fn flush(&self) {}
    /// The recorder of spans, if spans are written.
    fn tracer(&self) -> Option<&Tracer> {
        None
    }
    /// Begins an invocation of the process, with Lambda's request id.
    fn begin_invocation(&self, request_id: &str) {
        let _ = request_id;
    }
    /// The log lines that the process writes in this invocation; empty outside Lambda.
    fn log_location(&self) -> LogLocation {
        LogLocation::default()
    }
}

/// Ends a batch when dropped, even if the function panics or is cut off.
#[derive(Debug)]
pub struct FlushOnDrop<'a, O: Observer>(pub &'a O);

impl<O: Observer> Drop for FlushOnDrop<'_, O> {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// The sending half of a queue: all that most functions need.
pub trait QueueSender: Send + Sync {
    /// Sends one batch, one request. One outcome per entry, in order: the SQS message id of each confirmed one.
    fn send_batch(&self, batch: Batch<'_>) -> impl Future<Output = Vec<EntryOutcome<String>>> + Send;
    /// The queue's name, for spans; empty if it is unknown.
    fn name(&self) -> &str {
        ""
    }
}

/// Control over a received message's visibility timeout.
pub trait VisibilityControl: Send + Sync {
    /// Changes visibility from now, at most 10 (one request). One outcome per entry, in order.
    fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> impl Future<Output = Vec<EntryOutcome<()>>> + Send;
}

/// A request to receive messages ("ReceiveMessage", Amazon SQS API Reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// 1..=10.
    pub max_messages: u8,
    /// Long polling: up to 20 s.
    pub wait: Duration,
    /// `None`: the queue's own setting.
    pub visibility: Option<VisibilitySeconds>,
}

/// The counts of a queue.
pub trait QueueDepth: Send + Sync {
    /// The approximate counts of SQS, which may be a minute old.
    fn depth(&self) -> impl Future<Output = Result<Depth, EntryError>> + Send;
}

/// A complete queue, as an event source mapping, an auditor or a test needs it.
pub trait Queue: QueueSender + VisibilityControl + QueueDepth {
    /// Up to 10 messages; empty if none came within the wait. Unreadable messages are left out: see
    /// [`Queue::take_unreadable`].
    fn receive(
        &self,
        request: Receive,
    ) -> impl Future<Output = Result<Vec<ReceivedMessage>, EntryError>> + Send;
    /// Takes the unreadable messages of all receives so far. Separate from the answer, since only a poller needs them:
    /// it reports them, as the function itself does behind an event source mapping.
    fn take_unreadable(&self) -> Vec<UnreadableMessage>;
    /// Deletes receives by receipt handle, at most 10 (one request). One outcome per entry, in order.
    fn delete_batch(&self, handles: &[String]) -> impl Future<Output = Vec<EntryOutcome<()>>> + Send;
    /// The queue's ARN.
    fn arn(&self) -> &str;
    /// The queue's URL.
    fn url(&self) -> &str;
}

/// A received message that could not be parsed. It stays in its queue, and is visible again after its visibility
/// timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableMessage {
    /// SQS's id; empty if the answer has none.
    pub sqs_message_id: String,
    /// The handle of this receive; empty if the answer has none.
    pub receipt_handle: String,
    /// `None` if it has none, or if that cannot be read either.
    pub message_group_id: Option<String>,
    /// The readable messages of the same receive, or of the same event, that stand before it.
    pub readable_before: usize,
}

/// Messages of a queue by state.
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
    /// All messages in the queue.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

/// A bucket of objects, as far as the archive writes it.
pub trait ObjectStore: Send + Sync {
    /// Writes an object; `Ok(false)`, and no write, if there is one with this key already.
    fn create_object(
        &self,
        key: &str,
        content: Vec<u8>,
    ) -> impl Future<Output = Result<bool, EntryError>> + Send;
}

/// A bucket of objects that is read, too: by the command line.
pub trait ReadableStore: ObjectStore {
    /// `None` if there is no object with this key.
    fn read_object(&self, key: &str) -> impl Future<Output = Result<Option<Vec<u8>>, EntryError>> + Send;
    /// A page of at most 1,000 keys, in order.
    fn list_keys(&self, listing: Listing<'_>)
    -> impl Future<Output = Result<ListingPage, EntryError>> + Send;
}

/// The keys to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    pub prefix: &'a str,
    /// Keys with a further `/` are listed as folders.
    pub by_folder: bool,
    /// [`ListingPage::next`] of the page before.
    pub page: Option<&'a str>,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingPage {
    pub keys: Vec<String>,
    /// Each ends with `/`.
    pub folders: Vec<String>,
    /// The next page, if there is one.
    pub next: Option<String>,
}

/// No bucket: a deployment without an archive.
#[derive(Clone, Copy, Debug)]
pub enum NoStore {}

impl ObjectStore for NoStore {
    async fn create_object(&self, _: &str, _: Vec<u8>) -> Result<bool, EntryError> {
        match *self {}
    }
}

/// Invokes Lambda functions without waiting for their answers.
pub trait AsyncInvoker: Send + Sync {
    /// `Ok` once Lambda has queued the event. The payload is JSON, the function an ARN.
    fn invoke_async(
        &self,
        function_arn: &str,
        payload: &str,
    ) -> impl Future<Output = Result<(), NotInvoked>> + Send;
}

/// The reason why Lambda did not confirm that an event is queued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotInvoked {
    /// Larger than Lambda accepts.
    #[error("too large")]
    TooLarge,
    /// Not JSON, according to Lambda.
    #[error("not valid JSON")]
    Invalid,
    /// A throttle, a fault, a missing permission or function, or no answer (it may be queued then): may succeed later.
    #[error("not now ({code})")]
    NotNow {
        /// Lambda's code, or one of ours; never a payload.
        code: String,
    },
}

/// True for the name, the ARN and the URL of a FIFO queue. "Amazon SQS FIFO queue quotas": "To determine whether a queue is
/// FIFO, you can check whether the queue name ends with the suffix."
#[must_use]
pub fn is_fifo(queue: &str) -> bool {
    queue.ends_with(FIFO_SUFFIX)
}

/// The end of the names of FIFO queues, and of no others.
pub const FIFO_SUFFIX: &str = ".fifo";

/// Creates and deletes queues: `redeliver local` and the tests.
pub trait QueueService: Send + Sync {
    type Queue: Queue + Clone;
    /// Creates a queue: a FIFO queue if its name [ends so](is_fifo), otherwise a standard queue.
    fn create_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
    ) -> impl Future<Output = Result<Self::Queue, EntryError>> + Send;
    /// Deletes a queue and its messages.
    fn delete_queue(&self, queue: &Self::Queue) -> impl Future<Output = Result<(), EntryError>> + Send;
}

/// Attributes of a queue to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// `VisibilityTimeout`; 30 s in SQS.
    pub visibility: VisibilitySeconds,
    /// `MessageRetentionPeriod`, 60 s..=14 days; 4 days in SQS.
    pub retention: Duration,
    /// `RedrivePolicy`.
    pub redrive: Option<RedriveSettings>,
    /// Tags, so that a human sees whose queue it is.
    pub tags: BTreeMap<String, String>,
}

/// The redrive policy of a queue to create ("SetQueueAttributes", Amazon SQS API Reference).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveSettings {
    /// `deadLetterTargetArn`.
    pub target_arn: String,
    /// `maxReceiveCount`, 1..=1000: the receive after that moves the message instead.
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
    /// Handles one batch before `deadline`, when the process may be stopped. Returns the records that are done; all
    /// others are received again.
    fn process_batch(
        &self,
        records: Vec<ReceivedMessage>,
        deadline: Timestamp,
    ) -> impl Future<Output = Vec<Confirmed>> + Send;

    /// True if a record must not be processed before all that stand before it in its group.
    fn keeps_order(&self) -> bool {
        false
    }

    /// The recorder of its spans, if it writes any.
    fn tracer(&self) -> Option<&Tracer> {
        None
    }

    /// Begins an invocation, with Lambda's request id.
    fn begin_invocation(&self, request_id: &str) {
        let _ = request_id;
    }

    /// [`Self::process_batch`] with the answer for an event source mapping: `batchItemFailures`, the SQS message ids of
    /// the unconfirmed records.
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
    // Counted, so that of two identical records only one is done if only one was confirmed.
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
    ) -> impl Future<Output = Result<(), NotInvoked>> + Send {
        (**self).invoke_async(function_arn, payload)
    }
}

/// A borrowed or shared observer.
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
    use crate::testing::{at, received};

    /// Confirms the records with these handles.
    struct Confirms(&'static [&'static str]);

    impl Function for Confirms {
        async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            let done = records.into_iter().filter(|record| self.0.contains(&record.receipt_handle.as_str()));
            done.map(|record| record.into_receipt().confirm()).collect()
        }
    }

    fn failures(confirms: &'static [&'static str], records: &[(&str, &str)]) -> Vec<String> {
        let record = |(id, handle): &(&str, &str)| ReceivedMessage {
            sqs_message_id: (*id).to_owned(),
            receipt_handle: (*handle).to_owned(),
            ..received(None)
        };
        let records = records.iter().map(record).collect();
        Confirms(confirms).batch_item_failures(records, at(0)).now_or_never().unwrap()
    }

    #[test]
    fn an_unconfirmed_record_is_reported_as_failed() {
        let records = [("a", "1"), ("b", "2"), ("c", "3")];
        assert_eq!(failures(&["1", "3"], &records), ["b"]);
        assert_eq!(failures(&[], &records), ["a", "b", "c"]);
        assert_eq!(failures(&["1", "2", "3"], &records), [""; 0]);
    }

    /// An event source mapping deletes by message id: the failed copy must not be deleted with the other one.
    #[test]
    fn the_failed_one_of_two_receives_of_a_message_is_reported() {
        assert_eq!(failures(&["1"], &[("a", "1"), ("a", "2")]), ["a"]);
    }

    #[test]
    fn a_confirmation_counts_for_a_single_record() {
        let receipt = || received(None).into_receipt();
        assert_eq!(unconfirmed_ids(vec![receipt(), receipt()], vec![receipt().confirm()]), ["n"]);
    }
}
