//! The circuit breaker of this environment: all its calls ask it, and tell it what they met.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redeliver_core::accepted::Accepted;
use redeliver_core::decide::breaker::{Breaker, Change, Met, Permission, Permit, Tenant, met};
use redeliver_core::decide::may_be_held;
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Observer};

use super::MessageProcessor;
use super::calls::{Outcome, timeout};

/// What a held message says of its target is believed for so long after it was sent again: the longest delay, and as
/// long on the queue.
const HELD_MOMENTS_AGO: Duration = Duration::from_secs(1800);

/// The breaker, shared by the calls of a batch, and by the batches of a process that works on several at once. Clones
/// are the same one.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Option<Arc<Mutex<Breaker>>>);

impl SharedBreaker {
    /// The breaker of a policy, closed; none if the policy has none.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self(policy.circuit_breaker.clone().map(|settings| Arc::new(Mutex::new(Breaker::new(settings)))))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Breaker>> {
        self.0.as_ref().map(|breaker| breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Since when the target is down, if it is.
    pub(super) fn open_since(&self) -> Option<Timestamp> {
        self.lock()?.open_since()
    }
}

/// Whether a message may be called.
pub(super) enum Asked<'a, H, Q, C: Clock, O: Observer> {
    Call(Permitted<'a, H, Q, C, O>),
    /// Something that is running will tell.
    Wait,
    /// Its target has been down since then.
    Hold(Timestamp),
}

/// One call that was permitted. If it is dropped without an outcome, the invocation's end has cut it off.
pub(super) struct Permitted<'a, H, Q, C: Clock, O: Observer> {
    processor: &'a MessageProcessor<H, Q, C, O>,
    accepted: &'a Accepted,
    /// `None` without a breaker.
    permit: Option<Permit>,
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// What the messages of a batch say: an environment that has just begun knows of an outage by those that were held.
    pub(super) fn learn(&self, accepted: &[Accepted], now: Timestamp) {
        let told = accepted.iter().filter_map(Accepted::outage);
        let recent = told.filter(|(_, told_at)| until(*told_at, now) < HELD_MOMENTS_AGO);
        let told = recent.reduce(|(since, told_at), (other_since, other_told_at)| {
            (since.min(other_since), told_at.max(other_told_at))
        });
        if let (Some((since, told_at)), Some(mut breaker)) = (told, self.breaker.lock()) {
            breaker.learn(since, told_at, now);
        }
    }

    /// Whether this message may be called now.
    pub(super) fn ask<'a>(&'a self, accepted: &'a Accepted) -> Asked<'a, H, Q, C, O> {
        let permitted = |permit| Asked::Call(Permitted { processor: self, accepted, permit });
        let Some(mut breaker) = self.breaker.lock() else {
            return permitted(None);
        };
        // What was held for as long as it may be is called whatever is known: its failures spend its attempts.
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

    /// Since when the target is down, if that was its probe, and still is.
    fn record(&self, permit: Permit, accepted: &Accepted, error: Option<&HandlerError>) -> Option<Timestamp> {
        let mut breaker = self.breaker.lock()?;
        let met = error.map_or(Met::Answer, |error| met(&self.policy, error));
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
    /// Whether it is the probe of a target that is down.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// What the call met. A probe of a target that is still down spends no attempt: it was this side's question.
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

    /// The call is not made.
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
