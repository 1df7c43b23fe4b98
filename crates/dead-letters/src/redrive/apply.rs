//! Sends back: journal → send → journal → delete. Nothing is deleted before its send is confirmed and on disk.

mod deletions;
mod round;
mod run;
mod watch;

use std::time::Duration;

use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};
use thiserror::Error;

use super::journal::{Journal, JournalError};
use super::plan::Plan;
use super::report::Report;
use crate::{DeadLetterRecord, FilterError, Reader, ReaderError};

pub use watch::Watched;

/// How fast, how much, and how carefully.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages a second; none: as fast as it goes.
    pub rate: Option<u32>,
    /// Messages in all.
    pub max: u64,
    /// Ends the run when more than so many percent of what it sent has failed again.
    pub stop_after_failures_percent: u8,
    /// How long the pilot is watched before the rest is sent; zero: not at all.
    pub watch: Duration,
}

/// Why a redrive ends early. What was sent, or may have been, is in the journal: a second run goes on from there.
#[derive(Debug, Error)]
pub enum RedriveError {
    /// The DLQ.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// How far a redrive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many were sent back.
    Sent(u64),
    /// The pilot is watched for so long yet.
    Watching(Duration),
    /// For so long yet, what was to be sent may be hidden from it, too.
    Waiting(Duration),
}

/// A redrive and all that it needs.
pub struct Redrive<'a, D, S, C> {
    /// Where dead letters are.
    pub dlq: &'a D,
    /// Where they are sent back to.
    pub source: &'a S,
    /// The clock.
    pub clock: &'a C,
    /// Which ones.
    pub plan: &'a Plan,
    /// How fast, how much, and how carefully.
    pub limits: Limits,
    /// Whether to end as soon as possible: Ctrl-C.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told how far it is.
    pub progress: &'a dyn Fn(Progress),
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Redrive<'_, D, S, C> {
    /// What would be done; nothing is.
    ///
    /// # Errors
    /// If the DLQ cannot be read, or a filter fails.
    pub async fn dry_run(&self) -> Result<Report, RedriveError> {
        let mut report = Report::default();
        let mut reader = Reader::new(self.dlq, self.clock).await?;
        let outcome = self.look_through(&mut reader, &mut report).await;
        report.coverage = Some(reader.finish().await);
        outcome.map(|()| report)
    }

    async fn look_through(
        &self,
        reader: &mut Reader<'_, D, C>,
        report: &mut Report,
    ) -> Result<(), RedriveError> {
        while let Some(messages) = reader.next().await? {
            for message in messages {
                let record = DeadLetterRecord::new(message);
                let verdict = self.plan.decide(&record)?;
                report.planned(&record, &verdict, self.limits.max);
            }
            if (self.interrupted)() {
                report.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    /// Sends back what the plan selects, in as many passes as it takes.
    ///
    /// # Errors
    /// If the DLQ, the disk or a filter fails; a second run with the same journal goes on where this one ended.
    pub async fn apply(&self, journal: &mut Journal) -> Result<Report, RedriveError> {
        run::Run::new(self, journal).finish().await
    }
}

#[cfg(test)]
mod tests;
