//! The circuit breaker of this environment: permits each call, and records its outcome.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redeliver_core::accepted::Accepted;
use redeliver_core::decide::breaker::{
    Breaker, CallOutcome, Change, Permission, Permit, Tenant, call_outcome,
};
use redeliver_core::decide::may_be_held;
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::handler::HandlerError;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Observer};

use super::MessageProcessor;
use super::calls::{Outcome, timeout};

/// A held message's report about its target is trusted for this long after its re-send: the longest delay, and as long
/// again on the queue.
const HELD_MOMENTS_AGO: Duration = Duration::from_secs(1800);

/// The breaker, shared by the calls of a batch, and by the concurrent batches of one process. Clones share its state.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Option<Arc<Mutex<Breaker>>>);

impl SharedBreaker {
    /// The policy's breaker, closed; without one in the policy every call is permitted.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self(policy.circuit_breaker.clone().map(|settings| Arc::new(Mutex::new(Breaker::new(settings)))))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Breaker>> {
        self.0.as_ref().map(|breaker| lock(breaker))
    }

    /// Start of the outage, if the target is down.
    pub(super) fn open_since(&self) -> Option<Timestamp> {
        self.lock()?.open_since()
    }
}

/// The breaker's answer for one message.
pub(super) enum Asked<'a, H, Q, C: Clock, O: Observer> {
    Call(Permitted<'a, H, Q, C, O>),
    /// The outcome of a running call decides.
    Wait,
    /// The target has been down since this time.
    Hold(Timestamp),
}

/// One permitted call. If it is dropped without an outcome, the end of the invocation has cut it off.
pub(super) struct Permitted<'a, H, Q, C: Clock, O: Observer> {
    processor: &'a MessageProcessor<H, Q, C, O>,
    accepted: &'a Accepted,
    /// `None` without a breaker.
    permit: Option<Permit>,
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Learns from the messages of a batch: held ones tell a new environment about an outage.
    pub(super) fn learn(&self, accepted: &[Accepted], now: Timestamp) {
        let reports = accepted.iter().filter_map(Accepted::outage);
        let recent = reports.filter(|(_, reported_at)| until(*reported_at, now) < HELD_MOMENTS_AGO);
        let reports = recent.reduce(|(since, reported_at), (other_since, other_reported_at)| {
            (since.min(other_since), reported_at.max(other_reported_at))
        });
        if let (Some((since, reported_at)), Some(mut breaker)) = (reports, self.breaker.lock()) {
            breaker.learn(since, reported_at, now);
        }
    }

    /// Asks if this message may be called now.
    pub(super) fn ask<'a>(&'a self, accepted: &'a Accepted) -> Asked<'a, H, Q, C, O> {
        let permitted = |permit| Asked::Call(Permitted { processor: self, accepted, permit });
        let Some(mut breaker) = self.breaker.lock() else {
            return permitted(None);
        };
        // A message at its hold limit is called in any state: its failures spend its attempts.
        if !may_be_held(&self.policy, accepted.held_seconds()) {
            return permitted(Some(breaker.call_overdue()));
        }
        let now = self.clock.now();
        match breaker.ask(now) {
            Permission::Call(permit) => permitted(Some(permit)),
            Permission::Wait => Asked::Wait,
            Permission::Hold => Asked::Hold(breaker.open_since().unwrap_or(now)),
        }
    }

    /// Records an outcome. Returns the start of the outage if the call was a probe and the target is still down.
    fn record(&self, permit: Permit, accepted: &Accepted, error: Option<&HandlerError>) -> Option<Timestamp> {
        let mut breaker = self.breaker.lock()?;
        let met = error.map_or(CallOutcome::Answer, |error| call_outcome(&self.policy, error));
        let tenant = accepted.record().message_group_id.as_deref().map(Tenant::of);
        let change = breaker.record(permit, met, accepted.metadata().message_id, tenant, self.clock.now());
        let still_down = breaker.open_since().filter(|_| matches!(change, Some(Change::ProbeFailed { .. })));
        drop(breaker);
        if let Some(change) = change {
            let error_type = error.map(|error| error.error_type.loggable().into_owned()).unwrap_or_default();
            self.observer.observe(&event_of(change, error_type));
        }
        still_down
    }
}

impl<H, Q, C: Clock, O: Observer> Permitted<'_, H, Q, C, O> {
    /// True if the call is the probe of a target that is down.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Records the outcome of the call. A probe of a target that is still down spends no attempt, since the breaker
    /// asked for it.
    pub(super) fn record(mut self, met: Result<(), HandlerError>) -> Outcome {
        let permit = self.permit.take();
        let still_down =
            permit.and_then(|permit| self.processor.record(permit, self.accepted, met.as_ref().err()));
        match (met, still_down) {
            (Ok(()), _) => Outcome::Success,
            (Err(error), None) => Outcome::Failure(error),
            (Err(error), Some(since)) => Outcome::Held { since, probed: Some(error) },
        }
    }

    /// Returns the permit of a call that is not made.
    pub(super) fn give_back(mut self) {
        if let (Some(permit), Some(mut breaker)) = (self.permit.take(), self.processor.breaker.lock()) {
            breaker.give_back(permit);
        }
    }
}

impl<H, Q, C: Clock, O: Observer> Drop for Permitted<'_, H, Q, C, O> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.processor.record(permit, self.accepted, Some(&timeout()));
        }
    }
}

fn event_of(change: Change, error_type: String) -> Event {
    match change {
        Change::Opened { calls, outages, probe_in } => {
            let probe_in_seconds = probe_in.as_secs_f64();
            Event::CircuitOpened { calls, outages, error_type, probe_in_seconds }
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
