//! This environment's circuit breaker: permits calls and records their outcomes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redeliver_core::accepted::{AcceptedMessage, ReportedOutage};
use redeliver_core::decide::breaker::{
    Breaker, Caller, CircuitChange, CircuitKey, Hold, Patience, Permission, Permit,
};
use redeliver_core::decide::{CallOutcome, call_outcome, hold_grace};
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::handler::HandlerError;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Observer};

use crate::MessageProcessor;
use crate::outcome::{AttemptOutcome, timeout_error};

/// The time after a re-send during which a held message's outage report is trusted: twice the maximum delay, since the
/// message may wait on the queue for as long as it was delayed.
const REPORT_TRUSTED_FOR: Duration = Duration::from_secs(1800);

/// The circuit breaker, shared by the calls in a batch and by concurrent batches of one process. Clones share its
/// state.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Option<Arc<Mutex<Breaker>>>);

impl SharedBreaker {
    /// Creates a closed breaker if the policy has a `circuit_breaker`. Without it, every call is permitted.
    #[must_use]
    pub fn from_policy(policy: &Policy) -> Self {
        Self(policy.circuit_breaker.as_ref().map(|_| Arc::default()))
    }

    fn lock_breaker(&self) -> Option<MutexGuard<'_, Breaker>> {
        self.0.as_ref().map(|breaker| lock(breaker))
    }
}

/// The breaker's decision for one message.
pub(super) enum BreakerDecision<'a, H, Q, C: Clock, O: Observer> {
    Call(PermittedCall<'a, H, Q, C, O>),
    /// A probe in progress will settle the question, or the rate limit may soon permit a call.
    Wait,
    Hold(Hold),
}

/// One permitted call. Dropping it without an outcome means that the end of the invocation cut it off.
pub(super) struct PermittedCall<'a, H, Q, C: Clock, O: Observer> {
    processor: &'a MessageProcessor<H, Q, C, O>,
    /// `None` without a breaker.
    permit: Option<Permit>,
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Applies the outages reported by held messages to the breaker, since a new environment has no evidence yet.
    pub(super) fn apply_reported_outages(&self, accepted: &[AcceptedMessage], now: Timestamp) {
        let Some(mut breaker) = self.breaker.lock_breaker() else { return };
        for message in accepted {
            let recent = message
                .reported_outage()
                .filter(|outage| time_until(outage.reported_at, now) < REPORT_TRUSTED_FOR);
            if let Some(ReportedOutage { outage, reported_at }) = recent {
                breaker.apply_report(self.circuit_key(message), outage, reported_at, now);
            }
        }
    }

    fn breaker_caller(&self, accepted: &AcceptedMessage, now: Timestamp) -> Caller {
        Caller {
            message_id: accepted.metadata().message_id,
            key: self.circuit_key(accepted),
            failures: self.on_failure.failed_calls(accepted),
            held_seconds: self.on_failure.held_seconds(accepted, now),
            calls_before: self.on_failure.calls_before(accepted),
        }
    }

    /// Returns the key of the message's circuit.
    pub(super) fn circuit_key(&self, accepted: &AcceptedMessage) -> Option<CircuitKey> {
        let record = accepted.record();
        let per = &self.policy.circuit_breaker.as_ref()?.per;
        per.key_text(record.message_group_id.as_deref(), &record.attributes).map(CircuitKey::from_text)
    }

    /// Asks the breaker whether the target may be called for this message now.
    pub(super) fn ask_breaker<'a>(
        &'a self,
        accepted: &'a AcceptedMessage,
        patience: Patience,
    ) -> BreakerDecision<'a, H, Q, C, O> {
        let permitted = |permit| BreakerDecision::Call(PermittedCall { processor: self, permit });
        let Some(mut breaker) = self.breaker.lock_breaker() else {
            return permitted(None);
        };
        let now = self.clock.now();
        let caller = self.breaker_caller(accepted, now);
        // At the hold limit, only a `Retry-After` or a rate limit can still hold the message.
        let permission = if self.on_failure.is_overdue(&self.policy, accepted, now) {
            breaker.request_overdue_call(caller, hold_grace(&self.policy, caller.held_seconds), now)
        } else {
            breaker.request_call(caller, patience, now)
        };
        match permission {
            Permission::Call(permit) => permitted(Some(permit)),
            Permission::Wait => BreakerDecision::Wait,
            Permission::Hold(hold) => BreakerDecision::Hold(hold),
        }
    }

    /// Returns the hold for a message whose call failed with this error, or `None` if the call spends an attempt.
    fn decide_hold(&self, accepted: &AcceptedMessage, error: &HandlerError) -> Option<Hold> {
        let outcome = call_outcome(&self.policy, error);
        let now = self.clock.now();
        self.breaker.lock_breaker()?.hold_after_call(self.breaker_caller(accepted, now), outcome, now)
    }

    /// Holds the message without spending an attempt if its call failed with "not now" or indicated an outage.
    pub(super) fn hold_or_fail(&self, accepted: &AcceptedMessage, error: HandlerError) -> AttemptOutcome {
        match self.decide_hold(accepted, &error) {
            Some(hold) => AttemptOutcome::Held { hold, error: Some(error) },
            None => AttemptOutcome::Failure(error),
        }
    }

    /// Records the outcome of a call. Returns true if the message may be held.
    fn record_outcome(&self, permit: Permit, error: Option<&HandlerError>) -> bool {
        let Some(mut breaker) = self.breaker.lock_breaker() else { return false };
        let outcome = error.map_or(CallOutcome::Answer, |error| call_outcome(&self.policy, error));
        let may_be_held = permit.may_be_held(outcome);
        let change = breaker.record_outcome(permit, outcome, self.clock.now());
        drop(breaker);
        if let Some(change) = change {
            let error_type =
                error.map(|error| error.error_type.loggable_name().into_owned()).unwrap_or_default();
            self.observer.observe(&circuit_change_event(change, error_type));
        }
        may_be_held
    }
}

impl<H, Q, C: Clock, O: Observer> PermittedCall<'_, H, Q, C, O> {
    /// Returns true if the message may be held when its call has this outcome and the circuit is open.
    pub(super) fn may_be_held(&self, outcome: CallOutcome) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.may_be_held(outcome))
    }

    /// Returns true if the call is a probe, which checks whether the target has recovered.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Records the outcome of the call.
    pub(super) fn record_call(mut self, result: Result<(), HandlerError>) -> AttemptOutcome {
        let permit = self.permit.take();
        let may_be_held =
            permit.is_some_and(|permit| self.processor.record_outcome(permit, result.as_ref().err()));
        match result {
            Ok(()) => AttemptOutcome::Success,
            Err(error) if may_be_held => AttemptOutcome::Trouble(error),
            Err(error) => AttemptOutcome::Failure(error),
        }
    }

    /// Returns the permit unused.
    pub(super) fn give_back(mut self) {
        if let (Some(permit), Some(mut breaker)) = (self.permit.take(), self.processor.breaker.lock_breaker())
        {
            breaker.give_back(permit, self.processor.clock.now());
        }
    }
}

impl<H, Q, C: Clock, O: Observer> Drop for PermittedCall<'_, H, Q, C, O> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.processor.record_outcome(permit, Some(&timeout_error()));
        }
    }
}

fn circuit_change_event(change: CircuitChange, error_type: String) -> Event {
    match change {
        CircuitChange::Opened { outages, probe_in } => {
            let probe_in_seconds = probe_in.as_secs_f64();
            Event::CircuitOpened { outages, error_type, probe_in_seconds }
        }
        CircuitChange::ProbeFailed { probe_in } => {
            let probe_in_seconds = probe_in.as_secs_f64();
            Event::ProbeFailed { error_type, probe_in_seconds }
        }
        CircuitChange::Closed { open_for, probes } => {
            Event::CircuitClosed { open_seconds: open_for.as_secs_f64(), probes }
        }
    }
}
