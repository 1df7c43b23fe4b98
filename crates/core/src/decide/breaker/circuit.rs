//! The state of one circuit, for a key or for the target as a whole.

use super::evidence::{CERTAIN, LIKELY, OutageEvidence, evidence_nats};
use super::moment::Moment;
use super::rate::{RateLimit, Reserve};
use super::{Caller, RETRY_AFTER_SECONDS_MAX};

/// After its last confirmation, an outage counts as current for three times the period over which it was confirmed,
/// within these limits. A fault confirms it only if the message has not failed before.
const BELIEVED_SHARE: f32 = 3.0;
const BELIEVED_SECONDS_MIN: f32 = 300.0;
const BELIEVED_SECONDS_MAX: f32 = 1800.0;
/// The probe interval as a share of the outage's age.
const PROBE_SHARE: f32 = 0.75;
/// The probe interval until thirty calls in a row have failed. Even for a target that randomly fails 85 % of its calls,
/// only one run in a hundred is that long, so such a target is called as usual.
const PROBE_SECONDS_FIRST: f32 = 1.5;
const CHANCE_FAILURES: u16 = 30;
/// Maximum number of an outage's failures that count as random. If they were random, a few such outages show it; if
/// not, they are forgotten 250 answers later.
const RUN_MAX_AFTER_OUTAGE: u16 = 12;
/// If the target was down this recently, less evidence opens the circuit.
const RECENT_SECONDS: f32 = 60.0;
/// An environment with an answer this recent ignores reports of an outage.
const NEW_ANSWER_SECONDS: f32 = 30.0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circuit {
    pub(super) evidence: OutageEvidence,
    /// Number of first calls since the last answer, all of which failed.
    pub(super) run: u16,
    /// Time when the first of them failed, in this or another environment.
    since: Option<Moment>,
    pub(super) state: CircuitState,
    /// Number of the last state change: calls that began before it do not count.
    changed: u32,
    closed_at: Option<Moment>,
    answered_at: Option<Moment>,
    /// The end of the target's `Retry-After`, before which no call is made.
    retry_after: Option<Moment>,
    /// Number of the change that set `retry_after`: the answer to a later call clears it.
    asked: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum CircuitState {
    #[default]
    Closed,
    Limited(RateLimit),
    Open(OpenState),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenState {
    since: Moment,
    probe_at: Moment,
    /// Time of the last confirmation of the outage.
    shown_at: Moment,
    is_probing: bool,
    probes: u16,
    /// Failed first calls before it opened.
    run: u16,
}

/// A report of an outage in a held message.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldReport {
    pub(super) since: Moment,
    pub(super) first_failures: u16,
    /// Time when the message was sent.
    pub(super) reported_at: Moment,
}

/// A past outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedOutage {
    pub(super) seconds: f32,
    /// Number of probes, including the answered one.
    pub(super) probes: u16,
}

/// A circuit's decision on a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CircuitVerdict {
    Call,
    Probe,
    /// The outage is no longer confirmed: make the call; a fault spends an attempt.
    Unconfirmed,
    /// The target is down; a running probe will show whether it is up again.
    Probing,
    /// The target is down.
    Down,
    /// The rate limit is reached.
    Limited,
}

/// The longest probe intervals. That of a key is longer than the target's, because thousands of keys may exist.
pub(super) const PROBE_SECONDS_MAX: f32 = 90.0;
pub(super) const PROBE_SECONDS_MAX_OF_KEY: f32 = 600.0;

impl Circuit {
    /// The circuit of a key without failures so far. The target's last answer may have been for this key.
    pub(super) fn for_key(target: &Self) -> Self {
        Self { answered_at: target.answered_at, ..Self::default() }
    }

    /// Decides on a call that no `Retry-After` forbids. Does not take a token: [`Circuit::take_token`] does so once all
    /// circuits agree.
    pub(super) fn decide_call(&mut self, caller: Caller, reserve: Reserve, now: Moment) -> CircuitVerdict {
        let open = match &mut self.state {
            CircuitState::Closed => return CircuitVerdict::Call,
            CircuitState::Limited(limit) => {
                return if limit.has_token(reserve, now) {
                    CircuitVerdict::Call
                } else {
                    CircuitVerdict::Limited
                };
            }
            CircuitState::Open(open) => open,
        };
        // A clock that was set back must not prolong an unconfirmed outage.
        open.shown_at = open.shown_at.min(now);
        // It must not delay probes, either.
        open.probe_at = open.probe_at.min(now.plus_seconds(RETRY_AFTER_SECONDS_MAX));
        if !caller.is_first_call() && !open.is_current(now) {
            CircuitVerdict::Unconfirmed
        } else if open.is_probing {
            CircuitVerdict::Probing
        } else if now >= open.probe_at {
            CircuitVerdict::Probe
        } else {
            CircuitVerdict::Down
        }
    }

    /// True before the end of the target's `Retry-After`.
    pub(super) fn must_wait(&mut self, now: Moment) -> bool {
        let Some(at) = self.retry_after else { return false };
        // A clock that was set back must not prolong it.
        self.retry_after = Some(at.min(now.plus_seconds(RETRY_AFTER_SECONDS_MAX)));
        self.asked_seconds(now) > 0.0
    }

    pub(super) fn take_token(&mut self) {
        if let CircuitState::Limited(limit) = &mut self.state {
            limit.take_token();
        }
    }

    pub(super) fn give_back_token(&mut self) {
        if let CircuitState::Limited(limit) = &mut self.state {
            limit.give_back_token();
        }
    }

    pub(super) fn begin_probe(&mut self) {
        if let CircuitState::Open(open) = &mut self.state {
            open.is_probing = true;
            open.probes = open.probes.saturating_add(1);
        }
    }

    /// Undoes [`Circuit::begin_probe`] because the probe was not made.
    pub(super) fn cancel_probe(&mut self) {
        if let CircuitState::Open(open) = &mut self.state {
            open.is_probing = false;
            open.probes = open.probes.saturating_sub(1);
        }
    }

    /// Seconds until the end of the target's `Retry-After`; 0 without one.
    pub(super) fn asked_seconds(&self, now: Moment) -> f32 {
        self.retry_after.map_or(0.0, |at| now.seconds_until(at))
    }

    pub(super) fn is_limited(&self) -> bool {
        matches!(self.state, CircuitState::Limited(_))
    }

    /// Start of the outage or rate limit that a held message reports.
    pub(super) fn trouble_since(&self, now: Moment) -> Moment {
        self.state_since().or(self.since).unwrap_or(now)
    }

    /// Start of the outage or of the rate limit.
    pub(super) fn state_since(&self) -> Option<Moment> {
        match &self.state {
            CircuitState::Closed => None,
            CircuitState::Limited(limit) => Some(limit.since()),
            CircuitState::Open(open) => Some(open.since),
        }
    }

    /// Number of failures before an answer that count as random: the whole run if it did not open the circuit, or the
    /// first failures of an outage.
    pub(super) fn chance_failures(&self) -> u16 {
        match &self.state {
            CircuitState::Open(open) => open.failed_calls().min(RUN_MAX_AFTER_OUTAGE),
            _ => self.run,
        }
    }

    pub(super) fn open_since(&self) -> Option<Moment> {
        match &self.state {
            CircuitState::Open(open) => Some(open.since),
            CircuitState::Closed | CircuitState::Limited(_) => None,
        }
    }

    #[cfg(test)]
    pub(super) fn limited_rate(&self) -> Option<f32> {
        if let CircuitState::Limited(limit) = &self.state { Some(limit.per_second()) } else { None }
    }

    /// True if a call that began after change number `began` is not evidence of the current state.
    pub(super) fn is_newer_than(&self, began: u32) -> bool {
        began < self.changed
    }

    /// The evidence needed to open the circuit, in nats.
    pub(super) fn evidence_threshold(&self, now: Moment) -> f32 {
        if self.was_down_recently(now) { LIKELY } else { CERTAIN }
    }

    pub(super) fn was_down_recently(&self, now: Moment) -> bool {
        self.closed_at.is_some_and(|at| at.seconds_until(now) < RECENT_SECONDS)
    }

    /// Counts a first call that failed.
    pub(super) fn count_failure(&mut self, now: Moment) {
        self.run = self.run.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// True if the current run of failed first calls shows an outage. `share` is the target's failure rate while up.
    pub(super) fn shows_outage(&self, share: f32, now: Moment) -> bool {
        evidence_nats(self.run, self.evidence.share_with_prior(share)) >= self.evidence_threshold(now)
    }

    /// Opens the circuit. Returns the seconds until the first probe.
    pub(super) fn open(&mut self, changes: &mut u32, jitter: f32, now: Moment) -> f32 {
        *changes += 1;
        let probe_in = self.probe_in(PROBE_SECONDS_FIRST * jitter, now);
        let since = self.since.unwrap_or(now);
        let probe_at = now.plus_seconds(probe_in);
        self.state = CircuitState::Open(OpenState {
            since,
            probe_at,
            shown_at: now,
            is_probing: false,
            probes: 0,
            run: self.run,
        });
        self.changed = *changes;
        probe_in
    }

    /// True if the target has answered since the report.
    pub(super) fn has_answered_since(&self, reported_at: Moment) -> bool {
        self.answered_at.is_some_and(|at| reported_at <= at)
    }

    /// True if the target has answered recently.
    pub(super) fn has_answered_recently(&self, now: Moment) -> bool {
        self.answered_at.is_some_and(|at| at.seconds_until(now) < NEW_ANSWER_SECONDS)
    }

    /// Continues the count from a held message's report, unless the target has answered since. If the evidence
    /// suffices, opens the circuit with a probe due at once.
    pub(super) fn apply_report(&mut self, report: HeldReport, share: f32, changes: &mut u32, now: Moment) {
        let HeldReport { since, first_failures, reported_at } = report;
        if !matches!(self.state, CircuitState::Closed) || self.has_answered_since(reported_at) {
            return;
        }
        let since = since.min(now).min(self.since.unwrap_or(now));
        self.since = Some(since);
        self.run = self.run.max(first_failures);
        if self.shows_outage(share, now) {
            let shown_at = reported_at.min(now);
            self.state = CircuitState::Open(OpenState {
                since,
                probe_at: now,
                shown_at,
                is_probing: false,
                probes: 0,
                run: self.run,
            });
            *changes += 1;
            self.changed = *changes;
        }
    }

    /// Records a failed probe, which may confirm the outage. Returns the seconds until the next one.
    pub(super) fn record_failed_probe(
        &mut self,
        confirms: bool,
        longest: f32,
        jitter: f32,
        now: Moment,
    ) -> Option<f32> {
        let CircuitState::Open(open) = self.state else { return None };
        let interval = if open.failed_calls() < CHANCE_FAILURES {
            PROBE_SECONDS_FIRST
        } else {
            (open.outage_age(now) * PROBE_SHARE).clamp(PROBE_SECONDS_FIRST, longest)
        };
        let interval = interval * jitter;
        let probe_in = self.probe_in(interval, now);
        let shown_at = if confirms { now } else { open.shown_at };
        self.state = CircuitState::Open(OpenState {
            probe_at: now.plus_seconds(probe_in),
            shown_at,
            is_probing: false,
            ..open
        });
        Some(probe_in)
    }

    fn probe_in(&self, interval: f32, now: Moment) -> f32 {
        interval.max(self.asked_seconds(now))
    }

    /// Records the answer to a call that began after change number `began`. The `chance` failures before it count as
    /// random. Returns the outage that the answer ends, if any.
    pub(super) fn record_answer(
        &mut self,
        began: u32,
        chance: u16,
        changes: &mut u32,
        now: Moment,
    ) -> Option<EndedOutage> {
        if began < self.changed {
            return None;
        }
        self.answered_at = Some(now);
        self.evidence.record_answer(chance);
        self.run = 0;
        self.since = None;
        if began >= self.asked {
            self.retry_after = None;
        }
        match &mut self.state {
            CircuitState::Closed => None,
            CircuitState::Limited(limit) => {
                if limit.record_answer(now) {
                    self.state = CircuitState::Closed;
                }
                None
            }
            CircuitState::Open(open) => {
                let ended = EndedOutage { seconds: open.since.seconds_until(now), probes: open.probes };
                *changes += 1;
                self.closed_at = Some(now);
                self.changed = *changes;
                self.state = CircuitState::Limited(RateLimit::after_outage(open.since, now, *changes));
                Some(ended)
            }
        }
    }

    /// Records a refused call. `answered_per_second` is the rate before the first refusal. Returns true if the refusal
    /// lowers the rate, as change number `change`.
    pub(super) fn record_refusal(
        &mut self,
        began: u32,
        change: u32,
        answered_per_second: f32,
        now: Moment,
    ) -> bool {
        match &mut self.state {
            CircuitState::Closed => {
                self.state =
                    CircuitState::Limited(RateLimit::after_refusal(answered_per_second, now, change));
                true
            }
            CircuitState::Limited(limit) => limit.record_refusal(began, change, now),
            CircuitState::Open(_) => false,
        }
    }

    /// Records a `Retry-After`.
    pub(super) fn record_retry_after(&mut self, seconds: f32, change: u32, now: Moment) {
        self.asked = change;
        let until = now.plus_seconds(seconds.min(RETRY_AFTER_SECONDS_MAX));
        self.retry_after = Some(self.retry_after.map_or(until, |earlier| earlier.max(until)));
    }

    /// Closes the circuit of a key because the target as a whole is down. The key's `Retry-After` remains in effect.
    pub(super) fn close(&mut self, change: u32) {
        self.state = CircuitState::Closed;
        self.run = 0;
        self.since = None;
        self.changed = change;
    }
}

impl OpenState {
    fn is_current(&self, now: Moment) -> bool {
        let confirmed = self.since.seconds_until(self.shown_at);
        let believed = (confirmed * BELIEVED_SHARE).clamp(BELIEVED_SECONDS_MIN, BELIEVED_SECONDS_MAX);
        self.shown_at.seconds_until(now) < believed
    }

    /// Failed calls in a row: those that opened the circuit, and its probes.
    fn failed_calls(&self) -> u16 {
        self.run.saturating_add(self.probes)
    }

    fn outage_age(&self, now: Moment) -> f32 {
        self.since.seconds_until(now)
    }
}
