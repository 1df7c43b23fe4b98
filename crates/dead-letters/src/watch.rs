//! Watches a DLQ: each new dead letter is written to an archive, and each new cause is told. Nothing is deleted, and
//! nothing is sent.
//!
//! SQS has no way to look at a message without receiving it, or to receive only new ones. So a turn asks for the counts,
//! which harms nothing, and reads the queue only if they changed, or once a day: one message may have left while another
//! one came.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Mutex;

use chrono::{NaiveDate, TimeDelta};
use futures_util::future::{Either, select, try_join_all};
use redeliver_core::archive::{Archive, ArchivedMessage, Death, Folder, gzip};
use redeliver_core::events::Event;
use redeliver_core::failure::reason::Code;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::notices::{Notices, Told, Until, own_name};
use redeliver_core::ports::{Clock, Notifier, ObjectStore, Observer, Queue};

use crate::archive_bucket::{ArchiveBucket, ArchiveError};
use crate::reader::at;
use crate::{Coverage, DeadLetterRecord, Failure, Reader, UNANNOTATED};

/// Time until the queue is read again although its count has not changed.
const READ_AGAIN_AFTER: TimeDelta = TimeDelta::days(1);
/// Time until the queue is read again after a notice was refused or not all of it was seen.
const RETRY_AFTER: TimeDelta = TimeDelta::hours(1);
const REVIEW_EVERY: TimeDelta = TimeDelta::hours(1);
/// The time for the notices of a turn.
const TURN_NOTICES_MAX: TimeDelta = TimeDelta::minutes(5);
/// Above this number of deaths no more days are listed, and those that the last reading did not see are forgotten. A queue
/// with more messages costs a request to the archive for each.
const KNOWN_MAX: usize = 500_000;

/// A DLQ that is watched.
#[derive(Debug)]
pub struct Watch<Q, S, N, C> {
    queue: Q,
    clock: C,
    archive: Option<WatchedArchive<S, C>>,
    notices: Option<Notices<N>>,
    /// A text that no other process has.
    process: String,
    known: BTreeSet<Death>,
    last_reading: Option<Reading>,
    reviewed_at: Option<Timestamp>,
}

/// The archive, for notices and for dead letters.
#[derive(Debug)]
struct WatchedArchive<S, C> {
    archive: Archive<S>,
    bucket: ArchiveBucket<S, C>,
    listed_days: BTreeSet<NaiveDate>,
}

/// A reading of the queue.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Messages in the queue, as SQS counted them before.
    count: u64,
    again_at: Timestamp,
}

/// The result of a turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// `None` if the queue was not read.
    pub coverage: Option<Coverage>,
    /// Dead letters that were not known: with an archive, those that this turn has written.
    pub new: u64,
    /// Notices that were sent: `appeared`, `continues` or `quiet`, and the cause.
    pub told: Vec<(&'static str, String)>,
    /// Causes whose notice was refused, with the error's code.
    pub refused: Vec<(String, String)>,
    /// The queue or the archive that failed: the next turn reads the queue again.
    pub failure: Option<Failure>,
    /// True if the turn was stopped before all was read.
    pub is_interrupted: bool,
}

/// The deaths of a reading.
#[derive(Default)]
struct Deaths {
    new: Vec<Told>,
    known: Vec<Told>,
}

/// Gathers the events of notices.
#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Observer for Recorder {
    fn observe(&self, event: &Event) {
        lock(&self.0).push(event.clone());
    }
}

impl<Q: Queue, S: ObjectStore + Clone, N: Notifier, C: Clock + Clone> Watch<Q, S, N, C> {
    /// Nothing is known yet, so the first turn reads the queue. `process` is a text that no other process has.
    #[must_use]
    pub fn new(
        queue: Q,
        clock: C,
        archive: Option<Archive<S>>,
        notices: Option<Notices<N>>,
        process: String,
    ) -> Self {
        let archive = archive.map(|archive| WatchedArchive {
            bucket: ArchiveBucket {
                store: archive.store.clone(),
                clock: clock.clone(),
                prefix: archive.layout.prefix.clone(),
                deployment: Some(archive.layout.deployment.clone()),
            },
            archive,
            listed_days: BTreeSet::new(),
        });
        let (known, last_reading, reviewed_at) = (BTreeSet::new(), None, None);
        Self { queue, clock, archive, notices, process, known, last_reading, reviewed_at }
    }

    /// The queue.
    pub const fn queue(&self) -> &Q {
        &self.queue
    }

    /// Asks for the counts, reads the queue if that is due, and sends the notices that are due. Once `stop` completes, no
    /// more is received; what was received is given back in any case.
    pub async fn turn(&mut self, stop: impl Future<Output = ()>) -> Turn {
        let mut turn = Turn::default();
        let now = self.clock.now();
        let count = match self.queue.depth().await {
            Ok(depth) => depth.total(),
            Err(error) => {
                turn.failure = Some(at(&self.queue, error, "sqs:GetQueueAttributes").into());
                return turn;
            }
        };
        let is_due = self.last_reading.is_none_or(|last| last.count != count || now >= last.again_at);
        let deaths = if is_due { self.read(stop, &mut turn).await } else { Deaths::default() };
        self.tell(&deaths, &mut turn).await;
        if is_due {
            self.remember(deaths, count, &turn);
        }
        turn
    }

    /// Reads the queue, and writes what is new to the archive until that fails.
    async fn read(&mut self, stop: impl Future<Output = ()>, turn: &mut Turn) -> Deaths {
        let Self { queue, clock, archive, known, .. } = self;
        let mut deaths = Deaths::default();
        let mut stop = pin!(stop);
        let mut reader = match Reader::new(queue, clock).await {
            Ok(reader) => reader,
            Err(error) => {
                turn.failure = Some(error.into());
                return deaths;
            }
        };
        loop {
            let messages = match select(stop.as_mut(), pin!(reader.next())).await {
                Either::Left(_) => {
                    turn.is_interrupted = true;
                    break;
                }
                Either::Right((Ok(Some(messages)), _)) => messages,
                Either::Right((Ok(None), _)) => break,
                Either::Right((Err(error), _)) => {
                    turn.failure = Some(error.into());
                    break;
                }
            };
            let records: Vec<_> = messages.into_iter().map(DeadLetterRecord::new).collect();
            if let Some(kept) = archive
                && let Err(error) = reader.during(kept.list_days_of(&records, known)).await
            {
                turn.failure = Some(error.into());
                break;
            }
            let (new, old): (Vec<_>, Vec<_>) =
                records.into_iter().partition(|record| !known.contains(&record.death()));
            deaths.known.extend(old.iter().map(told));
            match archive {
                None => turn.new += new.len() as u64,
                Some(kept) => match reader.during(kept.write(&new)).await {
                    Ok(written) => turn.new += written,
                    Err(error) => {
                        turn.failure = Some(error.into());
                        break;
                    }
                },
            }
            deaths.new.extend(new.iter().map(told));
        }
        turn.coverage = Some(reader.finish().await);
        deaths
    }

    async fn tell(&mut self, deaths: &Deaths, turn: &mut Turn) {
        let Some(notices) = &self.notices else { return };
        let now = self.clock.now();
        let recorder = Recorder::default();
        let until = || Until { clock: &self.clock, observer: &recorder, end: now + TURN_NOTICES_MAX };
        let archive = self.archive.as_ref().map(|kept| &kept.archive);
        let invocation = format!("{} {now}", self.process);
        notices.tell(archive, &deaths.new, &invocation, until()).await;
        if let Some(archive) = archive {
            notices.tell_untold(archive, &deaths.known, &invocation, until()).await;
            if self.reviewed_at.is_none_or(|reviewed_at| now - reviewed_at >= REVIEW_EVERY) {
                notices.review(archive, &invocation, until()).await;
                self.reviewed_at = Some(now);
            }
        }
        for event in std::mem::take(&mut *lock(&recorder.0)) {
            match event {
                Event::NoticePublished { kind, fingerprint } => turn.told.push((kind, fingerprint)),
                Event::NoticeRefused { fingerprint, code } => turn.refused.push((fingerprint, code)),
                _ => {}
            }
        }
    }

    /// Remembers the deaths, and when the queue is read again.
    fn remember(&mut self, Deaths { new, known }: Deaths, count: u64, turn: &Turn) {
        let is_whole = turn
            .coverage
            .is_some_and(|seen| seen.complete || seen.seen + seen.unreadable >= seen.approximate);
        if is_whole && turn.failure.is_none() && !turn.is_interrupted || self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        // Without an archive nothing else remembers that these were not told.
        let is_untold = |told: &Told| {
            self.archive.is_none()
                && turn.refused.iter().any(|(fingerprint, _)| *fingerprint == told.death.fingerprint)
        };
        let deaths = new.into_iter().filter(|told| !is_untold(told)).chain(known);
        self.known.extend(deaths.map(|told| told.death));
        let again_after = if is_whole && turn.refused.is_empty() { READ_AGAIN_AFTER } else { RETRY_AFTER };
        let is_read = turn.failure.is_none() && !turn.is_interrupted;
        self.last_reading = is_read.then(|| Reading { count, again_at: self.clock.now() + again_after });
    }
}

impl<S: ObjectStore, C: Clock> WatchedArchive<S, C> {
    /// Adds the deaths that are in the archive to those that are known: all of a day, once a process.
    async fn list_days_of(
        &mut self,
        records: &[DeadLetterRecord],
        known: &mut BTreeSet<Death>,
    ) -> Result<(), ArchiveError> {
        for record in records {
            let death = record.death();
            let day = death.at.date_naive();
            if known.contains(&death) || self.listed_days.contains(&day) || known.len() > KNOWN_MAX {
                continue;
            }
            let layout = &self.archive.layout;
            let keys = self.bucket.list(&layout.day(Folder::DeadLetters, day), false).await?;
            known.extend(keys.iter().filter_map(|key| layout.death(Folder::DeadLetters, key)));
            self.listed_days.insert(day);
        }
        Ok(())
    }

    /// Writes the dead letters, without what the archive leaves out. Returns how many were not there: the annotator or
    /// another watch may have written the others, or this one, and the answer was lost.
    async fn write(&self, records: &[DeadLetterRecord]) -> Result<u64, ArchiveError> {
        let Archive { layout, omit, .. } = &self.archive;
        let writes = records.iter().map(async |record| {
            let line = omit.applied(ArchivedMessage::new(&record.message));
            self.bucket.create(&layout.key(Folder::DeadLetters, &record.death()), &gzip(&line)).await
        });
        let written = try_join_all(writes).await?;
        Ok(written.into_iter().filter(|is_new| *is_new).count() as u64)
    }
}

/// The facts for a notice about a dead letter: the same as the annotator has.
fn told(record: &DeadLetterRecord) -> Told {
    let is_own_code = record.foreign.is_some() || record.error_type == UNANNOTATED;
    let code = Code::read(&record.error_type).filter(|_| !is_own_code);
    let last_error = record.dead_letter.as_ref().and_then(|ours| own_name(&ours.cause.error_type));
    Told {
        death: record.death(),
        error_type: code.map_or_else(|| record.error_type.clone(), |code| code.loggable().to_owned()),
        last_error: last_error.map(str::to_owned),
    }
}
