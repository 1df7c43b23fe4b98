//! One queue's state: a pure machine, to which the moment comes in as a value.
//!
//! A message is in exactly one of two sets by the moment at which it is (or will be) visible; whatever hides it, a
//! delay or a receive, is the same to the machine. All operations take O(log n).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::SubsecRound;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{Content, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Depth, EntryError, Fault, QueueSettings};

use crate::arrivals::Arrivals;
use crate::changes::{Change, ChangeLog, What};
use crate::checks::sender_fault;
use crate::clock::later;

/// "Amazon SQS message quotas": a standard queue has at most about 120,000 messages in flight.
const IN_FLIGHT_MAX: usize = 120_000;

/// A message's number, unique in the service.
pub(crate) type Key = u64;

/// What has become of the messages of a queue since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent to it.
    pub sent: u64,
    /// Moved to it by another queue's redrive.
    pub moved_in: u64,
    /// Moved away by its own redrive.
    pub moved_out: u64,
    /// Deleted by a receipt handle.
    pub deleted: u64,
    /// Older than its retention: gone.
    pub expired: u64,
}

/// A message as the queue keeps it.
#[derive(Debug)]
pub(crate) struct Stored {
    key: Key,
    id: String,
    content: Content,
    sent_at: Timestamp,
    first_received_at: Option<Timestamp>,
    receive_count: u32,
    redriven_from: Option<String>,
    visible_at: Timestamp,
    /// The newest receive from this queue: the only one whose handle deletes.
    lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    nonce: u64,
    received_at: Timestamp,
}

/// What one receive attempt yields.
pub(crate) struct Received {
    pub(crate) messages: Vec<ReceivedMessage>,
    /// Messages whose receive count was used up; for the dead-letter queue.
    pub(crate) exhausted: Vec<Stored>,
}

/// The state of one queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    arn: String,
    number: u32,
    settings: QueueSettings,
    /// Boxed: a node of the tree has room for twice as many as are in it.
    messages: BTreeMap<Key, Box<Stored>>,
    visible: BTreeSet<(Timestamp, Key)>,
    hidden: BTreeSet<(Timestamp, Key)>,
    expiries: BTreeSet<(Timestamp, Key)>,
    /// How many of the hidden ones have not been received: `DelaySeconds`.
    delayed: usize,
    /// When its counts were last taken, and what they were.
    last_counted: Option<(Timestamp, Depth)>,
    totals: Totals,
    log: ChangeLog,
    pub(crate) arrivals: Arrivals,
}

impl QueueState {
    /// An empty queue. By its `number` its receipt handles differ from those of other queues.
    pub(crate) fn new(arn: String, number: u32, settings: QueueSettings, log: ChangeLog) -> Self {
        Self {
            arn,
            number,
            settings,
            messages: BTreeMap::new(),
            visible: BTreeSet::new(),
            hidden: BTreeSet::new(),
            expiries: BTreeSet::new(),
            delayed: 0,
            last_counted: None,
            totals: Totals::default(),
            log,
            arrivals: Arrivals::default(),
        }
    }

    /// The attributes it was created with.
    pub(crate) fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Takes a message from a producer.
    pub(crate) fn send(&mut self, now: Timestamp, key: Key, id: String, content: Content) {
        self.totals.sent += 1;
        self.note(now, &id, || What::Sent(content.clone()));
        self.insert(Stored {
            key,
            id,
            visible_at: later(now, content.delay.duration()),
            content,
            sent_at: now.trunc_subsecs(3), // `SentTimestamp` is in milliseconds
            first_received_at: None,
            receive_count: 0,
            redriven_from: None,
            lease: None,
        });
        self.settle(now);
    }

    /// Takes a message that another queue's redrive moves here: at once visible, with the clock of its first sending.
    pub(crate) fn accept(&mut self, now: Timestamp, message: Stored, source_arn: &str) {
        self.totals.moved_in += 1;
        let redriven_from = Some(source_arn.to_owned());
        self.insert(Stored { redriven_from, visible_at: now, lease: None, ..message });
        self.settle(now);
    }

    /// Up to `max` visible messages, the longest visible first. With `redrive_limit`, messages that have been received
    /// so often are moved instead.
    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        max: usize,
        visibility: Option<VisibilitySeconds>,
        redrive_limit: Option<u32>,
        mut nonce: impl FnMut() -> u64,
    ) -> Result<Received, EntryError> {
        self.settle(now);
        if self.hidden.len() - self.delayed >= IN_FLIGHT_MAX {
            return Err(EntryError::new(Fault::Throttled, "OverLimit"));
        }
        let until = later(now, visibility.unwrap_or(self.settings.visibility).duration());
        let mut received = Received { messages: Vec::new(), exhausted: Vec::new() };
        while received.messages.len() < max {
            let Some((_, key)) = self.visible.first().copied() else {
                break;
            };
            let Some(mut message) = self.remove(key) else {
                break;
            };
            // On the receive after the last one, as SQS does it: until somebody looks the message stays where it is.
            if redrive_limit.is_some_and(|limit| message.receive_count >= limit) {
                self.totals.moved_out += 1;
                let target_arn = self.settings.redrive.as_ref().map(|redrive| redrive.target_arn.clone());
                self.note(now, &message.id, || What::Moved(target_arn.unwrap_or_default()));
                received.exhausted.push(message);
                continue;
            }
            message.receive_count += 1;
            self.note(now, &message.id, || What::Received { receive_count: message.receive_count });
            // In milliseconds, as SQS has it: a test must not pass by a precision that AWS does not give.
            message.first_received_at.get_or_insert(now.trunc_subsecs(3));
            message.visible_at = until;
            let nonce = nonce();
            message.lease = Some(Lease { nonce, received_at: now });
            received.messages.push(self.delivered(&message, nonce));
            self.insert(message);
        }
        self.settle(now);
        Ok(received)
    }

    /// Deletes by receipt handle.
    ///
    /// As "DeleteMessage" in the Amazon SQS API Reference says, an old handle of a message that was received again
    /// since "succeeds, but the message will not be deleted"; so does one of a message that is gone. A handle works
    /// until the next receive, even after the visibility timeout.
    pub(crate) fn delete(&mut self, now: Timestamp, handle: &str) -> Result<(), EntryError> {
        self.settle(now);
        let (key, nonce) = self.parse_handle(handle)?;
        // An old handle succeeds and deletes nothing: as on AWS, so that code which relies on it fails here too.
        if self.leased(key, nonce).is_some() {
            if let Some(message) = self.remove(key) {
                self.note(now, &message.id, || What::Deleted);
            }
            self.totals.deleted += 1;
        }
        Ok(())
    }

    /// Hides a message that is in flight for `visibility` from now, or shows it at once.
    ///
    /// As "ChangeMessageVisibility" says: at most 12 hours from the receive, and only while it is in flight.
    pub(crate) fn change_visibility(
        &mut self,
        now: Timestamp,
        handle: &str,
        visibility: VisibilitySeconds,
    ) -> Result<(), EntryError> {
        self.settle(now);
        let (key, nonce) = self.parse_handle(handle)?;
        let lease = self.leased(key, nonce).ok_or_else(|| sender_fault("InvalidParameterValue"))?;
        let until = later(now, visibility.duration());
        // From the receive, not from now: a chain of changes must not hide a message for longer than 12 hours.
        if until > later(lease.received_at, VisibilitySeconds::MAX.duration()) {
            return Err(sender_fault("InvalidParameterValue"));
        }
        if !self.is_hidden(key) {
            return Err(sender_fault("MessageNotInflight"));
        }
        if let Some(message) = self.remove(key) {
            self.note(now, &message.id, || What::Hidden { seconds: visibility.get() });
            self.insert(Stored { visible_at: until, ..message });
        }
        self.settle(now);
        Ok(())
    }

    /// Messages by state, as they were at most `lag` ago.
    pub(crate) fn counted(&mut self, now: Timestamp, lag: Duration) -> Depth {
        match self.last_counted {
            Some((at, depth)) if now < later(at, lag) => depth,
            _ => {
                let depth = self.depth(now);
                self.last_counted = Some((now, depth));
                depth
            }
        }
    }

    pub(crate) fn depth(&mut self, now: Timestamp) -> Depth {
        self.settle(now);
        Depth {
            visible: self.visible.len() as u64,
            in_flight: (self.hidden.len() - self.delayed) as u64,
            delayed: self.delayed as u64,
        }
    }

    /// What has become of all messages until now.
    pub(crate) fn totals(&mut self, now: Timestamp) -> Totals {
        self.settle(now);
        self.totals
    }

    /// When the next message is or will be visible.
    pub(crate) fn next_visible(&self) -> Option<Timestamp> {
        self.visible.first().or_else(|| self.hidden.first()).map(|(at, _)| *at)
    }

    /// Does what time did: drops what expired, shows what is due.
    fn settle(&mut self, now: Timestamp) {
        while let Some((_, key)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            if let Some(message) = self.remove(key) {
                self.note(now, &message.id, || What::Expired);
            }
            self.totals.expired += 1;
        }
        while let Some(due) = self.hidden.first().copied().filter(|(at, _)| *at <= now) {
            self.hidden.remove(&due);
            self.visible.insert(due);
            self.delayed -= usize::from(self.is_unreceived(due.1));
        }
    }

    /// Puts a message where [`settle`](Self::settle) finds it.
    fn insert(&mut self, message: Stored) {
        self.hidden.insert((message.visible_at, message.key));
        self.expiries.insert((self.expiry(&message), message.key));
        self.delayed += usize::from(message.lease.is_none());
        self.messages.insert(message.key, Box::new(message));
    }

    /// Takes a message out, wherever it is.
    fn remove(&mut self, key: Key) -> Option<Stored> {
        let message = self.messages.remove(&key)?;
        let place = (message.visible_at, key);
        if self.hidden.remove(&place) {
            self.delayed -= usize::from(message.lease.is_none());
        }
        self.visible.remove(&place);
        self.expiries.remove(&(self.expiry(&message), key));
        Some(*message)
    }

    /// "Amazon SQS dead-letter queues": retention counts from the original enqueue time, also after a redrive.
    fn expiry(&self, message: &Stored) -> Timestamp {
        later(message.sent_at, self.settings.retention)
    }

    fn is_hidden(&self, key: Key) -> bool {
        self.messages.get(&key).is_some_and(|message| self.hidden.contains(&(message.visible_at, key)))
    }

    fn is_unreceived(&self, key: Key) -> bool {
        self.messages.get(&key).is_some_and(|message| message.lease.is_none())
    }

    /// The receive that this handle stands for, if it is the message's newest.
    fn leased(&self, key: Key, nonce: u64) -> Option<Lease> {
        self.messages.get(&key)?.lease.filter(|lease| lease.nonce == nonce)
    }

    fn delivered(&self, message: &Stored, nonce: u64) -> ReceivedMessage {
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
            redriven_from: message.redriven_from.clone(),
            queue_arn: self.arn.clone(),
        }
    }

    fn note(&self, at: Timestamp, sqs_message_id: &str, what: impl FnOnce() -> What) {
        self.log.write(|| Change {
            at,
            queue_arn: self.arn.clone(),
            sqs_message_id: sqs_message_id.to_owned(),
            what: what(),
        });
    }

    fn parse_handle(&self, handle: &str) -> Result<(Key, u64), EntryError> {
        let parse = || {
            let (number, rest) = handle.split_once('-')?;
            let (key, nonce) = rest.split_once('-')?;
            let is_own = u32::from_str_radix(number, 16).ok()? == self.number;
            let ids = (u64::from_str_radix(key, 16).ok()?, u64::from_str_radix(nonce, 16).ok()?);
            is_own.then_some(ids)
        };
        parse().ok_or_else(|| sender_fault("ReceiptHandleIsInvalid"))
    }
}
