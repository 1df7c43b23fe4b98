//! The state of a queue: a pure state machine that takes the time as a parameter.

mod deduplication;
mod groups;
mod store;

use std::sync::Arc;
use std::time::Duration;

use chrono::SubsecRound;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{Content, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Depth, EntryError, Fault, QueueSettings, is_fifo};
use tokio::sync::Notify;

use crate::changes::{ChangeKind, ChangeLog, MessageChange};
use crate::checks::sender_fault;
use crate::clock::add_duration;
use deduplication::Deduplication;
use store::{ArrivalNumber, MessageStore, ReceiveLease};
pub(crate) use store::{MessageKey, StoredMessage};

/// The maximum number of messages in flight, about 120,000 in SQS ("Amazon SQS standard queue quotas", "Amazon SQS FIFO
/// queue quotas").
const IN_FLIGHT_MAX: u64 = 120_000;

/// The result of an attempt to receive.
pub(crate) struct ReceiveOutput {
    pub(crate) messages: Vec<ReceivedMessage>,
    /// Messages that have reached `maxReceiveCount`, to be moved to the dead-letter queue.
    pub(crate) exhausted: Vec<StoredMessage>,
}

/// The state of one queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    arn: String,
    number: u32,
    settings: QueueSettings,
    messages: MessageStore,
    arrived: ArrivalNumber,
    /// `None` for a standard queue.
    deduplication: Option<Deduplication>,
    /// The last message count, and its timestamp.
    last_counted: Option<(Timestamp, Depth)>,
    log: ChangeLog,
    /// Wakes the queue's long polls.
    arrivals: Arc<Notify>,
}

impl QueueState {
    /// Creates an empty queue. `number` distinguishes its receipt handles from those of other queues.
    pub(crate) fn new(arn: String, number: u32, settings: QueueSettings, log: ChangeLog) -> Self {
        let is_fifo = is_fifo(&arn);
        Self {
            arn,
            number,
            messages: MessageStore::new(settings.retention, is_fifo),
            arrived: 0,
            deduplication: is_fifo.then(Deduplication::default),
            settings,
            last_counted: None,
            log,
            arrivals: Arc::default(),
        }
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.deduplication.is_some()
    }

    /// Returns the settings that the queue was created with.
    pub(crate) fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Returns a handle that is notified when another receive attempt may return a message.
    pub(crate) fn arrivals(&self) -> Arc<Notify> {
        Arc::clone(&self.arrivals)
    }

    /// Returns the SQS message id of the message that a FIFO queue accepted with this deduplication id in the last five
    /// minutes.
    pub(crate) fn find_duplicate(
        &mut self,
        now: Timestamp,
        deduplication_id: Option<&str>,
    ) -> Option<&String> {
        self.deduplication.as_mut()?.find_sent_id(now, deduplication_id?)
    }

    /// Adds a message from a producer.
    pub(crate) fn add_sent_message(
        &mut self,
        now: Timestamp,
        (key, id): (MessageKey, String),
        sender_id: Arc<str>,
        content: Content,
    ) {
        self.log_change(now, &id, || ChangeKind::Sent(content.clone()));
        if let (Some(deduplication), Some(token)) = (&mut self.deduplication, &content.deduplication_id) {
            deduplication.remember_id(now, token.clone(), id.clone());
        }
        let place = self.next_place();
        let sent_at = now.trunc_subsecs(3); // `SentTimestamp` is in milliseconds
        self.messages.insert_message(StoredMessage {
            key,
            place,
            id,
            visible_at: add_duration(now, content.delay.duration()),
            content,
            sent_at,
            enqueued_at: sent_at,
            sender_id,
            first_received_at: None,
            receive_count: 0,
            redriven_from: None,
            lease: None,
        });
        self.advance_to(now);
    }

    /// Adds a message that another queue's redrive policy moves to this queue. It is immediately visible and keeps its
    /// original send time.
    ///
    /// "For FIFO queues, the enqueue timestamp resets when the message is moved to a dead-letter queue"; for standard
    /// queues, it does not change ("Setting-up dead-letter queue retention in Amazon SQS").
    pub(crate) fn add_redriven_message(&mut self, now: Timestamp, message: StoredMessage, source_arn: &str) {
        let redriven_from = Some(source_arn.to_owned());
        let enqueued_at = if self.is_fifo() { now } else { message.enqueued_at };
        let place = self.next_place();
        self.messages.insert_message(StoredMessage {
            place,
            enqueued_at,
            redriven_from,
            visible_at: now,
            lease: None,
            ..message
        });
        self.advance_to(now);
    }

    /// Returns up to `max` visible messages, in the order in which they became visible or, in a FIFO queue, in group
    /// order. Messages that have already been received `redrive_limit` times are moved instead.
    pub(crate) fn receive_batch(
        &mut self,
        now: Timestamp,
        max: usize,
        visibility: Option<VisibilitySeconds>,
        redrive_limit: Option<u32>,
        mut nonce: impl FnMut() -> u64,
    ) -> Result<ReceiveOutput, EntryError> {
        self.advance_to(now);
        let mut received = ReceiveOutput { messages: Vec::new(), exhausted: Vec::new() };
        if self.is_full() {
            // For FIFO queues, "If this limit is reached, Amazon SQS does not return an error" ("Amazon SQS FIFO queue
            // quotas").
            let over_limit = || EntryError::new(Fault::Throttled, "OverLimit");
            return if self.is_fifo() { Ok(received) } else { Err(over_limit()) };
        }
        let until = add_duration(now, visibility.unwrap_or(self.settings.visibility).duration());
        let mut scan = self.messages.begin_scan();
        // The messages are hidden only after the loop, since a receive may return several messages from one group.
        let mut hidden = Vec::new();
        while received.messages.len() < max {
            let Some(mut message) = self.messages.take_visible(&mut scan) else {
                break;
            };
            // As in SQS, the message is moved by the first receive beyond the limit.
            if redrive_limit.is_some_and(|limit| message.receive_count >= limit) {
                let target_arn = self.settings.redrive.as_ref().map(|redrive| redrive.target_arn.clone());
                self.log_change(now, &message.id, || ChangeKind::Moved(target_arn.unwrap_or_default()));
                received.exhausted.push(message);
                continue;
            }
            message.receive_count += 1;
            self.log_change(now, &message.id, || ChangeKind::Received {
                receive_count: message.receive_count,
            });
            // In milliseconds, as in SQS: a test must not depend on a precision that AWS does not offer.
            message.first_received_at.get_or_insert(now.trunc_subsecs(3));
            message.visible_at = until;
            let nonce = nonce();
            message.lease = Some(ReceiveLease { nonce, received_at: now });
            received.messages.push(self.build_delivery(&message, nonce));
            hidden.push(message);
        }
        hidden.into_iter().for_each(|message| self.messages.insert_message(message));
        self.advance_to(now);
        Ok(received)
    }

    /// Deletes a message by receipt handle. If the message was received again, a delete with an old handle "succeeds,
    /// but the message will not be deleted" ("DeleteMessage", Amazon SQS API Reference). Deleting a message that no
    /// longer exists also succeeds. A handle is valid until the next receive, even after the visibility timeout.
    ///
    /// FIFO queues differ: "if a consumer whose message processing time is longer than the visibility timeout tries to
    /// delete the processed messages, the action fails with an error" ("ReceiveMessage").
    pub(crate) fn delete_message(&mut self, now: Timestamp, handle: &str) -> Result<(), EntryError> {
        self.advance_to(now);
        let ReceiptHandle { key, nonce } = self.parse_handle(handle)?;
        if self.is_fifo() && self.messages.has_expired(key, nonce) {
            return Err(sender_fault("ReceiptHandleIsInvalid"));
        }
        if self.messages.current_lease(key, nonce).is_some()
            && let Some(message) = self.messages.remove_message(key)
        {
            self.log_change(now, &message.id, || ChangeKind::Deleted);
        }
        Ok(())
    }

    /// Hides an in-flight message for `visibility` from now; zero makes it visible.
    ///
    /// The new timeout must end within 12 hours of the receive, and the message must be in flight
    /// ("ChangeMessageVisibility").
    pub(crate) fn change_visibility(
        &mut self,
        now: Timestamp,
        handle: &str,
        visibility: VisibilitySeconds,
    ) -> Result<(), EntryError> {
        self.advance_to(now);
        let ReceiptHandle { key, nonce } = self.parse_handle(handle)?;
        let lease =
            self.messages.current_lease(key, nonce).ok_or_else(|| sender_fault("InvalidParameterValue"))?;
        let until = add_duration(now, visibility.duration());
        // Measured from the receive: repeated changes must not hide a message for more than 12 hours.
        if until > add_duration(lease.received_at, VisibilitySeconds::MAX.duration()) {
            return Err(sender_fault("InvalidParameterValue"));
        }
        if !self.messages.is_hidden(key) {
            return Err(sender_fault("MessageNotInflight"));
        }
        if let Some(message) = self.messages.remove_message(key) {
            self.log_change(now, &message.id, || ChangeKind::Hidden { seconds: visibility.get() });
            self.messages.insert_message(StoredMessage { visible_at: until, ..message });
        }
        self.advance_to(now);
        Ok(())
    }

    /// Returns the number of messages in each state. The counts are at most `lag` old.
    pub(crate) fn lagged_depth(&mut self, now: Timestamp, lag: Duration) -> Depth {
        match self.last_counted {
            Some((at, depth)) if now < add_duration(at, lag) => depth,
            _ => {
                let depth = self.exact_depth(now);
                self.last_counted = Some((now, depth));
                depth
            }
        }
    }

    pub(crate) fn exact_depth(&mut self, now: Timestamp) -> Depth {
        self.advance_to(now);
        self.messages.depth()
    }

    /// Returns the time at which the next message becomes or became visible. At the in-flight limit, only hidden
    /// messages count.
    pub(crate) fn next_visible_at(&self) -> Option<Timestamp> {
        if self.is_full() { self.messages.next_reveal_at() } else { self.messages.next_visible_at() }
    }

    fn is_full(&self) -> bool {
        self.messages.depth().in_flight >= IN_FLIGHT_MAX
    }

    fn next_place(&mut self) -> ArrivalNumber {
        self.arrived += 1;
        self.arrived
    }

    /// Applies the passage of time: drops expired messages, and makes due ones visible.
    fn advance_to(&mut self, now: Timestamp) {
        while let Some(expired) = self.messages.take_expired(now) {
            self.log_change(now, &expired.id, || ChangeKind::Expired);
        }
        self.messages.reveal_due_messages(now);
    }

    fn build_delivery(&self, message: &StoredMessage, nonce: u64) -> ReceivedMessage {
        ReceivedMessage {
            sqs_message_id: message.id.clone(),
            receipt_handle: format!("{:08x}-{:016x}-{nonce:016x}", self.number, message.key),
            body: message.content.body.clone(),
            attributes: message.content.attributes.clone(),
            sent_at: message.sent_at,
            first_received_at: message.first_received_at,
            receive_count: message.receive_count,
            message_group_id: message.content.message_group_id.clone(),
            trace_header: message.content.trace_header.clone(),
            sender_id: Some(message.sender_id.to_string()),
            redriven_from: message.redriven_from.clone(),
            queue_arn: self.arn.clone(),
            omitted: Vec::new(),
        }
    }

    fn log_change(&self, at: Timestamp, sqs_message_id: &str, what: impl FnOnce() -> ChangeKind) {
        self.log.push_change(|| MessageChange {
            at,
            queue_arn: self.arn.clone(),
            sqs_message_id: sqs_message_id.to_owned(),
            what: what(),
        });
    }

    fn parse_handle(&self, handle: &str) -> Result<ReceiptHandle, EntryError> {
        let parse = || {
            let (number, rest) = handle.split_once('-')?;
            let (key, nonce) = rest.split_once('-')?;
            let is_own = u32::from_str_radix(number, 16).ok()? == self.number;
            let [key, nonce] = [key, nonce].map(|number| u64::from_str_radix(number, 16).ok());
            is_own.then_some(ReceiptHandle { key: key?, nonce: nonce? })
        };
        parse().ok_or_else(|| sender_fault("ReceiptHandleIsInvalid"))
    }
}

/// A parsed receipt handle.
struct ReceiptHandle {
    key: MessageKey,
    /// The random number that identifies the receive.
    nonce: u64,
}
