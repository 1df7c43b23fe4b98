//! The actions of one invocation: it may acknowledge only what it has confirmed itself.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use redeliver_core::message::ReceivedMessage;

use super::archive::NoticeCredit;
use super::breaker::Begun;
use super::spans::TracedDelivery;
use super::{BrokenInvariant, Ledger};
use crate::messages::message_number;

/// Work by message.
#[derive(Debug, Default)]
pub(crate) struct LedgerInvocation {
    of: BTreeMap<usize, Work>,
    begun: Option<Begun>,
    /// Its deliveries, if the functions write spans.
    pub(super) delivered: Vec<TracedDelivery>,
    /// Its requests for notices.
    pub(super) notices: NoticeCredit,
}

/// The work of an invocation for one message, of which it may have received several copies.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Its deliveries, by SQS's id.
    given: Vec<String>,
    /// Calls of the target that have begun.
    called: usize,
    /// Those of them that returned with an answer.
    returned: usize,
    /// Limit on the calls for one copy, immediate retries included.
    calls_max: usize,
    /// Sends that SQS has accepted, and successes of the target: each allows one copy to be deleted.
    credit: usize,
    /// Sends that SQS has accepted.
    accepted: usize,
    /// Events that Lambda has accepted.
    invoked: usize,
    /// Each possible reading of its hand-offs so far; none before the first.
    readings: Vec<HandOffReading>,
}

/// The reason for a hand-off.
#[derive(Clone, Debug)]
pub(super) enum HandOffReason {
    /// The target's answer.
    Answered,
    /// The call of this delivery, by SQS's id, was cut off.
    CutOff(String),
    /// This delivery was not called: it was not started, or the target is down.
    NotCalled(String),
}

/// Deliveries that the hand-offs account for. A re-send does not identify its copy, so several readings are possible: a
/// copy whose call was cut off may be taken for another one's next attempt.
#[derive(Clone, Debug, Default)]
struct HandOffReading {
    cut_off: BTreeSet<String>,
    not_called: BTreeSet<String>,
}

impl Ledger {
    /// An invocation begins, with these records.
    pub fn begin_invocation(
        &mut self,
        id: u64,
        environment: u64,
        records: &[ReceivedMessage],
        now: DateTime<Utc>,
    ) {
        let begun = self.environment_knowledge(environment, records, now);
        let delivered = self.invocation_deliveries(records);
        let mut invocation = LedgerInvocation { begun, delivered, ..LedgerInvocation::default() };
        for record in records {
            if let Some(n) = message_number(&record.body) {
                invocation.of.entry(n).or_default().given.push(record.sqs_message_id.clone());
            }
        }
        self.invocations.insert(id, invocation);
    }

    /// An invocation ends, with all its deletions.
    pub fn end_invocation(&mut self, id: u64) {
        self.invocations.remove(&id);
    }

    /// Sets the current invocation, which all following actions belong to.
    pub fn set_current_invocation(&mut self, id: Option<u64>) {
        self.turn = id;
    }

    /// The copies of a message that an invocation received: their numbers among all that were ever in the source queue,
    /// in order.
    pub(super) fn received_copies(&self, invocation: &LedgerInvocation, n: usize) -> Vec<usize> {
        let given = invocation.of.get(&n).into_iter().flat_map(|work| &work.given);
        let of_source = given.filter_map(|delivery| self.origins.get(delivery));
        let numbers: BTreeSet<_> =
            of_source.filter(|origin| origin.subject == n).map(|origin| origin.copy).collect();
        numbers.into_iter().collect()
    }

    /// The current invocation's work for a message; `None` for a producer or an operator.
    pub(super) fn current_work(&mut self, n: usize) -> Option<&mut Work> {
        Some(self.invocations.get_mut(&self.turn?)?.of.entry(n).or_default())
    }

    /// True if the invocation received only one copy of this message.
    pub(super) fn is_one_copy(&self, n: usize) -> bool {
        self.turn.and_then(|turn| self.invocations.get(&turn)).is_some_and(|invocation| invocation.is_one(n))
    }
}

impl HandOffReading {
    fn is_within(&self, other: &Self) -> bool {
        self.cut_off.is_subset(&other.cut_off) && self.not_called.is_subset(&other.not_called)
    }
}

impl LedgerInvocation {
    /// Its environment's knowledge at the start; `None` without a breaker.
    pub(super) fn breaker_knowledge(&self) -> Option<Begun> {
        self.begun
    }

    fn is_one(&self, n: usize) -> bool {
        self.of.get(&n).is_some_and(|work| work.given.len() == 1)
    }
}

impl Work {
    pub(super) fn record_call(&mut self, calls_max: usize) -> Result<(), BrokenInvariant> {
        self.called += 1;
        self.calls_max = calls_max;
        let most = self.given.len() * calls_max;
        if self.called > most { Err(format!("call {} of at most {most}", self.called)) } else { Ok(()) }
    }

    pub(super) fn was_given(&self) -> bool {
        !self.given.is_empty()
    }

    pub(super) fn record_return(&mut self) {
        self.returned += 1;
    }

    pub(super) fn earn_credit(&mut self) {
        self.credit += 1;
    }

    /// SQS has accepted a send. Each copy is sent on once, and once more if it is unknown whether that was accepted.
    pub(super) fn record_accepted_send(&mut self) -> Result<(), BrokenInvariant> {
        self.earn_credit();
        self.accepted += 1;
        let most = 2 * self.given.len();
        if self.accepted > most {
            return Err(format!("accepted send {} of at most {most} in one invocation", self.accepted));
        }
        Ok(())
    }

    /// Lambda has accepted an event: one for each copy.
    pub(super) fn record_accepted_event(&mut self) -> Result<(), BrokenInvariant> {
        self.earn_credit();
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

    pub(super) fn spend_credit(&mut self) -> Result<(), BrokenInvariant> {
        self.credit = self.credit.checked_sub(1).ok_or("nothing that its invocation confirmed allows it")?;
        Ok(())
    }

    /// A hand-off for one of these reasons, such that all hand-offs together fit the calls.
    pub(super) fn handed_off(&mut self, reasons: &[HandOffReason]) -> Result<(), BrokenInvariant> {
        let first = [HandOffReading::default()];
        let so_far = if self.readings.is_empty() { &first[..] } else { &self.readings };
        let (mut readings, mut refusals) = (Vec::new(), Vec::new());
        for reading in so_far {
            for reason in reasons {
                match self.read_on(reading, reason) {
                    Ok(next) => keep_least(&mut readings, next),
                    Err(refusal) => refusals.push(refusal),
                }
            }
        }
        if readings.is_empty() {
            return Err(refusals.swap_remove(0));
        }
        self.readings = readings;
        Ok(())
    }

    fn read_on(
        &self,
        reading: &HandOffReading,
        reason: &HandOffReason,
    ) -> Result<HandOffReading, BrokenInvariant> {
        let mut next = reading.clone();
        match reason {
            HandOffReason::Answered => {}
            HandOffReason::CutOff(delivery) => {
                next.cut_off.insert(delivery.clone());
            }
            HandOffReason::NotCalled(delivery) => {
                next.not_called.insert(delivery.clone());
            }
        }
        // Only for a call that has not returned.
        if next.cut_off.len() > self.called.saturating_sub(self.returned) {
            return Err("it says that the call was cut off, but all calls have come back".to_owned());
        }
        let started = self.called.div_ceil(self.calls_max.max(1));
        if next.not_called.len() + started > self.given.len() {
            return Err("it says that the message was not called, but it was".to_owned());
        }
        Ok(next)
    }
}

/// Drops a reading that accounts for everything that another one does, and more: it allows nothing that the other does
/// not.
fn keep_least(readings: &mut Vec<HandOffReading>, next: HandOffReading) {
    if readings.iter().any(|reading| reading.is_within(&next)) {
        return;
    }
    readings.retain(|reading| !next.is_within(reading));
    readings.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(given: [&str; 2], called: usize, returned: usize) -> Work {
        let given = given.map(str::to_owned).to_vec();
        Work { given, called, returned, calls_max: 1, ..Work::default() }
    }

    fn cut_off(delivery: &str) -> HandOffReason {
        HandOffReason::CutOff(delivery.to_owned())
    }

    fn not_called(delivery: &str) -> HandOffReason {
        HandOffReason::NotCalled(delivery.to_owned())
    }

    #[test]
    fn an_ambiguous_send_leaves_the_unambiguous_copy_alone() {
        let mut work = work(["a", "b"], 1, 0);
        assert_eq!(work.handed_off(&[cut_off("a"), not_called("b")]), Ok(()));
        assert_eq!(work.handed_off(&[cut_off("a")]), Ok(()));
        assert_eq!(work.handed_off(&[cut_off("a"), not_called("b")]), Ok(()), "sent once more");
    }

    #[test]
    fn a_settled_hand_off_reading_is_not_reinterpreted() {
        let refusal = "it says that the call was cut off, but all calls have come back";
        let mut both = work(["a", "b"], 1, 0);
        assert_eq!(both.handed_off(&[cut_off("a"), cut_off("b")]), Ok(()));
        assert_eq!(both.handed_off(&[not_called("b")]), Ok(()));
        assert_eq!(both.handed_off(&[cut_off("a")]), Ok(()));
        assert_eq!(both.handed_off(&[cut_off("b")]), Err(refusal.to_owned()));
        assert_eq!(work(["a", "b"], 1, 1).handed_off(&[cut_off("a")]), Err(refusal.to_owned()));
    }

    #[test]
    fn a_called_message_is_not_handed_off_as_uncalled() {
        let mut work = work(["a", "b"], 1, 1);
        assert_eq!(work.handed_off(&[not_called("a"), HandOffReason::Answered]), Ok(()));
        assert_eq!(work.handed_off(&[not_called("a"), not_called("b")]), Ok(()));
        let refusal = "it says that the message was not called, but it was";
        assert_eq!(work.handed_off(&[not_called("a")]), Ok(()));
        assert_eq!(work.handed_off(&[not_called("b")]), Err(refusal.to_owned()));
    }
}
