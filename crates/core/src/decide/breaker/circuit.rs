//! The state of one circuit, for a key or for the target as a whole.

use super::evidence::{CERTAIN_NATS, LIKELY_NATS, OutageEvidence, evidence_nats};
use super::moment::Moment;
use super::rate::{RateLimit, Reserve};
use super::{Caller, RETRY_AFTER_SECONDS_MAX};

/// After its last confirmation, an outage counts as current for three times the period over which it was confirmed,
/// within these limits. A fault confirms the outage only if the message has not failed before.
const CURRENT_SHARE: f32 = 3.0;
const CURRENT_SECONDS_MIN: f32 = 300.0;
const CURRENT_SECONDS_MAX: f32 = 1800.0;
/// The probe interval as a share of the outage's age.
const PROBE_SHARE: f32 = 0.75;
/// The probe interval until thirty calls in a row have failed. Even if a target fails 85 % of its calls at random, only
/// one run in a hundred is that long, so such a target is called as usual.
const PROBE_SECONDS_FIRST: f32 = 1.5;
const RANDOM_FAILURES_MAX: u16 = 30;
/// Maximum number of failures in an outage that count as random. If they really were random, a few such outages will
/// show it; if not, they are forgotten 250 answers later.
const RUN_MAX_AFTER_OUTAGE: u16 = 12;
/// If the target was down this recently, less evidence opens the circuit.
const RECENT_OUTAGE_SECONDS: f32 = 60.0;
/// An environment that received an answer this recently ignores outage reports.
const RECENT_ANSWER_SECONDS: f32 = 30.0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circuit {
    pub(super) evidence: OutageEvidence,
    /// Number of first calls since the last answer, all of which failed.
    pub(super) run: u16,
    /// Time of the first failure in the run, in this or another environment.
    since: Option<Moment>,
    pub(super) state: CircuitState,
    /// Number of the last state change. Calls that started before it do not count.
    last_change: u32,
    closed_at: Option<Moment>,
    answered_at: Option<Moment>,
    /// End of the target's `Retry-After`. Until then, no call is made.
    retry_after: Option<Moment>,
    /// Number of the change that set `retry_after`. The answer to a later call clears it.
    retry_after_change: u32,
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
    /// Time at which the outage was last confirmed.
    confirmed_at: Moment,
    is_probing: bool,
    probes: u16,
    /// Number of failed first calls before the circuit opened.
    run: u16,
}

/// An outage report in a held message.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutageReport {
    pub(super) since: Moment,
    pub(super) first_failures: u16,
    /// Time at which the message was sent.
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
    /// The outage is no longer confirmed: make the call. A fault spends an attempt.
    Unconfirmed,
    /// The target is down; a running probe will show whether it is up again.
    Probing,
    /// The target is down.
    Down,
    /// The rate limit is reached.
    Limited,
}

/// The longest probe intervals. A key's is longer than the target's, because there may be thousands of keys.
pub(super) const PROBE_SECONDS_MAX: f32 = 90.0;
pub(super) const KEY_PROBE_SECONDS_MAX: f32 = 600.0;

impl Circuit {
    /// Creates the circuit for a key that has not failed yet. Its last answer is the target's, which may have been for
    /// this key.
    pub(super) fn for_key(target: &Self) -> Self {
        Self { answered_at: target.answered_at, ..Self::default() }
    }

    /// Decides whether to make a call that no `Retry-After` forbids. Takes no token: [`Circuit::take_token`] does that
    /// once all circuits agree.
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
        open.confirmed_at = open.confirmed_at.min(now);
        // Nor must it delay probes.
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

    /// Returns true until the target's `Retry-After` ends.
    pub(super) fn must_wait(&mut self, now: Moment) -> bool {
        let Some(at) = self.retry_after else { return false };
        // A clock that was set back must not prolong the wait.
        self.retry_after = Some(at.min(now.plus_seconds(RETRY_AFTER_SECONDS_MAX)));
        self.retry_after_seconds(now) > 0.0
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

    /// Returns the number of seconds until the target's `Retry-After` ends, or 0 if there is none.
    pub(super) fn retry_after_seconds(&self, now: Moment) -> f32 {
        self.retry_after.map_or(0.0, |at| now.seconds_until(at))
    }

    pub(super) fn is_limited(&self) -> bool {
        matches!(self.state, CircuitState::Limited(_))
    }

    /// Returns the start of the outage or rate limit that a held message reports.
    pub(super) fn reported_since(&self, now: Moment) -> Moment {
        self.state_since().or(self.since).unwrap_or(now)
    }

    /// Returns the start of the outage or rate limit.
    pub(super) fn state_since(&self) -> Option<Moment> {
        match &self.state {
            CircuitState::Closed => None,
            CircuitState::Limited(limit) => Some(limit.since()),
            CircuitState::Open(open) => Some(open.since),
        }
    }

    /// Returns the number of failures before an answer that count as random: the whole run if it did not open the
    /// circuit, otherwise the first failures of the outage.
    pub(super) fn random_failures(&self) -> u16 {
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

    /// Returns true if a call that started after change number `start_change` says nothing about the current state.
    pub(super) fn is_newer_than(&self, start_change: u32) -> bool {
        start_change < self.last_change
    }

    /// Returns the evidence needed to open the circuit, in nats.
    pub(super) fn evidence_threshold(&self, now: Moment) -> f32 {
        if self.was_down_recently(now) { LIKELY_NATS } else { CERTAIN_NATS }
    }

    pub(super) fn was_down_recently(&self, now: Moment) -> bool {
        self.closed_at.is_some_and(|at| at.seconds_until(now) < RECENT_OUTAGE_SECONDS)
    }

    /// Counts a failed first call.
    pub(super) fn count_failure(&mut self, now: Moment) {
        self.run = self.run.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// Returns true if the current run of failed first calls shows an outage. `share` is the target's failure rate
    /// while it is up.
    pub(super) fn shows_outage(&self, share: f32, now: Moment) -> bool {
        evidence_nats(self.run, self.evidence.share_with_prior(share)) >= self.evidence_threshold(now)
    }

    /// Opens the circuit. Returns the number of seconds until the first probe.
    pub(super) fn open(&mut self, changes: &mut u32, jitter: f32, now: Moment) -> f32 {
        *changes += 1;
        let probe_in = self.probe_delay(PROBE_SECONDS_FIRST * jitter, now);
        let since = self.since.unwrap_or(now);
        let probe_at = now.plus_seconds(probe_in);
        self.state = CircuitState::Open(OpenState {
            since,
            probe_at,
            confirmed_at: now,
            is_probing: false,
            probes: 0,
            run: self.run,
        });
        self.last_change = *changes;
        probe_in
    }

    /// Returns true if the target has answered since the report.
    pub(super) fn has_answered_since(&self, reported_at: Moment) -> bool {
        self.answered_at.is_some_and(|at| reported_at <= at)
    }

    /// Returns true if the target has answered recently.
    pub(super) fn has_answered_recently(&self, now: Moment) -> bool {
        self.answered_at.is_some_and(|at| at.seconds_until(now) < RECENT_ANSWER_SECONDS)
    }

    /// Continues the count from a held message's report, unless the target has answered since then. If the evidence
    /// suffices, opens the circuit with a probe due immediately.
    pub(super) fn apply_report(&mut self, report: OutageReport, share: f32, changes: &mut u32, now: Moment) {
        let OutageReport { since, first_failures, reported_at } = report;
        if !matches!(self.state, CircuitState::Closed) || self.has_answered_since(reported_at) {
            return;
        }
        let since = since.min(now).min(self.since.unwrap_or(now));
        self.since = Some(since);
        self.run = self.run.max(first_failures);
        if self.shows_outage(share, now) {
            let confirmed_at = reported_at.min(now);
            self.state = CircuitState::Open(OpenState {
                since,
                probe_at: now,
                confirmed_at,
                is_probing: false,
                probes: 0,
                run: self.run,
            });
            *changes += 1;
            self.last_change = *changes;
        }
    }

    /// Records a failed probe. Returns the number of seconds until the next probe. `confirms` is true if the probe
    /// confirms the outage.
    pub(super) fn record_failed_probe(
        &mut self,
        confirms: bool,
        longest: f32,
        jitter: f32,
        now: Moment,
    ) -> Option<f32> {
        let CircuitState::Open(open) = self.state else { return None };
        let interval = if open.failed_calls() < RANDOM_FAILURES_MAX {
            PROBE_SECONDS_FIRST
        } else {
            (open.outage_age(now) * PROBE_SHARE).clamp(PROBE_SECONDS_FIRST, longest)
        };
        let interval = interval * jitter;
        let probe_in = self.probe_delay(interval, now);
        let confirmed_at = if confirms { now } else { open.confirmed_at };
        self.state = CircuitState::Open(OpenState {
            probe_at: now.plus_seconds(probe_in),
            confirmed_at,
            is_probing: false,
            ..open
        });
        Some(probe_in)
    }

    fn probe_delay(&self, interval: f32, now: Moment) -> f32 {
        interval.max(self.retry_after_seconds(now))
    }

    /// Records the answer to a call that started after change number `start_change`. Returns the outage that the
    /// answer ends, if any. `random_failures` is the number of failures before the answer that count as random.
    pub(super) fn record_answer(
        &mut self,
        start_change: u32,
        random_failures: u16,
        changes: &mut u32,
        now: Moment,
    ) -> Option<EndedOutage> {
        if start_change < self.last_change {
            return None;
        }
        self.answered_at = Some(now);
        self.evidence.record_answer(random_failures);
        self.run = 0;
        self.since = None;
        if start_change >= self.retry_after_change {
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
                self.last_change = *changes;
                self.state = CircuitState::Limited(RateLimit::after_outage(open.since, now, *changes));
                Some(ended)
            }
        }
    }

    /// Records a refused call. `answered_per_second` is the rate before the first refusal. Returns true if the refusal
    /// lowers the rate; that state change gets the number `change`.
    pub(super) fn record_refusal(
        &mut self,
        start_change: u32,
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
            CircuitState::Limited(limit) => limit.record_refusal(start_change, change, now),
            CircuitState::Open(_) => false,
        }
    }

    /// Records a `Retry-After`.
    pub(super) fn record_retry_after(&mut self, seconds: f32, change: u32, now: Moment) {
        self.retry_after_change = change;
        let until = now.plus_seconds(seconds.min(RETRY_AFTER_SECONDS_MAX));
        self.retry_after = Some(self.retry_after.map_or(until, |earlier| earlier.max(until)));
    }

    /// Closes a key's circuit because the target as a whole is down. The key's `Retry-After` remains in effect.
    pub(super) fn close(&mut self, change: u32) {
        self.state = CircuitState::Closed;
        self.run = 0;
        self.since = None;
        self.last_change = change;
    }
}

impl OpenState {
    fn is_current(&self, now: Moment) -> bool {
        let confirmed = self.since.seconds_until(self.confirmed_at);
        let current_for = (confirmed * CURRENT_SHARE).clamp(CURRENT_SECONDS_MIN, CURRENT_SECONDS_MAX);
        self.confirmed_at.seconds_until(now) < current_for
    }

    /// Returns the number of failed calls in a row: the run that opened the circuit, and its probes.
    fn failed_calls(&self) -> u16 {
        self.run.saturating_add(self.probes)
    }

    fn outage_age(&self, now: Moment) -> f32 {
        self.since.seconds_until(now)
    }
}
