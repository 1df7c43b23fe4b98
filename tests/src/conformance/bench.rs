//! Helpers for the rules: queues that are deleted at the end, and requests that must succeed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{
    Attribute, AttributeValue, Content, OutgoingMessage, ReceivedMessage, Timestamp,
};
use redeliver_core::ports::{
    Clock, EntryError, EntryOutcome, FIFO_SUFFIX, Fault, Queue, QueueSender, QueueService, QueueSettings,
    ReceiveOptions,
};

use crate::settings::PATIENCE;

/// The tolerance for early events: the servers' clocks differ.
pub(super) const EARLY_TOLERANCE: Duration = Duration::from_millis(500);
/// The tolerance for late events: a loaded machine, or a distant AWS region.
pub(super) const LATE_TOLERANCE: Duration = Duration::from_secs(6);

/// The observation that violates a rule.
#[derive(Debug)]
pub struct BrokenRule(String);

impl BrokenRule {
    pub(super) fn new(observation: impl Into<String>) -> Self {
        Self(observation.into())
    }
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// `BrokenRule` is not an error itself, so `?` converts every error.
impl<E: std::error::Error> From<E> for BrokenRule {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Returns an error unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::conformance::BrokenRule::new(format!($($what)+)));
        }
    };
}

/// Returns an error unless both values are equal.
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $what:expr) => {{
        let (seen, expected) = (&$seen, &$expected);
        ensure!(seen == expected, "{}: {seen:?} instead of {expected:?}", $what);
    }};
}

pub(super) use {ensure, ensure_eq};

/// A service under test, and the queues created on it.
pub struct ConformanceBench<'a, S: QueueService, C> {
    service: &'a S,
    clock: &'a C,
    prefix: &'a str,
    created: Mutex<Vec<S::Queue>>,
    numbers: AtomicU32,
}

impl<'a, S: QueueService, C: Clock> ConformanceBench<'a, S, C> {
    /// Creates a bench. The names of all queues start with `prefix`, which must be unique on the service.
    pub fn new(service: &'a S, clock: &'a C, prefix: &'a str) -> Self {
        Self { service, clock, prefix, created: Mutex::default(), numbers: AtomicU32::new(1) }
    }

    /// Deletes all queues created so far, and returns the URLs of those that could not be deleted.
    pub async fn clean_up(&self) -> Vec<String> {
        let created = std::mem::take(&mut *self.created.lock().expect("no rule panics with the lock"));
        let mut left_behind = Vec::new();
        for queue in created {
            if self.service.delete_queue(&queue).await.is_err() {
                left_behind.push(queue.url().to_owned());
            }
        }
        left_behind
    }

    pub(super) fn clock(&self) -> &C {
        self.clock
    }

    pub(super) fn service(&self) -> &S {
        self.service
    }

    /// Creates a queue with SQS's defaults and this visibility timeout.
    pub(super) async fn create_queue(&self, visibility_seconds: u64) -> Result<S::Queue, BrokenRule> {
        self.create_queue_with_settings(&queue_settings(visibility_seconds)).await
    }

    /// Creates a queue; its name ends with a unique number.
    pub(super) async fn create_queue_with_settings(
        &self,
        settings: &QueueSettings,
    ) -> Result<S::Queue, BrokenRule> {
        Ok(self.try_create_queue("", settings).await?)
    }

    /// Creates a FIFO queue with SQS's defaults and this visibility timeout.
    pub(super) async fn create_fifo_queue(&self, visibility_seconds: u64) -> Result<S::Queue, BrokenRule> {
        self.create_fifo_queue_with_settings(&queue_settings(visibility_seconds)).await
    }

    /// Creates a FIFO queue.
    pub(super) async fn create_fifo_queue_with_settings(
        &self,
        settings: &QueueSettings,
    ) -> Result<S::Queue, BrokenRule> {
        Ok(self.try_create_queue(FIFO_SUFFIX, settings).await?)
    }

    /// Creates a queue whose name has this suffix, or returns the service's error.
    pub(super) async fn try_create_queue(
        &self,
        suffix: &str,
        settings: &QueueSettings,
    ) -> Result<S::Queue, EntryError> {
        let number = self.next_number();
        let queue = self.service.create_queue(&format!("{}-{number}{suffix}", self.prefix), settings).await?;
        self.created.lock().expect("no rule panics with the lock").push(queue.clone());
        // "CreateQueue", Amazon SQS API Reference: "you must wait at least one second after the queue is created".
        self.clock.sleep(Duration::from_secs(1)).await;
        Ok(queue)
    }

    /// Sends messages that SQS must accept, and returns their SQS message ids in order.
    pub(super) async fn send_all(
        &self,
        queue: &S::Queue,
        contents: Vec<Content>,
    ) -> Result<Vec<String>, BrokenRule> {
        let outcomes = self.try_send(queue, contents).await?;
        Ok(outcomes.into_iter().collect::<Result<_, _>>()?)
    }

    /// Sends messages that SQS may refuse, and returns the outcomes in order.
    pub(super) async fn try_send(
        &self,
        queue: &S::Queue,
        contents: Vec<Content>,
    ) -> Result<Vec<EntryOutcome<String>>, BrokenRule> {
        let messages: Vec<_> = contents.into_iter().map(OutgoingMessage::unchecked).collect();
        let mut outcomes = Vec::new();
        for batch in pack_batches(&messages) {
            let answer = queue.send_batch(batch).await;
            ensure_eq!(answer.len(), batch.entries().len(), "outcomes of a batch");
            outcomes.extend(answer);
        }
        Ok(outcomes)
    }

    /// Calls [`Self::expect_refusal_on`] with a standard queue.
    pub(super) async fn expect_refusal(&self, all: Vec<(String, Content)>) -> Result<(), BrokenRule> {
        let queue = self.create_queue(30).await?;
        self.expect_refusal_on(&queue, &plain_content("right"), all).await
    }

    /// Sends each of these messages along with a valid one. Each must fail as the sender's fault and must not reach the
    /// queue. The service may accept or refuse the valid one, but must report what it did.
    pub(super) async fn expect_refusal_on(
        &self,
        queue: &S::Queue,
        right: &Content,
        all: Vec<(String, Content)>,
    ) -> Result<(), BrokenRule> {
        let mut confirmed = Vec::new();
        let mut wrongly_accepted = Vec::new();
        for (description, wrong) in all {
            let outcomes = self.try_send(queue, vec![right.clone(), wrong]).await?;
            let fault = outcomes[1].as_ref().err().map(|error| error.fault);
            if fault != Some(Fault::Sender) {
                wrongly_accepted.push(format!("{description}: {:?}", outcomes[1]));
            }
            confirmed.extend(outcomes.into_iter().flatten());
        }
        ensure!(wrongly_accepted.is_empty(), "not the sender's fault: {}", wrongly_accepted.join(", "));
        let mut ids: Vec<_> = self
            .receive_at_least(queue, confirmed.len())
            .await?
            .into_iter()
            .map(|one| one.sqs_message_id)
            .collect();
        ids.sort();
        confirmed.sort();
        ensure_eq!(ids, confirmed, "messages in the queue");
        ensure!(self.poll_once(queue, 1).await?.is_empty(), "a refused message is in the queue");
        Ok(())
    }

    /// Receives up to ten messages with one request.
    pub(super) async fn poll_once(
        &self,
        queue: &S::Queue,
        wait_seconds: u64,
    ) -> Result<Vec<ReceivedMessage>, BrokenRule> {
        let wait = Duration::from_secs(wait_seconds);
        Ok(queue.receive(ReceiveOptions { max_messages: 10, wait, visibility: None }).await?)
    }

    /// Receives until `count` different messages have arrived, and returns them sorted by body.
    pub(super) async fn receive_at_least(
        &self,
        queue: &S::Queue,
        count: usize,
    ) -> Result<Vec<ReceivedMessage>, BrokenRule> {
        let give_up = self.clock.now() + PATIENCE;
        let mut messages = BTreeMap::new();
        while messages.len() < count {
            ensure!(self.clock.now() < give_up, "{} of {count} messages after {PATIENCE:?}", messages.len());
            for message in self.poll_once(queue, 5).await? {
                messages.insert(message.sqs_message_id.clone(), message);
            }
        }
        let mut messages: Vec<_> = messages.into_values().collect();
        messages.sort_by(|one, other| one.body.cmp(&other.body));
        Ok(messages)
    }

    /// Receives the only message.
    pub(super) async fn receive_one(&self, queue: &S::Queue) -> Result<ReceivedMessage, BrokenRule> {
        let mut messages = self.receive_at_least(queue, 1).await?;
        ensure_eq!(messages.len(), 1, "messages received");
        messages.pop().ok_or_else(|| BrokenRule::new("no message"))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Checks that `duration` has passed since `start`, and not much more.
    pub(super) fn ensure_elapsed(
        &self,
        start: Timestamp,
        duration: Duration,
        event: &str,
    ) -> Result<(), BrokenRule> {
        let elapsed = (self.now() - start).to_std()?;
        ensure!(elapsed + EARLY_TOLERANCE >= duration, "{event} after {elapsed:?}, before {duration:?}");
        ensure!(elapsed <= duration + LATE_TOLERANCE, "{event} after {elapsed:?}, long after {duration:?}");
        Ok(())
    }

    fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns SQS's defaults with this visibility timeout, and a tag that explains the queue's origin.
pub(super) fn queue_settings(visibility_seconds: u64) -> QueueSettings {
    QueueSettings {
        visibility: to_visibility(visibility_seconds),
        tags: [("redeliver".to_owned(), "conformance".to_owned())].into(),
        ..QueueSettings::default()
    }
}

pub(super) fn to_visibility(seconds: u64) -> VisibilitySeconds {
    VisibilitySeconds::new(seconds).unwrap_or(VisibilitySeconds::MAX)
}

/// Creates a String or Number attribute, with or without a label.
pub(super) fn text_attribute(data_type: &str, value: &str) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Text(value.to_owned()) }
}

/// Creates a Binary attribute, with or without a label.
pub(super) fn binary_attribute(data_type: &str, value: &[u8]) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Binary(value.to_vec()) }
}

/// Creates a message with this body and nothing else.
pub(super) fn plain_content(body: impl Into<String>) -> Content {
    Content { body: body.into(), ..Content::default() }
}
