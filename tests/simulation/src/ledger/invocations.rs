//! What one invocation did: an acknowledgement is believed for what that invocation itself has confirmed, and for nothing else.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use redeliver_core::message::ReceivedMessage;

use super::breaker::Begun;
use super::{Ledger, Violation};
use crate::messages::number;

/// By message.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    of: BTreeMap<usize, Work>,
    begun: Option<Begun>,
}

/// What an invocation did for one message. It may have been given several copies of it.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Deliveries that it was given, by SQS's id.
    given: Vec<String>,
    /// Calls of the target that it began.
    called: usize,
    /// Of these, calls that came back with an answer.
    returned: usize,
    /// Calls that one copy may have, those at once after a blip included.
    calls_max: usize,
    /// Sends that SQS has accepted, and successes of the target: each allows to delete one copy.
    credit: usize,
    /// Sends that SQS has accepted.
    accepted: usize,
    /// Events that Lambda has accepted.
    invoked: usize,
    /// Deliveries, by SQS's id, that were handed off as cut off.
    cut_off: BTreeSet<String>,
    /// Deliveries, by SQS's id, that were handed off as not called: not started, or held.
    not_called: BTreeSet<String>,
}

impl Ledger {
    /// An invocation begins, with these records.
    pub fn invoked(&mut self, id: u64, environment: u64, records: &[ReceivedMessage], now: DateTime<Utc>) {
        let begun = self.begun(environment, records, now);
        let mut invocation = Invocation { begun, ..Invocation::default() };
        for record in records {
            if let Some(n) = number(&record.body) {
                invocation.of.entry(n).or_default().given.push(record.sqs_message_id.clone());
            }
        }
        self.invocations.insert(id, invocation);
    }

    /// An invocation is over, and so are its deletions.
    pub fn over(&mut self, id: u64) {
        self.invocations.remove(&id);
    }

    /// Whose turn it is: what happens from now on is this invocation's.
    pub fn turn(&mut self, id: Option<u64>) {
        self.turn = id;
    }

    /// What the invocation whose turn it is has done for a message; `None` for a producer or an operator.
    pub(super) fn work(&mut self, n: usize) -> Option<&mut Work> {
        Some(self.invocations.get_mut(&self.turn?)?.of.entry(n).or_default())
    }
}

impl Invocation {
    pub(super) fn was_given(&self, n: usize, delivery: &str) -> bool {
        self.of.get(&n).is_some_and(|work| work.was_given_as(delivery))
    }

    /// What its environment knew then; `None` without a breaker.
    pub(super) fn begun(&self) -> Option<Begun> {
        self.begun
    }
}

impl Work {
    pub(super) fn called(&mut self, calls_max: usize) -> Result<(), Violation> {
        self.called += 1;
        self.calls_max = calls_max;
        let most = self.given.len() * calls_max;
        if self.called > most { Err(format!("call {} of at most {most}", self.called)) } else { Ok(()) }
    }

    pub(super) fn was_given_as(&self, delivery: &str) -> bool {
        self.given.iter().any(|given| given == delivery)
    }

    pub(super) fn was_given(&self) -> bool {
        !self.given.is_empty()
    }

    pub(super) fn returned(&mut self) {
        self.returned += 1;
    }

    pub(super) fn earned(&mut self) {
        self.credit += 1;
    }

    /// SQS has accepted a send. Each copy is sent on once, and once more where nobody said whether that was accepted.
    pub(super) fn accepted(&mut self) -> Result<(), Violation> {
        self.earned();
        self.accepted += 1;
        let most = 2 * self.given.len();
        if self.accepted > most {
            return Err(format!("accepted send {} of at most {most} in one invocation", self.accepted));
        }
        Ok(())
    }

    /// Lambda has accepted an event: one of each copy.
    pub(super) fn invoked(&mut self) -> Result<(), Violation> {
        self.earned();
        self.invoked += 1;
        if self.invoked > self.given.len() {
            return Err(format!(
                "accepted event {} of at most {} in one invocation",
                self.invoked,
                self.given.len()
            ));
        }
        Ok(())
    }

    pub(super) fn spend(&mut self) -> Result<(), Violation> {
        self.credit = self.credit.checked_sub(1).ok_or("nothing that its invocation confirmed allows it")?;
        Ok(())
    }

    /// A hand-off because of the deadline: only of a call that has not come back.
    pub(super) fn cut_off(&mut self, delivery: &str) -> Result<(), Violation> {
        let is_new = !self.cut_off.contains(delivery);
        if self.cut_off.len() + usize::from(is_new) > self.called.saturating_sub(self.returned) {
            return Err("it says that the call was cut off, but all calls have come back".to_owned());
        }
        self.cut_off.insert(delivery.to_owned());
        Ok(())
    }

    /// A hand-off of what was not called at all.
    pub(super) fn not_called(&mut self, delivery: &str) -> Result<(), Violation> {
        let is_new = !self.not_called.contains(delivery);
        let started = self.called.div_ceil(self.calls_max.max(1));
        if self.not_called.len() + usize::from(is_new) + started > self.given.len() {
            return Err("it says that the message was not called, but it was".to_owned());
        }
        self.not_called.insert(delivery.to_owned());
        Ok(())
    }
}
