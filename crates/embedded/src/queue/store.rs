//! The messages in a queue.
//!
//! A message is in one of two sets, visible or hidden, ordered by the time at which messages became or become visible.
//! A message can be hidden by a delay or a receive. In a FIFO queue, [`MessageGroups`] determines the next visible
//! message. All operations are O(log n).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redeliver_core::message::{Content, Timestamp};
use redeliver_core::ports::Depth;

use super::groups::{MessageGroups, ReceiveScan};
use crate::clock::add_duration;

/// A message's number, unique in the service.
pub(crate) type MessageKey = u64;

/// A message's place in its queue: its arrival number.
pub(super) type ArrivalNumber = u64;

/// A message in the queue.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    pub(super) key: MessageKey,
    pub(super) place: ArrivalNumber,
    pub(super) id: String,
    pub(super) content: Content,
    pub(super) sent_at: Timestamp,
    /// The start of the retention period.
    pub(super) enqueued_at: Timestamp,
    pub(super) sender_id: Arc<str>,
    pub(super) first_received_at: Option<Timestamp>,
    pub(super) receive_count: u32,
    pub(super) redriven_from: Option<String>,
    pub(super) visible_at: Timestamp,
    /// The latest receive from this queue: only its handle deletes the message.
    pub(super) lease: Option<ReceiveLease>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveLease {
    pub(super) nonce: u64,
    pub(super) received_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct MessageStore {
    retention: Duration,
    /// The messages by key. Boxed, since the nodes of the tree may be half empty.
    messages: BTreeMap<MessageKey, Box<StoredMessage>>,
    visible: BTreeSet<(Timestamp, MessageKey)>,
    hidden: BTreeSet<(Timestamp, MessageKey)>,
    expiries: BTreeSet<(Timestamp, MessageKey)>,
    /// The number of hidden messages that are still delayed by `DelaySeconds` and were never received.
    delayed: usize,
    /// `None` for a standard queue.
    groups: Option<MessageGroups>,
}

impl MessageStore {
    pub(super) fn new(retention: Duration, is_fifo: bool) -> Self {
        let (messages, delayed) = (BTreeMap::new(), 0);
        let [visible, hidden, expiries] = [const { BTreeSet::new() }; 3];
        let groups = is_fifo.then(MessageGroups::default);
        Self { retention, messages, visible, hidden, expiries, delayed, groups }
    }

    /// Adds a message that is hidden until [`reveal_due_messages`](Self::reveal_due_messages) finds it due.
    pub(super) fn insert_message(&mut self, message: StoredMessage) {
        self.hidden.insert((message.visible_at, message.key));
        self.expiries.insert((self.expires_at(&message), message.key));
        self.delayed += usize::from(message.lease.is_none());
        if let Some(groups) = &mut self.groups {
            groups.insert_hidden(message.group_id(), message.place);
        }
        self.messages.insert(message.key, Box::new(message));
    }

    /// Removes a message from all sets.
    pub(super) fn remove_message(&mut self, key: MessageKey) -> Option<StoredMessage> {
        let message = self.messages.remove(&key)?;
        let place = (message.visible_at, key);
        if self.hidden.remove(&place) {
            self.delayed -= usize::from(message.lease.is_none());
        }
        self.visible.remove(&place);
        self.expiries.remove(&(self.expires_at(&message), key));
        if let Some(groups) = &mut self.groups {
            groups.remove_message(message.group_id(), message.place);
        }
        Some(*message)
    }

    /// Starts a receive.
    pub(super) fn begin_scan(&self) -> ReceiveScan {
        self.groups.as_ref().map_or_else(ReceiveScan::default, MessageGroups::begin_scan)
    }

    /// Removes and returns the next message to be received: the message that has been visible for the longest time or,
    /// in a FIFO queue, the message that the groups select.
    pub(super) fn take_visible(&mut self, scan: &mut ReceiveScan) -> Option<StoredMessage> {
        let key = match &self.groups {
            Some(groups) => groups.next_key(scan)?,
            None => self.visible.first()?.1,
        };
        let message = self.remove_message(key)?;
        scan.continue_group(message.content.message_group_id.as_ref());
        Some(message)
    }

    /// Removes and returns one message whose retention period is over.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Option<StoredMessage> {
        let (_, key) = *self.expiries.first().filter(|(at, _)| *at <= now)?;
        self.remove_message(key)
    }

    /// Makes due messages visible.
    pub(super) fn reveal_due_messages(&mut self, now: Timestamp) {
        while let Some(due) = self.hidden.first().copied().filter(|(at, _)| *at <= now) {
            self.hidden.remove(&due);
            self.visible.insert(due);
            let Some(message) = self.messages.get(&due.1) else {
                continue;
            };
            self.delayed -= usize::from(message.lease.is_none());
            if let Some(groups) = &mut self.groups {
                groups.reveal_message(message.group_id(), message.place, message.key);
            }
        }
    }

    /// Returns the time at which the next message becomes or became visible. In a FIFO queue, that message may still
    /// have to wait for others in its group.
    pub(super) fn next_visible_at(&self) -> Option<Timestamp> {
        let visible = match &self.groups {
            Some(groups) => groups
                .next_key(&groups.begin_scan())
                .and_then(|key| Some(self.messages.get(&key)?.visible_at)),
            None => self.visible.first().map(|(at, _)| *at),
        };
        visible.or_else(|| self.next_reveal_at())
    }

    /// Returns the time at which the next hidden message becomes visible.
    pub(super) fn next_reveal_at(&self) -> Option<Timestamp> {
        self.hidden.first().map(|(at, _)| *at)
    }

    pub(super) fn depth(&self) -> Depth {
        Depth {
            visible: self.visible.len() as u64,
            in_flight: (self.hidden.len() - self.delayed) as u64,
            delayed: self.delayed as u64,
        }
    }

    pub(super) fn is_hidden(&self, key: MessageKey) -> bool {
        self.messages.get(&key).is_some_and(|message| self.hidden.contains(&(message.visible_at, key)))
    }

    /// Returns true for the handle of an earlier receive, or of a receive whose visibility timeout is over. Returns
    /// false if the message no longer exists.
    pub(super) fn has_expired(&self, key: MessageKey, nonce: u64) -> bool {
        self.messages.contains_key(&key) && (self.current_lease(key, nonce).is_none() || !self.is_hidden(key))
    }

    /// Returns the receive with this handle, if it is the message's latest one.
    pub(super) fn current_lease(&self, key: MessageKey, nonce: u64) -> Option<ReceiveLease> {
        self.messages.get(&key)?.lease.filter(|lease| lease.nonce == nonce)
    }

    fn expires_at(&self, message: &StoredMessage) -> Timestamp {
        add_duration(message.enqueued_at, self.retention)
    }
}

impl StoredMessage {
    /// Returns the message group; every message in a FIFO queue has one.
    fn group_id(&self) -> &str {
        self.content.message_group_id.as_deref().unwrap_or_default()
    }
}
