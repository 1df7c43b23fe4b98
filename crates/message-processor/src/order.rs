//! The order of calls within a batch.

use std::collections::BTreeSet;

use redeliver_core::accepted::AcceptedMessage;

use crate::MessageProcessor;
use crate::outcome::AttemptOutcome;

/// The message groups of a batch. The target is called for a message only after it has processed all earlier messages
/// of the same group: after the first failure or hold, the rest of the group returns to the queue. A message without a
/// group never waits for another message.
pub(super) struct GroupOrder<'a> {
    /// The group of each message, by index in the batch.
    groups: Vec<Option<&'a str>>,
    running: BTreeSet<&'a str>,
    stopped: BTreeSet<&'a str>,
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    pub(super) fn group_order<'a>(&self, accepted: &'a [AcceptedMessage]) -> GroupOrder<'a> {
        let groups = accepted.iter().map(|message| self.on_failure.ordering_group(message)).collect();
        GroupOrder { groups, running: BTreeSet::new(), stopped: BTreeSet::new() }
    }
}

impl<'a> GroupOrder<'a> {
    /// Returns the groups with a call in progress. The caller adds each group whose message it skips.
    pub(super) fn running_groups(&self) -> BTreeSet<&'a str> {
        self.running.clone()
    }

    pub(super) fn group_at(&self, index: usize) -> Option<&'a str> {
        self.groups[index]
    }

    /// Returns true if an earlier message of the group failed, was held or was not started.
    pub(super) fn is_stopped(&self, index: usize) -> bool {
        self.group_at(index).is_some_and(|group| self.stopped.contains(group))
    }

    /// Returns true if an earlier message of the group was not processed in time.
    pub(super) fn is_unfinished(&self, index: usize) -> bool {
        self.is_stopped(index) || self.group_at(index).is_some_and(|group| self.running.contains(group))
    }

    pub(super) fn mark_started(&mut self, index: usize) {
        self.running.extend(self.group_at(index));
    }

    pub(super) fn mark_stopped(&mut self, index: usize) {
        self.stopped.extend(self.group_at(index));
    }

    pub(super) fn mark_ended(&mut self, index: usize, outcome: &AttemptOutcome) {
        if let Some(group) = self.group_at(index) {
            self.running.remove(group);
        }
        if !matches!(outcome, AttemptOutcome::Success) {
            self.mark_stopped(index);
        }
    }
}
