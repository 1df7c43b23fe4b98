//! The send itself: several batches in flight, and a journal record for each confirmed line before it counts as sent.

use std::cell::RefCell;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::abortable;
use futures_util::{Stream, StreamExt as _};
use redeliver_core::deliver::deliver;
use redeliver_core::ports::{Clock, EntryOutcome, QueueSender};
use redeliver_dead_letters::{SEND_KEY_RIGHTS, with_right};

use super::batches::{Batch, batches};
use super::confirmed::{Digest, ranges};
use super::journal::Journal;
use super::pace::Pace;
use super::reader::{Checked, Numbered, Step};
use super::summary::{Stopped, Summary};

/// The limit on batches in flight.
const CONCURRENT_BATCHES: usize = 8;
/// The time limit for one batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Stop after this many batches in a row without a confirmed line.
const FRUITLESS_BATCHES: u32 = 3;

/// Receives the progress of a send.
pub trait Watcher {
    /// A line was not sent, or not confirmed.
    fn problem(&self, line: usize, what: &str);
    /// A line is sent, but its producer may not have meant it. Without a line, the warning is about all lines.
    fn warning(&self, line: Option<usize>, what: &str);
    /// Bytes of the input read so far.
    fn progress(&self, bytes: u64, so_far: &Summary);
}

/// Sends the lines of one input to one queue.
#[derive(Debug)]
pub struct Sender<'a, Q, C, T> {
    pub queue: &'a Q,
    pub clock: &'a C,
    /// Messages per second; unlimited if `None`.
    pub rate: Option<NonZeroU32>,
    pub watcher: &'a T,
}

impl<Q: QueueSender, C: Clock, T: Watcher> Sender<'_, Q, C, T> {
    /// Sends all valid lines, until `stop` completes, SQS confirms nothing any more, or the journal cannot be written.
    /// Then waits for the batches in flight.
    pub async fn send(
        &self,
        steps: impl Stream<Item = Step>,
        journal: Option<&mut Journal<impl Write>>,
        stop: impl Future<Output = ()>,
    ) -> Summary {
        let summary = RefCell::new(Summary::default());
        let complete = RefCell::new(false);
        let valid = steps.filter_map(|step| {
            *complete.borrow_mut() |= matches!(step.checked, Checked::End(_));
            std::future::ready(count(step, &mut summary.borrow_mut(), self.watcher))
        });
        let (batches, brake) = abortable(batches(valid.fuse(), self.clock, Pace::new(self.rate)));
        let stop = async {
            stop.await;
            summary.borrow_mut().end(Stopped::Interrupted);
        };
        // A stop ends the stream of batches, not the batches: those that have left are waited for, and what SQS
        // confirms of them gets into the journal.
        let answers = batches.take_until(stop).map(|batch| self.deliver(batch));
        let mut answers = pin!(answers.buffer_unordered(CONCURRENT_BATCHES));
        let mut record = Record { journal, failed: None, unknown: Vec::new() };
        let mut fruitless = 0;
        while let Some(answered) = answers.next().await {
            let Settled { confirmed, last_error } = self.settle(answered, &summary);
            fruitless = if confirmed.is_empty() { fruitless + 1 } else { 0 };
            // If the process dies between SQS's answer and this line, these messages are sent again by the next run: a
            // copy with the same `message_id`. The other order would lose what was recorded and never sent.
            if !record.confirm(&confirmed) {
                brake.abort();
            }
            if fruitless >= FRUITLESS_BATCHES {
                summary.borrow_mut().end(Stopped::Refused(last_error.unwrap_or_default()));
                brake.abort();
            }
        }
        let mut summary = summary.borrow().clone();
        summary.stopped = record.failure().or(summary.stopped);
        // If the reader's thread dies, the stream of lines ends, too. That must not look like the end of the input.
        if summary.stopped.is_none() && !*complete.borrow() {
            summary.stopped = Some(Stopped::Unreadable("its reader thread has panicked".to_owned()));
        }
        summary
    }

    async fn deliver(&self, Batch { lines, messages }: Batch) -> Answered {
        let deadline = self.clock.now() + BATCH_TIMEOUT;
        Answered { lines, outcomes: deliver(self.queue, self.clock, deadline, messages).await }
    }

    fn settle(&self, Answered { lines, outcomes }: Answered, summary: &RefCell<Summary>) -> Settled {
        let mut confirmed = Vec::new();
        let mut last_error = None;
        for (line, outcome) in lines.iter().zip(outcomes) {
            match outcome {
                Ok(_) => confirmed.push(*line),
                Err(error) => {
                    let error = with_right(&error, "sqs:SendMessage", SEND_KEY_RIGHTS);
                    self.watcher.problem(line.0, &format!("not confirmed by SQS: {error}"));
                    last_error = Some(error);
                }
            }
        }
        let mut summary = summary.borrow_mut();
        summary.sent += confirmed.len() as u64;
        summary.unconfirmed += (lines.len() - confirmed.len()) as u64;
        Settled { confirmed, last_error }
    }
}

/// The lines of a batch, and SQS's answer to each.
struct Answered {
    lines: Vec<(usize, Digest)>,
    outcomes: Vec<EntryOutcome<String>>,
}

/// The confirmed lines of a batch, and the last error of the others.
struct Settled {
    confirmed: Vec<(usize, Digest)>,
    last_error: Option<String>,
}

/// Counts a step through the input, and returns its line if it is to be sent.
pub fn count(step: Step, summary: &mut Summary, watcher: &impl Watcher) -> Option<Numbered> {
    for (line, warning) in &step.warnings {
        watcher.warning(*line, warning);
    }
    let mut valid = None;
    match step.checked {
        Checked::Valid(line) => valid = Some(line),
        Checked::Invalid { number, findings } => {
            summary.invalid += 1;
            findings.iter().for_each(|finding| watcher.problem(number, finding));
        }
        Checked::Confirmed => summary.sent_before += 1,
        Checked::Repeated => summary.repeated += 1,
        Checked::Unreadable(word) => summary.end(Stopped::Unreadable(word)),
        Checked::End(recognized) => summary.recognized = recognized,
    }
    watcher.progress(step.bytes, summary);
    valid
}

/// The journal, and the confirmed lines that are not in it.
struct Record<'a, W> {
    journal: Option<&'a mut Journal<W>>,
    failed: Option<io::Error>,
    unknown: Vec<usize>,
}

impl<W: Write> Record<'_, W> {
    /// Records lines in the journal, if there is one. Returns false after a failure, and then writes nothing more: a
    /// torn record may only be the last one.
    fn confirm(&mut self, lines: &[(usize, Digest)]) -> bool {
        let Some(journal) = self.journal.as_mut().filter(|_| !lines.is_empty()) else {
            return true;
        };
        // Once, since a torn record may only be the last one. The error names the lines that are confirmed afterwards.
        if self.failed.is_none() {
            self.failed = journal.confirm(lines).err();
        }
        if self.failed.is_some() {
            self.unknown.extend(lines.iter().map(|(number, _)| *number));
        }
        self.failed.is_none()
    }

    fn failure(mut self) -> Option<Stopped> {
        let error = self.failed?;
        self.unknown.sort_unstable();
        let lines: Vec<_> =
            ranges(self.unknown).iter().map(|(first, last)| format!("{first}-{last}")).collect();
        Some(Stopped::Journal(format!(
            "{error}; lines {} were sent and will be sent again",
            lines.join(", ")
        )))
    }
}
