//! The circuit breaker of this environment: permits each call, and records its outcome.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redeliver_core::accepted::{Accepted, ReportedOutage};
use redeliver_core::decide::breaker::{Breaker, Caller, Change, Hold, Key, Patience, Permission, Permit};
use redeliver_core::decide::{CallOutcome, call_outcome, hold_grace};
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::handler::HandlerError;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Observer};

use crate::MessageProcessor;
use crate::outcome::{Outcome, timeout};

/// A held message's report about its target is trusted for this long after its re-send: the longest delay, and as long
/// again on the queue.
const HELD_MOMENTS_AGO: Duration = Duration::from_secs(1800);

/// The breaker, shared by the calls of a batch, and by the concurrent batches of one process. Clones share its state.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Option<Arc<Mutex<Breaker>>>);

impl SharedBreaker {
    /// A closed breaker with the settings of the policy's `circuit_breaker`. Without it, every call is permitted.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self(policy.circuit_breaker.as_ref().map(|_| Arc::default()))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Breaker>> {
        self.0.as_ref().map(|breaker| lock(breaker))
    }
}

/// The breaker's answer for one message.
pub(super) enum Asked<'a, H, Q, C: Clock, O: Observer> {
    Call(Permitted<'a, H, Q, C, O>),
    /// A running probe decides, or the rate limit may have a place soon.
    Wait,
    Hold(Hold),
}

/// One permitted call. If it is dropped without an outcome, the end of the invocation has cut it off.
pub(super) struct Permitted<'a, H, Q, C: Clock, O: Observer> {
    processor: &'a MessageProcessor<H, Q, C, O>,
    /// `None` without a breaker.
    permit: Option<Permit>,
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Passes the outages that held messages report to the breaker: a new environment has no evidence of its own.
    pub(super) fn learn(&self, accepted: &[Accepted], now: Timestamp) {
        let Some(mut breaker) = self.breaker.lock() else { return };
        for message in accepted {
            let recent = message.outage().filter(|outage| until(outage.reported_at, now) < HELD_MOMENTS_AGO);
            if let Some(ReportedOutage { outage, reported_at }) = recent {
                breaker.learn(self.key(message), outage, reported_at, now);
            }
        }
    }

    fn caller(&self, accepted: &Accepted, now: Timestamp) -> Caller {
        Caller {
            message_id: accepted.metadata().message_id,
            key: self.key(accepted),
            failures: self.on_failure.failures(accepted),
            held_seconds: self.on_failure.held_seconds(accepted, now),
            calls_before: self.on_failure.calls_before(accepted),
        }
    }

    /// The key of the message's circuit.
    pub(super) fn key(&self, accepted: &Accepted) -> Option<Key> {
        let record = accepted.record();
        let per = &self.policy.circuit_breaker.as_ref()?.per;
        per.key_of(record.message_group_id.as_deref(), &record.attributes).map(Key::of)
    }

    /// Asks if this message may be called now.
    pub(super) fn ask<'a>(&'a self, accepted: &'a Accepted, patience: Patience) -> Asked<'a, H, Q, C, O> {
        let permitted = |permit| Asked::Call(Permitted { processor: self, permit });
        let Some(mut breaker) = self.breaker.lock() else {
            return permitted(None);
        };
        let now = self.clock.now();
        let caller = self.caller(accepted, now);
        // A message at its hold limit is called in any state.
        let permission = if self.on_failure.is_overdue(&self.policy, accepted, now) {
            breaker.ask_overdue(caller, hold_grace(&self.policy, caller.held_seconds), now)
        } else {
            breaker.ask(caller, patience, now)
        };
        match permission {
            Permission::Call(permit) => permitted(Some(permit)),
            Permission::Wait => Asked::Wait,
            Permission::Hold(hold) => Asked::Hold(hold),
        }
    }

    /// The hold of a message whose own call failed with this error; `None` if the call spends an attempt.
    fn hold(&self, accepted: &Accepted, error: &HandlerError) -> Option<Hold> {
        let met = call_outcome(&self.policy, error);
        let now = self.clock.now();
        self.breaker.lock()?.hold(self.caller(accepted, now), met, now)
    }

    /// Holds the message, without spending an attempt, if its call was answered "not now" or observed an outage.
    pub(super) fn held_or_failed(&self, accepted: &Accepted, error: HandlerError) -> Outcome {
        match self.hold(accepted, &error) {
            Some(hold) => Outcome::Held { hold, error: Some(error) },
            None => Outcome::Failure(error),
        }
    }

    /// Records an outcome. Returns true if the message may be held.
    fn record(&self, permit: Permit, error: Option<&HandlerError>) -> bool {
        let Some(mut breaker) = self.breaker.lock() else { return false };
        let met = error.map_or(CallOutcome::Answer, |error| call_outcome(&self.policy, error));
        let may_be_held = permit.may_be_held(met);
        let change = breaker.record(permit, met, self.clock.now());
        drop(breaker);
        if let Some(change) = change {
            let error_type = error.map(|error| error.error_type.loggable().into_owned()).unwrap_or_default();
            self.observer.observe(&event_of(change, error_type));
        }
        may_be_held
    }
}

impl<H, Q, C: Clock, O: Observer> Permitted<'_, H, Q, C, O> {
    /// True if the message may be held when its call has this outcome and the circuit is open.
    pub(super) fn may_be_held(&self, met: CallOutcome) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.may_be_held(met))
    }

    /// True if it checks if the target is back.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Records the outcome of the call.
    pub(super) fn record(mut self, met: Result<(), HandlerError>) -> Outcome {
        let permit = self.permit.take();
        let may_be_held = permit.is_some_and(|permit| self.processor.record(permit, met.as_ref().err()));
        match met {
            Ok(()) => Outcome::Success,
            Err(error) if may_be_held => Outcome::Trouble(error),
            Err(error) => Outcome::Failure(error),
        }
    }

    /// Returns the permit of a call that is not made.
    pub(super) fn give_back(mut self) {
        if let (Some(permit), Some(mut breaker)) = (self.permit.take(), self.processor.breaker.lock()) {
            breaker.give_back(permit, self.processor.clock.now());
        }
    }
}

impl<H, Q, C: Clock, O: Observer> Drop for Permitted<'_, H, Q, C, O> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.processor.record(permit, Some(&timeout()));
        }
    }
}

fn event_of(change: Change, error_type: String) -> Event {
    match change {
        Change::Opened { outages, probe_in } => {
            let probe_in_seconds = probe_in.as_secs_f64();
            Event::CircuitOpened { outages, error_type, probe_in_seconds }
        }
        Change::ProbeFailed { probe_in } => {
            let probe_in_seconds = probe_in.as_secs_f64();
            Event::ProbeFailed { error_type, probe_in_seconds }
        }
        Change::Closed { open_for, probes } => {
            Event::CircuitClosed { open_seconds: open_for.as_secs_f64(), probes }
        }
    }
}
