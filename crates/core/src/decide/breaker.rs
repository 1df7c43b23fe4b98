//! The circuit breaker: decides if a target may be called. A pure state machine: times and call outcomes come in,
//! permits and refusals come out.
//!
//! ```text
//!              outages, by the policy's share            the probe interval is over
//!   [closed] ──────────────────────────────────► [open] ◄─────────────────────────► [half-open: one probe]
//!      ▲                                            ▲           the probe fails              │
//!      │ 2, 4, 8, 16, 32 calls went well            │ outages                                │ it is answered
//!      └──────────────────────────────────── [slow start] ◄──────────────────────────────────┘
//! ```
//!
//! It lives in the memory of one function environment. A call meets an outage or an answer: an error of the target's own
//! is an answer, too, since the target is there.

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

/// Concurrent calls at the last level of a slow start. Levels 1, 2, 4 … 32 add up to 63 calls, more than one
/// environment has in flight.
const SLOW_START_CALLS_MAX: u32 = 32;

/// The breaker of one environment.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: CircuitBreaker,
    state: State,
    /// Number of the current state: a call that began in another state does not count in this one.
    epoch: u64,
    /// The last closing: a flapping target must not be probed at the initial interval each time.
    closed_before: Option<Closed>,
}

#[derive(Clone, Debug)]
enum State {
    /// All calls are made.
    Closed(Calls),
    /// No calls are made, except a probe.
    Open(Open),
    /// The target has answered a probe: concurrent calls are limited to a level, which doubles each time it goes well.
    SlowStart { level: Level, running: u32, calls: Calls },
}

/// One level of a slow start: the limit on concurrent calls.
#[derive(Clone, Copy, Debug)]
struct Level {
    calls_at_once: u32,
    /// Calls of this level that have ended …
    ended: u32,
    /// … and those of them that met an outage.
    outages: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Timestamp,
    probe_at: Timestamp,
    /// The interval after a failed probe.
    next_interval: Duration,
    is_probing: bool,
    /// Probes made so far.
    probes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    at: Timestamp,
    next_interval: Duration,
}

/// The breaker's answer to a request for a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Permission {
    /// Make the call, and record its outcome.
    Call(Permit),
    /// Not yet: the outcome of a running call decides.
    Wait,
    /// The target is down.
    Hold,
}

/// A call that was permitted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unrecorded probe blocks all further ones"]
pub struct Permit {
    epoch: u64,
    reason: Reason,
}

/// Why a call is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The target is up, as far as is known.
    Up,
    /// A probe, to find out if the target is back.
    Probe,
    /// The message has reached its hold limit.
    Overdue,
}

impl Permit {
    /// True if the call is a probe of a target that is down.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.reason == Reason::Probe
    }
}

/// The outcome of a call, as far as the target's health is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The target is there, whatever it answers about the message.
    Answer,
    Outage,
}

/// A state change that a call has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Opened {
        /// Calls in the window.
        calls: u32,
        /// Those that met an outage.
        outages: u32,
        probe_in: Duration,
    },
    ProbeFailed {
        probe_in: Duration,
    },
    /// A slow start follows.
    Closed {
        open_for: Duration,
        /// Probes made while open, the answered one included.
        probes: u32,
    },
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: CircuitBreaker) -> Self {
        Self { settings, state: State::Closed(Calls::default()), epoch: 0, closed_before: None }
    }

    /// Decides if a message's target may be called now.
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
                // A clock that was set back must not delay probes.
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

    /// The permit for a message that has reached its hold limit: it is called in any state. Its outcome counts like any
    /// other call's, but it is not a probe and takes no place of a slow start.
    pub fn call_overdue(&self) -> Permit {
        Permit { epoch: self.epoch, reason: Reason::Overdue }
    }

    /// Records the outcome of a permitted call. `message_id` is the id of its message: it spreads the probes of many
    /// environments.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used up by its call")]
    pub fn record(
        &mut self,
        permit: Permit,
        met: CallOutcome,
        message_id: Uuid,
        tenant: Option<Tenant>,
        now: Timestamp,
    ) -> Option<Change> {
        // The call began before the target went down, or before it came back.
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
                if met == CallOutcome::Outage {
                    // The outage and the next probe are already known.
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

    /// Returns the permit of a call that was not made.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used up by its call")]
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

    /// Learns of an outage from a message that was held: its target has been down since `down_since`. An environment
    /// that knows no better becomes half-open at once, instead of making calls that fail. The message was sent at
    /// `reported_at`: one held before this environment found the target back reports an outage that is over.
    pub fn learn(&mut self, down_since: Timestamp, reported_at: Timestamp, now: Timestamp) {
        let State::Closed(calls) = &self.state else { return };
        let was_back = self.closed_before.is_some_and(|closed| reported_at <= closed.at);
        if was_back || calls.are_recent(self.settings.window, now) {
            return;
        }
        // After hours there is no need to start with short intervals.
        let CircuitBreaker { probe_interval, probe_interval_max, .. } = self.settings;
        let next_interval = until(down_since, now).clamp(probe_interval, probe_interval_max);
        let since = down_since.min(now);
        self.state = State::Open(Open { since, probe_at: now, next_interval, is_probing: false, probes: 0 });
        self.epoch += 1;
    }

    /// Time of opening; `None` if the breaker is not open.
    #[must_use]
    pub fn open_since(&self) -> Option<Timestamp> {
        match &self.state {
            State::Open(open) => Some(open.since),
            State::Closed(_) | State::SlowStart { .. } => None,
        }
    }

    fn open(&mut self, calls: u32, outages: u32, message_id: Uuid, now: Timestamp) -> Change {
        let CircuitBreaker { probe_interval, probe_interval_max, .. } = self.settings;
        // A target that fails again so soon was not really back: probe it at the longer interval reached before.
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

    /// The level after one more call: the same one until all its calls have ended, and again if it did not go well.
    /// `None` after the last one.
    fn after(self, met: CallOutcome, failure_rate: f64) -> Option<Self> {
        let Self { calls_at_once, .. } = self;
        let (ended, outages) = (self.ended + 1, self.outages + u32::from(met == CallOutcome::Outage));
        if ended < calls_at_once {
            return Some(Self { calls_at_once, ended, outages });
        }
        let went_well = f64::from(outages) / f64::from(ended) < failure_rate;
        let next = if went_well { calls_at_once * 2 } else { calls_at_once };
        (next <= SLOW_START_CALLS_MAX).then(|| Self::of(next))
    }
}

/// The outcome of a failed call. Only a retryable error can be an outage: by the policy, any other error is the
/// message's fault.
#[must_use]
pub fn call_outcome(policy: &Policy, error: &HandlerError) -> CallOutcome {
    let error_type = error.error_type.name();
    let is_unavailable = matches!(error.kind, FailureKind::Unavailable(_));
    let is_listed = || {
        let opens_on = policy.circuit_breaker.as_ref().map(|breaker| &breaker.opens_on);
        opens_on.is_some_and(|globs| globs.matches(&error_type))
    };
    let is_transient = || classify(policy, &error_type, Answer::of(error.kind).kind()) == Kind::Transient;
    if (is_unavailable || is_listed()) && is_transient() { CallOutcome::Outage } else { CallOutcome::Answer }
}

/// 75 % to 100 % of the interval, so that environments that find out at the same time do not probe at the same time.
fn jittered(interval: Duration, message_id: Uuid, probe: u32) -> Duration {
    let longest = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    let key = Key { message_id, generation: 0, attempt: probe };
    Duration::from_millis(spread(key, longest - longest / 4, longest))
}

#[cfg(test)]
mod tests;
