//! Watches the pilot.
//!
//! Two effects are observable from outside. A message that is given up is in the DLQ again with its id: this is exact,
//! and a permanent failure takes seconds. A message that fails and will be retried is delayed in the source queue, by
//! the default policy five times for up to 15 minutes each. It cannot be received meanwhile, but SQS counts delayed
//! messages.

use std::iter::successors;
use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use crate::redrive::journal::RedriveJournal;
use crate::redrive::report::{EarlyEnd, PilotResult, RedriveReport};
use crate::redrive::task::{RedriveJob, RedriveProgress};
use crate::{DeadLetterError, DeadLetterReader, DeadLetterRecord, HIDDEN};

/// A permanent failure takes a few seconds. The interval to each later check doubles, since a check reads the whole
/// DLQ.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// The interval between two checks for an interrupt.
const STEP: Duration = Duration::from_secs(1);

/// Watches the pilot for the configured time, or until too many of its messages have failed or all have returned.
/// Returns the reason for ending the run now, if any. `delayed_before` is the number of delayed messages before the
/// first send.
pub(super) async fn watch_pilot<D: Queue, S: QueueSender + QueueDepth, C: Clock>(
    redrive: &RedriveJob<'_, D, S, C>,
    journal: &RedriveJournal,
    report: &mut RedriveReport,
    delayed_before: Option<u64>,
) -> Result<Option<EarlyEnd>, DeadLetterError> {
    let RedriveJob { source, clock, limits, .. } = redrive;
    let (begun, span) = (clock.now(), limits.watch);
    let looks = successors(Some(FIRST_LOOK), |look| Some(*look * 2)).take_while(|look| *look < span);
    for look in looks.chain([span]) {
        // Skip a check if reading a long queue took longer than the interval.
        if look < span && begun + look < clock.now() {
            continue;
        }
        let left = |now| RedriveProgress::Watching(time_until(now, begun + span));
        if let Some(early) = wait_until(redrive, begun + look, left).await {
            return Ok(Some(early));
        }
        // A returned message is counted exactly, by its id and generation. Delayed messages are only a count by SQS,
        // which includes retries of other producers' messages, so it is compared with the count before the pilot.
        count_returned(redrive, journal, report).await?;
        (redrive.progress)(RedriveProgress::CameBack(report.came_back_count()));
        let delayed = count_delayed(*source).await;
        let waiting = delayed_before.zip(delayed).map(|(before, now)| now.saturating_sub(before));
        report.watched = Some(PilotResult {
            seconds: look.as_secs(),
            sent: report.sent,
            came_back: report.came_back_count(),
            waiting,
        });
        // SQS's counts are up to a minute old, so they are only used in the last check.
        let waiting = waiting.filter(|_| look == span).unwrap_or(0);
        if limits.are_exceeded(report.came_back_count() + waiting, report.sent) {
            return Ok(Some(EarlyEnd::Stopped));
        }
        // Nothing is left to wait for, even if any number of failures is allowed.
        if report.came_back_count() >= report.sent {
            break;
        }
    }
    Ok(None)
}

/// Waits for messages that could not be kept hidden until they were sent: they can be received again once they are
/// visible.
pub(super) async fn wait_for_hidden<D, S, C: Clock>(redrive: &RedriveJob<'_, D, S, C>) -> Option<EarlyEnd> {
    let end = redrive.clock.now() + HIDDEN;
    wait_until(redrive, end, |now| RedriveProgress::Waiting(time_until(now, end))).await
}

/// The number of delayed messages in the source queue, if known.
pub(super) async fn count_delayed(source: &impl QueueDepth) -> Option<u64> {
    source.depth().await.ok().map(|depth| depth.delayed)
}

/// Waits until the given time, or an interrupt.
async fn wait_until<D, S, C: Clock>(
    RedriveJob { clock, interrupted, progress, .. }: &RedriveJob<'_, D, S, C>,
    end: Timestamp,
    left: impl Fn(Timestamp) -> RedriveProgress,
) -> Option<EarlyEnd> {
    while clock.now() < end {
        if interrupted() {
            return Some(EarlyEnd::Interrupted);
        }
        let now = clock.now();
        progress(left(now));
        clock.sleep(time_until(now, end).min(STEP)).await;
    }
    None
}

/// Counts messages of this run that are in the DLQ.
async fn count_returned<D: Queue, S, C: Clock>(
    redrive: &RedriveJob<'_, D, S, C>,
    journal: &RedriveJournal,
    report: &mut RedriveReport,
) -> Result<(), DeadLetterError> {
    let mut reader = DeadLetterReader::new(redrive.dlq, redrive.clock).await?;
    let outcome = async {
        while let Some(messages) = reader.next_messages().await? {
            for record in messages.into_iter().map(DeadLetterRecord::new) {
                if journal.has_come_back(&record) {
                    report.count_came_back(record.message_id(), &record);
                }
            }
        }
        Ok(())
    };
    let outcome = outcome.await;
    reader.finish().await;
    outcome
}
