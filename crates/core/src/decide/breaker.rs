//! The circuit breaker: whether a target may be called. A pure state machine: the moment and what calls have met come
//! in, a permit or a refusal comes out.
//!
//! ```text
//!              outages, by the policy's share            the probe interval is over
//!   [closed] ──────────────────────────────────► [open] ◄─────────────────────────► [half-open: one probe]
//!      ▲                                            ▲           the probe fails              │
//!      │ 2, 4, 8, 16, 32 calls went well            │ outages                                │ it is answered
//!      └──────────────────────────────────── [slow start] ◄──────────────────────────────────┘
//! ```
//!
//! It lives in the memory of one function environment. What a call met is an outage or an answer: also an error of the
//! target's own says that the target is there.

mod window;

use std::mem;
use std::time::Duration;

use uuid::Uuid;

use crate::decide::backoff::{Key, spread};
use crate::decide::classify;
use crate::deliver::until;
use crate::failure::{Answer, Kind};
use crate::handler::{FailureKind, HandlerError};
use crate::message::Timestamp;
use crate::policy::{CircuitBreaker, Policy};
pub use window::Tenant;
use window::{Call, Calls};

/// Calls at once of the last level of a slow start. 1, 2, 4 … 32 are 63 calls: more than an environment has at once.
const SLOW_START_CALLS_MAX: u32 = 32;

/// The breaker of one environment.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: CircuitBreaker,
    state: State,
    /// Which of its states this is: a call that began in another one says nothing of this one.
    epoch: u64,
    /// Of its last closing: a target that flaps is not probed every few seconds anew.
    closed_before: Option<Closed>,
}

#[derive(Clone, Debug)]
enum State {
    /// All calls are made.
    Closed(Calls),
    /// No calls are made, except a probe.
    Open(Open),
    /// The target has answered a probe: so many calls at once, and twice as many after each level that went well.
    SlowStart { level: Level, running: u32, calls: Calls },
}

/// So many calls at once of a slow start.
#[derive(Clone, Copy, Debug)]
struct Level {
    calls_at_once: u32,
    /// Of this many calls it is known what they met …
    ended: u32,
    /// … and of these, this many met an outage.
    outages: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Timestamp,
    probe_at: Timestamp,
    /// What it waits after a probe that fails.
    next_interval: Duration,
    is_probing: bool,
    /// Probes that were made.
    probes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    at: Timestamp,
    next_interval: Duration,
}

/// Whether a message's target may be called.
#[derive(Debug, PartialEq, Eq)]
pub enum Permission {
    /// What the call met must be recorded.
    Call(Permit),
    /// Not yet: a call that is running will tell.
    Wait,
    /// The target is down.
    Hold,
}

/// A call that was permitted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a probe that nobody records is the last one"]
pub struct Permit {
    epoch: u64,
    reason: Reason,
}

/// Why a call is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The target is there, as far as is known.
    Up,
    /// Somebody must ask whether the target is back.
    Probe,
    /// Its message may not wait any longer.
    Overdue,
}

impl Permit {
    /// Whether it asks if a target that is down is back.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.reason == Reason::Probe
    }
}

/// What a call says of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It is there, whatever it thinks of the message.
    Answer,
    Outage,
}

/// What a call has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Opened {
        /// The calls that were looked at.
        calls: u32,
        /// Those that met an outage.
        outages: u32,
        probe_in: Duration,
    },
    ProbeFailed {
        probe_in: Duration,
    },
    /// With a slow start.
    Closed {
        open_for: Duration,
        /// Probes made while open, including the one that was answered.
        probes: u32,
    },
}

impl Breaker {
    /// One that is closed.
    #[must_use]
    pub fn new(settings: CircuitBreaker) -> Self {
        Self { settings, state: State::Closed(Calls::default()), epoch: 0, closed_before: None }
    }

    /// Whether a message's target may be called now.
    pub fn ask(&mut self, now: Timestamp) -> Permission {
        let reason = if self.open_since().is_some() { Reason::Probe } else { Reason::Up };
        let permit = Permit { epoch: self.epoch, reason };
        match &mut self.state {
            State::Closed(_) => Permission::Call(permit),
            State::SlowStart { level, running, .. } if *running < level.calls_at_once => {
                *running += 1;
                Permission::Call(permit)
            }
            State::SlowStart { .. } => Permission::Wait,
            State::Open(open) if open.is_probing => Permission::Wait,
            State::Open(open) => {
                // A clock that was set back must not keep the target from being probed.
                open.probe_at = open.probe_at.min(now + self.settings.probe_interval_max);
                if now < open.probe_at {
                    return Permission::Hold;
                }
                open.is_probing = true;
                open.probes += 1;
                Permission::Call(permit)
            }
        }
    }

    /// The permit for a message that was held for as long as it may be: it is called whatever is known. What it meets
    /// counts like any other call, but it is no probe, and takes no place of a slow start.
    pub fn call_overdue(&self) -> Permit {
        Permit { epoch: self.epoch, reason: Reason::Overdue }
    }

    /// What a permitted call met. The message is whose call it was: its id spreads the probes of many environments.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is for one call, and is used up by it")]
    pub fn record(
        &mut self,
        permit: Permit,
        met: Met,
        message_id: Uuid,
        tenant: Option<Tenant>,
        now: Timestamp,
    ) -> Option<Change> {
        // It began before the target went down, or before it came back.
        if permit.epoch != self.epoch {
            return None;
        }
        let settings = &self.settings;
        let call = Call { at: now, tenant, met };
        match &mut self.state {
            State::Closed(calls) => {
                calls.push(call, settings);
                let opens = calls.show_an_outage(settings);
                let (calls, outages) = (calls.len(), calls.outages());
                opens.then(|| self.open(calls, outages, message_id, now))
            }
            State::SlowStart { level, running, calls } => {
                let has_place = permit.reason != Reason::Overdue;
                *running = running.saturating_sub(has_place.into());
                calls.push(call, settings);
                if calls.show_an_outage(settings) {
                    let (calls, outages) = (calls.len(), calls.outages());
                    return Some(self.open(calls, outages, message_id, now));
                }
                if !has_place {
                    return None;
                }
                if let Some(next) = level.after(met, settings.failure_rate) {
                    *level = next;
                } else {
                    self.state = State::Closed(mem::take(calls));
                    self.epoch += 1;
                }
                None
            }
            State::Open(open) => {
                let Open { since, next_interval, probes, .. } = *open;
                if met == Met::Outage {
                    // That it is still down is known, and when it is asked next.
                    if permit.reason == Reason::Overdue {
                        return None;
                    }
                    let probe_in = jittered(next_interval, message_id, probes);
                    open.is_probing = false;
                    open.probe_at = now + probe_in;
                    open.next_interval = settings.doubled(next_interval);
                    return Some(Change::ProbeFailed { probe_in });
                }
                self.closed_before = Some(Closed { at: now, next_interval });
                self.state = State::SlowStart { level: Level::of(2), running: 0, calls: Calls::default() };
                self.epoch += 1;
                Some(Change::Closed { open_for: until(since, now), probes })
            }
        }
    }

    /// A permitted call was not made.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is for one call, and is used up by it")]
    pub fn give_back(&mut self, permit: Permit) {
        if permit.epoch != self.epoch || permit.reason == Reason::Overdue {
            return;
        }
        match &mut self.state {
            State::Closed(_) => {}
            State::SlowStart { running, .. } => *running = running.saturating_sub(1),
            State::Open(open) => {
                open.is_probing = false;
                open.probes -= 1;
            }
        }
    }

    /// What a message says that arrives: it was held, and its target has been down since then. An environment that
    /// knows nothing better is half-open at once, instead of learning it by calls that fail. It was sent again at
    /// `told_at`: what was held before this environment found the target back tells of an outage that is over.
    pub fn learn(&mut self, down_since: Timestamp, told_at: Timestamp, now: Timestamp) {
        let State::Closed(calls) = &self.state else { return };
        let was_back = self.closed_before.is_some_and(|closed| told_at <= closed.at);
        if was_back || calls.are_recent(self.settings.window, now) {
            return;
        }
        // After hours nobody needs to begin with short intervals.
        let CircuitBreaker { probe_interval, probe_interval_max, .. } = self.settings;
        let next_interval = until(down_since, now).clamp(probe_interval, probe_interval_max);
        let since = down_since.min(now);
        self.state = State::Open(Open { since, probe_at: now, next_interval, is_probing: false, probes: 0 });
        self.epoch += 1;
    }

    /// Since when it is open, if it is.
    #[must_use]
    pub fn open_since(&self) -> Option<Timestamp> {
        match &self.state {
            State::Open(open) => Some(open.since),
            State::Closed(_) | State::SlowStart { .. } => None,
        }
    }

    fn open(&mut self, calls: u32, outages: u32, message_id: Uuid, now: Timestamp) -> Change {
        let CircuitBreaker { probe_interval, probe_interval_max, .. } = self.settings;
        // A target that is down again so soon was not really back: it is probed as seldom as before.
        let flaps = self.closed_before.filter(|closed| until(closed.at, now) < probe_interval_max);
        let interval = flaps.map_or(probe_interval, |closed| closed.next_interval);
        let probe_in = jittered(interval, message_id, 0);
        let next_interval = self.settings.doubled(interval);
        let open = Open { since: now, probe_at: now + probe_in, next_interval, is_probing: false, probes: 0 };
        self.state = State::Open(open);
        self.epoch += 1;
        Change::Opened { calls, outages, probe_in }
    }
}

impl Level {
    fn of(calls_at_once: u32) -> Self {
        Self { calls_at_once, ended: 0, outages: 0 }
    }

    /// The level after one more call: the same one until it has ended, and again if it did not go well. `None` after the
    /// last one.
    fn after(self, met: Met, failure_rate: f64) -> Option<Self> {
        let Self { calls_at_once, .. } = self;
        let (ended, outages) = (self.ended + 1, self.outages + u32::from(met == Met::Outage));
        if ended < calls_at_once {
            return Some(Self { calls_at_once, ended, outages });
        }
        let went_well = f64::from(outages) / f64::from(ended) < failure_rate;
        let next = if went_well { calls_at_once * 2 } else { calls_at_once };
        (next <= SLOW_START_CALLS_MAX).then(|| Self::of(next))
    }
}

/// What a call that failed says of the target. Only what would be tried again can be an outage: of all else the policy
/// says that the message is at fault.
#[must_use]
pub fn met(policy: &Policy, error: &HandlerError) -> Met {
    let error_type = error.error_type.name();
    let is_unavailable = matches!(error.kind, FailureKind::Unavailable(_));
    let is_listed = || {
        let opens_on = policy.circuit_breaker.as_ref().map(|breaker| &breaker.opens_on);
        opens_on.is_some_and(|globs| globs.matches(&error_type))
    };
    let is_transient = || classify(policy, &error_type, Answer::of(error.kind).kind()) == Kind::Transient;
    if (is_unavailable || is_listed()) && is_transient() { Met::Outage } else { Met::Answer }
}

/// From three quarters of it to all of it: many environments find out at the same moment, and must not probe at the
/// same moment.
fn jittered(interval: Duration, message_id: Uuid, probe: u32) -> Duration {
    let longest = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    let key = Key { message_id, generation: 0, attempt: probe };
    Duration::from_millis(spread(key, longest - longest / 4, longest))
}

#[cfg(test)]
mod tests;
