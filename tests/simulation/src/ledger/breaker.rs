//! A model of each environment's circuit breaker, by its documentation: built only from the observed calls and their
//! outcomes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};
use redeliver_core::events::Event;
use redeliver_core::message::ReceivedMessage;

use super::{Ledger, Place, Sender, Violation};
use crate::messages::{Expected, number};
use crate::policy::{BreakerModel, Class};

/// A message's number, and the call's number among the message's calls.
pub type CallId = (usize, usize);

/// Only the newest calls of the window count, this many times `minimum_calls`.
const NEWEST_CALLS: usize = 5;
/// The level that ends a slow start.
const LEVEL_MAX: usize = 32;

/// One function environment.
pub(crate) struct Environment {
    settings: BreakerModel,
    /// The error of its clock.
    skew: TimeDelta,
    state: State,
    epoch: u64,
    /// Time of its last closing, and the interval that would have followed one more probe.
    closed_before: Option<(DateTime<Utc>, TimeDelta)>,
    /// The last time when it was open, if it is not.
    was_open: Option<DateTime<Utc>>,
    /// Running calls, and the state in which they began.
    running: HashMap<CallId, (u64, Why)>,
    /// All of them, also those that bypass the breaker.
    calls: u64,
}

/// The reason for a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Allowed,
    /// Its message has reached its hold limit: the call bypasses the breaker.
    Overdue,
}

enum State {
    Closed(VecDeque<Ended>),
    /// One probe, at `early` at the earliest and at `late` at the latest.
    Open {
        early: DateTime<Utc>,
        late: DateTime<Utc>,
        next: TimeDelta,
        is_probing: bool,
    },
    SlowStart {
        level: usize,
        running: usize,
        /// Calls and outages of this level.
        of_level: (usize, usize),
        ended: VecDeque<Ended>,
    },
}

/// A call that has ended.
struct Ended {
    at: DateTime<Utc>,
    tenant: Option<String>,
    outage: bool,
}

/// The state at the start of an invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    environment: u64,
    at: DateTime<Utc>,
    /// The first message that asks becomes the next probe.
    probe_is_due: bool,
    calls: u64,
}

impl Environment {
    fn new(settings: BreakerModel, skew: TimeDelta) -> Self {
        Self {
            settings,
            skew,
            state: State::Closed(VecDeque::new()),
            epoch: 0,
            closed_before: None,
            was_open: None,
            running: HashMap::new(),
            calls: 0,
        }
    }

    /// Messages report that the target is down. The report counts if nothing else is known, and if it was sent after
    /// the target was found to be back.
    fn hears(&mut self, down_since: DateTime<Utc>, reported_at: DateTime<Utc>, now: DateTime<Utc>) {
        if self.closed_before.is_some_and(|(at, _)| reported_at <= at + self.skew) {
            return;
        }
        let window = super::seconds(self.settings.window_seconds);
        let State::Closed(ended) = &self.state else { return };
        if ended.back().is_none_or(|call| now - call.at >= window) {
            let next = (now + self.skew - down_since).clamp(self.interval(), self.interval_max());
            self.state = State::Open { early: now, late: now, next, is_probing: false };
            self.epoch += 1;
        }
    }

    fn interval(&self) -> TimeDelta {
        super::seconds(self.settings.probe_interval_seconds)
    }

    fn interval_max(&self) -> TimeDelta {
        super::seconds(self.settings.probe_interval_seconds_max)
    }

    fn called(&mut self, call: CallId, now: DateTime<Utc>) -> Result<(), Violation> {
        match &mut self.state {
            State::Closed(_) => {}
            State::Open { is_probing: true, .. } => return Err("a probe is under way".to_owned()),
            State::Open { early, .. } if now < *early => {
                return Err(format!("its target is down, and is not called before {early}"));
            }
            State::Open { is_probing, .. } => *is_probing = true,
            State::SlowStart { level, running, .. } if *running >= *level => {
                return Err(format!("its target is back, and has {level} calls at once already"));
            }
            State::SlowStart { running, .. } => *running += 1,
        }
        self.running.insert(call, (self.epoch, Why::Allowed));
        Ok(())
    }

    /// A call that bypasses the breaker.
    fn called_overdue(&mut self, call: CallId) {
        self.running.insert(call, (self.epoch, Why::Overdue));
    }

    /// Returns true if it was a failed probe.
    fn ended(&mut self, call: CallId, ended: Ended) -> bool {
        // It began before the target went down, or before it came back.
        let Some((_, why)) = self.running.remove(&call).filter(|(epoch, _)| *epoch == self.epoch) else {
            return false;
        };
        let (now, outage) = (ended.at, ended.outage);
        let rate = self.settings.failure_rate;
        let interval_max = self.interval_max();
        match &mut self.state {
            State::Closed(calls) => {
                if add(calls, ended, &self.settings) {
                    self.opens(now);
                }
            }
            State::SlowStart { level, running, of_level, ended: calls } => {
                *running -= usize::from(why == Why::Allowed);
                if add(calls, ended, &self.settings) {
                    self.opens(now);
                    return false;
                }
                if why == Why::Overdue {
                    return false;
                }
                *of_level = (of_level.0 + 1, of_level.1 + usize::from(outage));
                if of_level.0 < *level {
                    return false;
                }
                // A level that met an outage is repeated.
                *level *= if share(of_level.1, of_level.0) < rate { 2 } else { 1 };
                *of_level = (0, 0);
                if *level > LEVEL_MAX {
                    self.state = State::Closed(std::mem::take(calls));
                    self.epoch += 1;
                }
            }
            // It was not a probe, and brings no news.
            State::Open { .. } if outage && why == Why::Overdue => {}
            State::Open { early, late, next, is_probing } if outage => {
                (*early, *late) = (now + shortest(*next), now + *next);
                *next = (*next * 2).min(interval_max);
                *is_probing = false;
                return true;
            }
            State::Open { next, .. } => {
                self.closed_before = Some((now, *next));
                self.was_open = Some(now);
                let ended = VecDeque::new();
                self.state = State::SlowStart { level: 2, running: 0, of_level: (0, 0), ended };
                self.epoch += 1;
            }
        }
        false
    }

    fn opens(&mut self, now: DateTime<Utc>) {
        // A flapping target keeps its long intervals.
        let flaps = self.closed_before.filter(|(at, _)| now - *at < self.interval_max());
        let interval = flaps.map_or(self.interval(), |(_, next)| next);
        let next = (interval * 2).min(self.interval_max());
        self.state =
            State::Open { early: now + shortest(interval), late: now + interval, next, is_probing: false };
        self.epoch += 1;
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    fn probe_is_due(&self, now: DateTime<Utc>) -> bool {
        matches!(self.state, State::Open { late, is_probing: false, .. } if now >= late)
    }
}

/// Three quarters of an interval.
fn shortest(interval: TimeDelta) -> TimeDelta {
    let longest = interval.num_milliseconds();
    TimeDelta::milliseconds(longest - longest / 4)
}

#[expect(clippy::cast_precision_loss, reason = "a thousand at most")]
fn share(outages: usize, calls: usize) -> f64 {
    outages as f64 / calls as f64
}

/// Adds a call; returns true if the calls show an outage. Calls count while in the window, and outages until an answer
/// follows.
fn add(calls: &mut VecDeque<Ended>, call: Ended, settings: &BreakerModel) -> bool {
    let (now, outage) = (call.at, call.outage);
    let window = super::seconds(settings.window_seconds);
    let minimum = settings.minimum_calls as usize;
    calls.push_back(call);
    let unanswered = calls.iter().rposition(|call| !call.outage).map_or(0, |answer| answer + 1);
    let recent = calls.iter().position(|call| now - call.at < window).unwrap_or(unanswered);
    calls.drain(..recent.min(unanswered).max(calls.len().saturating_sub(NEWEST_CALLS * minimum)));
    outage && calls.len() >= minimum && show_an_outage(calls, settings.failure_rate)
}

/// True if the share is reached by all calls, and by those without the tenant with the most outages (of two such, the
/// one with fewer calls).
fn show_an_outage(calls: &VecDeque<Ended>, rate: f64) -> bool {
    let outages = calls.iter().filter(|call| call.outage).count();
    if share(outages, calls.len()) < rate {
        return false;
    }
    let mut tenants: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for Ended { tenant, outage, .. } in calls {
        if let Some(tenant) = tenant {
            let (calls, outages) = tenants.entry(tenant).or_default();
            *calls += 1;
            *outages += usize::from(*outage);
        }
    }
    let worst = tenants.into_values().max_by_key(|(calls, outages)| (*outages, std::cmp::Reverse(*calls)));
    let (calls_of_worst, outages_of_worst) = worst.unwrap_or_default();
    let of_others = calls.len() - calls_of_worst;
    of_others == 0 || share(outages - outages_of_worst, of_others) >= rate
}

impl Ledger {
    /// A process begins.
    pub fn started(&mut self, environment: u64, skew_ms: i64) {
        if let Some(settings) = self.knobs.breaker() {
            let begun = Environment::new(settings, TimeDelta::milliseconds(skew_ms));
            self.environments.insert(environment, begun);
        }
    }

    /// A process ends, and its state is lost.
    pub fn ended(&mut self, environment: u64) {
        self.environments.remove(&environment);
    }

    /// An environment's knowledge at the start of an invocation.
    pub(super) fn begun(
        &mut self,
        environment: u64,
        records: &[ReceivedMessage],
        now: DateTime<Utc>,
    ) -> Option<Begun> {
        let skew = self.environments.get(&environment)?.skew;
        let reports = records.iter().filter_map(|record| self.held_moments_ago(record, now + skew));
        let reports: Vec<_> = reports.collect();
        let down_since = reports.iter().map(|(since, _)| *since).min();
        let reported_at = reports.iter().map(|(_, at)| *at).max();
        let known = self.environments.get_mut(&environment)?;
        if let Some((since, reported_at)) = down_since.zip(reported_at) {
            known.hears(since, reported_at, now);
        }
        Some(Begun { environment, at: now, probe_is_due: known.probe_is_due(now), calls: known.calls })
    }

    /// The start of the outage that an arriving message reports, and the time of the report.
    fn held_moments_ago(
        &self,
        record: &ReceivedMessage,
        now: DateTime<Utc>,
    ) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let n = number(&record.body).filter(|n| *n < self.subjects.len())?;
        let origin = self.origins.get(&record.sqs_message_id)?;
        // Only the functions' reports count.
        if origin.sender != Sender::Functions {
            return None;
        }
        let is_fresh = now - origin.sent_at < TimeDelta::seconds(1800);
        if self.expected(n) != Expected::Handled || origin.came_back || !is_fresh {
            return None;
        }
        let retries = self.subjects[n].copies[Place::Source as usize][origin.copy].retries.as_ref()?;
        let is_believed = |since: &DateTime<Utc>| retries.held_seconds > 0 && *since <= origin.sent_at;
        let since = retries.held_since.filter(is_believed)?;
        Some((since, origin.sent_at))
    }

    /// The environment that is running now, if it has a breaker.
    fn environment(&self) -> Option<u64> {
        Some(self.invocations.get(&self.turn?)?.begun()?.environment)
    }

    /// Checks that the breaker, if there is one, permits a call of the target. Returns the environment, which needs the
    /// outcome later.
    pub(super) fn asked(
        &mut self,
        call: CallId,
        held_seconds: u64,
        now: DateTime<Utc>,
    ) -> Result<Option<u64>, Violation> {
        let Some(id) = self.environment() else { return Ok(None) };
        let Some(environment) = self.environments.get_mut(&id) else { return Ok(None) };
        environment.calls += 1;
        // A message at its hold limit is called in any state.
        if held_seconds < environment.settings.hold_seconds_max {
            environment.called(call, now)?;
        } else {
            environment.called_overdue(call);
        }
        Ok(Some(id))
    }

    /// Records the outcome of a call, or that it was cut off.
    pub(super) fn met(&mut self, call: CallId, is_cut_off: bool, now: DateTime<Utc>) {
        let (n, index) = call;
        let subject = &self.subjects[n];
        let Some(answer) = subject.answers.get(index) else { return };
        let (kind, error_type) = match answer.kind {
            _ if is_cut_off => ("transient", "Timeout"),
            kind => (kind, answer.error_type),
        };
        let id = answer.environment;
        let Some(environment) = id.and_then(|id| self.environments.get_mut(&id)) else { return };
        let is_transient = !kind.is_empty() && self.knobs.policy.class(kind, error_type) == Class::Transient;
        let is_listed = environment.settings.opens_on(error_type);
        let outage = is_transient && (is_listed || (answer.unavailable && !is_cut_off));
        let tenant = subject.produced.content.message_group_id.clone();
        let is_failed_probe = environment.ended(call, Ended { at: now, tenant, outage });
        self.subjects[n].answers[index].is_failed_probe = is_failed_probe;
    }

    /// A message is handed off as held.
    pub(super) fn check_held(&self, held_seconds: u64, now: DateTime<Utc>) -> Result<(), Violation> {
        let begun = self.turn.and_then(|turn| self.invocations.get(&turn)?.begun());
        let begun = begun.ok_or("without a circuit breaker")?;
        let environment = self.environments.get(&begun.environment).ok_or("by nobody")?;
        let was_open = environment.was_open.is_some_and(|at| at >= begun.at);
        if !environment.is_open() && !was_open {
            return Err("no calls that its environment made show an outage".to_owned());
        }
        if begun.probe_is_due && environment.calls == begun.calls {
            return Err("nobody has asked whether the target is back, and it is time to".to_owned());
        }
        // It was not started before the end.
        let seconds = self.knobs.invocation_seconds;
        let is_over = now - begun.at >= super::seconds(seconds - 5);
        if held_seconds >= environment.settings.hold_seconds_max && !is_over {
            return Err(format!("it was held for {held_seconds} s before, which is as long as it may be"));
        }
        let longest = super::seconds(environment.settings.probe_interval_seconds_max + seconds + 1);
        match self.healed_at {
            Some(at) if now > at + longest && self.knobs.target.always_transient <= 0.0 => {
                Err(format!("the target has been back since {at} at the latest"))
            }
            _ => Ok(()),
        }
    }

    /// Checks a function's event about its breaker.
    pub(super) fn check_circuit(&self, event: &Event) -> Result<(), Violation> {
        let Some(environment) = self.environment().and_then(|id| self.environments.get(&id)) else {
            return Ok(());
        };
        let is_so = match event {
            Event::CircuitOpened { .. } | Event::ProbeFailed { .. } => environment.is_open(),
            Event::CircuitClosed { .. } => matches!(environment.state, State::SlowStart { .. }),
            _ => true,
        };
        if is_so { Ok(()) } else { Err("its calls do not show that".to_owned()) }
    }
}
