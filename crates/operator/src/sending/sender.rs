//! Sends the lines, with several batches in flight, and records the confirmed ones in the journal.

use std::cell::RefCell;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::abortable;
use futures_util::{Stream, StreamExt as _};
use redeliver_core::deliver::deliver;
use redeliver_core::ports::{Clock, EntryOutcome, QueueSender};
use redeliver_dead_letters::{SEND_KEY_PERMISSIONS, explain_error};

use super::batches::{LineBatch, batch_lines};
use super::confirmed::{Digest, group_into_ranges};
use super::journal::SendJournal;
use super::pace::SendPace;
use super::reader::{InputStep, LineCheck, NumberedMessage};
use super::summary::{StopReason, Summary};

/// Maximum number of batches in flight.
const CONCURRENT_BATCHES: usize = 8;
/// The time limit for one batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of consecutive batches without a confirmed line after which the send stops.
const UNCONFIRMED_BATCHES_MAX: u32 = 3;

/// Receives the problems, warnings and progress of a send.
pub trait Watcher {
    /// Reports a line that was not sent or not confirmed.
    fn report_problem(&self, line: usize, what: &str);
    /// Reports a line that is sent, but might not be what its producer intended. A warning without a line number
    /// applies to the entire input.
    fn report_warning(&self, line: Option<usize>, what: &str);
    /// Reports the number of input bytes read so far. Called after each step.
    fn report_progress(&self, bytes: u64, so_far: &Summary);
}

/// Sends the lines of one input to one queue.
#[derive(Debug)]
pub struct FileSender<'a, Q, C, T> {
    pub queue: &'a Q,
    pub clock: &'a C,
    /// Messages per second; unlimited if `None`.
    pub rate: Option<NonZeroU32>,
    pub watcher: &'a T,
}

impl<Q: QueueSender, C: Clock, T: Watcher> FileSender<'_, Q, C, T> {
    /// Sends all valid lines until `stop` completes, SQS no longer confirms anything, or the journal cannot be written.
    /// Then waits for the batches in flight.
    pub async fn send(
        &self,
        steps: impl Stream<Item = InputStep>,
        journal: Option<&mut SendJournal<impl Write>>,
        stop: impl Future<Output = ()>,
    ) -> Summary {
        let summary = RefCell::new(Summary::default());
        let reached_end = RefCell::new(false);
        let valid = steps.filter_map(|step| {
            *reached_end.borrow_mut() |= matches!(step.checked, LineCheck::End(_));
            std::future::ready(count_step(step, &mut summary.borrow_mut(), self.watcher))
        });
        let (batches, handle) = abortable(batch_lines(valid.fuse(), self.clock, SendPace::new(self.rate)));
        let stop = async {
            stop.await;
            summary.borrow_mut().record_stop(StopReason::Interrupted);
        };
        // A stop ends the stream of batches, but does not cancel batches in flight: they are awaited, and their
        // confirmed messages are recorded in the journal.
        let deliveries = batches.take_until(stop).map(|batch| self.deliver_batch(batch));
        let mut deliveries = pin!(deliveries.buffer_unordered(CONCURRENT_BATCHES));
        let mut recorder = JournalRecorder { journal, failed: None, unrecorded: Vec::new() };
        let mut unconfirmed_batches = 0;
        while let Some(delivered) = deliveries.next().await {
            let SettledBatch { confirmed, last_error } = self.settle_batch(delivered, &summary);
            unconfirmed_batches = if confirmed.is_empty() { unconfirmed_batches + 1 } else { 0 };
            // If the process dies between the SQS response and this line, the next run sends these messages again, as
            // copies with the same `message_id`. The opposite order would lose messages that were recorded but never
            // sent.
            if !recorder.record_lines(&confirmed) {
                handle.abort();
            }
            if unconfirmed_batches >= UNCONFIRMED_BATCHES_MAX {
                summary.borrow_mut().record_stop(StopReason::Refused(last_error.unwrap_or_default()));
                handle.abort();
            }
        }
        let mut summary = summary.borrow().clone();
        summary.stopped = recorder.into_stop_reason().or(summary.stopped);
        // A panic in the reader thread also ends the stream of lines, which must not be mistaken for the end of the
        // input.
        if summary.stopped.is_none() && !*reached_end.borrow() {
            summary.stopped = Some(StopReason::Unreadable("the reader thread panicked".to_owned()));
        }
        summary
    }

    async fn deliver_batch(&self, LineBatch { lines, messages }: LineBatch) -> DeliveredBatch {
        let deadline = self.clock.now() + BATCH_TIMEOUT;
        DeliveredBatch { lines, outcomes: deliver(self.queue, self.clock, deadline, messages).await }
    }

    fn settle_batch(
        &self,
        DeliveredBatch { lines, outcomes }: DeliveredBatch,
        summary: &RefCell<Summary>,
    ) -> SettledBatch {
        let mut confirmed = Vec::new();
        let mut last_error = None;
        for (line, outcome) in lines.iter().zip(outcomes) {
            match outcome {
                Ok(_) => confirmed.push(*line),
                Err(error) => {
                    let error = explain_error(&error, "sqs:SendMessage", SEND_KEY_PERMISSIONS);
                    self.watcher.report_problem(line.0, &format!("not confirmed by SQS: {error}"));
                    last_error = Some(error);
                }
            }
        }
        let mut summary = summary.borrow_mut();
        summary.sent += confirmed.len() as u64;
        summary.unconfirmed += (lines.len() - confirmed.len()) as u64;
        SettledBatch { confirmed, last_error }
    }
}

/// The lines of a batch and the SQS result for each of them.
struct DeliveredBatch {
    lines: Vec<(usize, Digest)>,
    outcomes: Vec<EntryOutcome<String>>,
}

/// The confirmed lines in a batch, and the last error for the others.
struct SettledBatch {
    confirmed: Vec<(usize, Digest)>,
    last_error: Option<String>,
}

/// Counts one step of reading the input. Returns the line if it should be sent.
pub fn count_step(step: InputStep, summary: &mut Summary, watcher: &impl Watcher) -> Option<NumberedMessage> {
    for (line, warning) in &step.warnings {
        watcher.report_warning(*line, warning);
    }
    let mut valid = None;
    match step.checked {
        LineCheck::Valid(line) => valid = Some(line),
        LineCheck::Invalid { number, findings } => {
            summary.invalid += 1;
            findings.iter().for_each(|finding| watcher.report_problem(number, finding));
        }
        LineCheck::Confirmed => summary.sent_before += 1,
        LineCheck::Repeated => summary.repeated += 1,
        LineCheck::Unreadable(reason) => summary.record_stop(StopReason::Unreadable(reason)),
        LineCheck::End(recognized) => summary.recognized = recognized,
    }
    watcher.report_progress(step.bytes, summary);
    valid
}

/// Records confirmed lines in the journal, and keeps track of those that could not be recorded.
struct JournalRecorder<'a, W> {
    journal: Option<&'a mut SendJournal<W>>,
    failed: Option<io::Error>,
    unrecorded: Vec<usize>,
}

impl<W: Write> JournalRecorder<'_, W> {
    /// Records lines in the journal, if there is one. After a failed write, returns false and writes nothing more: only
    /// the last record of a journal may be truncated.
    fn record_lines(&mut self, lines: &[(usize, Digest)]) -> bool {
        let Some(journal) = self.journal.as_mut().filter(|_| !lines.is_empty()) else {
            return true;
        };
        // Lines confirmed after the failure are not recorded; the error names them.
        if self.failed.is_none() {
            self.failed = journal.record_confirmed(lines).err();
        }
        if self.failed.is_some() {
            self.unrecorded.extend(lines.iter().map(|(number, _)| *number));
        }
        self.failed.is_none()
    }

    fn into_stop_reason(mut self) -> Option<StopReason> {
        let error = self.failed?;
        self.unrecorded.sort_unstable();
        let lines: Vec<_> = group_into_ranges(self.unrecorded)
            .iter()
            .map(|(first, last)| format!("{first}-{last}"))
            .collect();
        Some(StopReason::Journal(format!(
            "{error}; lines {} were sent and will be sent again",
            lines.join(", ")
        )))
    }
}
