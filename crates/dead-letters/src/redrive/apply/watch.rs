//! What becomes of the pilot.
//!
//! Two things can be seen from outside. A message that is given up is in the DLQ again, with its id: that is exact, and a
//! permanent failure needs seconds for it. A message that fails and is to be retried waits in the source queue with a delay, by
//! the default policy for up to 15 minutes at a time and five times before it is given up: nobody can receive it meanwhile,
//! but SQS counts those that wait.

use std::time::Duration;

use redeliver_core::delivery::until;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};
use serde::Serialize;

use super::run::Run;
use super::{Progress, RedriveError};
use crate::{DeadLetterRecord, HIDDEN, Reader};

/// A permanent failure needs a few seconds.
const FIRST_LOOK: Duration = Duration::from_secs(15);
/// Between two questions whether to end.
const STEP: Duration = Duration::from_secs(1);

/// What was seen of the pilot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// For so long.
    pub seconds: u64,
    /// Messages of the pilot.
    pub sent: u64,
    /// Of these, in the DLQ again.
    pub came_back: u64,
    /// Messages that wait in the source queue with a delay, as SQS counts them, beyond those that did before: about so many of
    /// the pilot have failed and wait for a retry. `None`: SQS did not say.
    pub waiting: Option<u64>,
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'_, '_, D, S, C> {
    /// Watches the pilot for as long as it is to be watched, or until too much of it has failed.
    pub(super) async fn watch(&mut self) -> Result<(), RedriveError> {
        let span = self.redrive.limits.watch;
        let begun = self.redrive.clock.now();
        let first = Some(FIRST_LOOK).filter(|first| *first < span);
        for look in first.into_iter().chain([span]) {
            self.wait(begun + look, |now| Progress::Watching(until(now, begun + span))).await;
            if self.report.interrupted {
                return Ok(());
            }
            self.count_what_came_back().await?;
            let waiting = match (self.delayed_before, self.delayed().await) {
                (Some(before), Some(now)) => Some(now.saturating_sub(before)),
                _ => None,
            };
            self.report.watched = Some(Watched {
                seconds: look.as_secs(),
                sent: self.report.sent,
                came_back: self.report.came_back_count(),
                waiting,
            });
            // SQS's counts are up to a minute old: they are worth nothing before the last look.
            let waiting = waiting.filter(|_| look == span).unwrap_or(0);
            if self.has_failed_too_often(waiting) {
                self.report.stopped = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// What was to be sent and could no longer be hidden from others comes out again, once it is visible.
    pub(super) async fn wait_for_what_is_hidden(&mut self) {
        let end = self.redrive.clock.now() + HIDDEN;
        self.wait(end, |now| Progress::Waiting(until(now, end))).await;
    }

    /// Until then, or an interrupt.
    async fn wait(&mut self, end: Timestamp, told: impl Fn(Timestamp) -> Progress) {
        while self.redrive.clock.now() < end {
            if (self.redrive.interrupted)() {
                self.report.interrupted = true;
                return;
            }
            let now = self.redrive.clock.now();
            (self.redrive.progress)(told(now));
            self.redrive.clock.sleep(until(now, end).min(STEP)).await;
        }
    }

    /// Looks through the DLQ for messages of this run.
    async fn count_what_came_back(&mut self) -> Result<(), RedriveError> {
        let mut reader = Reader::new(self.redrive.dlq, self.redrive.clock).await?;
        let outcome = async {
            while let Some(messages) = reader.next().await? {
                for record in messages.into_iter().map(DeadLetterRecord::new) {
                    if let Some(told) = &record.metadata
                        && self.journal.came_back(&told.message_id, told.generation)
                    {
                        self.report.came_back(&told.message_id);
                    }
                }
            }
            Ok(())
        };
        let outcome = outcome.await;
        reader.finish().await;
        outcome
    }

    /// Messages that wait in the source queue with a delay, where that is known.
    pub(super) async fn delayed(&self) -> Option<u64> {
        self.redrive.source.depth().await.ok().map(|depth| depth.delayed)
    }
}
