//! Watches the pilot.
//!
//! Two effects are visible from outside. A message that is given up is in the DLQ again with its id: that is exact, and
//! a permanent failure takes seconds. A message that fails and will be retried waits in the source queue with a delay,
//! by the default policy five times for up to 15 minutes each. It cannot be received meanwhile, but SQS counts such
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

/// A permanent failure needs a few seconds. Each later look comes after twice as long, since it reads the whole DLQ.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// Between two questions whether to end.
const STEP: Duration = Duration::from_secs(1);

/// Watches the pilot for as long as it is to be watched, or until too much of it has failed or all of it is back; why
/// the run is to end now, if it is. `delayed_before` is what waited with a delay before the first was sent.
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
        // Reading a long queue takes longer than the time to the next look.
        if look < span && begun + look < clock.now() {
            continue;
        }
        let left = |now| RedriveProgress::Watching(time_until(now, begun + span));
        if let Some(early) = wait_until(redrive, begun + look, left).await {
            return Ok(Some(early));
        }
        // A message that came back is counted exactly, by its id and generation. Those that wait are only a number of
        // SQS's, with other producers' retries in it, so it is compared with the number before.
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
        // SQS's counts are up to a minute old: they are worth nothing before the last look.
        let waiting = waiting.filter(|_| look == span).unwrap_or(0);
        if limits.are_exceeded(report.came_back_count() + waiting, report.sent) {
            return Ok(Some(EarlyEnd::Stopped));
        }
        // There is nothing left to wait for, also if any number of failures is allowed.
        if report.came_back_count() >= report.sent {
            break;
        }
    }
    Ok(None)
}

/// Messages that could not be kept hidden until they were sent come out again once they are visible.
pub(super) async fn wait_for_hidden<D, S, C: Clock>(redrive: &RedriveJob<'_, D, S, C>) -> Option<EarlyEnd> {
    let end = redrive.clock.now() + HIDDEN;
    wait_until(redrive, end, |now| RedriveProgress::Waiting(time_until(now, end))).await
}

/// Messages that wait in the source queue with a delay, if that is known.
pub(super) async fn count_delayed(source: &impl QueueDepth) -> Option<u64> {
    source.depth().await.ok().map(|depth| depth.delayed)
}

/// Until then, or an interrupt.
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

/// Looks through the DLQ for messages of this run.
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
