//! Notices about dead letters: each environment sends at most one notice per cause per hour.
//!
//! Environments share no state, so each environment in which a cause occurs reports it. Receivers group notices by
//! [`Notice::fingerprint`].

mod notice;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use chrono::TimeDelta;
use futures_util::future::{Either, select};
use futures_util::pin_mut;

use crate::archive::Death;
use crate::deliver::time_until;
use crate::events::Event;
use crate::fault::{EntryError, Fault};
use crate::lock;
use crate::message::Timestamp;
use crate::ports::{Clock, Observer};
pub use notice::{Notice, SUBJECT_CHARACTERS_MAX, own_error_name};

/// Publishes notices to a topic or an event bus.
pub trait Notifier: Send + Sync {
    /// Publishes one notice; `Ok` once the service has accepted it.
    fn publish(&self, notice: &Notice) -> impl Future<Output = Result<(), EntryError>> + Send;
}

/// The notifier for a deployment without notices: no value of this type exists.
#[derive(Clone, Copy, Debug)]
pub enum NoNotifier {}

impl Notifier for NoNotifier {
    async fn publish(&self, _: &Notice) -> Result<(), EntryError> {
        match *self {}
    }
}

/// Minimum time between two notices about the same cause.
const INTERVAL: TimeDelta = TimeDelta::hours(1);
/// Pause after a refused notice, so that a topic that hangs costs an environment [`NOTICES_TIME_MAX`] per minute rather
/// than per batch.
const PAUSE: TimeDelta = TimeDelta::minutes(1);
/// Maximum number of causes that an environment remembers, which takes a few megabytes. Beyond it, a new cause replaces
/// one without a pending notice.
const CAUSES_MAX: usize = 10_000;
/// The error code if a death gets no notice, because every remembered cause has a pending notice.
const TOO_MANY_CAUSES: &str = "TooManyCauses";
/// Time limit for sending notices at the end of an invocation, so that its response is not delayed for long.
pub const NOTICES_TIME_MAX: TimeDelta = TimeDelta::seconds(5);
/// Minimum time that must be left to publish a notice: one that is cancelled counts as refused, and may be received
/// twice.
const NOTICE_TIME_MIN: TimeDelta = TimeDelta::seconds(1);

/// The notices of a deployment.
#[derive(Debug)]
pub struct Notices<N> {
    notifier: N,
    about: DeploymentInfo,
    memory: Mutex<NoticeMemory>,
}

/// The fields that all notices of a deployment share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentInfo {
    /// The name of the final DLQ.
    pub deployment: String,
    /// The argument for commands that show the dead letters: the archive's address, or `--queue` with the final DLQ.
    pub source: String,
}

/// A dead letter, with the details for its notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeathNotice {
    pub death: Death,
    /// The reason's code.
    pub error_type: String,
    /// The last error, if its name is one of redeliver's own ([`own_error_name`]).
    pub last_error: Option<String>,
}

/// The causes that this environment remembers.
#[derive(Debug, Default)]
struct NoticeMemory {
    /// The causes, by fingerprint.
    causes: BTreeMap<String, CauseMemory>,
    paused_until: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct CauseMemory {
    /// The time until which the cause sends no notice, one hour after the last one; `None` if the next notice is due.
    silent_until: Option<Timestamp>,
    /// The pending notice about all deaths since the last notice.
    next: Option<Notice>,
}

impl<N: Notifier> Notices<N> {
    /// Creates the notices for a deployment; none is pending yet.
    #[must_use]
    pub fn new(notifier: N, about: DeploymentInfo) -> Self {
        Self { notifier, about, memory: Mutex::default() }
    }

    /// Sends the notices that are due because of these deaths, and those refused earlier, until `end`.
    ///
    /// Never fails: if time runs out, the remaining notices are sent with the next batch. After a refusal, which is
    /// reported to the observer, all due notices wait for the first batch after a pause of one minute. A publish
    /// without a response may have succeeded, so a notice can be sent twice.
    pub async fn notify<C: Clock, O: Observer>(
        &self,
        deaths: &[DeathNotice],
        clock: &C,
        observer: &O,
        end: Timestamp,
    ) {
        for fingerprint in self.count_deaths(deaths, clock.now()) {
            observer.observe(&Event::NoticeRefused { fingerprint, code: TOO_MANY_CAUSES.to_owned() });
        }
        let mut due = lock(&self.memory).take_due(clock.now()).into_iter();
        while let Some(notice) = due.next() {
            if end - clock.now() < NOTICE_TIME_MIN {
                return lock(&self.memory).requeue_notices([notice].into_iter().chain(due));
            }
            let fingerprint = notice.fingerprint.clone();
            match self.publish_before(&notice, clock, end).await {
                Ok(()) => observer.observe(&Event::NoticePublished { fingerprint }),
                Err(EntryError { code, .. }) => {
                    observer.observe(&Event::NoticeRefused { fingerprint, code });
                    let mut memory = lock(&self.memory);
                    memory.paused_until = Some(clock.now() + PAUSE);
                    return memory.requeue_notices([notice].into_iter().chain(due));
                }
            }
        }
    }

    /// Counts the deaths. Returns the causes for which [`CAUSES_MAX`] leaves no room.
    fn count_deaths(&self, deaths: &[DeathNotice], now: Timestamp) -> BTreeSet<String> {
        let mut memory = lock(&self.memory);
        let mut counted = BTreeSet::new();
        let mut refused = BTreeSet::new();
        for DeathNotice { death, error_type, last_error } in deaths {
            // Two copies of a verdict in one batch count as one death.
            if counted.insert(death) {
                let notice = Notice {
                    deployment: self.about.deployment.clone(),
                    source: self.about.source.clone(),
                    fingerprint: death.fingerprint.clone(),
                    error_type: error_type.clone(),
                    last_error: last_error.clone(),
                    count: 1,
                    first_at: death.at,
                    last_at: death.at,
                };
                if !memory.add_death(notice, now) {
                    refused.insert(death.fingerprint.clone());
                }
            }
        }
        refused
    }

    async fn publish_before(
        &self,
        notice: &Notice,
        clock: &impl Clock,
        end: Timestamp,
    ) -> Result<(), EntryError> {
        let published = self.notifier.publish(notice);
        let time_is_up = clock.sleep(time_until(clock.now(), end));
        pin_mut!(published, time_is_up);
        match select(published, time_is_up).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => Err(EntryError::new(Fault::NoAnswer, "Timeout")),
        }
    }
}

impl NoticeMemory {
    /// Adds a death to its cause. Returns false if the limit on causes is reached.
    fn add_death(&mut self, notice: Notice, now: Timestamp) -> bool {
        if self.causes.len() >= CAUSES_MAX
            && !self.causes.contains_key(&notice.fingerprint)
            && !self.forget_oldest()
        {
            return false;
        }
        let cause = self.causes.entry(notice.fingerprint.clone()).or_default();
        cause.silent_until = cause.silent_until.filter(|silent_until| now < *silent_until);
        cause.merge_notice(notice);
        true
    }

    /// Forgets the cause whose last notice is the oldest. Returns false if every cause has a pending notice.
    fn forget_oldest(&mut self) -> bool {
        let without_notice = self.causes.iter().filter(|(_, cause)| cause.next.is_none());
        let oldest = without_notice.min_by_key(|(_, cause)| cause.silent_until);
        let fingerprint = oldest.map(|(fingerprint, _)| fingerprint.clone());
        fingerprint.and_then(|fingerprint| self.causes.remove(&fingerprint)).is_some()
    }

    /// Takes the due notices, and marks them as sent.
    fn take_due(&mut self, now: Timestamp) -> Vec<Notice> {
        if self.paused_until.is_some_and(|paused_until| now < paused_until) {
            return Vec::new();
        }
        let due = self.causes.values_mut().filter(|cause| cause.silent_until.is_none());
        due.filter_map(|cause| {
            cause.silent_until = Some(now + INTERVAL);
            cause.next.take()
        })
        .collect()
    }

    /// Makes unsent notices due again.
    fn requeue_notices(&mut self, notices: impl Iterator<Item = Notice>) {
        for notice in notices {
            let cause = self.causes.entry(notice.fingerprint.clone()).or_default();
            cause.silent_until = None;
            cause.merge_notice(notice);
        }
    }
}

impl CauseMemory {
    fn merge_notice(&mut self, notice: Notice) {
        self.next = Some(match self.next.take() {
            None => notice,
            Some(next) => Notice {
                count: next.count + notice.count,
                first_at: next.first_at.min(notice.first_at),
                last_at: next.last_at.max(notice.last_at),
                ..next
            },
        });
    }
}

#[cfg(test)]
mod tests;
