//! The promises of each environment's circuit breaker, judged by the observed calls, outcomes and events: it holds only
//! messages whose key met trouble, and calls a target that is down only to ask whether it is back.
//!
//! The ledger does not know when a circuit opens. It counts what may open one, and takes an event's word for what has:
//! both only ever excuse too much.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use redeliver_core::events::Event;
use redeliver_core::message::ReceivedMessage;

use super::body::Retries;
use super::{Ledger, Place, Sender, Violation, seconds};
use crate::messages::{Expected, number};
use crate::policy::{BreakerModel, Class, DELAY_SECONDS_MAX, Per, TOO_MANY};

/// A message's number, and the call's number among the message's calls.
pub type CallId = (usize, usize);

/// The key of a message's circuit.
type Key = Option<String>;

/// No key is held after fewer outages of its own in a row.
const OUTAGES_MIN: u32 = 3;
/// The number of outages, in all, with which several keys show an outage of the target.
const OUTAGES_OF_KEYS_MIN: u32 = 3;
/// A new environment's circuit opens after this many outages of one key's messages that never failed.
const OUTAGES_OF_NEW: u32 = 10;
/// A message that failed before is no longer held when the last outage of a message that did not is older than this.
const BELIEVED: TimeDelta = TimeDelta::seconds(2000);
/// It is held for at least this long after such an outage.
const BELIEVED_MIN: TimeDelta = TimeDelta::seconds(299);
/// The longest time until an environment asks a key's target once more, with its first message.
const PROBED_AGAIN: TimeDelta = TimeDelta::seconds(1800);
/// So many refused calls of a message spend no attempt.
const FREE_REFUSALS: u32 = 3;
/// Calls that begin within this time after a refusal say nothing more about the rate.
const ONE_REFUSAL: TimeDelta = TimeDelta::milliseconds(1100);
/// Refusals until the rate is near what the target takes, and the seconds between two refusals at the lowest rate.
const REFUSALS_FIRST: i64 = 20;
const SECONDS_PER_REFUSAL: i64 = 7;
/// The breaker counts time in hundredths of a second.
const ROUNDING: TimeDelta = TimeDelta::milliseconds(20);

/// One function environment.
pub(crate) struct Environment {
    settings: BreakerModel,
    /// The error of its clock.
    skew: TimeDelta,
    /// Number of the last beginning or end of a call or an invocation.
    tick: u64,
    running: HashMap<CallId, Caller>,
    keys: BTreeMap<Key, KeyHistory>,
    /// First-time outages since the last answer of any key.
    run: BTreeMap<Key, u32>,
    /// Outages of messages that never failed, by key, until the first answer, opening or report.
    first_outages: Option<BTreeMap<Key, u32>>,
    /// All keys may be held.
    down: Cause,
    /// The key that was last refused, and when.
    refused: Option<Key>,
    /// Several keys were refused one after the other, or the target was down: any key's rate may be limited.
    was_limited: bool,
    /// The last first-time outage, or a report of one.
    shown_at: Option<DateTime<Utc>>,
    /// The last beginning or end of a call.
    called: u64,
    /// The last beginning of a call that was answered.
    answered: u64,
    /// The first outage or report of one.
    first_outage: Option<DateTime<Utc>>,
    /// A call asked for a delay.
    has_asked: bool,
    last_ended: Option<(CallId, Caller, Met, Option<u64>)>,
    /// Keys whose circuit is open, or the target's, for certain.
    open: BTreeMap<Key, Open>,
}

/// A call's message.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    key: Key,
    /// Calls for it that failed.
    failures: u32,
    /// It has reached its hold limit, and is called in any state.
    is_overdue: bool,
    /// It failed before, and perhaps nothing confirmed the outage any longer when it was called.
    is_unconfirmed: bool,
    /// The environment's tick.
    began: u64,
    at: DateTime<Utc>,
}

/// A message's own part in [`Ledger::check_held`].
pub(super) struct Held<'a> {
    pub(super) n: usize,
    /// The retries of the delivery, in its generation.
    pub(super) retries: &'a Retries,
    /// `retry_attempt`, or what the queue has counted.
    pub(super) attempt: u32,
    pub(super) error_type: &'a str,
    /// The call that met the outage; without one it was not called.
    pub(super) call: Option<&'a Outcome>,
    /// The delay that it asks for, if it is known.
    pub(super) seconds: Option<u64>,
}

/// The outcome of a call, as far as the target's health is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    Answer,
    Outage,
    /// The target takes no more calls now.
    Refusal,
}

/// An ended call of an environment with a breaker.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(super) caller: Caller,
    pub(super) met: Met,
    after: Option<u64>,
    ended: u64,
    at: DateTime<Utc>,
}

/// A held message's report that the target has been down.
struct Report {
    key: Key,
    since: DateTime<Utc>,
    sent_at: DateTime<Utc>,
}

#[derive(Default)]
struct KeyHistory {
    /// First-time outages since the last answer.
    run: u32,
    last_outage: u64,
    down: Cause,
    /// It was refused, or down: its rate may be limited.
    was_limited: bool,
    /// Its circuit, or the target's, was closed by a call of this key, by the environment's clock.
    closed_at: Option<DateTime<Utc>>,
    /// Answers, since the first refusal.
    answers: u32,
    /// Refusals that show that the rate is too high.
    refusals: u32,
    /// The first and the last one.
    refused: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

/// The reason for which a circuit may have opened.
#[derive(Clone, Copy, Default)]
struct Cause {
    shown: Option<u64>,
    /// An answer has refuted it.
    ended: Option<u64>,
}

/// An open circuit.
#[derive(Clone)]
struct Open {
    since: DateTime<Utc>,
    since_tick: u64,
    /// The invocation whose call has opened it.
    by: Option<u64>,
    probing: Option<CallId>,
    next_probe: DateTime<Utc>,
    /// Until then messages that failed before are held, too.
    believed_until: DateTime<Utc>,
}

/// The state at the start of an invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    environment: u64,
    at: DateTime<Utc>,
    tick: u64,
}

impl KeyHistory {
    /// Calls that began before the last refusal are refused with it.
    fn refused(&mut self, caller: &Caller, now: DateTime<Utc>) {
        let (first, last) = self.refused.unwrap_or((now, now - ONE_REFUSAL));
        if caller.at >= last + ONE_REFUSAL {
            self.refusals += 1;
            self.refused = Some((first, now));
        }
    }

    /// Checks that refusals have lowered the rate: in the end nearly all calls are answered.
    fn check_rate(&self) -> Result<(), Violation> {
        let Self { refusals, answers, refused: Some((first, last)), .. } = *self else { return Ok(()) };
        let probes = (last - first).num_seconds() / SECONDS_PER_REFUSAL;
        if i64::from(refusals) <= REFUSALS_FIRST + i64::from(answers) + probes {
            return Ok(());
        }
        Err(format!("{refusals} of its calls were refused since {first}, and {answers} answered"))
    }
}

impl Cause {
    fn shows(&mut self, tick: u64) {
        self.shown = Some(tick);
    }

    /// A call that began later was answered.
    fn answered(&mut self, began: u64, now: u64) {
        if self.shown.is_some_and(|shown| began > shown) {
            (self.shown, self.ended) = (None, Some(now));
        }
    }

    fn was_there_since(self, tick: u64) -> bool {
        self.shown.is_some() || self.ended.is_some_and(|ended| ended >= tick)
    }
}

impl Environment {
    fn new(settings: BreakerModel, skew: TimeDelta) -> Self {
        Self {
            settings,
            skew,
            tick: 0,
            running: HashMap::new(),
            keys: BTreeMap::new(),
            run: BTreeMap::new(),
            first_outages: Some(BTreeMap::new()),
            down: Cause::default(),
            refused: None,
            was_limited: false,
            shown_at: None,
            first_outage: None,
            has_asked: false,
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

    /// A message that was held, and never failed, reports an outage.
    fn hears(&mut self, Report { key, since, sent_at }: Report, now: DateTime<Utc>) {
        let closed_at = self.keys.get(&key).and_then(|key| key.closed_at);
        // The target was found back since.
        if closed_at.is_some_and(|at| sent_at < at - ROUNDING) {
            return;
        }
        self.first_outage = Some(self.first_outage.map_or(since, |first| first.min(since)));
        self.first_outages = None;
        let tick = self.tick;
        let key = self.keys.entry(key).or_default();
        key.down.shows(tick);
        key.was_limited = true;
        self.shown_at = Some(now);
    }

    fn is_down(&self, key: &Key, since: u64) -> bool {
        let of_key = self.keys.get(key).is_some_and(|key| key.down.was_there_since(since));
        of_key || self.down.was_there_since(since)
    }

    fn called(&mut self, call: CallId, mut caller: Caller, now: DateTime<Utc>) -> Result<(), Violation> {
        caller.began = self.next_tick();
        self.called = self.tick;
        let first_outages = self.first_outages.as_ref().and_then(|of| of.get(&caller.key));
        if first_outages.is_some_and(|outages| *outages >= OUTAGES_OF_NEW) && !caller.is_overdue {
            return Err(format!("its target is down: {OUTAGES_OF_NEW} calls met nothing but outages"));
        }
        let mut probed = Ok(());
        if let Some(open) = self.open.get_mut(&caller.key).filter(|_| !caller.is_overdue) {
            caller.is_unconfirmed = caller.failures > 0 && now >= open.believed_until;
            if !caller.is_unconfirmed {
                probed = match open.probing {
                    Some(_) => Err("a probe of its circuit is under way".to_owned()),
                    None if now < open.next_probe => {
                        let Open { since, next_probe, .. } = open;
                        Err(format!(
                            "its circuit is open since {since}, and no probe is due until {next_probe}"
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

    fn ended(&mut self, call: CallId, met: Met, after: Option<u64>, now: DateTime<Utc>) -> Option<Outcome> {
        let caller = self.running.remove(&call)?;
        let ended = self.next_tick();
        self.called = ended;
        for open in self.open.values_mut().filter(|open| open.probing == Some(call)) {
            open.probing = None;
        }
        let is_regardless =
            caller.is_overdue || (caller.failures > 0 && self.is_down(&caller.key, caller.began));
        let key = self.keys.entry(caller.key.clone()).or_default();
        match met {
            Met::Answer => {
                self.first_outages = None;
                self.answered = self.answered.max(caller.began);
                self.run.clear();
                self.down.answered(caller.began, ended);
                if caller.began > key.last_outage {
                    key.run = 0;
                }
                key.down.answered(caller.began, ended);
                key.answers += u32::from(key.refused.is_some());
            }
            Met::Outage | Met::Refusal => {
                self.first_outage.get_or_insert(now);
                self.has_asked |= after.is_some();
                if met == Met::Refusal {
                    key.was_limited = true;
                    if !is_regardless {
                        key.refused(&caller, now);
                    }
                    self.was_limited |= self.refused.as_ref().is_some_and(|other| *other != caller.key);
                    self.refused = Some(caller.key.clone());
                }
                if caller.failures == 0 {
                    if let Some(outages) = self.first_outages.as_mut().filter(|_| met == Met::Outage) {
                        *outages.entry(caller.key.clone()).or_default() += 1;
                    }
                    self.shown_at = Some(now);
                    key.run += 1;
                    key.last_outage = ended;
                    if key.run >= OUTAGES_MIN {
                        key.down.shows(ended);
                        key.was_limited = true;
                    }
                    *self.run.entry(caller.key.clone()).or_default() += 1;
                    if self.run.len() > 1 && self.run.values().sum::<u32>() >= OUTAGES_OF_KEYS_MIN {
                        self.down.shows(ended);
                        self.was_limited = true;
                    }
                }
            }
        }
        self.last_ended = Some((call, caller.clone(), met, after));
        Some(Outcome { caller, met, after, ended, at: now })
    }

    /// A circuit has opened, or its probe has failed: that of the last call's key, or the target's.
    fn is_open(&mut self, event: &Event, by: Option<u64>, now: DateTime<Utc>) -> Result<(), Violation> {
        let Some((_, caller, met, after)) = self.last_ended.clone() else {
            return Err("no call has ended".to_owned());
        };
        if met == Met::Answer {
            return Err("its call was answered".to_owned());
        }
        if !self.is_down(&caller.key, self.tick) {
            return Err("its calls do not show an outage".to_owned());
        }
        self.first_outages = None;
        let opened = matches!(event, Event::CircuitOpened { .. });
        let (Event::CircuitOpened { probe_in_seconds, .. } | Event::ProbeFailed { probe_in_seconds, .. }) =
            event
        else {
            return Ok(());
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most a quarter of an hour")]
        let probe_in = TimeDelta::milliseconds((probe_in_seconds * 1000.0) as i64);
        let before = self.open.get(&caller.key).cloned();
        // If outages of several keys have opened it, what one key asked for is not the target's.
        let is_of_key = !opened || self.run.len() <= 1;
        let floor = after.filter(|_| is_of_key).map_or(0, |after| after.min(DELAY_SECONDS_MAX));
        let age = before.as_ref().filter(|_| !opened).map_or(TimeDelta::zero(), |open| now - open.since);
        let least =
            TimeDelta::milliseconds(500).max((age / 5).min(seconds(30))).max(seconds(floor) - ROUNDING);
        if probe_in < least {
            return Err(format!("the next probe must not come before {least}"));
        }
        if opened {
            // Perhaps the target's, whose probes stand for those of the keys.
            self.open.clear();
        }
        let since = before.as_ref().filter(|_| !opened).map_or(now, |open| open.since);
        let since_tick = before.as_ref().filter(|_| !opened).map_or(self.tick, |open| open.since_tick);
        let shown = if caller.failures == 0 { now + BELIEVED_MIN } else { now };
        let before_until = before.filter(|_| !opened).map_or(now, |open| open.believed_until);
        self.open.insert(
            caller.key,
            Open {
                since,
                since_tick,
                by,
                probing: None,
                next_probe: now + probe_in - ROUNDING,
                believed_until: shown.max(before_until),
            },
        );
        Ok(())
    }

    fn closed(&mut self, now: DateTime<Utc>) -> Result<(), Violation> {
        // Perhaps the target's.
        self.open.clear();
        let Some((_, Caller { key, .. }, Met::Answer, _)) = &self.last_ended else {
            return Err("its call was not answered".to_owned());
        };
        self.keys.entry(key.clone()).or_default().closed_at = Some(now + self.skew);
        Ok(())
    }
}

impl Retries {
    /// Calls for it that failed, as far as the message says.
    pub(super) fn failures(&self) -> u32 {
        let is_call = |kind: &str| !["Redrive", "NotStarted"].contains(&kind);
        let calls = self.history.iter().filter(|past| is_call(&past.error_type)).count();
        self.attempt.max(u32::try_from(calls).unwrap_or(u32::MAX))
    }
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
        let known = self.environments.get_mut(&environment)?;
        let tick = known.next_tick();
        for report in reports {
            known.hears(report, now);
        }
        Some(Begun { environment, at: now, tick })
    }

    /// The outage that an arriving message reports.
    fn held_moments_ago(&self, record: &ReceivedMessage, now: DateTime<Utc>) -> Option<Report> {
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
        // A message that failed before may be to blame itself.
        if retries.failures() > 0 {
            return None;
        }
        let is_believed = |since: &DateTime<Utc>| retries.held_seconds > 0 && *since <= origin.sent_at;
        let since = retries.held_since.filter(is_believed)?;
        Some(Report { key: self.key(n), since, sent_at: origin.sent_at })
    }

    fn key(&self, n: usize) -> Key {
        let subject = &self.subjects[n];
        match self.knobs.breaker()?.per {
            Per::Group => subject.produced.content.message_group_id.clone(),
            Per::Attribute(name) => Some(subject.attributes.get(name)?.text()?.to_owned()),
            Per::Target => None,
        }
    }

    /// The environment that is running now, if it has a breaker.
    fn environment(&self) -> Option<u64> {
        Some(self.invocations.get(&self.turn?)?.begun()?.environment)
    }

    /// Checks that the breaker, if there is one, permits a call of the target. Returns the environment, which needs the
    /// outcome later. `retries` are those of a copy that may be the called one.
    pub(super) fn asked(
        &mut self,
        call: CallId,
        retries: &Retries,
        attempt: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<u64>, Violation> {
        let Some(id) = self.environment() else { return Ok(None) };
        let key = self.key(call.0);
        let Some(environment) = self.environments.get_mut(&id) else { return Ok(None) };
        // A message at its hold limit is called in any state.
        let is_overdue = retries.held_seconds >= environment.settings.hold_seconds_max;
        let failures = retries.failures().max(attempt);
        let caller = Caller { key, failures, is_overdue, is_unconfirmed: false, began: 0, at: now };
        environment.called(call, caller, now)?;
        Ok(Some(id))
    }

    /// Records the outcome of a call, or that it was cut off.
    pub(super) fn met(&mut self, call: CallId, is_cut_off: bool, now: DateTime<Utc>) {
        let (n, index) = call;
        let Some(answer) = self.subjects[n].answers.get(index) else { return };
        let (kind, error_type, after) = match answer.kind {
            _ if is_cut_off => ("transient", "Timeout", None),
            kind => (kind, answer.error_type, answer.after),
        };
        let id = answer.environment;
        let Some(environment) = id.and_then(|id| self.environments.get_mut(&id)) else { return };
        let is_transient = !kind.is_empty() && self.knobs.policy.class(kind, error_type) == Class::Transient;
        let is_listed = environment.settings.opens_on(error_type);
        let is_outage = is_transient && (is_listed || (answer.unavailable && !is_cut_off));
        let met = match is_outage {
            false => Met::Answer,
            true if error_type == TOO_MANY || after.is_some() => Met::Refusal,
            true => Met::Outage,
        };
        let outcome = environment.ended(call, met, after, now);
        let rate = outcome.as_ref().and_then(|outcome| environment.keys.get(&outcome.caller.key));
        let rate = rate.map_or(Ok(()), KeyHistory::check_rate);
        let answer = &mut self.subjects[n].answers[index];
        (answer.outcome, answer.is_cut_off) = (outcome, is_cut_off);
        if let Err(why) = rate {
            self.report(format!("message {n} is refused: {why}"));
        }
    }

    /// A message is handed off as held.
    pub(super) fn check_held(&self, held: &Held<'_>, now: DateTime<Utc>) -> Result<(), Violation> {
        let begun = self.turn.and_then(|turn| self.invocations.get(&turn)?.begun());
        let begun = begun.ok_or("without a circuit breaker")?;
        let environment = self.environments.get(&begun.environment).ok_or("by nobody")?;
        let Held { retries, error_type, call, .. } = *held;
        if retries.held_seconds >= environment.settings.hold_seconds_max {
            let before = retries.held_seconds;
            return Err(format!("it was held for {before} s before, which is as long as it may be"));
        }
        if held.seconds.is_some_and(|asked| !(1..=DELAY_SECONDS_MAX).contains(&asked)) {
            return Err(format!("it asks for a hold of {:?} s", held.seconds));
        }
        // Held for a part of the trouble's age, unless somebody asked for more.
        let first = environment.first_outage.filter(|_| !environment.has_asked);
        let age =
            first.map(|first| (now + environment.skew - first + self.skew()).num_seconds().unsigned_abs());
        if age.zip(held.seconds).is_some_and(|(age, asked)| asked > 2 + age / 2) {
            return Err(format!(
                "it asks for a hold of {:?} s, and the trouble is {age:?} s old",
                held.seconds
            ));
        }
        let key = self.key(held.n);
        let failures = retries.failures().max(held.attempt);
        let is_down = environment.is_down(&key, begun.tick);
        if let Some(call) = call {
            if call.met == Met::Answer {
                return Err("its call was answered".to_owned());
            }
            if self.floor(call, now) > held.seconds.unwrap_or(u64::MAX) {
                return Err(format!(
                    "its call asked for {:?} s, and it is held for {:?}",
                    call.after, held.seconds
                ));
            }
            if call.met == Met::Refusal && failures < FREE_REFUSALS {
                return Ok(());
            }
        } else if error_type == "RateLimited" {
            let was_limited = environment.keys.get(&key).is_some_and(|key| key.was_limited);
            let why = "no call of its key was refused, and none of several keys";
            return if was_limited || environment.was_limited { Ok(()) } else { Err(why.to_owned()) };
        }
        if !is_down {
            return Err(format!("no calls that its environment made show that {key:?} is down"));
        }
        if failures > 0 && environment.shown_at.is_none_or(|at| begun.at - at > BELIEVED) {
            let at = environment.shown_at;
            return Err(format!("it failed before, and {at:?} is the last outage of a message that did not"));
        }
        match self.healed_at {
            Some(at) if now > at + PROBED_AGAIN && self.knobs.target.always_transient <= 0.0 => {
                Err(format!("the target has been back since {at} at the latest"))
            }
            _ => Ok(()),
        }
    }

    /// The shortest hold after this call: what is left of its `Retry-After`, unless a later call was answered.
    pub(super) fn floor(&self, Outcome { after, ended, at, .. }: &Outcome, now: DateTime<Utc>) -> u64 {
        let environment = self.environment().and_then(|id| self.environments.get(&id));
        let is_over = environment.is_none_or(|environment| environment.answered > *ended);
        let asked = after.filter(|_| !is_over).map_or(0, |after| after.min(DELAY_SECONDS_MAX));
        let left = *at + seconds(asked) - now - ROUNDING;
        left.num_seconds().max(0).unsigned_abs()
    }

    /// Checks that a failed call of this invocation, the last one for its message, is right to spend an attempt.
    pub(super) fn check_spent(&self, call: &Outcome) -> Result<(), Violation> {
        let begun = self.turn.and_then(|turn| self.invocations.get(&turn)?.begun());
        let Some(begun) = begun else { return Ok(()) };
        let Some(environment) = self.environments.get(&begun.environment) else { return Ok(()) };
        let Outcome { caller: Caller { key, failures, is_overdue, is_unconfirmed, .. }, met, .. } = call;
        if *met == Met::Answer || *is_overdue || *is_unconfirmed {
            return Ok(());
        }
        // A message that failed before does not confirm the outage that it met: this invocation may have only learned of
        // it.
        let is_open = |open: &Open| open.since_tick < begun.tick || (open.by == self.turn && *failures == 0);
        match environment.open.get(key).is_some_and(is_open) {
            true => Err("its circuit is open, and its call spends an attempt".to_owned()),
            false => Ok(()),
        }
    }

    /// Checks that a message was not started for lack of time. Calls took that time: a circuit makes a message wait for
    /// nothing else.
    pub(super) fn check_not_started(&self) -> Result<(), Violation> {
        let begun = self.turn.and_then(|turn| self.invocations.get(&turn)?.begun());
        let Some(begun) = begun else { return Ok(()) };
        let environment = self.environments.get(&begun.environment);
        let has_called = environment
            .is_none_or(|environment| !environment.running.is_empty() || environment.called > begun.tick);
        if has_called { Ok(()) } else { Err("it was not started, and no call was under way".to_owned()) }
    }

    /// Checks a function's event about its breaker.
    pub(super) fn check_circuit(&mut self, event: &Event, now: DateTime<Utc>) -> Result<(), Violation> {
        let turn = self.turn;
        let id = self.environment();
        let Some(environment) = id.and_then(|id| self.environments.get_mut(&id)) else { return Ok(()) };
        match event {
            Event::CircuitOpened { .. } | Event::ProbeFailed { .. } => environment.is_open(event, turn, now),
            Event::CircuitClosed { .. } => environment.closed(now),
            _ => Ok(()),
        }
    }
}
