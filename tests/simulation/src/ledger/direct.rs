//! Checks for the strategy `direct-resend`: the message-processor itself decides on failed messages as the
//! failed-message-processor would.

use redeliver_core::strategy::Strategy;

use super::breaker::{EndedCall, HeldMessage};
use super::copies::{Copy, StatedFailure, StatedOutage};
use super::invocations::HandOffReason;
use super::oracle::{NOT_CALLED, RetryCase};
use super::sends::{Send, check_no_delay};
use super::{BrokenInvariant, Ledger, QueuePlace};
use crate::messages::ExpectedOutcome;

/// A message that failed in the current invocation.
struct ResendCandidate {
    case: RetryCase,
    reason: HandOffReason,
    /// The call for a message that is held although the target was called for it.
    held: Option<EndedCall>,
}

impl Ledger {
    /// Returns all failures that might explain a re-send by this invocation. A re-send does not name its error.
    fn resend_candidates(&self, send: Send<'_>) -> Vec<ResendCandidate> {
        let mut all = Vec::new();
        // Includes deleted copies: the send can arrive a minute late.
        let invocation = self.current_invocation.and_then(|id| self.invocations.get(&id));
        let given = invocation.map(|work| self.received_copies(work, send.n)).unwrap_or_default();
        let copies = &self.subjects[send.n].copies[QueuePlace::Source as usize];
        for copy in given.into_iter().rev().map(|index| &copies[index]) {
            let delivery = &copy.id;
            let Some(retries) = &copy.retries else { continue };
            let before = if copy.came_back {
                retries.for_next_generation(copy.recorded_generation)
            } else {
                retries.clone()
            };
            let which = (self.current_invocation, before.generation.unwrap_or(0), before.attempt);
            let answers = self.subjects[send.n].answers.iter();
            let answers =
                answers.filter(|answer| (answer.invocation, answer.generation, answer.attempt) == which);
            let mut add = |kind, error_type, after, reason, call: Option<EndedCall>| {
                let (n, retries, attempt) = (send.n, &before, before.attempt);
                let held = HeldMessage { n, retries, attempt, error_type, call: call.as_ref(), report: None };
                let hold = self.hold_seconds_range(&held, send.at);
                let case = self.source_case(copy, before.clone(), (kind, error_type, after), send.at);
                all.push(ResendCandidate { case: case.with_hold(hold), reason, held: call });
            };
            for error_type in NOT_CALLED {
                add("held", error_type, None, HandOffReason::NotCalled(delivery.clone()), None);
            }
            // All other failures are handed off.
            if self.knobs.retry_loop.strategy() == Some(Strategy::DelayedResend) {
                continue;
            }
            for answer in answers {
                if !answer.kind.is_empty() && !self.means_not_now(answer) {
                    add(answer.kind, answer.error_type, answer.after, HandOffReason::Answered, None);
                }
                let (error_type, reason) = match answer.is_cut_off {
                    true => ("Timeout", HandOffReason::CutOff(delivery.clone())),
                    false => (answer.error_type, HandOffReason::Answered),
                };
                if let Some(outcome) = &answer.outcome {
                    add("held", error_type, None, reason, Some(outcome.clone()));
                }
            }
            if !self.cut_off_means_not_now() {
                add("transient", "Timeout", None, HandOffReason::CutOff(delivery.clone()), None);
            }
            add("not_started", "NotStarted", None, HandOffReason::NotCalled(delivery.clone()), None);
        }
        all
    }

    /// Checks a re-send by the message-processor, including its delay.
    pub(super) fn check_direct_resend(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let failed = self.resend_candidates(send);
        let follows = self.explain_resend(send, || failed.iter().map(|failed| &failed.case))?;
        self.record_resend_and_check_delay(send, &follows)?;
        let (mut reasons, mut wrong) = (Vec::new(), Ok(()));
        let body = send.body.ok_or("its body cannot be read")?;
        let first_failures = body.retries.outage_failures;
        let outage = body.retries.held_since.map(|since| StatedOutage { since, first_failures });
        for number in follows.cases {
            let ResendCandidate { case, reason, held } = &failed[number];
            let (retries, error_type) = (case.retries_before(), case.error_type());
            let is_right = match reason {
                _ if case.is_held() => {
                    let (attempt, call) = (retries.attempt, held.as_ref());
                    let held = HeldMessage { n: send.n, retries, attempt, error_type, call, report: None };
                    let known =
                        outage.map_or(Ok(()), |outage| self.check_outage_is_known(send.n, outage, send.at));
                    known.and_then(|()| self.check_hold(&held, send.at))
                }
                HandOffReason::NotCalled(_) => self.check_not_started(),
                HandOffReason::Answered | HandOffReason::CutOff(_) => self.check_attempt_spent(send.n),
            };
            match is_right {
                Ok(()) => reasons.push(reason.clone()),
                Err(_) => wrong = is_right,
            }
        }
        if reasons.is_empty() {
            return wrong;
        }
        self.current_work(send.n).ok_or("outside of an invocation")?.record_hand_off(&reasons)
    }

    /// Checks the first hop of a message, which must be unchanged.
    pub(super) fn check_direct_hop(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let (failure, case) = self.attached_case(send)?;
        if failure.attempt_count().is_some() || failure.time_member("due_at").is_none() {
            return Err("it is handed off instead of sent with its due time".to_owned());
        }
        self.check_call_failure(send, &failure)?;
        let before = case.before_hop();
        self.check_hop_from_cases(send, || std::iter::once(&before))
    }

    /// Checks a verdict on a valid message.
    pub(super) fn check_direct_verdict(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        self.check_attributes_kept(send, "Failure")?;
        let failure = StatedFailure::from_attributes(&send.content.attributes).ok_or("without a verdict")?;
        if failure.text_member("kind").is_empty() && self.subjects[send.n].is_oversize() {
            return Ok(()); // omitted for lack of room
        }
        let (failure, case) = self.attached_case(send)?;
        failure.check_size(self.subjects[send.n].is_oversize())?;
        self.check_call_failure(send, &failure)?;
        if self.knobs.retry_loop.strategy() == Some(Strategy::DelayedResend) && !case.was_held_without_call()
        {
            return Err("it was called: the failed-message-processor decides".to_owned());
        }
        if self.may_give_up(&case, failure.text_member("verdict"), &failure, send) {
            return Ok(());
        }
        Err(format!("the verdict {} does not follow from {case:?}", failure.text_member("verdict")))
    }

    /// Returns the attached failure and its case.
    fn attached_case(&self, send: Send<'_>) -> Result<(StatedFailure, RetryCase), BrokenInvariant> {
        if self.expected_outcome(send.n) != ExpectedOutcome::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        let failure =
            StatedFailure::from_attributes(&send.content.attributes).ok_or("without its failure")?;
        let copy = Copy::new(send.content, send.hash, send.body, send.at);
        let case = self.read_case(&copy).ok_or("its body cannot be read")?;
        Ok((failure, case))
    }
}
