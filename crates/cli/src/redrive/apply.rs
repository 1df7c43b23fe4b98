//! Sends back: journal → send → journal → delete. Nothing is deleted before its send is confirmed and on disk.

use std::time::Duration;

use redeliver_core::delivery::deliver;
use redeliver_core::ports::{Clock, Fault, Queue, QueueSender};
use thiserror::Error;

use super::journal::{Entry, Journal, JournalError};
use super::plan::{Plan, SendBack, Verdict};
use super::report::Report;
use crate::dead_letters::{DeadLetterRecord, FilterError, Reader, ReaderError};

/// Messages of one round: some requests at once, and not much to do again after a crash.
const ROUND: usize = 100;
/// For one round's sends.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Sent before the rest, to see whether they come straight back.
const PILOT: u64 = 50;
/// How long they are waited for: a permanent failure needs a few seconds.
const PILOT_WAIT: Duration = Duration::from_secs(15);

/// How fast and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages a second; none: as fast as it goes.
    pub rate: Option<u32>,
    /// Messages in all.
    pub max: u64,
    /// Ends the run when more than so many percent of what was sent came straight back.
    pub stop_after_failures_percent: u8,
}

/// Why a redrive ends early. What was sent is in the journal.
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
    /// How fast and how much.
    pub limits: Limits,
    /// Whether to end as soon as possible: Ctrl-C.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told how many were sent.
    pub progress: &'a dyn Fn(u64),
}

/// One dead letter that is to go back.
struct Going {
    record: DeadLetterRecord,
    send_back: SendBack,
}

/// Whether there is more to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Look,
    End,
}

impl<D: Queue, S: QueueSender, C: Clock> Redrive<'_, D, S, C> {
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
        let mut report = Report::default();
        loop {
            let before = report.sent + report.deleted_only;
            let mut reader = Reader::new(self.dlq, self.clock).await?;
            let outcome = self.pass(&mut reader, journal, &mut report).await;
            report.coverage = Some(reader.finish().await);
            match outcome? {
                Next::End => break,
                Next::Look => {
                    self.clock.sleep(PILOT_WAIT).await;
                    self.count_what_came_back(journal, &mut report).await?;
                    if self.too_many_came_back(&report) {
                        report.stopped = true;
                        break;
                    }
                }
                // Slow redrives outlive the time for which messages are held: what came out again is for another pass.
                Next::GoOn if report.is_covered() || report.sent + report.deleted_only == before => break,
                Next::GoOn => {}
            }
        }
        if !(report.stopped || report.interrupted) {
            journal.write(&[Entry::Done { sent: report.sent }])?;
        }
        Ok(report)
    }

    async fn pass(
        &self,
        reader: &mut Reader<'_, D, C>,
        journal: &mut Journal,
        report: &mut Report,
    ) -> Result<Next, RedriveError> {
        report.start_pass();
        let mut going = Vec::new();
        loop {
            let messages = reader.next().await?;
            let last = messages.is_none();
            for message in messages.unwrap_or_default() {
                let record = DeadLetterRecord::new(message);
                self.sort(record, reader, journal, report, &mut going).await?;
            }
            let round = self.round(report);
            while going.len() >= round || (last && !going.is_empty()) {
                let rest = going.split_off(round.min(going.len()));
                self.send(std::mem::replace(&mut going, rest), reader, journal, report).await?;
                if (self.interrupted)() {
                    report.interrupted = true;
                    return Ok(Next::End);
                }
                if report.sent >= self.limits.max {
                    return Ok(Next::End);
                }
                if self.too_many_came_back(report) {
                    report.stopped = true;
                    return Ok(Next::End);
                }
                if report.sent >= PILOT && !report.looked {
                    report.looked = true;
                    return Ok(Next::Look);
                }
            }
            if (self.interrupted)() {
                report.interrupted = true;
                return Ok(Next::End);
            }
            if last {
                return Ok(Next::GoOn);
            }
        }
    }

    /// What a dead letter needs: nothing, only a deletion, or to be sent back.
    async fn sort(
        &self,
        record: DeadLetterRecord,
        reader: &mut Reader<'_, D, C>,
        journal: &mut Journal,
        report: &mut Report,
        going: &mut Vec<Going>,
    ) -> Result<(), RedriveError> {
        let sqs_message_id = &record.message.sqs_message_id;
        if journal.was_sent(sqs_message_id) {
            // Sent by a run that ended before it could delete.
            report.deleted_only += self.delete(vec![record], reader, journal).await?;
            return Ok(());
        }
        if let Some(told) = &record.metadata
            && journal.came_back(&told.message_id, told.generation)
        {
            report.came_back(&told.message_id);
            return Ok(());
        }
        match self.plan.decide(&record)? {
            Verdict::Send(send_back) => going.push(Going { record, send_back: *send_back }),
            verdict => report.planned(&record, &verdict, self.limits.max),
        }
        Ok(())
    }

    /// One round: on disk, sent, on disk, deleted.
    async fn send(
        &self,
        going: Vec<Going>,
        reader: &mut Reader<'_, D, C>,
        journal: &mut Journal,
        report: &mut Report,
    ) -> Result<(), RedriveError> {
        let started = self.clock.now();
        let unsure = |going: &&Going| journal.may_have_been_sent(&going.record.message.sqs_message_id);
        report.possible_copies += going.iter().filter(unsure).count() as u64;
        journal.write(&going.iter().map(intent).collect::<Vec<_>>())?;
        let messages = going.iter().map(|going| going.send_back.message.clone()).collect();
        let outcomes = deliver(self.source, self.clock, started + SEND_TIMEOUT, messages).await;

        let mut entries = Vec::with_capacity(going.len());
        let mut confirmed = Vec::with_capacity(going.len());
        let count = going.len();
        for (going, outcome) in going.into_iter().zip(outcomes) {
            let sqs_message_id = going.record.message.sqs_message_id.clone();
            match outcome {
                Ok(sent_as) => {
                    entries.push(Entry::Sent { sqs_message_id, sent_as });
                    report.sent(&going.record, &going.send_back);
                    confirmed.push(going.record);
                }
                Err(error) => {
                    report.not_sent(&sqs_message_id, &error);
                    if error.fault == Fault::Sender {
                        entries.push(Entry::NotSent { sqs_message_id, code: error.code });
                    }
                }
            }
        }
        journal.write(&entries)?;
        self.delete(confirmed, reader, journal).await?;
        (self.progress)(report.sent);
        if let Some(rate) = self.limits.rate {
            let due = started + Duration::from_secs_f64(count as f64 / f64::from(rate));
            self.clock.sleep(redeliver_core::delivery::until(self.clock.now(), due)).await;
        }
        Ok(())
    }

    /// Deletes what is confirmed to be elsewhere; how many are gone. One that is not is deleted by the next pass or run.
    async fn delete(
        &self,
        records: Vec<DeadLetterRecord>,
        reader: &mut Reader<'_, D, C>,
        journal: &mut Journal,
    ) -> Result<u64, RedriveError> {
        let messages: Vec<_> = records.iter().map(|record| &record.message).collect();
        let deleted = reader.delete(&messages).await;
        let mut entries = Vec::with_capacity(records.len());
        for (record, _) in records.iter().zip(deleted).filter(|(_, deleted)| *deleted) {
            entries.push(Entry::Deleted { sqs_message_id: record.message.sqs_message_id.clone() });
        }
        journal.write(&entries)?;
        Ok(entries.len() as u64)
    }

    /// Looks through the DLQ for messages of this run.
    async fn count_what_came_back(&self, journal: &Journal, report: &mut Report) -> Result<(), RedriveError> {
        let mut reader = Reader::new(self.dlq, self.clock).await?;
        let outcome = async {
            while let Some(messages) = reader.next().await? {
                for message in messages {
                    let record = DeadLetterRecord::new(message);
                    if let Some(told) = &record.metadata
                        && journal.came_back(&told.message_id, told.generation)
                    {
                        report.came_back(&told.message_id);
                    }
                }
            }
            Ok(())
        };
        let outcome = outcome.await;
        reader.finish().await;
        outcome
    }

    fn too_many_came_back(&self, report: &Report) -> bool {
        let percent = u64::from(self.limits.stop_after_failures_percent);
        report.came_back_count() > 0 && report.came_back_count() * 100 > percent * report.sent
    }

    /// Messages of the next round: no more than are to be sent a second, in the pilot, and in all.
    fn round(&self, report: &Report) -> usize {
        let rate = self.limits.rate.map_or(ROUND as u64, u64::from);
        let pilot = if report.looked { u64::MAX } else { PILOT - report.sent.min(PILOT - 1) };
        let left = self.limits.max - report.sent.min(self.limits.max);
        usize::try_from(rate.min(pilot).min(left.max(1)).min(ROUND as u64)).unwrap_or(ROUND)
    }
}

fn intent(going: &Going) -> Entry {
    let SendBack { message_id, old_message_id, generation, edited, .. } = &going.send_back;
    Entry::Intent {
        sqs_message_id: going.record.message.sqs_message_id.clone(),
        message_id: message_id.clone(),
        old_message_id: old_message_id.clone(),
        generation: *generation,
        original_body: edited.then(|| going.record.message.body.clone()),
    }
}

#[cfg(test)]
mod tests;
