//! Notices: one when a cause of dead letters appears, one a day while it lasts, and one when it has been quiet for a day.
//!
//! With an archive the cause's state is an object in the bucket. Environments change it by conditional writes, so that one
//! of them sends the notice. Without an archive, each environment sends at most one notice an hour for a cause.

mod notice;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use chrono::{NaiveDate, TimeDelta};
use futures_util::future::{Either, select};
use futures_util::pin_mut;

use crate::archive::{Archive, Death, Folder, digest};
use crate::deliver::until as time_until;
use crate::events::Event;
use crate::lock;
use crate::message::Timestamp;
use crate::ports::{Clock, EntryError, Fault, Listing, Notifier, ObjectStore, Observer};
pub use notice::{Count, Notice, NoticeKind, SUBJECT_CHARACTERS_MAX, own_name};
use state::CauseState;

/// Time between two notices of a cause that lasts, and the time without a death after which it is quiet.
const DAY: TimeDelta = TimeDelta::days(1);
/// Time between two notices of a cause in one environment, without an archive.
const HOUR: TimeDelta = TimeDelta::hours(1);
/// Causes that an environment remembers. Above it all are forgotten: each then costs one more read of its state.
const CAUSES_MAX: usize = 10_000;
/// Time that notices may take in an invocation whose records are done: they must not hold up its answer for long.
pub const NOTICES_MAX: TimeDelta = TimeDelta::seconds(5);
/// Pages of 1,000 keys that are read to count a cause's deaths; above it the count is a minimum.
const PAGES_MAX: usize = 10;

/// The notices of a deployment.
#[derive(Debug)]
pub struct Notices<N> {
    notifier: N,
    about: About,
    /// The time until which no notice of a cause is due, by its fingerprint, as far as this environment knows.
    silent_until: Mutex<HashMap<String, Timestamp>>,
}

/// The facts that all notices of a deployment share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The name of the final DLQ.
    pub deployment: String,
    /// The argument of the commands that show the dead letters: the archive's address, or `--queue` with the final DLQ.
    pub source: String,
}

/// A death in the final DLQ, with what a notice says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub death: Death,
    /// The reason's code.
    pub error_type: String,
    /// The last error, if its name is one of ours ([`own_name`]).
    pub last_error: Option<String>,
}

/// The clock, the observer and the time limit of an invocation.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a, C, O> {
    pub clock: &'a C,
    pub observer: &'a O,
    pub end: Timestamp,
}

/// A change of a cause's state that another environment has not made.
struct Claim {
    state: CauseState,
    kind: NoticeKind,
    /// Deaths after this time count.
    since: Timestamp,
}

impl<N: Notifier> Notices<N> {
    /// Notices about a deployment.
    #[must_use]
    pub fn new(notifier: N, about: About) -> Self {
        Self { notifier, about, silent_until: Mutex::default() }
    }

    /// Sends the notices that these deaths make due. `invocation` is a text that no other invocation has, such as a receipt
    /// handle. Never fails: a notice that cannot be sent is dropped and reported to the observer.
    pub async fn tell<S: ObjectStore, C: Clock, O: Observer>(
        &self,
        archive: Option<&Archive<S>>,
        deaths: &[Told],
        invocation: &str,
        until: Until<'_, C, O>,
    ) {
        let claim = &digest(invocation);
        let mut causes: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
        for told in deaths {
            let of_cause = causes.entry(&told.death.fingerprint).or_default();
            // Two copies of a verdict in one batch are the same death.
            if !of_cause.iter().any(|other| other.death == told.death) {
                of_cause.push(told);
            }
        }
        let now = until.clock.now();
        for (fingerprint, deaths) in causes {
            if lock(&self.silent_until).get(fingerprint).is_some_and(|silent_until| now < *silent_until) {
                continue;
            }
            let told = self.tell_of(archive, &deaths, claim, now);
            self.report(fingerprint, until.limit(told).await, until.observer);
        }
    }

    /// Sends the notices that are due without a new death: of causes that last, and of causes that are quiet.
    pub async fn review<S: ObjectStore, C: Clock, O: Observer>(
        &self,
        archive: &Archive<S>,
        invocation: &str,
        until: Until<'_, C, O>,
    ) {
        let claim = &digest(invocation);
        let now = until.clock.now();
        let fingerprints = match until.limit(archive.causes()).await {
            Ok(fingerprints) => fingerprints,
            Err(error) => return self.report("", Err(error), until.observer),
        };
        for fingerprint in fingerprints {
            let reviewed = self.review_cause(archive, &fingerprint, claim, now);
            self.report(&fingerprint, until.limit(reviewed).await, until.observer);
        }
    }

    fn report(
        &self,
        fingerprint: &str,
        outcome: Result<Option<NoticeKind>, EntryError>,
        observer: &impl Observer,
    ) {
        let fingerprint = fingerprint.to_owned();
        match outcome {
            Ok(None) => {}
            Ok(Some(kind)) => observer.observe(&Event::NoticePublished { kind: kind.into(), fingerprint }),
            Err(error) => observer.observe(&Event::NoticeRefused { fingerprint, code: error.code }),
        }
    }

    fn silence(&self, fingerprint: &str, until: Timestamp) {
        let mut silent_until = lock(&self.silent_until);
        if silent_until.len() >= CAUSES_MAX {
            silent_until.clear();
        }
        silent_until.insert(fingerprint.to_owned(), until);
    }

    /// Sends the notice of one cause if it is due.
    async fn tell_of<S: ObjectStore>(
        &self,
        archive: Option<&Archive<S>>,
        deaths: &[&Told],
        claim: &str,
        now: Timestamp,
    ) -> Result<Option<NoticeKind>, EntryError> {
        let (first, last) = span(deaths);
        let fingerprint = &deaths[0].death.fingerprint;
        let new = CauseState::new(deaths[0], first, now, claim);
        let Some(archive) = archive else {
            self.silence(fingerprint, now + HOUR);
            let count = Count::exact(deaths.len());
            let notice = self.notice(&new, NoticeKind::Appeared, count, last);
            return self.publish(&notice).await.map(Some);
        };
        let claimed = archive.claim(fingerprint, claim, |state| match state {
            None => Some((new.clone(), NoticeKind::Appeared, first)),
            Some(state) if state.is_quiet => Some((new.clone(), NoticeKind::Appeared, first)),
            Some(state) if now - state.told_at >= DAY => {
                Some((state.told(now, claim), NoticeKind::Continues, state.told_at))
            }
            Some(_) => None,
        });
        let (claimed, told_at) = claimed.await?;
        self.silence(fingerprint, told_at.max(now - DAY) + DAY);
        let Some(Claim { state, kind, since }) = claimed else { return Ok(None) };
        let (count, last) = match kind {
            NoticeKind::Continues => {
                let (count, counted_last) = archive.count(fingerprint, since, now).await?;
                (
                    Count { number: count.number.max(deaths.len() as u64), ..count },
                    counted_last.max(Some(last)),
                )
            }
            NoticeKind::Appeared | NoticeKind::Quiet => (Count::exact(deaths.len()), Some(last)),
        };
        let notice = self.notice(&state, kind, count, last.unwrap_or(now));
        let published = self.publish(&notice).await;
        if kind == NoticeKind::Appeared && published.as_ref().is_err_and(|error| !error.fault.may_be_done()) {
            self.silence(fingerprint, now + HOUR);
            archive.retract(&state).await;
        }
        published.map(Some)
    }

    async fn review_cause<S: ObjectStore>(
        &self,
        archive: &Archive<S>,
        fingerprint: &str,
        claim: &str,
        now: Timestamp,
    ) -> Result<Option<NoticeKind>, EntryError> {
        let Some(state) = archive.state(fingerprint).await?.map(|(state, _)| state) else { return Ok(None) };
        let is_due = |state: &CauseState| !state.is_quiet && now - state.told_at >= DAY;
        if !is_due(&state) {
            return Ok(None);
        }
        let (of_a_day, _) = archive.count(fingerprint, now - DAY, now).await?;
        let claimed = archive.claim(fingerprint, claim, |state| {
            let state = state.filter(|state| is_due(state))?;
            Some(match of_a_day.number {
                0 => (state.quiet(now, claim), NoticeKind::Quiet, state.told_at),
                _ => (state.told(now, claim), NoticeKind::Continues, state.told_at),
            })
        });
        let (Some(Claim { state, kind, since }), _) = claimed.await? else { return Ok(None) };
        let (count, last) = archive.count(fingerprint, since, now).await?;
        let notice = self.notice(&state, kind, count, last.unwrap_or(since));
        self.publish(&notice).await.map(Some)
    }

    fn notice(&self, state: &CauseState, kind: NoticeKind, count: Count, last_at: Timestamp) -> Notice {
        Notice {
            kind,
            deployment: self.about.deployment.clone(),
            source: self.about.source.clone(),
            fingerprint: state.fingerprint.clone(),
            error_type: state.error_type.clone(),
            last_error: state.last_error.clone(),
            count,
            first_at: state.first_at,
            last_at,
        }
    }

    async fn publish(&self, notice: &Notice) -> Result<NoticeKind, EntryError> {
        self.notifier.publish(notice).await.map(|()| notice.kind)
    }
}

impl<C: Clock, O> Until<'_, C, O> {
    async fn limit<T>(&self, work: impl Future<Output = Result<T, EntryError>>) -> Result<T, EntryError> {
        let time_is_up = self.clock.sleep(time_until(self.clock.now(), self.end));
        pin_mut!(work, time_is_up);
        match select(work, time_is_up).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => Err(EntryError::new(Fault::NoAnswer, "Timeout")),
        }
    }
}

/// The times of the first and the last of some deaths.
fn span(deaths: &[&Told]) -> (Timestamp, Timestamp) {
    let times = || deaths.iter().map(|told| told.death.at);
    let (first, last) = (times().min(), times().max());
    first.zip(last).expect("a cause has a death")
}

impl<S: ObjectStore> Archive<S> {
    /// The state of a cause, and its version.
    async fn state(&self, fingerprint: &str) -> Result<Option<(CauseState, String)>, EntryError> {
        let object = self.store.read(&self.layout.cause(fingerprint)).await?;
        let unreadable = |_| EntryError::new(Fault::Sender, "UnreadableCause");
        object
            .map(|object| {
                serde_json::from_slice(&object.content)
                    .map(|state| (state, object.version))
                    .map_err(unreadable)
            })
            .transpose()
    }

    /// Changes the state of a cause as `change` says, unless another environment has changed it meanwhile. Returns the
    /// change if it is ours, and the time of the last notice.
    async fn claim(
        &self,
        fingerprint: &str,
        claim: &str,
        change: impl Fn(Option<&CauseState>) -> Option<(CauseState, NoticeKind, Timestamp)>,
    ) -> Result<(Option<Claim>, Timestamp), EntryError> {
        let known = match self.state(fingerprint).await {
            // S3's answer for an object that is absent, to a role that may not list it ("GetObject"). The write that
            // follows is conditional, so nothing depends on it.
            Err(error) if error.code == "AccessDenied" => None,
            known => known?,
        };
        let Some((state, kind, since)) = change(known.as_ref().map(|(state, _)| state)) else {
            let told_at = known.map_or(Timestamp::MIN_UTC, |(state, _)| state.told_at);
            return Ok((None, told_at));
        };
        let (key, content) = (self.layout.cause(fingerprint), state.json());
        let written = match &known {
            None => self.store.create(&key, content).await,
            Some((_, version)) => self.store.replace(&key, version, content).await,
        };
        let told_at = state.told_at;
        let ours = Claim { state, kind, since };
        // Another environment was faster; or our own write, whose answer was lost, is what stands in our way.
        let failed = match written {
            Ok(true) => return Ok((Some(ours), told_at)),
            Ok(false) => None,
            Err(error) if error.fault.is_retryable() => Some(error),
            Err(error) => return Err(error),
        };
        let standing = self.state(fingerprint).await?.map(|(state, _)| state);
        if let (None, Some(error)) = (&standing, failed) {
            return Err(error);
        }
        let is_ours =
            standing.as_ref().is_some_and(|standing| standing.claim == claim && *standing == ours.state);
        Ok((is_ours.then_some(ours), standing.map_or(told_at, |standing| standing.told_at)))
    }

    /// Takes back the claim of a notice that was refused. If that fails, the next notice comes a day later.
    async fn retract(&self, claimed: &CauseState) {
        let standing = self.state(&claimed.fingerprint).await;
        if let Ok(Some((state, version))) = standing
            && state == *claimed
        {
            let key = self.layout.cause(&claimed.fingerprint);
            drop(self.store.replace(&key, &version, claimed.refused().json()).await);
        }
    }

    /// The fingerprints of all causes that have a state.
    async fn causes(&self) -> Result<Vec<String>, EntryError> {
        let folder = self.layout.causes();
        let mut fingerprints = Vec::new();
        let mut page = None;
        loop {
            let listing = Listing { prefix: &folder, page: page.as_deref(), ..Listing::default() };
            let listed = self.store.list(listing).await?;
            let names = listed.keys.iter().filter_map(|key| key.strip_prefix(&folder)?.strip_suffix(".json"));
            fingerprints.extend(names.map(str::to_owned));
            match listed.next {
                Some(next) => page = Some(next),
                None => return Ok(fingerprints),
            }
        }
    }

    /// The deaths of a cause after a time, by their keys alone, and the time of the last one.
    async fn count(
        &self,
        fingerprint: &str,
        after: Timestamp,
        now: Timestamp,
    ) -> Result<(Count, Option<Timestamp>), EntryError> {
        let (mut number, mut last, mut pages) = (0, None, 0);
        let days = after.date_naive().iter_days().take_while(|date: &NaiveDate| *date <= now.date_naive());
        for date in days {
            let folder = self.layout.day_of_cause(Folder::DeadLetters, date, fingerprint);
            let mut page = None;
            loop {
                if pages == PAGES_MAX {
                    return Ok((Count { number, is_minimum: true }, last));
                }
                pages += 1;
                let listing = Listing { prefix: &folder, page: page.as_deref(), ..Listing::default() };
                let listed = self.store.list(listing).await?;
                let deaths = listed.keys.iter().filter_map(|key| self.layout.death(Folder::DeadLetters, key));
                for death in deaths.filter(|death| death.at > after) {
                    number += 1;
                    last = last.max(Some(death.at));
                }
                match listed.next {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
        }
        Ok((Count { number, is_minimum: false }, last))
    }
}

#[cfg(test)]
mod tests;
