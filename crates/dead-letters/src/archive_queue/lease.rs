//! The lease of a deployment's archive: one run at a time sends from it. It is an object that says whose it is and until
//! when; each change is conditional on the version that was read, so that of two runs only one can make it.

use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::lock::Mutex as AsyncMutex;
use redeliver_core::archive::Layout;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::{parse_rfc3339, rfc3339};
use redeliver_core::ports::{Clock, EntryError, Fault, ObjectStore};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::archive_bucket::{ArchiveBucket, ArchiveError};
use crate::groups::written;
use crate::redrive::{Early, RedriveReport};

/// The length of a lease: short, so that a killed run soon lets another one in.
const LEASE: Duration = Duration::from_secs(5 * 60);
/// The age at which a lease is renewed.
const RENEWED_AFTER: Duration = Duration::from_secs(60);
/// Time before its end in which nothing is sent: a send takes at most a minute, and two clocks may differ by another.
const MARGIN: Duration = Duration::from_secs(2 * 60);
/// Time until a failed renewal is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// The lease of a run, from its start to [`Lease::release`].
#[derive(Debug)]
pub struct Lease<S, C> {
    bucket: ArchiveBucket<S, C>,
    key: String,
    /// The id of the run.
    run: String,
    follows_unfinished: bool,
    /// The version of the object; locked while it is replaced.
    version: AsyncMutex<String>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    until: Timestamp,
    /// The time of the next renewal.
    due: Timestamp,
    is_lost: bool,
    /// The object says that messages may be sent and not marked.
    is_unmarked: bool,
}

/// The lease as an object in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    run: String,
    /// RFC 3339.
    until: String,
    /// True from the first send on, unless the run ended with a mark for each message that it sent.
    unmarked: bool,
}

/// The reason why a run may not send.
#[derive(Debug, Error)]
pub enum LeaseError {
    #[error(
        "{key}: another run sends from this archive, or was killed. Run it again once it has ended, or after {}",
        written(*until)
    )]
    Taken { key: String, until: Timestamp },
    #[error("{key}: not a lease of redeliver: find out who wrote it, then delete it")]
    Foreign { key: String },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl Document {
    fn until(&self) -> Option<Timestamp> {
        parse_rfc3339(&self.until)
    }
}

impl<S: ObjectStore, C: Clock> Lease<S, C> {
    /// Takes the lease of a deployment, for a run with this id that nobody else has. It must be taken before the dead
    /// letters are listed: what the run before has marked is known then.
    ///
    /// # Errors
    /// If another run has it, or S3 refuses.
    pub async fn acquire(
        bucket: ArchiveBucket<S, C>,
        layout: &Layout,
        run: String,
    ) -> Result<Self, LeaseError> {
        let key = layout.sending();
        let now = bucket.clock.now();
        let mut ours = Document { run, until: rfc3339(now + LEASE), unmarked: false };
        match read(&bucket, &key).await? {
            None => drop(bucket.create(&key, &bytes(&ours)).await?),
            Some((former, until, _)) if now < until && former.run != ours.run => {
                return Err(LeaseError::Taken { key, until });
            }
            Some((former, _, version)) => {
                ours.unmarked = former.unmarked;
                bucket.replace(&key, &version, &bytes(&ours)).await?;
            }
        }
        // A write is also answered with "no" if it is the second try of one whose answer was lost.
        match read(&bucket, &key).await? {
            Some((there, until, version)) if there.run == ours.run => Ok(Self {
                state: Mutex::new(State {
                    until,
                    due: due(until),
                    is_lost: false,
                    is_unmarked: there.unmarked,
                }),
                version: AsyncMutex::new(version),
                run: ours.run,
                bucket,
                key,
                follows_unfinished: there.unmarked,
            }),
            Some((_, until, _)) => Err(LeaseError::Taken { key, until }),
            None => Err(LeaseError::Foreign { key }),
        }
    }

    /// True if the run before it was killed while it sent, or could not mark all that it sent.
    #[must_use]
    pub const fn follows_unfinished(&self) -> bool {
        self.follows_unfinished
    }

    pub(super) const fn bucket(&self) -> &ArchiveBucket<S, C> {
        &self.bucket
    }

    /// Renews the lease if it is a minute old. Requests at the same time do not wait for that while it is valid.
    ///
    /// # Errors
    /// If it is lost to another run, for good; or if it was not renewed in time. Nothing may be sent then.
    pub async fn hold(&self) -> Result<(), EntryError> {
        let now = self.bucket.clock.now();
        let state = self.state();
        if !state.is_lost && state.due <= now {
            let is_valid = state.check(now).is_ok();
            let version = if is_valid { self.version.try_lock() } else { Some(self.version.lock().await) };
            if let Some(mut version) = version
                && self.state().due <= self.bucket.clock.now()
            {
                self.renew(&mut version, state.is_unmarked).await;
            }
        }
        self.state().check(self.bucket.clock.now())
    }

    /// [`Lease::hold`] before a send. The first one waits until the lease says that messages may be without a mark.
    ///
    /// # Errors
    /// As of [`Lease::hold`].
    pub async fn hold_to_send(&self) -> Result<(), EntryError> {
        self.hold().await?;
        if !self.state().is_unmarked {
            let mut version = self.version.lock().await;
            if !self.state().is_unmarked {
                self.renew(&mut version, true).await;
            }
            if !self.state().is_unmarked {
                return Err(not_renewed());
            }
        }
        self.state().check(self.bucket.clock.now())
    }

    /// Renews the lease while something else takes its time.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let renewals = async {
            loop {
                self.bucket.clock.sleep(RENEWED_AFTER).await;
                // A failure stops the next send.
                drop(self.hold().await);
            }
        };
        match select(pin!(work), pin!(renewals)).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => never,
        }
    }

    /// Lets the next run in. Without a report the run ended with an error. If S3 refuses, the next run waits for the end
    /// of the lease.
    pub async fn release(&self, report: Option<&RedriveReport>) {
        let is_all_marked = report.is_some_and(|report| {
            report.not_deleted == 0
                && report.not_met == 0
                && match &report.early {
                    None => true,
                    // It may not have come to what the run before it left.
                    Some(Early::Interrupted | Early::Stopped) => !self.follows_unfinished,
                    // Perhaps of its journal: what was sent then was not marked.
                    Some(Early::Failed(_)) => false,
                }
        });
        let unmarked = self.state().is_unmarked && !is_all_marked;
        let version = self.version.lock().await;
        let now = self.bucket.clock.now();
        if !self.state().is_lost {
            let ours = Document { run: self.run.clone(), until: rfc3339(now), unmarked };
            drop(self.bucket.replace(&self.key, &version, &bytes(&ours)).await);
        }
    }

    async fn renew(&self, version: &mut String, unmarked: bool) {
        let until = self.bucket.clock.now() + LEASE;
        let ours = Document { run: self.run.clone(), until: rfc3339(until), unmarked };
        let there = match self.bucket.replace(&self.key, version, &bytes(&ours)).await {
            // If it says no, the object is another run's, or ours of a renewal whose answer was lost.
            Ok(_) => read(&self.bucket, &self.key).await,
            Err(error) => Err(error.into()),
        };
        let mut state = lock(&self.state);
        match there {
            Ok(Some((there, until, new))) if there.run == self.run => {
                *version = new;
                (state.until, state.due, state.is_unmarked) = (until, due(until), there.unmarked);
            }
            Ok(_) | Err(LeaseError::Foreign { .. }) => state.is_lost = true,
            Err(_) => state.due = self.bucket.clock.now() + PAUSE,
        }
    }

    fn state(&self) -> State {
        *lock(&self.state)
    }
}

impl State {
    fn check(self, now: Timestamp) -> Result<(), EntryError> {
        if self.is_lost {
            return Err(EntryError::new(Fault::Sender, "AnotherRunSendsFromTheArchive"));
        }
        if now + MARGIN < self.until {
            return Ok(());
        }
        Err(not_renewed())
    }
}

fn not_renewed() -> EntryError {
    EntryError::new(Fault::NotSent, "LeaseOfTheArchiveNotRenewed")
}

fn due(until: Timestamp) -> Timestamp {
    until - LEASE + RENEWED_AFTER
}

fn bytes(document: &Document) -> Vec<u8> {
    serde_json::to_vec(document).expect("strings always serialise")
}

/// The lease that is there, its end and its version.
async fn read<S: ObjectStore, C: Clock>(
    bucket: &ArchiveBucket<S, C>,
    key: &str,
) -> Result<Option<(Document, Timestamp, String)>, LeaseError> {
    let Some(object) = bucket.get(key).await? else {
        return Ok(None);
    };
    let document: Option<Document> = serde_json::from_slice(&object.content).ok();
    let known = document.and_then(|document| document.until().map(|until| (document, until)));
    let (document, until) = known.ok_or_else(|| LeaseError::Foreign { key: key.to_owned() })?;
    Ok(Some((document, until, object.version)))
}
