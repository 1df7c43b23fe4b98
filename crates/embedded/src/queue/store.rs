//! The messages of a queue.
//!
//! A message is in one of two sets, visible or hidden, ordered by the time at which it is or becomes visible. It does not
//! matter whether a delay or a receive hides it. All operations take O(log n).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redeliver_core::message::{Content, Timestamp};
use redeliver_core::ports::Depth;

use crate::clock::later;

/// A message's number, unique in the service.
pub(crate) type Key = u64;

/// A message in the queue.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(super) key: Key,
    pub(super) id: String,
    pub(super) content: Content,
    pub(super) sent_at: Timestamp,
    pub(super) sender_id: Arc<str>,
    pub(super) first_received_at: Option<Timestamp>,
    pub(super) receive_count: u32,
    pub(super) redriven_from: Option<String>,
    pub(super) visible_at: Timestamp,
    /// The latest receive from this queue: only its handle deletes the message.
    pub(super) lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) nonce: u64,
    pub(super) received_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Store {
    retention: Duration,
    /// Boxed, since a node of the tree may be half empty.
    messages: BTreeMap<Key, Box<Stored>>,
    visible: BTreeSet<(Timestamp, Key)>,
    hidden: BTreeSet<(Timestamp, Key)>,
    expiries: BTreeSet<(Timestamp, Key)>,
    /// The number of hidden messages that were not received: `DelaySeconds`.
    delayed: usize,
}

impl Store {
    pub(super) fn new(retention: Duration) -> Self {
        let (messages, delayed) = (BTreeMap::new(), 0);
        let [visible, hidden, expiries] = [const { BTreeSet::new() }; 3];
        Self { retention, messages, visible, hidden, expiries, delayed }
    }

    /// Adds a message, which is hidden until [`show`](Self::show) finds it due.
    pub(super) fn insert(&mut self, message: Stored) {
        self.hidden.insert((message.visible_at, message.key));
        self.expiries.insert((self.expiry(&message), message.key));
        self.delayed += usize::from(message.lease.is_none());
        self.messages.insert(message.key, Box::new(message));
    }

    /// Removes a message from all sets.
    pub(super) fn remove(&mut self, key: Key) -> Option<Stored> {
        let message = self.messages.remove(&key)?;
        let place = (message.visible_at, key);
        if self.hidden.remove(&place) {
            self.delayed -= usize::from(message.lease.is_none());
        }
        self.visible.remove(&place);
        self.expiries.remove(&(self.expiry(&message), key));
        Some(*message)
    }

    /// Removes the message that has been visible for the longest time.
    pub(super) fn take_visible(&mut self) -> Option<Stored> {
        let (_, key) = *self.visible.first()?;
        self.remove(key)
    }

    /// Removes one message whose retention is over.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Option<Stored> {
        let (_, key) = *self.expiries.first().filter(|(at, _)| *at <= now)?;
        self.remove(key)
    }

    /// Makes the messages visible that are due.
    pub(super) fn show(&mut self, now: Timestamp) {
        while let Some(due) = self.hidden.first().copied().filter(|(at, _)| *at <= now) {
            self.hidden.remove(&due);
            self.visible.insert(due);
            let is_unreceived = self.messages.get(&due.1).is_some_and(|message| message.lease.is_none());
            self.delayed -= usize::from(is_unreceived);
        }
    }

    /// The time at which the next message is or becomes visible.
    pub(super) fn next_visible(&self) -> Option<Timestamp> {
        self.visible.first().or_else(|| self.hidden.first()).map(|(at, _)| *at)
    }

    pub(super) fn depth(&self) -> Depth {
        Depth {
            visible: self.visible.len() as u64,
            in_flight: (self.hidden.len() - self.delayed) as u64,
            delayed: self.delayed as u64,
        }
    }

    pub(super) fn is_hidden(&self, key: Key) -> bool {
        self.messages.get(&key).is_some_and(|message| self.hidden.contains(&(message.visible_at, key)))
    }

    /// The receive with this handle, if it is the message's latest.
    pub(super) fn leased(&self, key: Key, nonce: u64) -> Option<Lease> {
        self.messages.get(&key)?.lease.filter(|lease| lease.nonce == nonce)
    }

    /// "Amazon SQS dead-letter queues": retention counts from the original enqueue time, also after a redrive.
    fn expiry(&self, message: &Stored) -> Timestamp {
        later(message.sent_at, self.retention)
    }
}
