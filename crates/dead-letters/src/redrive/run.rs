//! A single run: it finishes the work of the previous run, sends the pilot, watches it, and sends the rest. Journal →
//! send → journal → delete: a message is deleted only after its send is confirmed and the confirmation is on disk.
//! Several requests run concurrently.

mod deletions;
mod flow;
mod phase;
mod round;
mod watch;

use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::journal::{JournalEntry, RedriveJournal};
use super::outcome::RedriveOutcome;
use super::report::{EarlyEnd, RedriveReport};
use super::task::RedriveJob;
use crate::groups::format_timestamp;
use crate::{DeadLetterError, DeadLetterReader};
use deletions::Deletions;
use flow::RedriveFlow;
use phase::{Phase, Portion};

pub(super) struct RedriveRun<'r, 'a, D, S, C> {
    redrive: &'r RedriveJob<'a, D, S, C>,
    journal: &'r mut RedriveJournal,
    report: RedriveReport,
    phase: Phase,
    deletions: Deletions,
    /// The number of messages that this pass has read.
    seen_in_pass: u64,
    /// The number of failed sends since the last successful one.
    sends_failed: u64,
    /// The earliest time at which the rate allows the next round.
    next_round_at: Timestamp,
    /// The number of messages that became visible again before they were sent, since the run last waited for them.
    reappeared_before_send: u64,
    /// The number of delayed messages in the source queue before the first send, if SQS returned it.
    delayed_before: Option<u64>,
}

/// The reason why a pass through the DLQ ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassEnd {
    AllSeen,
    PilotSent,
    RunEnded,
}

impl<'r, 'a, D: Queue, S: QueueSender + QueueDepth, C: Clock> RedriveRun<'r, 'a, D, S, C> {
    pub(super) fn new(redrive: &'r RedriveJob<'a, D, S, C>, journal: &'r mut RedriveJournal) -> Self {
        let is_left = journal.undeleted_ids().next().is_some();
        let phase = if is_left { Phase::Finish } else { Phase::first_send(redrive.limits) };
        Self {
            redrive,
            journal,
            report: RedriveReport::default(),
            phase,
            deletions: Deletions::default(),
            seen_in_pass: 0,
            sends_failed: 0,
            next_round_at: redrive.clock.now(),
            reappeared_before_send: 0,
            delayed_before: None,
        }
    }

    pub(super) async fn run_to_completion(mut self) -> Result<RedriveReport, DeadLetterError> {
        // This run's own entry is written first. Earlier intents without an outcome are from a killed run and may have
        // been sent, so they count as possible copies from here on.
        let at = format_timestamp(self.redrive.clock.now());
        self.journal.write_entries(&[JournalEntry::Run { at }])?;
        // Counted before the first send, so that messages that are already delayed do not count as failures of the
        // pilot.
        self.delayed_before = watch::count_delayed(self.redrive.source).await;
        let worked = self.run_phases().await;
        self.report.not_deleted = match self.phase {
            // The run has attempted only some of the deletions.
            Phase::Finish if self.deletions.are_failing() => self.journal.undeleted_ids().count() as u64,
            _ => self.deletions.remaining_count(),
        };
        self.report.why_not_deleted = self.deletions.why_not.take();
        self.report.possible_copies = self.journal.possible_copies();
        if let Err(error) = worked {
            if self.report.done_count() == 0 {
                return Err(error);
            }
            // Work completed before the error must still be reported. In the journal, this run looks like a killed one.
            self.report.early_end = Some(EarlyEnd::Failed(error.to_string()));
            return Ok(self.report);
        }
        // Written last. If the process dies before this line is on disk, the next run reports this run's copies again:
        // better twice than never.
        let RedriveReport { sent, not_deleted, .. } = self.report;
        let exit_code =
            RedriveOutcome::from_report(&self.report, self.redrive.limits.max).exit_code().number();
        self.journal.write_entries(&[JournalEntry::Ended { sent, not_deleted, exit_code }])?;
        Ok(self.report)
    }

    /// Runs the phases in order.
    async fn run_phases(&mut self) -> Result<(), DeadLetterError> {
        while let Some(next) = self.run_phase().await? {
            self.phase = next;
        }
        Ok(())
    }

    /// Runs the current phase and returns the next one; `None` at the end of the run.
    async fn run_phase(&mut self) -> Result<Option<Phase>, DeadLetterError> {
        let next = match self.phase {
            Phase::Finish => match self.run_pass().await? {
                PassEnd::AllSeen => Phase::first_send(self.redrive.limits),
                PassEnd::PilotSent | PassEnd::RunEnded => return Ok(None),
            },
            Phase::Send(portion) => return self.send_portion(portion).await,
            Phase::Watch => {
                let Self { redrive, journal, report, delayed_before, .. } = self;
                report.early_end = watch::watch_pilot(redrive, journal, report, *delayed_before).await?;
                Phase::Send(Portion::Rest)
            }
            Phase::Wait(portion) => {
                self.reappeared_before_send = 0;
                self.report.early_end = watch::wait_for_hidden_messages(self.redrive).await;
                Phase::Send(portion)
            }
        };
        Ok(self.report.early_end.is_none().then_some(next))
    }

    /// Sends and deletes in one pass. Further passes handle messages that were hidden or failed, while there is
    /// progress.
    async fn send_portion(&mut self, portion: Portion) -> Result<Option<Phase>, DeadLetterError> {
        let (done_before, reappeared_before) = (self.report.done_count(), self.reappeared_before_send);
        let end = self.run_pass().await?;
        let is_done = self.report.covers_whole_dlq()
            && self.deletions.remaining_count() == 0
            && self.reappeared_before_send == reappeared_before;
        Ok(match end {
            PassEnd::PilotSent => Some(Phase::Watch),
            PassEnd::AllSeen if is_done => None,
            PassEnd::AllSeen if self.report.done_count() > done_before => Some(Phase::Send(portion)),
            PassEnd::AllSeen if self.reappeared_before_send > 0 => Some(Phase::Wait(portion)),
            PassEnd::AllSeen | PassEnd::RunEnded => None,
        })
    }

    /// Makes one pass through the DLQ. The last pass counts the remaining messages, since it reads all of them again.
    async fn run_pass(&mut self) -> Result<PassEnd, DeadLetterError> {
        self.deletions.start_pass();
        self.report.start_pass();
        self.seen_in_pass = 0;
        let mut reader = DeadLetterReader::new(self.redrive.dlq, self.redrive.clock).await?;
        let outcome = self.process_queue(&mut reader).await;
        self.report.coverage = Some(reader.finish().await);
        // A message's absence proves its deletion only after a complete pass.
        if matches!(outcome, Ok(PassEnd::AllSeen)) && self.report.covers_whole_dlq() {
            self.deletions.record_missing_messages_as_deleted(self.journal, self.redrive.can_come_back)?;
        }
        outcome
    }

    /// Reads, sends and deletes concurrently. Requests in progress are always completed before it returns.
    async fn process_queue(
        &mut self,
        reader: &mut DeadLetterReader<'a, D, C>,
    ) -> Result<PassEnd, DeadLetterError> {
        let clock = self.redrive.clock;
        let mut flow = RedriveFlow::new();
        let mut end = None;
        loop {
            end = end.or_else(|| self.end_reason().map(Ok));
            let round = if end.is_some() { Vec::new() } else { self.next_round(&mut flow, reader) };
            self.dispatch_round(round, &mut flow, reader)?;
            if flow.is_idle() && (end.is_some() || flow.is_exhausted()) {
                break;
            }
            let reads = end.is_none() && flow.can_read_more(self.round_size(&flow));
            for event in flow.wait_for_events(reader, reads, clock, self.next_round_at).await {
                if let Err(error) = self.apply_event(event, &mut flow, reader) {
                    end.get_or_insert(Err(error));
                }
            }
        }
        if self.report.sent >= self.redrive.limits.max {
            self.report.left_by_max = flow.waiting.len() as u64;
        }
        end.unwrap_or(Ok(PassEnd::AllSeen))
    }

    /// Returns the reason for ending the pass now, if any.
    fn end_reason(&mut self) -> Option<PassEnd> {
        let limits = self.redrive.limits;
        let sent = self.report.sent;
        // If the run can no longer send, that reason takes precedence over all others.
        if self.report.early_end.is_none() {
            self.report.early_end = if (self.redrive.interrupted)() {
                Some(EarlyEnd::Interrupted)
            } else {
                limits.are_exceeded(self.report.returned_count(), sent).then_some(EarlyEnd::Stopped)
            };
        }
        if self.report.early_end.is_some() || self.deletions.are_failing() || sent >= limits.max {
            return Some(PassEnd::RunEnded);
        }
        self.phase.is_pilot_sent(sent).then_some(PassEnd::PilotSent)
    }
}
