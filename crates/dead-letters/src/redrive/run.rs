//! One run: it finishes what the run before left, sends the pilot, watches it, and sends the rest. Journal → send →
//! journal → delete: nothing is deleted before its send is confirmed and on disk. Several requests are under way at the
//! same time.

mod deletions;
mod flow;
mod phase;
mod round;
mod watch;

use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::ending::Ending;
use super::journal::{Entry, Journal};
use super::plan::Reason;
use super::report::{Early, RedriveReport};
use super::task::{Progress, Redrive};
use crate::groups::written;
use crate::{DeadLetterRecord, Failure, Reader};
use deletions::Deletions;
use flow::{Flow, Going};
use phase::Phase;

pub(super) struct Run<'r, 'a, D, S, C> {
    redrive: &'r Redrive<'a, D, S, C>,
    journal: &'r mut Journal,
    report: RedriveReport,
    phase: Phase,
    deletions: Deletions,
    /// Sends that failed since the last one that did not.
    sends_failed: u64,
    /// The earliest time of the next round, by the rate.
    next_round_at: Timestamp,
    /// In this pass: to be sent, and visible to others before its turn came.
    no_longer_hidden: u64,
    /// The same in any pass since it was last waited for.
    comes_out_again: bool,
    /// Messages that waited with a delay in the source queue before the first was sent, if SQS says it.
    delayed_before: Option<u64>,
}

/// The reasons to end a pass through the DLQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    AllSeen,
    PilotIsOut,
    /// And with it the run.
    Ended,
}

impl<'r, 'a, D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'r, 'a, D, S, C> {
    pub(super) fn new(redrive: &'r Redrive<'a, D, S, C>, journal: &'r mut Journal) -> Self {
        let is_left = journal.not_deleted().next().is_some();
        let phase = if is_left { Phase::Finish } else { Phase::of_sending(redrive.limits) };
        Self {
            redrive,
            journal,
            report: RedriveReport::default(),
            phase,
            deletions: Deletions::default(),
            sends_failed: 0,
            next_round_at: redrive.clock.now(),
            no_longer_hidden: 0,
            comes_out_again: false,
            delayed_before: None,
        }
    }

    pub(super) async fn finish(mut self) -> Result<RedriveReport, Failure> {
        // This run's own line comes first. Intents above it without an end are of a killed run and may have been sent,
        // so they count as possible copies from here on.
        let at = written(self.redrive.clock.now());
        self.journal.write(&[Entry::Run { at }])?;
        // Before the first send, so that messages that already waited do not count as failures of the pilot.
        self.delayed_before = watch::delayed(self.redrive.source).await;
        let worked = self.work().await;
        self.report.not_deleted = match self.phase {
            // It has tried some of them only.
            Phase::Finish if self.deletions.are_useless() => self.journal.not_deleted().count() as u64,
            _ => self.deletions.left(),
        };
        self.report.why_not_deleted = self.deletions.why_not.take();
        self.report.possible_copies = self.journal.possible_copies();
        if let Err(error) = worked {
            if self.report.done() == 0 {
                return Err(error);
            }
            // The work until then must be reported nevertheless. To the journal it is a killed run.
            self.report.early = Some(Early::Failed(error.to_string()));
            return Ok(self.report);
        }
        // Last of all. If the process dies before this line is on disk, the next run reports this one's copies again:
        // better twice than never.
        let RedriveReport { sent, not_deleted, .. } = self.report;
        let exit_code = Ending::of(&self.report, self.redrive.limits.max).code();
        self.journal.write(&[Entry::Ended { sent, not_deleted, exit_code }])?;
        Ok(self.report)
    }

    /// Passes, until there is nothing left to do.
    async fn work(&mut self) -> Result<(), Failure> {
        loop {
            let done_before = self.report.done();
            match self.pass().await? {
                Pass::Ended => return Ok(()),
                // The phase changes with it, or each later pass would end at once: the pilot is out only once.
                Pass::PilotIsOut => {
                    self.phase = Phase::Rest;
                    self.report.early =
                        watch::watch(self.redrive, self.journal, &mut self.report, self.delayed_before)
                            .await?;
                }
                Pass::AllSeen if self.phase == Phase::Finish => {
                    self.phase = Phase::of_sending(self.redrive.limits);
                }
                Pass::AllSeen if self.is_done() => return Ok(()),
                // Another pass takes the messages that were hidden from this one or failed in it, while that makes
                // progress.
                Pass::AllSeen if self.report.done() > done_before => {}
                Pass::AllSeen if std::mem::take(&mut self.comes_out_again) => {
                    self.report.early = watch::wait_for_what_is_hidden(self.redrive).await;
                }
                Pass::AllSeen => return Ok(()),
            }
            if self.report.early.is_some() {
                return Ok(());
            }
        }
    }

    fn is_done(&self) -> bool {
        self.report.is_covered() && self.deletions.left() == 0 && self.no_longer_hidden == 0
    }

    /// Goes through the DLQ once. The last pass counts the messages that stay: it sees all of them again.
    async fn pass(&mut self) -> Result<Pass, Failure> {
        self.deletions.start_pass();
        self.report.start_pass();
        self.no_longer_hidden = 0;
        let mut reader = Reader::new(self.redrive.dlq, self.redrive.clock).await?;
        let outcome = self.go_through(&mut reader).await;
        self.report.coverage = Some(reader.finish().await);
        // Only who has seen all of the DLQ may conclude from a message's absence that it is deleted.
        if matches!(outcome, Ok(Pass::AllSeen)) && self.report.is_covered() {
            self.deletions.forget_what_is_gone(self.journal, self.redrive.can_come_back)?;
        }
        outcome
    }

    /// Reads, sends and deletes at the same time. Whatever ends it, what is under way is finished first.
    async fn go_through(&mut self, reader: &mut Reader<'a, D, C>) -> Result<Pass, Failure> {
        let clock = self.redrive.clock;
        let mut flow = Flow::new();
        let mut end = None;
        loop {
            end = end.or_else(|| self.over().map(Ok));
            self.go_on(&mut flow, reader, end.is_some())?;
            if flow.is_idle() && (end.is_some() || (flow.all_read && flow.going.is_empty())) {
                break;
            }
            let wanted = if end.is_some() || flow.all_read { 0 } else { self.round(&flow) };
            let reads = (flow.going.len() as u64) < wanted && flow.room() > 0;
            for event in flow.events(reader, reads, clock, self.next_round_at).await {
                if let Err(error) = self.take_in(event, &mut flow, reader) {
                    end.get_or_insert(Err(error));
                }
            }
        }
        if self.report.sent >= self.redrive.limits.max {
            self.report.left_by_max = flow.going.len() as u64;
        }
        end.unwrap_or(Ok(Pass::AllSeen))
    }

    /// A dead letter that goes back; one that does not is counted.
    fn sorted(&mut self, record: DeadLetterRecord) -> Result<Option<Going>, Failure> {
        if self.redrive.can_come_back
            && let Some(metadata) = &record.metadata
            && self.journal.came_back(&metadata.message_id_text, metadata.generation())
        {
            self.report.came_back(&metadata.message_id_text, &record);
            (self.redrive.progress)(Progress::CameBack(self.report.came_back_count()));
            return Ok(None);
        }
        let sqs_message_id = &record.message.sqs_message_id;
        let Some(send_back) = self.redrive.plan.choose(&record, &mut self.report)? else { return Ok(None) };
        if self.journal.was_perhaps_sent_under_another_id(sqs_message_id, &send_back.message_id) {
            self.report.stay(sqs_message_id, Reason::AnotherId.to_string());
            return Ok(None);
        }
        Ok(Some(Going { record, send_back }))
    }

    /// Checks whether to end, or to watch.
    fn over(&mut self) -> Option<Pass> {
        let limits = self.redrive.limits;
        let sent = self.report.sent;
        // A run that cannot send any more has ended for that reason, whatever else there is.
        if self.report.early.is_none() {
            self.report.early = if (self.redrive.interrupted)() {
                Some(Early::Interrupted)
            } else {
                limits.are_exceeded(self.report.came_back_count(), sent).then_some(Early::Stopped)
            };
        }
        if self.report.early.is_some() || self.deletions.are_useless() || sent >= limits.max {
            return Some(Pass::Ended);
        }
        self.phase.has_its_pilot_out(sent).then_some(Pass::PilotIsOut)
    }
}
