//! Checks the guarantees of each environment's circuit breaker against the observed calls, outcomes and events: it
//! holds only messages whose key had failures, and calls a target that is down only to probe it.
//!
//! The ledger cannot observe when a circuit opens. It counts the failures that might open a circuit, and trusts the
//! events that report an opening. This can make it too lenient, but never too strict.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use redeliver_core::events::Event;
use redeliver_core::message::ReceivedMessage;

use super::body::RetryMembers;
use super::calls::CallResponse;
use super::copies::StatedOutage;
use super::{BrokenInvariant, DeliverySender, Ledger, QueuePlace, time_delta};
use crate::messages::{ExpectedOutcome, message_number};
use crate::policy::{BreakerModel, CallOutcome, CircuitPartition, DELAY_SECONDS_MAX};

/// The message number and the index of the call among the message's calls.
pub type CallId = (usize, usize);

/// The key of a message's circuit.
type LedgerKey = Option<String>;

/// The minimum number of consecutive outages for a key before its messages are held.
const OUTAGES_MIN: u32 = 3;
/// The total number of outages across several keys that indicates an outage of the target.
const OUTAGES_ACROSS_KEYS_MIN: u32 = 3;
/// A new environment opens a key's circuit after this many outages encountered by messages that had never failed.
const NEW_ENVIRONMENT_OUTAGES: u32 = 10;
/// The longest time that previously failed messages are held after the last outage encountered by a message that had
/// not failed.
const BELIEF_MAX: TimeDelta = TimeDelta::seconds(2000);
/// The shortest time that previously failed messages are held after such an outage.
const BELIEF_MIN: TimeDelta = TimeDelta::seconds(299);
/// The longest time until an environment probes a key's target again, with the first message that arrives for the key.
const REPROBE_INTERVAL_MAX: TimeDelta = TimeDelta::seconds(1800);
/// The time after an outage during which a first failure spends no attempt.
const RECENT_OUTAGE_AGE: TimeDelta = TimeDelta::seconds(60);
/// The longest hold that a circuit chooses.
const HOLD_SECONDS_MAX: f64 = 750.0;
/// The time after a refusal during which further refused calls say nothing new about the rate.
const REFUSAL_SPAN: TimeDelta = TimeDelta::milliseconds(1100);
/// The number of refusals until the rate approaches the target's capacity.
const INITIAL_REFUSALS: i64 = 20;
/// The seconds between two refusals at the lowest rate.
const SECONDS_PER_REFUSAL: i64 = 7;
/// The shortest time until a probe.
const PROBE_DELAY_MIN: TimeDelta = TimeDelta::milliseconds(1100);
/// The maximum number of probes per outage at this shortest interval.
const FIRST_PROBES: u32 = 24;
/// Tolerance for the breaker's clock, which has a resolution of hundredths of a second.
const ROUNDING: TimeDelta = TimeDelta::milliseconds(20);

/// A function environment with a circuit breaker.
pub(crate) struct LedgerEnvironment {
    settings: BreakerModel,
    /// The environment's clock skew.
    skew: TimeDelta,
    /// Sequence number of the last start or end of a call or an invocation.
    tick: u64,
    running: HashMap<CallId, StartedCall>,
    keys: BTreeMap<LedgerKey, KeyHistory>,
    /// Outages on first calls, per key, since the last answer for any key.
    run: BTreeMap<LedgerKey, u32>,
    /// Outages encountered by messages that had never failed, by key, until the first answer, opening or report.
    first_outages: Option<BTreeMap<LedgerKey, u32>>,
    /// The reason why messages of all keys might be held.
    down: OpeningCause,
    /// The key whose call was refused last.
    refused: Option<LedgerKey>,
    /// True if calls for several keys were refused in turn or the target was down, so that the rate of any key might
    /// be limited.
    was_limited: bool,
    /// The time of the last outage on a first call, or of a report of one.
    shown_at: Option<DateTime<Utc>>,
    /// Tick of the last start or end of a call.
    called: u64,
    /// Tick of the latest start of an answered call.
    answered: u64,
    /// The earliest time of an outage or of a reported outage.
    first_outage: Option<DateTime<Utc>>,
    /// The largest possible number of outages on first calls in a run, including reported ones.
    run_max: u32,
    /// The longest delay that a call requested.
    requested_max: u64,
    /// The latest end of a requested delay, even if an answer has ended the delay since.
    requested_until: Option<DateTime<Utc>>,
    /// Outages reported by held messages, by key, until the first answer: the latest start and the shortest run.
    reported_outages: BTreeMap<LedgerKey, StatedOutage>,
    /// Delays requested by calls, by key.
    retry_after: BTreeMap<LedgerKey, RetryAfter>,
    /// The time when a circuit last closed, by the environment's clock.
    closed_at: Option<DateTime<Utc>>,
    /// Tick of the last opening, closing or report.
    changed: u64,
    last_ended: Option<(CallId, StartedCall, CallOutcome, Option<u64>)>,
    /// The keys whose own circuit or whose target's circuit is certainly open.
    open: BTreeMap<LedgerKey, OpenCircuit>,
}

/// A started call, with the facts about its message.
#[derive(Clone, Debug)]
pub(super) struct StartedCall {
    key: LedgerKey,
    /// Number of failed calls for the message.
    failures: u32,
    /// True if the message has reached its hold limit, so that the target is called for it in any state.
    is_overdue: bool,
    /// True if the message failed before and the outage might no longer have been confirmed when the call started.
    is_unconfirmed: bool,
    /// The environment's tick at the start of the call.
    began: u64,
    at: DateTime<Utc>,
}

/// The facts about a message for [`Ledger::check_hold`].
pub(super) struct HeldMessage<'a> {
    pub(super) n: usize,
    /// The delivery's retry members, for its generation.
    pub(super) retries: &'a RetryMembers,
    /// `retry_attempt`, or the attempt according to the queue's receive count.
    pub(super) attempt: u32,
    pub(super) error_type: &'a str,
    /// The call that encountered the outage; `None` if the target was not called for the message.
    pub(super) call: Option<&'a EndedCall>,
    /// The report in the message's hand-off, if any.
    pub(super) report: Option<HoldReport>,
}

/// A hold as stated by a hand-off.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldReport {
    /// The requested delay.
    pub(super) seconds: Option<u64>,
    pub(super) outage: Option<StatedOutage>,
    /// True if nothing was omitted for lack of room.
    pub(super) is_whole: bool,
}

/// A finished call in an environment with a breaker.
#[derive(Clone, Debug)]
pub(crate) struct EndedCall {
    pub(super) caller: StartedCall,
    pub(super) met: CallOutcome,
    ended: u64,
}

/// A `Retry-After` that a call received.
#[derive(Clone, Copy)]
struct RetryAfter {
    tick: u64,
    at: DateTime<Utc>,
    until: DateTime<Utc>,
    /// True if a probe of the whole target might have received the delay, so that an answer to any key's call ends it.
    is_of_target: bool,
}

/// A held message's report that the target has been down.
struct OutageReport {
    key: LedgerKey,
    outage: StatedOutage,
    sent_at: DateTime<Utc>,
}

#[derive(Default)]
struct KeyHistory {
    /// Number of outages on first calls since the last answer.
    run: u32,
    last_outage: u64,
    down: OpeningCause,
    /// True if the key's calls were refused or its target was down, so that its rate might be limited.
    was_limited: bool,
    /// The last time that a call for this key closed its circuit or the target's, by the environment's clock.
    closed_at: Option<DateTime<Utc>>,
    /// The time of the last answer, by the environment's clock.
    answered_at: Option<DateTime<Utc>>,
    /// Number of answers since the first refusal.
    answers: u32,
    /// Number of refusals that show that the rate is too high.
    refusals: u32,
    /// The times of the first and the last of these refusals.
    refused: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// The reason why a circuit might have opened.
#[derive(Clone, Copy, Default)]
struct OpeningCause {
    /// Tick of the last sign of an outage.
    shown: Option<u64>,
    /// Tick of the answer that refuted the outage.
    ended: Option<u64>,
}

/// An open circuit.
#[derive(Clone)]
struct OpenCircuit {
    since: DateTime<Utc>,
    since_tick: u64,
    /// The invocation whose call opened the circuit.
    by: Option<u64>,
    probing: Option<CallId>,
    next_probe: DateTime<Utc>,
    failed_probes: u32,
    /// The time until which previously failed messages are held as well.
    believed_until: DateTime<Utc>,
}

/// The state of an environment at the start of an invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvironmentState {
    environment: u64,
    at: DateTime<Utc>,
    tick: u64,
}

impl OpenCircuit {
    /// Returns the shortest time until the next probe, after a probe that fails now. The first probes follow quickly.
    fn min_probe_interval(&self, now: DateTime<Utc>) -> TimeDelta {
        if self.failed_probes < FIRST_PROBES {
            return PROBE_DELAY_MIN;
        }
        PROBE_DELAY_MIN.max(((now - self.since) / 5).min(time_delta(30)))
    }
}

impl KeyHistory {
    /// Counts a refusal. Calls that started before or just after the last refusal count as part of it.
    fn record_refusal(&mut self, caller: &StartedCall, now: DateTime<Utc>) {
        let (first, last) = self.refused.unwrap_or((now, now - REFUSAL_SPAN));
        if caller.at >= last + REFUSAL_SPAN {
            self.refusals += 1;
            self.refused = Some((first, now));
        }
    }

    /// Checks that refusals have lowered the rate, so that eventually nearly all calls are answered.
    fn check_rate(&self) -> Result<(), BrokenInvariant> {
        let Self { refusals, answers, refused: Some((first, last)), .. } = *self else { return Ok(()) };
        let probes = (last - first).num_seconds() / SECONDS_PER_REFUSAL;
        if i64::from(refusals) <= INITIAL_REFUSALS + i64::from(answers) + probes {
            return Ok(());
        }
        Err(format!("{refusals} of its calls were refused since {first}, and {answers} answered"))
    }
}

impl OpeningCause {
    fn record_outage_sign(&mut self, tick: u64) {
        self.shown = Some(tick);
    }

    /// Records an answer to a call that started at tick `began`. It refutes an outage shown earlier.
    fn record_answer(&mut self, began: u64, now: u64) {
        if self.shown.is_some_and(|shown| began > shown) {
            (self.shown, self.ended) = (None, Some(now));
        }
    }

    fn was_active_since(self, tick: u64) -> bool {
        self.shown.is_some() || self.ended.is_some_and(|ended| ended >= tick)
    }
}

impl LedgerEnvironment {
    fn new(settings: BreakerModel, skew: TimeDelta) -> Self {
        Self {
            settings,
            skew,
            tick: 0,
            running: HashMap::new(),
            keys: BTreeMap::new(),
            run: BTreeMap::new(),
            first_outages: Some(BTreeMap::new()),
            down: OpeningCause::default(),
            refused: None,
            was_limited: false,
            shown_at: None,
            first_outage: None,
            run_max: 0,
            requested_max: 0,
            requested_until: None,
            reported_outages: BTreeMap::new(),
            retry_after: BTreeMap::new(),
            closed_at: None,
            changed: 0,
            called: 0,
            answered: 0,
            last_ended: None,
            open: BTreeMap::new(),
        }
    }

    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Applies an outage reported by a message that was held.
    fn apply_report(&mut self, OutageReport { key, outage, sent_at }: OutageReport, now: DateTime<Utc>) {
        let answered_at = self.keys.get(&key).and_then(|key| key.answered_at);
        // Ignore the report if the target has answered since.
        if outage.first_failures == 0 || answered_at.is_some_and(|at| sent_at < at - ROUNDING) {
            return;
        }
        let StatedOutage { since, first_failures } = outage;
        self.first_outage = Some(self.first_outage.map_or(since, |first| first.min(since)));
        self.first_outages = None;
        self.run_max = self.run_max.max(first_failures);
        (self.changed, self.shown_at) = (self.tick, Some(now));
        // An environment without calls of its own has no better evidence.
        let is_new = self.called == 0 && self.running.is_empty();
        if is_new {
            let heard = self.reported_outages.entry(key.clone()).or_insert(outage);
            heard.since = heard.since.max(since);
            heard.first_failures = heard.first_failures.min(first_failures);
        }
        if is_new && first_failures >= NEW_ENVIRONMENT_OUTAGES && !self.open.contains_key(&key) {
            let believed_until = (sent_at - self.skew).min(now) + BELIEF_MIN;
            let open = OpenCircuit {
                // The environment compares the report with its own clock.
                since: since - self.skew,
                since_tick: self.tick,
                by: None,
                probing: None,
                next_probe: now,
                failed_probes: 0,
                believed_until,
            };
            self.open.insert(key.clone(), open);
        }
        let key = self.keys.entry(key).or_default();
        key.run = key.run.max(first_failures);
        if key.run >= OUTAGES_MIN {
            key.down.record_outage_sign(self.tick);
            key.was_limited = true;
        }
    }

    /// Returns the seconds left of this key's `Retry-After`, if it was known at this tick.
    fn remaining_retry_after(&self, key: &LedgerKey, tick: u64, now: DateTime<Utc>) -> u64 {
        let known = self.retry_after.get(key).filter(|known| known.tick <= tick);
        let left = known.map_or(TimeDelta::zero(), |known| known.until - now - ROUNDING);
        left.num_seconds().max(0).unsigned_abs()
    }

    /// Returns true if this key's target, or the target as a whole, recovered recently.
    fn was_down_recently(&self, key: &LedgerKey, now: DateTime<Utc>) -> bool {
        let was_of_target = self.down.shown.is_some() || self.down.ended.is_some();
        let of_key = self.keys.get(key).and_then(|key| key.closed_at);
        let closed_at = if was_of_target { self.closed_at } else { of_key };
        closed_at.is_some_and(|at| now + self.skew - at < RECENT_OUTAGE_AGE + time_delta(60))
    }

    /// Returns the outage reported for this key if the environment still counts it: it stops when the target refuses a
    /// call or is down as a whole.
    fn reported_outage(&self, key: &LedgerKey) -> Option<StatedOutage> {
        let is_of_key = self.refused.is_none() && self.down.shown.is_none() && self.down.ended.is_none();
        self.reported_outages.get(key).copied().filter(|_| is_of_key)
    }

    fn is_down(&self, key: &LedgerKey, since: u64) -> bool {
        let of_key = self.keys.get(key).is_some_and(|key| key.down.was_active_since(since));
        of_key || self.down.was_active_since(since)
    }

    fn record_call(
        &mut self,
        call: CallId,
        mut caller: StartedCall,
        now: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        caller.began = self.next_tick();
        self.called = self.tick;
        let first_outages = self.first_outages.as_ref().and_then(|of| of.get(&caller.key));
        if first_outages.is_some_and(|outages| *outages >= NEW_ENVIRONMENT_OUTAGES) && !caller.is_overdue {
            return Err(format!(
                "its target is down: all {NEW_ENVIRONMENT_OUTAGES} calls failed with outages"
            ));
        }
        let asked = self.retry_after.get(&caller.key).filter(|_| !caller.is_overdue);
        if let Some(RetryAfter { until, .. }) =
            asked.filter(|asked| asked.at < now && now + ROUNDING < asked.until)
        {
            return Err(format!("its target requested no calls before {until}"));
        }
        let mut probed = Ok(());
        if let Some(open) = self.open.get_mut(&caller.key).filter(|_| !caller.is_overdue) {
            caller.is_unconfirmed = caller.failures > 0 && now >= open.believed_until;
            if !caller.is_unconfirmed {
                probed = match open.probing {
                    Some(_) => Err("a probe of its circuit is running".to_owned()),
                    None if now < open.next_probe => {
                        let OpenCircuit { since, next_probe, .. } = open;
                        Err(format!(
                            "its circuit has been open since {since}, and no probe is due until {next_probe}"
                        ))
                    }
                    None => Ok(()),
                };
                open.probing = Some(call);
            }
        }
        self.running.insert(call, caller);
        probed
    }

    fn record_call_end(
        &mut self,
        call: CallId,
        met: CallOutcome,
        after: Option<u64>,
        now: DateTime<Utc>,
    ) -> Option<EndedCall> {
        let caller = self.running.remove(&call)?;
        let ended = self.next_tick();
        self.called = ended;
        for open in self.open.values_mut().filter(|open| open.probing == Some(call)) {
            open.probing = None;
            if !met.is_answer() {
                open.next_probe = open.next_probe.max(now + open.min_probe_interval(now) - ROUNDING);
            }
        }
        let is_regardless =
            caller.is_overdue || (caller.failures > 0 && self.is_down(&caller.key, caller.began));
        let key = self.keys.entry(caller.key.clone()).or_default();
        match met {
            CallOutcome::Answer | CallOutcome::Later(_) => {
                if caller.began > self.changed {
                    key.answered_at = Some(now + self.skew);
                }
                self.retry_after.retain(|of, asked| {
                    caller.began <= asked.tick || !(asked.is_of_target || *of == caller.key)
                });
                self.first_outages = None;
                self.reported_outages.clear();
                self.answered = self.answered.max(caller.began);
                self.run.clear();
                self.down.record_answer(caller.began, ended);
                if caller.began > key.last_outage {
                    key.run = 0;
                }
                key.down.record_answer(caller.began, ended);
                key.answers += u32::from(key.refused.is_some());
            }
            CallOutcome::Fault | CallOutcome::Unavailable | CallOutcome::Refusal => {
                self.first_outage.get_or_insert(now);
                if let Some(asked) = after.map(|after| after.min(DELAY_SECONDS_MAX)) {
                    self.requested_max = self.requested_max.max(asked);
                    let until = now + time_delta(asked);
                    self.requested_until = self.requested_until.max(Some(until));
                    let earlier = self.retry_after.get(&caller.key).map_or(until, |earlier| earlier.until);
                    let is_of_target = self.down.shown.is_some() || self.down.ended.is_some();
                    let asked = RetryAfter { tick: ended, at: now, until: until.max(earlier), is_of_target };
                    self.retry_after.insert(caller.key.clone(), asked);
                }
                if met == CallOutcome::Refusal {
                    key.was_limited = true;
                    if !is_regardless {
                        key.record_refusal(&caller, now);
                    }
                    self.was_limited |= self.refused.as_ref().is_some_and(|other| *other != caller.key);
                    self.refused = Some(caller.key.clone());
                }
                if caller.failures == 0 || met.means_not_now() {
                    self.shown_at = Some(now);
                }
                if caller.failures == 0 {
                    if let Some(outages) = self.first_outages.as_mut().filter(|_| met != CallOutcome::Refusal)
                    {
                        *outages.entry(caller.key.clone()).or_default() += 1;
                    }
                    self.run_max = self.run_max.saturating_add(1);
                    key.run += 1;
                    key.last_outage = ended;
                    if key.run >= OUTAGES_MIN {
                        key.down.record_outage_sign(ended);
                        key.was_limited = true;
                    }
                    *self.run.entry(caller.key.clone()).or_default() += 1;
                    if self.run.len() > 1 && self.run.values().sum::<u32>() >= OUTAGES_ACROSS_KEYS_MIN {
                        self.down.record_outage_sign(ended);
                        self.was_limited = true;
                    }
                }
            }
        }
        self.last_ended = Some((call, caller.clone(), met, after));
        Some(EndedCall { caller, met, ended })
    }

    /// Checks an event that reports that a circuit opened or that its probe failed. The circuit belongs to the key of
    /// the last call or to the target.
    fn record_opening(
        &mut self,
        event: &Event,
        by: Option<u64>,
        now: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        let Some((_, caller, met, after)) = self.last_ended.clone() else {
            return Err("no call has ended".to_owned());
        };
        if met.is_answer() {
            return Err("its call was answered".to_owned());
        }
        if !self.is_down(&caller.key, self.tick) {
            return Err("its calls do not show an outage".to_owned());
        }
        self.first_outages = None;
        self.changed = self.tick;
        let opened = matches!(event, Event::CircuitOpened { .. });
        let (Event::CircuitOpened { probe_in_seconds, .. } | Event::ProbeFailed { probe_in_seconds, .. }) =
            event
        else {
            return Ok(());
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most a quarter of an hour")]
        let probe_in = TimeDelta::milliseconds((probe_in_seconds * 1000.0) as i64);
        let before = self.open.get(&caller.key).cloned();
        // If outages of several keys opened the circuit, a delay requested for one key does not apply to the target.
        let is_of_key = !opened || self.run.len() <= 1;
        let floor = after.filter(|_| is_of_key).map_or(0, |after| after.min(DELAY_SECONDS_MAX));
        let before_it = before.as_ref().filter(|_| !opened);
        let least = before_it
            .map_or(PROBE_DELAY_MIN, |open| open.min_probe_interval(now))
            .max(time_delta(floor) - ROUNDING);
        if probe_in < least {
            return Err(format!("the next probe must not come before {least}"));
        }
        if opened {
            // This might be the target's circuit, whose probes replace the keys' probes.
            self.open.clear();
        }
        let since = before_it.map_or(now, |open| open.since);
        let since_tick = before_it.map_or(self.tick, |open| open.since_tick);
        let failed_probes = before_it.map_or(0, |open| open.failed_probes + 1);
        let confirms = caller.failures == 0 || met.means_not_now();
        let shown = if confirms { now + BELIEF_MIN } else { now };
        let before_until = before.filter(|_| !opened).map_or(now, |open| open.believed_until);
        self.open.insert(
            caller.key,
            OpenCircuit {
                since,
                since_tick,
                by,
                probing: None,
                next_probe: now + probe_in - ROUNDING,
                failed_probes,
                believed_until: shown.max(before_until),
            },
        );
        Ok(())
    }

    fn record_closing(&mut self, now: DateTime<Utc>) -> Result<(), BrokenInvariant> {
        // This might be the target's circuit.
        self.open.clear();
        let Some((_, StartedCall { key, .. }, CallOutcome::Answer | CallOutcome::Later(_), _)) =
            &self.last_ended
        else {
            return Err("its call was not answered".to_owned());
        };
        let closed_at = Some(now + self.skew);
        self.keys.entry(key.clone()).or_default().closed_at = closed_at;
        (self.closed_at, self.changed) = (closed_at, self.tick);
        Ok(())
    }
}

impl RetryMembers {
    /// Returns the number of failed calls that the message records.
    pub(super) fn failed_calls(&self) -> u32 {
        let is_call = |kind: &str| !["Redrive", "NotStarted", "CircuitOpen", "RateLimited"].contains(&kind);
        let calls = self.history.iter().filter(|past| is_call(&past.error_type)).count();
        self.attempt.max(u32::try_from(calls).unwrap_or(u32::MAX))
    }
}

impl Ledger {
    /// Records the start of a process.
    pub fn start_environment(&mut self, environment: u64, skew_ms: i64) {
        if let Some(settings) = self.knobs.breaker_model() {
            let begun = LedgerEnvironment::new(settings, TimeDelta::milliseconds(skew_ms));
            self.environments.insert(environment, begun);
        }
    }

    /// Records the end of a process, whose state is lost.
    pub fn end_environment(&mut self, environment: u64) {
        self.environments.remove(&environment);
    }

    /// Applies the outage reports of arriving messages, and returns the environment's state at the start of an
    /// invocation. Returns `None` without a breaker.
    pub(super) fn apply_outage_reports(
        &mut self,
        environment: u64,
        records: &[ReceivedMessage],
        now: DateTime<Utc>,
    ) -> Option<EnvironmentState> {
        let skew = self.environments.get(&environment)?.skew;
        let reports = records.iter().filter_map(|record| self.outage_report(record, now + skew));
        let reports: Vec<_> = reports.collect();
        let known = self.environments.get_mut(&environment)?;
        let tick = known.next_tick();
        for report in reports {
            known.apply_report(report, now);
        }
        Some(EnvironmentState { environment, at: now, tick })
    }

    /// Returns the outage that an arriving message reports.
    fn outage_report(&self, record: &ReceivedMessage, now: DateTime<Utc>) -> Option<OutageReport> {
        let n = message_number(&record.body).filter(|n| *n < self.subjects.len())?;
        let origin = self.origins.get(&record.sqs_message_id)?;
        // Only reports written by the functions count.
        if origin.sender != DeliverySender::Functions {
            return None;
        }
        let is_fresh = now - origin.sent_at < TimeDelta::seconds(1800);
        if self.expected_outcome(n) != ExpectedOutcome::Handled || origin.came_back || !is_fresh {
            return None;
        }
        let retries = self.subjects[n].copies[QueuePlace::Source as usize][origin.copy].retries.as_ref()?;
        let is_believed = |since: &DateTime<Utc>| retries.held_seconds > 0 && *since <= origin.sent_at;
        let since = retries.held_since.filter(is_believed)?;
        let outage = StatedOutage { since, first_failures: retries.outage_failures };
        Some(OutageReport { key: self.circuit_key(n), outage, sent_at: origin.sent_at })
    }

    fn circuit_key(&self, n: usize) -> LedgerKey {
        let subject = &self.subjects[n];
        match self.knobs.breaker_model()?.per {
            CircuitPartition::Group => subject.produced.content.message_group_id.clone(),
            CircuitPartition::Attribute(name) => Some(subject.attributes.get(name)?.text()?.to_owned()),
            CircuitPartition::Target => None,
        }
    }

    /// Returns the environment that is currently running, if it has a breaker.
    fn current_environment(&self) -> Option<u64> {
        Some(self.invocations.get(&self.current_invocation?)?.environment_state()?.environment)
    }

    /// Checks that the breaker, if any, permits a call to the target. Returns the environment, which needs the outcome
    /// later. `retries` belongs to a copy that might be the one the call is for.
    pub(super) fn check_permission(
        &mut self,
        call: CallId,
        retries: &RetryMembers,
        attempt: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<u64>, BrokenInvariant> {
        let Some(id) = self.current_environment() else { return Ok(None) };
        let key = self.circuit_key(call.0);
        let Some(environment) = self.environments.get_mut(&id) else { return Ok(None) };
        // For a message at its hold limit, the target is called in any state.
        let is_overdue = retries.held_seconds >= environment.settings.hold_seconds_max;
        let failures = retries.failed_calls().max(attempt);
        let caller = StartedCall { key, failures, is_overdue, is_unconfirmed: false, began: 0, at: now };
        environment.record_call(call, caller, now)?;
        Ok(Some(id))
    }

    /// Records the outcome of a call that ended or was cut off.
    pub(super) fn record_outcome(&mut self, call: CallId, is_cut_off: bool, now: DateTime<Utc>) {
        let (n, index) = call;
        let Some(answer) = self.subjects[n].answers.get(index) else { return };
        let met = match answer.kind {
            _ if is_cut_off => self.knobs.policy.call_outcome("transient", "Timeout", None, false),
            kind => self.knobs.policy.call_outcome(kind, answer.error_type, answer.after, answer.unavailable),
        };
        let after = answer.after.filter(|_| !is_cut_off && met == CallOutcome::Refusal);
        let id = answer.environment;
        let Some(environment) = id.and_then(|id| self.environments.get_mut(&id)) else { return };
        let outcome = environment.record_call_end(call, met, after, now);
        let rate = outcome.as_ref().and_then(|outcome| environment.keys.get(&outcome.caller.key));
        let rate = rate.map_or(Ok(()), KeyHistory::check_rate);
        let answer = &mut self.subjects[n].answers[index];
        (answer.outcome, answer.is_cut_off) = (outcome, is_cut_off);
        if let Err(why) = rate {
            self.report_violation(format!("message {n} is refused: {why}"));
        }
    }

    /// Checks that a message may be handed off as held.
    pub(super) fn check_hold(
        &self,
        held: &HeldMessage<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        let (begun, environment) = self.current_environment_and_state().ok_or("without a circuit breaker")?;
        self.check_hold_report(held, now)?;
        let HeldMessage { retries, error_type, call, .. } = *held;
        let key = self.circuit_key(held.n);
        match call.map(|call| call.met) {
            Some(CallOutcome::Answer) => return Err("its call was answered".to_owned()),
            // This is right in any state: at its hold limit, the message is given up for that reason.
            Some(met) if met.means_not_now() => return Ok(()),
            _ => {}
        }
        // An answer ends the delay of one circuit, but might not end the delay of the other.
        let must_wait = call.is_none() && environment.requested_until.is_some_and(|until| begun.at < until);
        let most = environment.settings.hold_seconds_max;
        let is_busy = call.is_none() && error_type == "RateLimited";
        // Messages beyond this range are given up, which the oracle checks.
        if (most..most + DELAY_SECONDS_MAX).contains(&retries.held_seconds) && !must_wait && !is_busy {
            let before = retries.held_seconds;
            return Err(format!("it had already been held for {before} s, which is its limit"));
        }
        let failures = retries.failed_calls().max(held.attempt);
        if call.is_some() && failures == 0 && environment.was_down_recently(&key, now) {
            return Ok(());
        }
        if call.is_none() && error_type == "RateLimited" {
            let was_limited = environment.keys.get(&key).is_some_and(|key| key.was_limited);
            let why = "no call of its key or of several keys was refused";
            return if was_limited || environment.was_limited { Ok(()) } else { Err(why.to_owned()) };
        }
        if !environment.is_down(&key, begun.tick) {
            return Err(format!("no calls of its environment show that {key:?} is down"));
        }
        if failures > 0 && environment.shown_at.is_none_or(|at| begun.at - at > BELIEF_MAX) {
            let at = environment.shown_at;
            return Err(format!("it failed before, and the last outage of a new message was at {at:?}"));
        }
        match self.healed_at {
            Some(at) if now > at + REPROBE_INTERVAL_MAX && self.knobs.target.always_transient <= 0.0 => {
                Err(format!("the target has been back since {at} at the latest"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the delay that a hand-off requests and the outage that it reports.
    fn check_hold_report(&self, held: &HeldMessage<'_>, now: DateTime<Utc>) -> Result<(), BrokenInvariant> {
        let Some(HoldReport { seconds, outage, is_whole }) = held.report else { return Ok(()) };
        let (least, most) = self.hold_seconds_range(held, now);
        if seconds.is_some_and(|seconds| !(least..=most).contains(&seconds)) {
            return Err(format!("it requests a hold of {seconds:?} s, which must be in {least}..={most}"));
        }
        if held.call.is_some_and(|call| call.met.is_answer()) {
            return Ok(());
        }
        match outage {
            Some(outage) => self.check_outage_is_known(held.n, outage, now),
            None if is_whole => Err("it has no held_since".to_owned()),
            None => Ok(()),
        }
    }

    /// Checks that the stated outage agrees with the environment's observations.
    pub(super) fn check_outage_is_known(
        &self,
        n: usize,
        outage: StatedOutage,
        now: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        let Some((begun, environment)) = self.current_environment_and_state() else { return Ok(()) };
        let StatedOutage { since, first_failures } = outage;
        let key = self.circuit_key(n);
        let open = environment.open.get(&key).filter(|open| open.since_tick < begun.tick);
        let heard = environment.reported_outage(&key);
        // The message must report the start of the outage, not its own first failure.
        let latest = open.map_or(now, |open| open.since) + environment.skew + ROUNDING;
        let latest = heard.map_or(latest, |heard| heard.since.min(latest));
        // A report can come from a process with another clock.
        let earliest = environment.first_outage.unwrap_or(now) - self.clock_skew() - ROUNDING;
        if !(earliest..=latest).contains(&since) {
            return Err(format!("its outage began at {since}, but must have begun in {earliest}..={latest}"));
        }
        let least = heard.map_or(0, |heard| heard.first_failures).max(u32::from(open.is_some()));
        let most = environment.run_max;
        if (least..=most).contains(&first_failures) {
            return Ok(());
        }
        Err(format!("{first_failures} first calls failed in its outage, but must be in {least}..={most}"))
    }

    /// Returns the shortest and the longest hold in seconds, derived from the total time that the message has been
    /// held. If the target was called for the message, the number of its failures limits the hold as well.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a quarter of an hour"
    )]
    #[expect(clippy::cast_precision_loss, reason = "at most two weeks")]
    pub(super) fn hold_seconds_range(&self, held: &HeldMessage<'_>, now: DateTime<Utc>) -> (u64, u64) {
        let Some((begun, environment)) = self.current_environment_and_state() else {
            return (1, DELAY_SECONDS_MAX);
        };
        let HeldMessage { retries, error_type, call, .. } = *held;
        let failures = retries.failed_calls().max(held.attempt);
        let held_before = retries.held_seconds as f64;
        let by_age = (2.0 + held_before).min(15.0 + 0.35 * held_before);
        let by_failures = 2.0 * 3_f64.powi(i32::try_from(failures.min(10)).unwrap_or(10));
        // The seconds past the hold limit. Without a call, a message past this limit waits only for a `Retry-After` or
        // the rate limit.
        let over = retries.held_seconds.checked_sub(environment.settings.hold_seconds_max);
        let own = match call {
            Some(_) => by_age.min(by_failures),
            None if over.is_some() => 1.0,
            None => by_age,
        }
        .min(HOLD_SECONDS_MAX);
        // Under a rate limit, the hold depends on the time since the first outage.
        let first = environment.first_outage.unwrap_or(now);
        // The breaker's clock has a resolution of hundredths of a second, and holds are rounded up.
        let age = (now + environment.skew - first + self.clock_skew() + ROUNDING).num_milliseconds().max(0)
            as f64
            / 1000.0;
        let by_rate = (0.04 * age).clamp(1.0, HOLD_SECONDS_MAX);
        let is_limited = call.is_none() && error_type == "RateLimited";
        let least = if is_limited { 1 } else { (own - 0.01) as u64 }.max(1);
        let most = match call {
            None if is_limited => by_rate,
            None => own,
            Some(_) => own.max(by_rate),
        };
        let tick = call.map_or(begun.tick, |call| call.ended);
        let asked = environment.remaining_retry_after(&self.circuit_key(held.n), tick, now);
        let requested_max = (environment.requested_max * 11).div_ceil(10) + 1;
        let most = (most.ceil() as u64).max(requested_max * u64::from(environment.requested_max > 0));
        match call.map(|call| call.met) {
            Some(CallOutcome::Later(after)) => {
                let least = (own as u64).max(after).min(DELAY_SECONDS_MAX);
                (least, (least + 1).min(DELAY_SECONDS_MAX))
            }
            Some(_) => (least.max(asked), most.min(DELAY_SECONDS_MAX)),
            // At its hold limit, a message waits for at most 900 s more, and then the target is called for it.
            None => {
                let grace =
                    over.map_or(DELAY_SECONDS_MAX, |over| DELAY_SECONDS_MAX.saturating_sub(over).max(1));
                (least.max(asked).min(grace), most.min(DELAY_SECONDS_MAX))
            }
        }
    }

    /// Returns the environment of the current invocation, and its state at the start of the invocation.
    fn current_environment_and_state(&self) -> Option<(EnvironmentState, &LedgerEnvironment)> {
        let begun = self.current_invocation.and_then(|id| self.invocations.get(&id)?.environment_state())?;
        Some((begun, self.environments.get(&begun.environment)?))
    }

    /// Returns true if a call with this error spends no attempt: there is a breaker, and the error means "not now".
    pub(super) fn means_not_now(&self, answer: &CallResponse) -> bool {
        let CallResponse { kind, error_type, after, unavailable, .. } = *answer;
        self.knobs.breaker_model().is_some()
            && self.knobs.policy.call_outcome(kind, error_type, after, unavailable).means_not_now()
    }

    /// Returns true if a call that was cut off spends no attempt.
    pub(super) fn cut_off_means_not_now(&self) -> bool {
        let met = self.knobs.policy.call_outcome("transient", "Timeout", None, false);
        self.knobs.breaker_model().is_some() && met.means_not_now()
    }

    /// Returns the shortest hold after this call: the remaining seconds of a `Retry-After`, unless a later call was
    /// answered.
    pub(super) fn shortest_hold(
        &self,
        EndedCall { caller, ended, .. }: &EndedCall,
        now: DateTime<Utc>,
    ) -> u64 {
        self.current_environment_and_state()
            .map_or(0, |(_, environment)| environment.remaining_retry_after(&caller.key, *ended, now))
    }

    /// Checks that a failed call in this invocation, the last one for its message, may spend an attempt.
    pub(super) fn check_may_spend_attempt(&self, call: &EndedCall) -> Result<(), BrokenInvariant> {
        let Some((begun, environment)) = self.current_environment_and_state() else { return Ok(()) };
        let EndedCall { caller: StartedCall { key, failures, is_overdue, is_unconfirmed, .. }, met, .. } =
            call;
        if met.is_answer() || *is_overdue || *is_unconfirmed {
            return Ok(());
        }
        // A call for a message that failed before does not confirm an outage, so it may spend an attempt if this
        // invocation opened the circuit.
        let is_open = |open: &OpenCircuit| {
            open.since_tick < begun.tick || (open.by == self.current_invocation && *failures == 0)
        };
        match environment.open.get(key).is_some_and(is_open) {
            true => Err("its circuit is open, but its call spends an attempt".to_owned()),
            false => Ok(()),
        }
    }

    /// Checks a report that a message was not started for lack of time: one of the environment's calls must be running
    /// or have ended since the invocation began, because a circuit makes messages wait only for running calls.
    pub(super) fn check_not_started(&self) -> Result<(), BrokenInvariant> {
        let begun = self.current_invocation.and_then(|id| self.invocations.get(&id)?.environment_state());
        let Some(begun) = begun else { return Ok(()) };
        let environment = self.environments.get(&begun.environment);
        let has_called = environment
            .is_none_or(|environment| !environment.running.is_empty() || environment.called > begun.tick);
        if has_called { Ok(()) } else { Err("it was not started although no call was running".to_owned()) }
    }

    /// Checks a function's event about its breaker.
    pub(super) fn check_circuit(&mut self, event: &Event, now: DateTime<Utc>) -> Result<(), BrokenInvariant> {
        let current = self.current_invocation;
        let id = self.current_environment();
        let Some(environment) = id.and_then(|id| self.environments.get_mut(&id)) else { return Ok(()) };
        match event {
            Event::CircuitOpened { .. } | Event::ProbeFailed { .. } => {
                environment.record_opening(event, current, now)
            }
            Event::CircuitClosed { .. } => environment.record_closing(now),
            _ => Ok(()),
        }
    }
}
