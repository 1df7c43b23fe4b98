//! The strategy `direct-resend`: the message-processor decides on its own failed messages, as the
//! failed-message-processor would.

use super::copies::{Copy, Failure};
use super::invocations::Reason;
use super::oracle::Case;
use super::sends::{Send, no_delay};
use super::{Ledger, Place, Violation};
use crate::messages::Expected;

/// A failed message of this invocation.
struct Failed {
    case: Case,
    reason: Reason,
}

impl Ledger {
    /// All failures that a re-send of this invocation may be for. A re-send does not have the error.
    fn failed(&self, send: Send<'_>) -> Vec<Failed> {
        let mut all = Vec::new();
        // Includes copies that are gone: the send may come a minute late.
        let invocation = self.turn.and_then(|turn| self.invocations.get(&turn));
        let given = invocation.map(|work| self.given(work, send.n)).unwrap_or_default();
        let copies = &self.subjects[send.n].copies[Place::Source as usize];
        for copy in given.into_iter().rev().map(|index| &copies[index]) {
            let delivery = &copy.id;
            let Some(retries) = &copy.retries else { continue };
            let before = if copy.came_back {
                retries.of_next_generation(copy.recorded_generation)
            } else {
                retries.clone()
            };
            let which = (self.turn, before.generation.unwrap_or(0), before.attempt);
            let answers = self.subjects[send.n].answers.iter();
            let answers =
                answers.filter(|answer| (answer.invocation, answer.generation, answer.attempt) == which);
            let mut add = |kind, error_type, after, reason| {
                let case = self.case_of(copy, before.clone(), (kind, error_type, after), send.at);
                all.push(Failed { case, reason });
            };
            for answer in answers {
                match answer.kind {
                    "" if answer.is_failed_probe => {
                        add("held", "Timeout", None, Reason::CutOff(delivery.clone()));
                    }
                    _ if answer.is_failed_probe => add("held", answer.error_type, None, Reason::Answered),
                    "" => {}
                    kind => add(kind, answer.error_type, answer.after, Reason::Answered),
                }
            }
            add("transient", "Timeout", None, Reason::CutOff(delivery.clone()));
            add("not_started", "NotStarted", None, Reason::NotCalled(delivery.clone()));
            add("held", "CircuitOpen", None, Reason::NotCalled(delivery.clone()));
        }
        all
    }

    /// A re-send with its delay, by the function that made the call.
    pub(super) fn direct_resend(&mut self, send: Send<'_>) -> Result<(), Violation> {
        let failed = self.failed(send);
        let follows = self.resend_follows(send, || failed.iter().map(|failed| &failed.case))?;
        self.resent(send, &follows)?;
        let (mut reasons, mut wrong) = (Vec::new(), Ok(()));
        for number in follows.cases {
            let Failed { case, reason } = &failed[number];
            let held = if case.is_held() { self.check_held(case.held_seconds(), send.at) } else { Ok(()) };
            match held {
                Ok(()) => reasons.push(reason.clone()),
                Err(_) => wrong = held,
            }
        }
        if reasons.is_empty() {
            return wrong;
        }
        self.work(send.n).ok_or("outside of an invocation")?.handed_off(&reasons)
    }

    /// The unchanged message, for its first hop.
    pub(super) fn direct_hop(&mut self, send: Send<'_>) -> Result<(), Violation> {
        let (failure, case) = self.attached_case(send)?;
        if failure.attempts().is_some() || failure.time("due_at").is_none() {
            return Err("it is handed off, not sent on with its due time".to_owned());
        }
        self.check_failure_of_call(send, &failure)?;
        let before = case.before_its_hop();
        self.hops(send, || std::iter::once(&before))
    }

    /// A verdict on a valid message.
    pub(super) fn direct_verdict(&mut self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        self.attributes_kept(send, "Failure")?;
        let failure = Failure::of(&send.content.attributes).ok_or("without a verdict")?;
        if failure.text("kind").is_empty() && self.subjects[send.n].is_oversize() {
            return Ok(()); // dropped for lack of room
        }
        let (failure, case) = self.attached_case(send)?;
        failure.fits(self.subjects[send.n].is_oversize())?;
        self.check_failure_of_call(send, &failure)?;
        if self.may_give_up(&case, failure.text("verdict"), &failure, send) {
            return Ok(());
        }
        Err(format!("the verdict {} does not follow from {case:?}", failure.text("verdict")))
    }

    /// The attached failure and its case.
    fn attached_case(&self, send: Send<'_>) -> Result<(Failure, Case), Violation> {
        if self.expected(send.n) != Expected::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        let failure = Failure::of(&send.content.attributes).ok_or("without its failure")?;
        let copy = Copy::new(send.content, send.hash, send.body, send.at);
        let case = self.case(&copy).ok_or("its body cannot be read")?;
        Ok((failure, case))
    }
}
