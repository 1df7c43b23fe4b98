//! The circuit breaker decides whether a target may be called now. It is a pure state machine: its inputs are times and
//! call outcomes, and its outputs are permits and holds.
//!
//! ```text
//!              a run of outages too long to be chance             the probe is due
//!   [closed] ────────────────────────────────────────────► [open] ◄───────────────► [half-open: one probe]
//!      ▲  │ refused for now                                   ▲      the probe fails           │
//!      │  ▼                                                   │ a run of outages               │ it is answered
//!   [rate limit: grows with answers, falls with refusals] ────┴───────◄────────────────────────┘
//! ```
//!
//! The breaker is kept in the memory of one function environment. Each key (a tenant) has its own circuit, in addition
//! to the circuit of the target as a whole: an outage of one key holds only that key's messages, and the target's
//! circuit opens if several keys show an outage. Each call counts as either an outage or an answer. An error that the
//! policy does not classify as an outage counts as an answer, since it shows that the target is up.

mod circuit;
mod evidence;
mod keys;
mod moment;
mod rate;
mod shares;

use std::time::Duration;

use uuid::Uuid;

use crate::decide::backoff::{JitterKey, draw_number};
use crate::decide::call_outcome::CallOutcome;
pub use crate::failure::{Hold, HoldReason, Outage};
use crate::message::Timestamp;
use circuit::{
    Circuit, CircuitState, CircuitVerdict, EndedOutage, KEY_PROBE_SECONDS_MAX, OutageReport,
    PROBE_SECONDS_MAX,
};
use evidence::evidence_nats;
pub use keys::CircuitKey;
use keys::KeyCircuits;
use moment::{Moment, MomentClock};
pub use rate::LOWEST_RATE_SECONDS;
use rate::Reserve;
use shares::RateShares;

/// The circuit breaker of one function environment. It opens after ten failed first calls in a row for a new target,
/// after six for a target that hardly ever fails, and after 26 for a target that fails half of its calls.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    clock: MomentClock,
    /// The circuit of the target as a whole.
    target: Circuit,
    /// Failed first calls since the last answer, by key.
    run: Vec<(Option<CircuitKey>, u16)>,
    /// Circuits of the keys with an outage or a refusal.
    keys: KeyCircuits,
    answers: AnswersPerSecond,
    /// Calls by key while the target's rate is limited.
    shares: RateShares,
    /// The last refusal.
    refused: Option<RefusedCall>,
    /// Number of state changes so far.
    changes: u32,
}

/// A message that requests a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `metadata.message_id`. Spreads the probes of many environments over time.
    pub message_id: Uuid,
    /// `None` for a message without a key.
    pub key: Option<CircuitKey>,
    /// Number of failed calls for this message. Only a message without earlier failures is evidence of an outage; any
    /// other message may itself be the cause.
    pub failures: u32,
    /// Seconds for which the message was held before. Its next hold is about a third of this time, at least 2 s and at
    /// most 750 s.
    pub held_seconds: u32,
    /// Number of calls before this one, or of receives on a queue where failed messages remain. It limits the hold
    /// after a call: a message that waited for hours in an outage should not wait for minutes after one random failure.
    pub calls_before: u32,
}

impl Caller {
    fn is_first_call(self) -> bool {
        self.failures == 0
    }
}

/// Limits how long a message may wait within the invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Other calls in the batch are running, so the invocation continues in any case.
    OthersRun,
    /// The batch started less than [`PATIENCE`] ago.
    NewBatch,
    /// The message must not wait: it is held instead.
    Over,
}

impl Patience {
    /// Returns true if a message with this key may wait. A message with a key waits for its key's circuit only while
    /// other calls run, so that it does not use up function time that other keys need.
    fn allows_wait(self, key: Option<CircuitKey>) -> bool {
        self == Self::OthersRun || (self == Self::NewBatch && key.is_none())
    }
}

/// The time for which a batch beyond the rate limit waits before it is held. Lambda sends the next batch to an idle
/// environment, so an environment that held all its messages immediately would also receive the most batches, while
/// others have free slots. The wait costs no more than the holds it saves.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// The result of [`Breaker::request_call`].
#[derive(Debug, PartialEq)]
pub enum Permission {
    /// Make the call, and record its outcome.
    Call(Permit),
    /// Wait: a running probe will decide, or the rate limit may soon have a free slot.
    Wait,
    /// Do not call: send the message back to its queue.
    Hold(Hold),
}

/// Permission for one call.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unrecorded probe blocks all further probes"]
pub struct Permit {
    caller: Caller,
    /// Number of state changes before the call.
    start_change: u32,
    reason: PermitReason,
}

/// The reason why a call is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitReason {
    /// The target is not known to be down.
    Up,
    /// A probe that checks whether the target is up again.
    Probe(BreakerScope),
    /// The call is made regardless of the breaker's state, and a fault spends an attempt: the message has reached its
    /// hold limit, or the outage is no longer confirmed.
    Regardless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerScope {
    Target,
    Key,
}

/// The combined decision of the target's circuit and the key's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CombinedDecision {
    Call,
    /// Make the call. A fault spends an attempt.
    CallRegardless,
    Probe(BreakerScope),
    Wait,
    /// Hold the message for as long as this circuit requires.
    Hold(BreakerScope),
}

impl CircuitVerdict {
    /// Converts the verdict of the circuit at `scope`. `may_wait` is false if the message must not wait.
    fn to_decision(self, scope: BreakerScope, may_wait: bool) -> CombinedDecision {
        match self {
            Self::Call => CombinedDecision::Call,
            Self::Unconfirmed => CombinedDecision::CallRegardless,
            Self::Probe => CombinedDecision::Probe(scope),
            Self::Probing => CombinedDecision::Wait,
            Self::Limited if may_wait => CombinedDecision::Wait,
            Self::Down | Self::Limited => CombinedDecision::Hold(scope),
        }
    }
}

impl Permit {
    /// Returns true if the call is a probe of a target that is down.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        matches!(self.reason, PermitReason::Probe(_))
    }

    /// Returns true if a message whose call had this outcome may be held without spending an attempt. After "not now",
    /// it may be held regardless of why the call was made.
    #[must_use]
    pub fn may_be_held(&self, outcome: CallOutcome) -> bool {
        outcome.is_not_now() || (outcome == CallOutcome::Fault && self.reason != PermitReason::Regardless)
    }
}

/// A state change caused by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitChange {
    /// The circuit opened: calls stop until the first probe.
    Opened {
        /// Number of outages in a row.
        outages: u32,
        probe_in: Duration,
    },
    /// The target is still down.
    ProbeFailed {
        /// Time until the next probe: three quarters of the outage's age, at most 90 s, or 600 s for a key.
        probe_in: Duration,
    },
    /// The outage is over; a slow start follows.
    Closed {
        open_for: Duration,
        /// Number of probes made while the circuit was open, including the answered one.
        probes: u32,
    },
}

/// The longest hold that the breaker chooses; a `Retry-After` may request up to 900 s. Together with the target's
/// longest probe interval (90 s) and 60 s for receives, calls and sends, this adds up to 900 s: the call for a held
/// message is made within 15 minutes of the target's recovery.
pub const HOLD_SECONDS_MAX: u64 = 750;
const HOLD_MAX: f32 = HOLD_SECONDS_MAX as f32;
const HOLD_SECONDS_MIN: f32 = 1.0;
/// A message's first hold.
const HOLD_SECONDS_FIRST: f32 = 2.0;
/// Each later hold is this share of the message's total held time, plus a fixed number of seconds.
const HOLD_SHARE: f32 = 0.35;
const HOLD_SECONDS_BASE: f32 = 15.0;
/// Factor by which a message's hold grows with each of its failed calls.
const HOLD_GROWTH: f32 = 3.0;
/// The limit on a `Retry-After`, because `DelaySeconds` is at most 900.
const RETRY_AFTER_SECONDS_MAX: f32 = 900.0;

/// The target as a whole counts as busy if two keys are refused within this many seconds, or with fewer than this many
/// answers in between.
const REFUSED_TOGETHER_SECONDS: f32 = 5.0;
const REFUSED_TOGETHER_ANSWERS: u32 = 20;

/// A refused call.
#[derive(Clone, Copy, Debug)]
struct RefusedCall {
    key: Option<CircuitKey>,
    at: Moment,
    after_answers: u32,
}

impl Breaker {
    /// Decides whether the target may be called now for this message. A permit must be passed to
    /// [`Breaker::record_outcome`] or [`Breaker::give_back`].
    pub fn request_call(&mut self, caller: Caller, patience: Patience, now: Timestamp) -> Permission {
        if self.clock.moment_at(now).is_last() {
            // The clock runs out after more than a year. Starting over costs only a few calls.
            *self = Self::default();
        }
        let moment = self.clock.moment_at(now);
        match self.query_circuits(caller, patience, moment) {
            CombinedDecision::Call => self.permit_call(caller, PermitReason::Up, moment),
            CombinedDecision::CallRegardless => self.permit_call(caller, PermitReason::Regardless, moment),
            CombinedDecision::Probe(scope) => {
                let start_change = self.changes;
                self.circuit_mut(scope, caller.key, moment).begin_probe();
                Permission::Call(Permit { caller, start_change, reason: PermitReason::Probe(scope) })
            }
            CombinedDecision::Wait => Permission::Wait,
            CombinedDecision::Hold(scope) => Permission::Hold(self.compute_hold(scope, caller, None, moment)),
        }
    }

    /// Permits a call that is not a probe. The call takes a token from the rate limit.
    fn permit_call(&mut self, caller: Caller, reason: PermitReason, now: Moment) -> Permission {
        self.target.take_token();
        self.shares.count_call(caller.key);
        self.keys.get_mut(caller.key, now).map(Circuit::take_token);
        Permission::Call(Permit { caller, start_change: self.changes, reason })
    }

    /// Queries the target's circuit, and the key's circuit where it may change the decision.
    fn query_circuits(&mut self, caller: Caller, patience: Patience, now: Moment) -> CombinedDecision {
        if let Some(scope) = self.retry_after_scope(caller.key, now) {
            return CombinedDecision::Hold(scope);
        }
        let reserve = self.key_reserve(caller.key, now);
        match self.target.decide_call(caller, reserve, now) {
            CircuitVerdict::Call => self
                .query_key_circuit(caller, now)
                .to_decision(BreakerScope::Key, patience.allows_wait(caller.key)),
            CircuitVerdict::Limited if patience == Patience::Over => {
                match self.query_key_circuit(caller, now) {
                    // A key that is down cannot use a slot.
                    CircuitVerdict::Down => CombinedDecision::Hold(BreakerScope::Key),
                    CircuitVerdict::Probing => CombinedDecision::Wait,
                    _ => CombinedDecision::Hold(BreakerScope::Target),
                }
            }
            // A message with any key may probe the target.
            verdict => verdict.to_decision(BreakerScope::Target, patience != Patience::Over),
        }
    }

    /// Returns the scope of the circuit that holds a message until a `Retry-After` ends. Until then, not even a probe
    /// of the target is made.
    fn retry_after_scope(&mut self, key: Option<CircuitKey>, now: Moment) -> Option<BreakerScope> {
        let target_waits = self.target.must_wait(now);
        let key_waits = self.keys.get_mut(key, now).is_some_and(|circuit| circuit.must_wait(now));
        // The target's circuit holds messages for longer while the target is down.
        let scope = if target_waits || self.target.open_since().is_some() {
            BreakerScope::Target
        } else {
            BreakerScope::Key
        };
        (target_waits || key_waits).then_some(scope)
    }

    fn query_key_circuit(&mut self, caller: Caller, now: Moment) -> CircuitVerdict {
        let circuit = self.keys.get_mut(caller.key, now);
        circuit.map_or(CircuitVerdict::Call, |circuit| circuit.decide_call(caller, Reserve::None, now))
    }

    /// Returns the part of the target's rate that a call for this key must leave unused. Counts the key as a user of
    /// the rate.
    fn key_reserve(&mut self, key: Option<CircuitKey>, now: Moment) -> Reserve {
        if !self.target.is_limited() {
            return Reserve::None;
        }
        self.shares.add_user(key);
        if self.shares.exceeds_share(key, now) { Reserve::OneToken } else { Reserve::None }
    }

    /// Permits the call for a message that has reached its hold limit, regardless of the breaker's state. The outcome
    /// counts like any other call's, but the call is not a probe. The message first waits at most `grace` longer for a
    /// `Retry-After` to end, or for a free slot in the rate limit of a busy target: otherwise, thousands of messages
    /// that reach the limit together would all be refused.
    pub fn request_overdue_call(&mut self, caller: Caller, grace: Duration, now: Timestamp) -> Permission {
        let now = self.clock.moment_at(now);
        if grace >= to_duration(HOLD_SECONDS_MIN)
            && let Some(hold) = self.overdue_hold(caller, now)
        {
            return Permission::Hold(Hold { delay: hold.delay.min(grace), ..hold });
        }
        self.permit_call(caller, PermitReason::Regardless, now)
    }

    /// Returns the hold for a message at its hold limit. The hold no longer grows with the total held time.
    fn overdue_hold(&mut self, caller: Caller, now: Moment) -> Option<Hold> {
        let CombinedDecision::Hold(scope) = self.query_circuits(caller, Patience::Over, now) else {
            return None;
        };
        let retry_after = self.retry_after_seconds(scope, caller, now);
        if retry_after > 0.0 {
            let delay = to_duration(retry_after.max(HOLD_SECONDS_MIN));
            return Some(Hold { delay, ..self.compute_hold(scope, caller, None, now) });
        }
        let is_limited = self.circuit_mut(scope, caller.key, now).is_limited();
        is_limited.then(|| self.compute_hold(scope, caller, None, now))
    }

    /// Records the outcome of a permitted call.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used up by its call")]
    pub fn record_outcome(
        &mut self,
        permit: Permit,
        outcome: CallOutcome,
        now: Timestamp,
    ) -> Option<CircuitChange> {
        let now = self.clock.moment_at(now);
        if outcome.is_answer() {
            return self.record_answer(&permit, now);
        }
        if let CallOutcome::Refusal(Some(after)) = outcome {
            let scope =
                if let PermitReason::Probe(scope) = permit.reason { scope } else { BreakerScope::Key };
            self.changes += 1;
            let change = self.changes;
            self.circuit_mut(scope, permit.caller.key, now).record_retry_after(
                after.as_secs_f32(),
                change,
                now,
            );
        }
        match permit.reason {
            PermitReason::Probe(scope) => self.record_failed_probe(&permit, scope, outcome, now),
            PermitReason::Up | PermitReason::Regardless => {
                let scope = match outcome {
                    CallOutcome::Refusal(_) => self.record_refusal(&permit, now)?,
                    _ => BreakerScope::Key,
                };
                self.record_outage(&permit, scope, now)
            }
        }
    }

    /// Takes back the permit for a call that was not made.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used up by its call")]
    pub fn give_back(&mut self, permit: Permit, now: Timestamp) {
        let now = self.clock.moment_at(now);
        let key = permit.caller.key;
        match permit.reason {
            PermitReason::Up | PermitReason::Regardless => {
                self.target.give_back_token();
                self.keys.get_mut(key, now).map(Circuit::give_back_token);
            }
            PermitReason::Probe(scope) => {
                let circuit = self.circuit_mut(scope, key, now);
                if !circuit.is_newer_than(permit.start_change) {
                    circuit.cancel_probe();
                }
            }
        }
    }

    /// Applies an outage report from a held message that was sent at `reported_at`. Without a newer answer, this
    /// environment continues the reported count. If the run of first failures is long enough, the key's circuit opens
    /// with a probe due immediately, instead of after calls that would fail. The report is ignored within 30 s of an
    /// answer.
    pub fn apply_report(
        &mut self,
        key: Option<CircuitKey>,
        outage: Outage,
        reported_at: Timestamp,
        now: Timestamp,
    ) {
        let now = self.clock.moment_at(now);
        if outage.first_failures == 0 || self.target.has_answered_recently(now) {
            return;
        }
        let report = OutageReport {
            since: self.clock.moment_at(outage.since),
            first_failures: outage.first_failures,
            reported_at: self.clock.moment_at(reported_at),
        };
        let share = self.target.evidence.failure_share();
        self.keys.get_or_insert(key, &self.target, now).apply_report(report, share, &mut self.changes, now);
    }

    /// Returns the start of the outage, if the target or this key is down.
    #[must_use]
    pub fn open_since(&self, key: Option<CircuitKey>) -> Option<Timestamp> {
        let key_since = || self.keys.get(key).and_then(Circuit::open_since);
        self.target.open_since().or_else(key_since).map(|since| self.clock.timestamp_at(since))
    }

    /// Returns the hold for a message whose own call failed, or `None` if the call spends an attempt. "Not now" spends
    /// none. A fault spends none if the circuit is open, or if it is the message's first fault and the target was down
    /// recently.
    pub fn hold_after_call(&mut self, caller: Caller, outcome: CallOutcome, now: Timestamp) -> Option<Hold> {
        let moment = self.clock.moment_at(now);
        let is_down = || {
            let key_circuit = self.keys.get(caller.key);
            let is_recent = |circuit: &Circuit| circuit.was_down_recently(moment);
            self.open_since(caller.key).is_some()
                || (caller.is_first_call() && (is_recent(&self.target) || key_circuit.is_some_and(is_recent)))
        };
        if !outcome.is_not_now() && !is_down() {
            return None;
        }
        if let CallOutcome::Later(after) = outcome {
            let own_seconds = own_hold_seconds(caller.held_seconds, Some(caller.calls_before));
            let delay = to_duration(own_seconds.max(after.as_secs_f32()).min(RETRY_AFTER_SECONDS_MAX));
            let outage = Outage { since: now, first_failures: 0 };
            return Some(Hold { reason: HoldReason::NotNow, outage, delay });
        }
        // A key that is down requires longer holds than a busy target's rate limit does.
        let key_is_open = || self.keys.get(caller.key).is_some_and(|key| key.open_since().is_some());
        let is_key_hold = self.target.state_since().is_none() || (self.target.is_limited() && key_is_open());
        let scope = if is_key_hold { BreakerScope::Key } else { BreakerScope::Target };
        let called = Some(caller.calls_before);
        Some(self.compute_hold(scope, caller, called, moment))
    }

    /// Computes the hold. `called` is the number of earlier calls if the message's call was just made, and `None`
    /// otherwise.
    fn compute_hold(
        &mut self,
        scope: BreakerScope,
        caller: Caller,
        called: Option<u32>,
        now: Moment,
    ) -> Hold {
        let jitter = jitter_factor(caller.message_id, self.changes);
        // No jitter: the messages of a batch stay together, so that the next batch is full again.
        let own_seconds = own_hold_seconds(caller.held_seconds, called);
        let circuit = self.circuit_mut(scope, caller.key, now);
        let (reason, seconds) = match &mut circuit.state {
            CircuitState::Closed if called.is_some() => (HoldReason::NotNow, own_seconds),
            // The target sent a `Retry-After`.
            CircuitState::Closed => (HoldReason::RateLimited, 0.0),
            CircuitState::Limited(limit) => {
                let place = limit.assign_slot(now, jitter);
                (HoldReason::RateLimited, if called.is_some() { place.max(own_seconds) } else { place })
            }
            CircuitState::Open(_) => (HoldReason::Down, own_seconds),
        };
        let (since, first_failures) = (circuit.reported_since(now), circuit.run);
        let retry_after = self.retry_after_seconds(scope, caller, now);
        let delay = to_duration(seconds.max(retry_after).max(HOLD_SECONDS_MIN));
        let outage = Outage { since: self.clock.timestamp_at(since), first_failures };
        Hold { reason, outage, delay }
    }

    /// Returns the remaining seconds of a `Retry-After`, plus up to a tenth so that messages with the same
    /// `Retry-After` date are not all received at the same time.
    fn retry_after_seconds(&mut self, scope: BreakerScope, caller: Caller, now: Moment) -> f32 {
        let jitter = jitter_factor(caller.message_id, self.changes);
        let retry_after = self.circuit_mut(scope, caller.key, now).retry_after_seconds(now);
        // A `Retry-After` for the key counts even if the target as a whole later turned out to be down or busy.
        let retry_after = self
            .keys
            .get(caller.key)
            .map_or(retry_after, |circuit| retry_after.max(circuit.retry_after_seconds(now)));
        (retry_after * (1.4 - jitter * 0.4)).min(RETRY_AFTER_SECONDS_MAX)
    }

    fn circuit_mut(&mut self, scope: BreakerScope, key: Option<CircuitKey>, now: Moment) -> &mut Circuit {
        match scope {
            BreakerScope::Target => &mut self.target,
            BreakerScope::Key => self.keys.get_or_insert(key, &self.target, now),
        }
    }

    fn record_answer(&mut self, permit: &Permit, now: Moment) -> Option<CircuitChange> {
        self.answers.count_answer(now);
        self.run.clear();
        let Permit { caller: Caller { key, .. }, start_change, .. } = *permit;
        let mut circuit = self.keys.get_mut(key, now);
        let failures = circuit.as_ref().map_or(0, |circuit| circuit.random_failures());
        let key_outage = circuit
            .as_mut()
            .and_then(|circuit| circuit.record_answer(start_change, failures, &mut self.changes, now));
        let failures =
            if self.target.open_since().is_some() { self.target.random_failures() } else { failures };
        let target_outage = self.target.record_answer(start_change, failures, &mut self.changes, now);
        target_outage.or(key_outage).map(|EndedOutage { seconds, probes }| CircuitChange::Closed {
            open_for: to_duration(seconds),
            probes: probes.into(),
        })
    }

    fn record_failed_probe(
        &mut self,
        permit: &Permit,
        scope: BreakerScope,
        outcome: CallOutcome,
        now: Moment,
    ) -> Option<CircuitChange> {
        let Permit { caller, start_change, .. } = *permit;
        let (Caller { key, message_id, .. }, is_first_call) = (caller, caller.is_first_call());
        if scope == BreakerScope::Key && is_first_call {
            self.add_to_run(key, now);
            if let Some(opened) = self.open_target(message_id, now) {
                return Some(opened);
            }
        }
        let longest = match (scope, key) {
            (BreakerScope::Key, Some(_)) => KEY_PROBE_SECONDS_MAX,
            _ => PROBE_SECONDS_MAX,
        };
        if self.circuit_mut(scope, key, now).is_newer_than(start_change) {
            return None;
        }
        self.changes += 1;
        let jitter = jitter_factor(message_id, self.changes);
        let circuit = self.circuit_mut(scope, key, now);
        if is_first_call {
            circuit.count_failure(now);
        }
        // "Not now" is not caused by the message, so it confirms the outage no matter which message the call was for.
        let confirms = is_first_call || outcome.is_not_now();
        let probe_in = circuit.record_failed_probe(confirms, longest, jitter, now)?;
        Some(CircuitChange::ProbeFailed { probe_in: to_duration(probe_in) })
    }

    /// Lowers the rate of the key, or of the target if several keys are refused together, and returns the scope.
    /// Returns `None` if the rate was already lowered: calls that were running at the time add no evidence.
    fn record_refusal(&mut self, permit: &Permit, now: Moment) -> Option<BreakerScope> {
        let key = permit.caller.key;
        let is_shared = self.refused.is_some_and(|last| {
            let is_close = self.answers.in_all.wrapping_sub(last.after_answers) < REFUSED_TOGETHER_ANSWERS
                || last.at.seconds_until(now) < REFUSED_TOGETHER_SECONDS;
            last.key != key && is_close
        });
        self.refused = Some(RefusedCall { key, at: now, after_answers: self.answers.in_all });
        let rate = self.answers.per_second(now);
        let scope = if is_shared { BreakerScope::Target } else { BreakerScope::Key };
        let change = self.changes + 1;
        if !self.circuit_mut(scope, key, now).record_refusal(permit.start_change, change, rate, now) {
            return None;
        }
        self.changes = change;
        Some(scope)
    }

    /// Adds an outage to the evidence, and opens a circuit if the evidence suffices.
    fn record_outage(&mut self, permit: &Permit, scope: BreakerScope, now: Moment) -> Option<CircuitChange> {
        let Permit { caller, start_change, .. } = *permit;
        let (Caller { key, message_id, .. }, is_first_call) = (caller, caller.is_first_call());
        let is_known =
            |circuit: &Circuit| circuit.is_newer_than(start_change) || circuit.open_since().is_some();
        if !is_first_call
            || is_known(&self.target)
            || is_known(self.keys.get_or_insert(key, &self.target, now))
        {
            return None;
        }
        self.add_to_run(key, now);
        if let Some(opened) = self.open_target(message_id, now) {
            return Some(opened);
        }
        if scope == BreakerScope::Target {
            return None;
        }
        let share = self.target.evidence.failure_share();
        let circuit = self.keys.get_or_insert(key, &self.target, now);
        circuit.count_failure(now);
        let outages = circuit.run;
        if !circuit.shows_outage(share, now) {
            return None;
        }
        let probe_in = circuit.open(&mut self.changes, jitter_factor(message_id, 0), now);
        Some(CircuitChange::Opened { outages: outages.into(), probe_in: to_duration(probe_in) })
    }

    fn add_to_run(&mut self, key: Option<CircuitKey>, now: Moment) {
        self.target.count_failure(now);
        if let Some((_, outages)) = self.run.iter_mut().find(|(other, _)| *other == key) {
            *outages = outages.saturating_add(1);
        } else if self.run.len() < RUN_KEYS_MAX {
            self.run.push((key, 1));
        }
    }

    /// Opens the target's circuit if several keys show an outage. A single key contributes at most half of the required
    /// evidence.
    fn open_target(&mut self, message_id: Uuid, now: Moment) -> Option<CircuitChange> {
        if self.target.open_since().is_some() {
            return None;
        }
        let (share, threshold) = (self.target.evidence.failure_share(), self.target.evidence_threshold(now));
        let shown: f32 =
            self.run.iter().map(|(_, outages)| evidence_nats(*outages, share).min(threshold / 2.0)).sum();
        if shown < threshold {
            return None;
        }
        let outages = self.run.drain(..).map(|(_, outages)| u32::from(outages)).sum();
        let probe_in = self.target.open(&mut self.changes, jitter_factor(message_id, 0), now);
        // A single probe of the target represents all keys.
        self.keys.close_all(self.changes);
        Some(CircuitChange::Opened { outages, probe_in: to_duration(probe_in) })
    }
}

/// Maximum number of distinct keys in a run. No more are needed to show an outage of the target.
const RUN_KEYS_MAX: usize = 1024;

/// Number of answers in the last full second and in the current second.
#[derive(Clone, Copy, Debug, Default)]
struct AnswersPerSecond {
    second: Option<Moment>,
    last: u16,
    current: u16,
    in_all: u32,
}

impl AnswersPerSecond {
    fn count_answer(&mut self, now: Moment) {
        self.advance_second(now);
        self.current = self.current.saturating_add(1);
        self.in_all = self.in_all.wrapping_add(1);
    }

    /// Returns the rate of answers, at least one per second.
    fn per_second(&mut self, now: Moment) -> f32 {
        self.advance_second(now);
        f32::from(self.last.max(self.current).max(1))
    }

    fn advance_second(&mut self, now: Moment) {
        let seconds = self.second.map_or(2.0, |second| second.seconds_until(now));
        if seconds >= 1.0 {
            self.last = if seconds < 2.0 { self.current } else { 0 };
            self.current = 0;
            self.second = Some(now);
        }
    }
}

/// Returns the number of seconds for which to hold a message, based on its total held time: about as long as that time
/// up to twenty seconds, and 15 s plus about a third of it beyond. If the message's call was just made, the number of
/// earlier calls also limits the hold: after hours in an outage, the message should not wait for minutes because of one
/// random failure.
fn own_hold_seconds(held_seconds: u32, called: Option<u32>) -> f32 {
    let held = Duration::from_secs(held_seconds.into()).as_secs_f32();
    let by_age = (HOLD_SECONDS_FIRST + held).min(HOLD_SECONDS_BASE + held * HOLD_SHARE);
    let by_calls = called.map_or(HOLD_MAX, |calls_before| {
        let calls_before = i32::try_from(calls_before.min(10)).unwrap_or(10);
        HOLD_SECONDS_FIRST * HOLD_GROWTH.powi(calls_before)
    });
    by_age.min(by_calls).min(HOLD_MAX)
}

/// Returns a factor between 0.75 and 1, so that environments that detect an outage together do not probe together.
fn jitter_factor(message_id: Uuid, number: u32) -> f32 {
    let thousandths = draw_number(JitterKey { message_id, generation: 0, attempt: number }, 750, 1000);
    f32::from(u16::try_from(thousandths).unwrap_or(1000)) / 1000.0
}

fn to_duration(seconds: f32) -> Duration {
    Duration::try_from_secs_f32(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests;
