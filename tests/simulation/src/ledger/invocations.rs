//! Checks the actions of an invocation, which may acknowledge only messages whose outcome it has confirmed itself.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use redeliver_core::message::ReceivedMessage;

use super::archive::NoticeRequests;
use super::breaker::EnvironmentState;
use super::spans::TracedDelivery;
use super::{BrokenInvariant, Ledger};
use crate::messages::message_number;

/// An invocation and its work for each message.
#[derive(Debug, Default)]
pub(crate) struct LedgerInvocation {
    of: BTreeMap<usize, MessageWork>,
    begun: Option<EnvironmentState>,
    /// The deliveries, if the functions write spans.
    pub(super) delivered: Vec<TracedDelivery>,
    /// The requests to publish notices.
    pub(super) notices: NoticeRequests,
}

/// The work of an invocation for one message, of which it may have received several copies.
#[derive(Debug, Default)]
pub(crate) struct MessageWork {
    /// The SQS message ids of the deliveries.
    given: Vec<String>,
    /// Number of started target calls.
    called: usize,
    /// Number of calls that returned rather than being cut off.
    returned: usize,
    /// Limit on the calls for one copy, immediate retries included.
    calls_max: usize,
    /// Number of copies that may be deleted: one for each accepted send and each successful call.
    credit: usize,
    /// Number of sends that SQS accepted.
    accepted: usize,
    /// Number of events that Lambda accepted.
    invoked: usize,
    /// The possible readings of the hand-offs so far; empty before the first hand-off.
    readings: Vec<HandOffReading>,
}

/// The reason for a hand-off.
#[derive(Clone, Debug)]
pub(super) enum HandOffReason {
    /// The target's response.
    Answered,
    /// The call for the delivery with this SQS message id was cut off.
    CutOff(String),
    /// The target was not called for this delivery: the call was not started, or the target is down.
    NotCalled(String),
}

/// The deliveries that the hand-offs account for. A re-send does not identify its copy, so several readings are
/// possible: a copy whose call was cut off can be mistaken for the next attempt of another copy.
#[derive(Clone, Debug, Default)]
struct HandOffReading {
    cut_off: BTreeSet<String>,
    not_called: BTreeSet<String>,
}

impl Ledger {
    /// Records the start of an invocation with these records.
    pub fn begin_invocation(
        &mut self,
        id: u64,
        environment: u64,
        records: &[ReceivedMessage],
        now: DateTime<Utc>,
    ) {
        let begun = self.apply_outage_reports(environment, records, now);
        let delivered = self.invocation_deliveries(records);
        let mut invocation = LedgerInvocation { begun, delivered, ..LedgerInvocation::default() };
        for record in records {
            if let Some(n) = message_number(&record.body) {
                invocation.of.entry(n).or_default().given.push(record.sqs_message_id.clone());
            }
        }
        self.invocations.insert(id, invocation);
    }

    /// Records that an invocation has ended, after all its deletions.
    pub fn end_invocation(&mut self, id: u64) {
        self.invocations.remove(&id);
    }

    /// Sets the invocation to which all following actions belong.
    pub fn set_current_invocation(&mut self, id: Option<u64>) {
        self.current_invocation = id;
    }

    /// Returns the copies of a message that an invocation received, as sorted indexes among all copies that were ever
    /// in the source queue.
    pub(super) fn received_copies(&self, invocation: &LedgerInvocation, n: usize) -> Vec<usize> {
        let given = invocation.of.get(&n).into_iter().flat_map(|work| &work.given);
        let of_source = given.filter_map(|delivery| self.origins.get(delivery));
        let numbers: BTreeSet<_> =
            of_source.filter(|origin| origin.subject == n).map(|origin| origin.copy).collect();
        numbers.into_iter().collect()
    }

    /// Returns the current invocation's work for a message, or `None` for actions of a producer or an operator.
    pub(super) fn current_work(&mut self, n: usize) -> Option<&mut MessageWork> {
        Some(self.invocations.get_mut(&self.current_invocation?)?.of.entry(n).or_default())
    }

    /// Returns true if the current invocation received only one copy of this message.
    pub(super) fn received_single_copy(&self, n: usize) -> bool {
        self.current_invocation
            .and_then(|id| self.invocations.get(&id))
            .is_some_and(|invocation| invocation.has_single_copy(n))
    }
}

impl HandOffReading {
    fn is_within(&self, other: &Self) -> bool {
        self.cut_off.is_subset(&other.cut_off) && self.not_called.is_subset(&other.not_called)
    }
}

impl LedgerInvocation {
    /// Returns the state of the environment at the start of the invocation, or `None` without a breaker.
    pub(super) fn environment_state(&self) -> Option<EnvironmentState> {
        self.begun
    }

    fn has_single_copy(&self, n: usize) -> bool {
        self.of.get(&n).is_some_and(|work| work.given.len() == 1)
    }
}

impl MessageWork {
    pub(super) fn record_call(&mut self, calls_max: usize) -> Result<(), BrokenInvariant> {
        self.called += 1;
        self.calls_max = calls_max;
        let most = self.given.len() * calls_max;
        if self.called > most { Err(format!("call {} of at most {most}", self.called)) } else { Ok(()) }
    }

    pub(super) fn has_deliveries(&self) -> bool {
        !self.given.is_empty()
    }

    pub(super) fn record_return(&mut self) {
        self.returned += 1;
    }

    pub(super) fn earn_credit(&mut self) {
        self.credit += 1;
    }

    /// Records a send that SQS accepted, and checks the number of sends. Each copy is sent once, or twice if the
    /// outcome of the first send is unknown.
    pub(super) fn record_accepted_send(&mut self) -> Result<(), BrokenInvariant> {
        self.earn_credit();
        self.accepted += 1;
        let most = 2 * self.given.len();
        if self.accepted > most {
            return Err(format!("accepted send {} of at most {most} in one invocation", self.accepted));
        }
        Ok(())
    }

    /// Records an event that Lambda accepted, and checks that there is at most one event per copy.
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
        self.credit = self.credit.checked_sub(1).ok_or("its invocation has confirmed no outcome for it")?;
        Ok(())
    }

    /// Records a hand-off for one of these reasons, and checks that all hand-offs together agree with the calls.
    pub(super) fn record_hand_off(&mut self, reasons: &[HandOffReason]) -> Result<(), BrokenInvariant> {
        let first = [HandOffReading::default()];
        let so_far = if self.readings.is_empty() { &first[..] } else { &self.readings };
        let (mut readings, mut refusals) = (Vec::new(), Vec::new());
        for reading in so_far {
            for reason in reasons {
                match self.extend_reading(reading, reason) {
                    Ok(next) => insert_minimal_reading(&mut readings, next),
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

    fn extend_reading(
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
        // Only calls that have not returned can have been cut off.
        if next.cut_off.len() > self.called.saturating_sub(self.returned) {
            return Err("it claims that the call was cut off, but all calls have returned".to_owned());
        }
        let started = self.called.div_ceil(self.calls_max.max(1));
        if next.not_called.len() + started > self.given.len() {
            return Err("it claims that the message was not called, but it was".to_owned());
        }
        Ok(next)
    }
}

/// Adds a reading unless an existing one is a subset of it, and drops its supersets: a superset permits nothing that
/// its subset does not.
fn insert_minimal_reading(readings: &mut Vec<HandOffReading>, next: HandOffReading) {
    if readings.iter().any(|reading| reading.is_within(&next)) {
        return;
    }
    readings.retain(|reading| !next.is_within(reading));
    readings.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_work(given: [&str; 2], called: usize, returned: usize) -> MessageWork {
        let given = given.map(str::to_owned).to_vec();
        MessageWork { given, called, returned, calls_max: 1, ..MessageWork::default() }
    }

    fn cut_off_reason(delivery: &str) -> HandOffReason {
        HandOffReason::CutOff(delivery.to_owned())
    }

    fn not_called_reason(delivery: &str) -> HandOffReason {
        HandOffReason::NotCalled(delivery.to_owned())
    }

    #[test]
    fn an_ambiguous_hand_off_keeps_all_possible_readings() {
        let mut work = message_work(["a", "b"], 1, 0);
        assert_eq!(work.record_hand_off(&[cut_off_reason("a"), not_called_reason("b")]), Ok(()));
        assert_eq!(work.record_hand_off(&[cut_off_reason("a")]), Ok(()));
        assert_eq!(
            work.record_hand_off(&[cut_off_reason("a"), not_called_reason("b")]),
            Ok(()),
            "sent once more"
        );
    }

    #[test]
    fn a_settled_hand_off_reading_is_not_reinterpreted() {
        let refusal = "it claims that the call was cut off, but all calls have returned";
        let mut both = message_work(["a", "b"], 1, 0);
        assert_eq!(both.record_hand_off(&[cut_off_reason("a"), cut_off_reason("b")]), Ok(()));
        assert_eq!(both.record_hand_off(&[not_called_reason("b")]), Ok(()));
        assert_eq!(both.record_hand_off(&[cut_off_reason("a")]), Ok(()));
        assert_eq!(both.record_hand_off(&[cut_off_reason("b")]), Err(refusal.to_owned()));
        assert_eq!(
            message_work(["a", "b"], 1, 1).record_hand_off(&[cut_off_reason("a")]),
            Err(refusal.to_owned())
        );
    }

    #[test]
    fn a_copy_with_a_call_cannot_be_handed_off_as_not_called() {
        let mut work = message_work(["a", "b"], 1, 1);
        assert_eq!(work.record_hand_off(&[not_called_reason("a"), HandOffReason::Answered]), Ok(()));
        assert_eq!(work.record_hand_off(&[not_called_reason("a"), not_called_reason("b")]), Ok(()));
        let refusal = "it claims that the message was not called, but it was";
        assert_eq!(work.record_hand_off(&[not_called_reason("a")]), Ok(()));
        assert_eq!(work.record_hand_off(&[not_called_reason("b")]), Err(refusal.to_owned()));
    }
}
