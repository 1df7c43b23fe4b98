//! Watches the pilot.
//!
//! Two effects are observable from outside. A message that is given up returns to the DLQ with its id: this count is
//! exact, and a permanent failure takes seconds. A message that fails and will be retried is delayed in the source
//! queue: with the default policy, five times for up to 15 minutes each. It cannot be received in the meantime, but SQS
//! counts delayed messages.

use std::iter::successors;
use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use crate::redrive::journal::RedriveJournal;
use crate::redrive::report::{EarlyEnd, PilotResult, RedriveReport};
use crate::redrive::task::{RedriveJob, RedriveProgress};
use crate::{DeadLetterError, DeadLetterReader, DeadLetterRecord, INITIAL_VISIBILITY_TIMEOUT};

/// The time until the first check: a permanent failure takes a few seconds. The time doubles for each later check,
/// since a check reads the complete DLQ.
const FIRST_CHECK: Duration = Duration::from_secs(5);
/// The interval between two checks for an interrupt.
const WAIT_STEP: Duration = Duration::from_secs(1);

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
    let (started, span) = (clock.now(), limits.watch);
    let checks = successors(Some(FIRST_CHECK), |check| Some(*check * 2)).take_while(|check| *check < span);
    for check in checks.chain([span]) {
        // Skips a check if reading a long queue took longer than the interval.
        if check < span && started + check < clock.now() {
            continue;
        }
        let progress_at = |now| RedriveProgress::Watching(time_until(now, started + span));
        if let Some(early) = wait_until(redrive, started + check, progress_at).await {
            return Ok(Some(early));
        }
        // A returned message is counted exactly, by its id and generation. For delayed messages, SQS returns only a
        // count, which includes retries of other producers' messages, so it is compared with the count before the
        // pilot.
        count_returned(redrive, journal, report).await?;
        (redrive.progress)(RedriveProgress::CameBack(report.returned_count()));
        let delayed = count_delayed(*source).await;
        let waiting = delayed_before.zip(delayed).map(|(before, now)| now.saturating_sub(before));
        report.pilot_result = Some(PilotResult {
            seconds: check.as_secs(),
            sent: report.sent,
            came_back: report.returned_count(),
            waiting,
        });
        // SQS's counts are up to a minute old, so they are only used in the last check.
        let waiting = waiting.filter(|_| check == span).unwrap_or(0);
        if limits.are_exceeded(report.returned_count() + waiting, report.sent) {
            return Ok(Some(EarlyEnd::Stopped));
        }
        // Nothing is left to wait for, even if any number of failures is allowed.
        if report.returned_count() >= report.sent {
            break;
        }
    }
    Ok(None)
}

/// Waits for messages that could not be kept hidden until they were sent: they can be received again once they are
/// visible.
pub(super) async fn wait_for_hidden_messages<D, S, C: Clock>(
    redrive: &RedriveJob<'_, D, S, C>,
) -> Option<EarlyEnd> {
    let end = redrive.clock.now() + INITIAL_VISIBILITY_TIMEOUT;
    wait_until(redrive, end, |now| RedriveProgress::Waiting(time_until(now, end))).await
}

/// Returns the number of delayed messages in the source queue, if known.
pub(super) async fn count_delayed(source: &impl QueueDepth) -> Option<u64> {
    source.depth().await.ok().map(|depth| depth.delayed)
}

/// Waits until the given time, or an interrupt.
async fn wait_until<D, S, C: Clock>(
    RedriveJob { clock, interrupted, progress, .. }: &RedriveJob<'_, D, S, C>,
    end: Timestamp,
    progress_at: impl Fn(Timestamp) -> RedriveProgress,
) -> Option<EarlyEnd> {
    while clock.now() < end {
        if interrupted() {
            return Some(EarlyEnd::Interrupted);
        }
        let now = clock.now();
        progress(progress_at(now));
        clock.sleep(time_until(now, end).min(WAIT_STEP)).await;
    }
    None
}

/// Counts messages sent by this run that are in the DLQ.
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
                    report.count_returned_message(record.message_id(), &record);
                }
            }
        }
        Ok(())
    };
    let outcome = outcome.await;
    reader.finish().await;
    outcome
}
