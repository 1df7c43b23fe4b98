//! The message groups of a FIFO queue, which determine the next message to be received. All operations are O(log n).
//!
//! While a message in a group is in flight, no further messages from that group are delivered; other groups are not
//! affected ("FIFO queue delivery logic in Amazon SQS").

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::store::{ArrivalNumber, MessageKey};

/// "FIFO queues scan the first 120,000 messages to determine available message groups" ("Avoid large message backlogs
/// with the same message group ID in Amazon SQS").
const SCANNED_MAX: usize = 120_000;

#[derive(Debug, Default)]
pub(super) struct MessageGroups {
    groups: HashMap<String, MessageGroup>,
    /// The first message of each group without messages in flight.
    ready: BTreeMap<ArrivalNumber, MessageKey>,
    places: Places,
}

/// The messages in a group.
#[derive(Debug, Default)]
struct MessageGroup {
    visible: BTreeMap<ArrivalNumber, MessageKey>,
    in_flight: usize,
}

/// The state of a receive: the first place beyond the scanned ones, and the last message's group.
#[derive(Debug, Default)]
pub(super) struct ReceiveScan {
    end: ArrivalNumber,
    group: Option<String>,
}

impl MessageGroups {
    /// Adds a hidden message.
    pub(super) fn insert_hidden(&mut self, group: &str, place: ArrivalNumber) {
        self.places.insert_place(place);
        self.change_group(group, |group| group.in_flight += 1);
    }

    /// Makes a hidden message visible in its original place, before later messages in its group.
    pub(super) fn reveal_message(&mut self, group: &str, place: ArrivalNumber, key: MessageKey) {
        self.change_group(group, |group| {
            group.in_flight -= 1;
            group.visible.insert(place, key);
        });
    }

    pub(super) fn remove_message(&mut self, group: &str, place: ArrivalNumber) {
        self.places.remove_place(place);
        self.change_group(group, |group| {
            if group.visible.remove(&place).is_none() {
                group.in_flight -= 1;
            }
        });
    }

    pub(super) fn begin_scan(&self) -> ReceiveScan {
        ReceiveScan { end: self.places.scan_end(), group: None }
    }

    /// Returns the key of the next message in this scan. A scan returns as many messages as possible from one group,
    /// then those from the group with the oldest first message.
    pub(super) fn next_key(&self, scan: &ReceiveScan) -> Option<MessageKey> {
        let same_group = scan.group.as_ref().and_then(|group| self.groups.get(group)?.first_ready_message());
        let place_and_key = same_group.filter(|(place, _)| *place < scan.end).or_else(|| {
            let (place, key) = self.ready.first_key_value()?;
            (*place < scan.end).then_some((*place, *key))
        });
        place_and_key.map(|(_, key)| key)
    }

    /// Changes a group, and keeps `ready` and the set of groups consistent.
    fn change_group(&mut self, id: &str, change: impl FnOnce(&mut MessageGroup)) {
        if !self.groups.contains_key(id) {
            self.groups.insert(id.to_owned(), MessageGroup::default());
        }
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        if let Some((place, _)) = group.first_ready_message() {
            self.ready.remove(&place);
        }
        change(group);
        if let Some((place, key)) = group.first_ready_message() {
            self.ready.insert(place, key);
        }
        if group.visible.is_empty() && group.in_flight == 0 {
            self.groups.remove(id);
        }
    }
}

impl MessageGroup {
    /// Returns the group's first message, unless one is in flight.
    fn first_ready_message(&self) -> Option<(ArrivalNumber, MessageKey)> {
        let (place, key) = self.visible.first_key_value()?;
        (self.in_flight == 0).then_some((*place, *key))
    }
}

impl ReceiveScan {
    /// Continues the scan with this group.
    pub(super) fn continue_group(&mut self, group: Option<&String>) {
        if self.group.as_ref() != group {
            self.group = group.cloned();
        }
    }
}

/// The places of all messages, split into places that a receive scans and places beyond them.
#[derive(Debug, Default)]
struct Places {
    scanned: BTreeSet<ArrivalNumber>,
    beyond: BTreeSet<ArrivalNumber>,
}

impl Places {
    fn insert_place(&mut self, place: ArrivalNumber) {
        self.scanned.insert(place);
        if self.scanned.len() > SCANNED_MAX || self.beyond.first().is_some_and(|first| *first < place) {
            self.beyond.extend(self.scanned.pop_last());
        }
    }

    fn remove_place(&mut self, place: ArrivalNumber) {
        if self.scanned.remove(&place) {
            self.scanned.extend(self.beyond.pop_first());
        } else {
            self.beyond.remove(&place);
        }
    }

    /// Returns the first place beyond the scanned ones.
    fn scan_end(&self) -> ArrivalNumber {
        self.beyond.first().copied().unwrap_or(ArrivalNumber::MAX)
    }
}
