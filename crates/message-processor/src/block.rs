//! `on_give_up: block`: a message that is given up stays on its ordered queue, hidden, and the rest of its group behind it.

use std::collections::BTreeSet;

use redeliver_core::accepted::Accepted;
use redeliver_core::blocked::{Place, hidden_for, notice};
use redeliver_core::deliver::Outgoing;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::strategy::OnFailure;

use super::MessageProcessor;
use super::strategy::Unsent;

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// The messages to call the target for; the others are added to `unsent`. An invalid message that blocks its group is
    /// not overtaken either: it waits until it is the first of its group, and what follows it waits behind it.
    pub(super) fn accept_all(
        &self,
        records: Vec<ReceivedMessage>,
        unsent: &mut Unsent,
        now: Timestamp,
    ) -> Vec<Accepted> {
        let may_block = matches!(self.on_failure, OnFailure::Ordered { blocked: Some(_), .. });
        let (mut called, mut stopped) = (BTreeSet::new(), BTreeSet::new());
        let mut accepted = Vec::with_capacity(records.len());
        for record in records {
            let group = record.message_group_id.clone().filter(|_| may_block);
            let place = Place::of(&record, now);
            if group.as_ref().is_some_and(|group| stopped.contains(group)) {
                unsent.given_back.push(record.into_receipt());
                continue;
            }
            let stops = match self.accept(record, now) {
                Ok(message) => {
                    accepted.push(message);
                    called.extend(group);
                    continue;
                }
                Err(verdict) if group.as_ref().is_some_and(|group| called.contains(group)) => {
                    unsent.given_back.push(verdict.receipt);
                    true
                }
                Err(verdict) => self.give_up(*verdict, place, unsent, now),
            };
            stopped.extend(group.filter(|_| stops));
        }
        accepted
    }

    /// Gives a message up. True if it blocks its group, which it does while its queue can keep it.
    pub(super) fn give_up(
        &self,
        verdict: Outgoing,
        place: Place,
        unsent: &mut Unsent,
        now: Timestamp,
    ) -> bool {
        let hidden = match &self.on_failure {
            OnFailure::Ordered { blocked: Some(_), queue_times, .. } => hidden_for(*queue_times, place, now),
            _ => None,
        };
        let notice = match hidden {
            Some(hidden) => notice(verdict, place).map(|notice| (notice, hidden)),
            None => Err(Box::new(verdict)),
        };
        match notice {
            Ok(notice) => unsent.notices.push(notice),
            Err(verdict) => {
                unsent.verdicts.push(*verdict);
                return false;
            }
        }
        true
    }
}
