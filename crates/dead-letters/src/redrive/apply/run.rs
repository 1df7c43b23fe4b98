//! One run: it finishes what the run before left, sends the pilot, watches it, and sends the rest.

use std::collections::BTreeMap;

use chrono::SecondsFormat;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::round::Going;
use super::{Limits, Redrive, RedriveError};
use crate::redrive::journal::{Entry, Journal};
use crate::redrive::plan::Verdict;
use crate::redrive::report::Report;
use crate::{DeadLetterRecord, Reader};

/// Messages of one round: some requests at once, and not much to do again after a crash.
const ROUND: u64 = 100;
/// Sent before the rest, to see what becomes of them.
pub(super) const PILOT: u64 = 50;

/// A run at work.
pub(super) struct Run<'r, 'a, D, S, C> {
    pub(super) redrive: &'r Redrive<'a, D, S, C>,
    pub(super) journal: &'r mut Journal,
    pub(super) report: Report,
    phase: Phase,
    /// The number of the present one.
    pub(super) pass: u32,
    /// Sent, by whichever run, and not deleted by this one; with the pass that tried it last.
    pub(super) not_deleted: BTreeMap<String, u32>,
    /// Deletions that failed since the last one that did not.
    pub(super) deletions_failed: u64,
    /// Sends that failed since the last one that did not.
    pub(super) sends_failed: u64,
    /// Something was to be sent and could not be kept hidden until then.
    pub(super) comes_out_again: bool,
    /// Messages that waited with a delay in the source queue before the first was sent, where SQS says it.
    pub(super) delayed_before: Option<u64>,
}

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Deletes what earlier runs have sent. It sends nothing: whoever may not delete would send more and more.
    Finish,
    /// Sends the first messages ahead.
    Pilot,
    /// Sends all others.
    Rest,
}

impl Phase {
    /// A pilot that is not watched is none.
    fn of_sending(limits: Limits) -> Self {
        if limits.watch.is_zero() { Self::Rest } else { Self::Pilot }
    }
}

/// Why a pass through the DLQ is over.
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
            report: Report::default(),
            phase,
            pass: 0,
            not_deleted: BTreeMap::new(),
            deletions_failed: 0,
            sends_failed: 0,
            comes_out_again: false,
            delayed_before: None,
        }
    }

    pub(super) async fn finish(mut self) -> Result<Report, RedriveError> {
        let at = self.redrive.clock.now().to_rfc3339_opts(SecondsFormat::Millis, true);
        self.journal.write(&[Entry::Run { at }])?;
        self.delayed_before = self.delayed().await;
        let worked = self.work().await;
        self.report.not_deleted = match self.phase {
            // It has tried some of them only.
            Phase::Finish if self.deletes_nothing() => self.journal.not_deleted().count() as u64,
            _ => self.not_deleted.len() as u64,
        };
        self.report.possible_copies = self.journal.possible_copies();
        if let Err(error) = worked {
            if self.report.done() == 0 {
                return Err(error);
            }
            // What was done until then must be told all the same. To the journal it is a run that was killed.
            self.report.failed = Some(error.to_string());
            return Ok(self.report);
        }
        let Report { sent, not_deleted, .. } = self.report;
        let exit_code = self.report.ending(self.redrive.limits.max).code();
        self.journal.write(&[Entry::Ended { sent, not_deleted, exit_code }])?;
        Ok(self.report)
    }

    /// Passes, until there is nothing left to do.
    async fn work(&mut self) -> Result<(), RedriveError> {
        loop {
            let before = self.report.done();
            match self.pass().await? {
                Pass::Ended => return Ok(()),
                Pass::PilotIsOut => {
                    self.phase = Phase::Rest;
                    self.watch().await?;
                    if self.report.stopped || self.report.interrupted {
                        return Ok(());
                    }
                }
                Pass::AllSeen if self.phase == Phase::Finish => {
                    self.phase = Phase::of_sending(self.redrive.limits)
                }
                Pass::AllSeen if self.is_done() => return Ok(()),
                // What was hidden from this pass, and what it could not do, is for another one, if that gets anywhere.
                Pass::AllSeen if self.report.done() > before => {}
                Pass::AllSeen if std::mem::take(&mut self.comes_out_again) => {
                    self.wait_for_what_is_hidden().await;
                }
                Pass::AllSeen => return Ok(()),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.report.is_covered() && self.not_deleted.is_empty() && self.report.no_longer_hidden == 0
    }

    /// Once through the DLQ.
    async fn pass(&mut self) -> Result<Pass, RedriveError> {
        self.pass += 1;
        self.report.start_pass();
        let mut reader = Reader::new(self.redrive.dlq, self.redrive.clock).await?;
        let outcome = self.go_through(&mut reader).await;
        self.report.coverage = Some(reader.finish().await);
        if outcome.as_ref().is_ok_and(|pass| *pass == Pass::AllSeen) && self.report.is_covered() {
            self.forget_what_is_gone()?;
        }
        outcome
    }

    async fn go_through(&mut self, reader: &mut Reader<'_, D, C>) -> Result<Pass, RedriveError> {
        let mut going = Vec::new();
        loop {
            if let Some(over) = self.over() {
                return Ok(over);
            }
            let messages = reader.next().await?;
            let is_last = messages.is_none();
            let mut sent_before = Vec::new();
            for record in messages.unwrap_or_default().into_iter().map(DeadLetterRecord::new) {
                if self.journal.was_sent(&record.message.sqs_message_id) {
                    sent_before.push(record);
                } else if self.phase != Phase::Finish {
                    going.extend(self.sorted(record)?);
                }
            }
            self.report.deleted_only += self.delete(sent_before, reader).await?;
            while going.len() >= self.round() || (is_last && !going.is_empty()) {
                if let Some(over) = self.over() {
                    return Ok(over);
                }
                let rest = going.split_off(self.round().min(going.len()));
                self.send(std::mem::replace(&mut going, rest), reader).await?;
            }
            if is_last {
                return Ok(self.over().unwrap_or(Pass::AllSeen));
            }
        }
    }

    /// A dead letter that goes back; one that does not is counted.
    fn sorted(&mut self, record: DeadLetterRecord) -> Result<Option<Going>, RedriveError> {
        if let Some(told) = &record.metadata
            && self.journal.came_back(&told.message_id, told.generation)
        {
            self.report.came_back(&told.message_id);
            return Ok(None);
        }
        match self.redrive.plan.decide(&record)? {
            Verdict::Send(send_back) => Ok(Some(Going { record, send_back: *send_back })),
            verdict => {
                self.report.planned(&record, &verdict, self.redrive.limits.max);
                Ok(None)
            }
        }
    }

    /// Whether this is the time to end, or to look.
    fn over(&mut self) -> Option<Pass> {
        let sent = self.report.sent;
        if (self.redrive.interrupted)() {
            self.report.interrupted = true;
        } else if self.has_failed_too_often(0) {
            self.report.stopped = true;
        } else if self.phase == Phase::Pilot
            && !self.deletes_nothing()
            && (PILOT..self.redrive.limits.max).contains(&sent)
        {
            return Some(Pass::PilotIsOut);
        }
        let Report { interrupted, stopped, .. } = self.report;
        let is_useless = self.deletes_nothing() || self.report.failed.is_some();
        let is_over = interrupted || stopped || is_useless || sent >= self.redrive.limits.max;
        is_over.then_some(Pass::Ended)
    }

    /// Whether more of what this run has sent is in the DLQ again, or waits for a retry, than may be.
    pub(super) fn has_failed_too_often(&self, waiting: u64) -> bool {
        let failed = (self.report.came_back_count() + waiting).min(self.report.sent);
        failed * 100 > u64::from(self.redrive.limits.stop_after_failures_percent) * self.report.sent
    }

    /// Messages of the next round: no more than are to be sent a second, in the pilot, and in all.
    fn round(&self) -> usize {
        let limits = self.redrive.limits;
        let rate = limits.rate.map_or(ROUND, u64::from);
        let pilot =
            if self.phase == Phase::Pilot { PILOT.saturating_sub(self.report.sent) } else { u64::MAX };
        let left = limits.max.saturating_sub(self.report.sent);
        let round = rate.min(pilot).min(left).clamp(1, ROUND);
        usize::try_from(round).expect("at most 100")
    }
}
