//! The three modes of a redrive: a dry run, an export to a file, and a real run.

use std::io;

use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::journal::RedriveJournal;
use super::plan::PlannedSend;
use super::report::{EarlyEnd, RedriveReport};
use super::run::RedriveRun;
use super::task::RedriveJob;
use crate::{DeadLetterError, DeadLetterReader, DeadLetterRecord};

/// A callback that receives each message to be sent back.
type PlannedSendVisitor<'t> =
    &'t mut dyn FnMut(&mut RedriveReport, &DeadLetterRecord, &PlannedSend) -> io::Result<()>;

impl<D: Queue, S, C: Clock> RedriveJob<'_, D, S, C> {
    /// Reports the planned redrive without changing anything.
    ///
    /// # Errors
    /// If the DLQ cannot be read, or a filter's output is neither true nor false.
    pub async fn dry_run(&self) -> Result<RedriveReport, DeadLetterError> {
        self.dry_run_with_journal(None).await
    }

    /// Reports the planned redrive like [`RedriveJob::dry_run`], but only the work that remains after the runs recorded
    /// in this journal.
    ///
    /// # Errors
    /// Same as [`RedriveJob::dry_run`].
    pub async fn dry_run_with_journal(
        &self,
        journal: Option<&RedriveJournal>,
    ) -> Result<RedriveReport, DeadLetterError> {
        let mut would_send =
            |report: &mut RedriveReport, record: &DeadLetterRecord, send_back: &PlannedSend| {
                report.count_planned(record, send_back);
                report.record_edit_example(self.plan, record, send_back);
                Ok(())
            };
        self.visit_messages(journal, &mut would_send).await
    }

    /// Writes the bodies that would be sent back, one per line, and leaves all dead letters in the DLQ. Messages
    /// already sent according to the journal are counted and omitted.
    /// [`RedrivePlan::into_lines`](super::RedrivePlan::into_lines) must be set.
    ///
    /// # Errors
    /// If the dead letters cannot be read, the output cannot be written, or a filter's output is neither true nor
    /// false.
    pub async fn write_lines(
        &self,
        journal: Option<&RedriveJournal>,
        output: &mut dyn io::Write,
    ) -> Result<RedriveReport, DeadLetterError> {
        self.visit_messages(journal, &mut |report, record, send_back| {
            // In JSON, a line break is always white space.
            let body = send_back.message.content().body.replace(['\n', '\r'], " ");
            writeln!(output, "{body}")?;
            report.count_sent(record, send_back);
            Ok(())
        })
        .await
    }

    async fn visit_messages(
        &self,
        journal: Option<&RedriveJournal>,
        visit: PlannedSendVisitor<'_>,
    ) -> Result<RedriveReport, DeadLetterError> {
        let mut report = RedriveReport::default();
        let mut reader = DeadLetterReader::new(self.dlq, self.clock).await?;
        let outcome = self.visit_reader(&mut reader, journal, &mut report, visit).await;
        report.coverage = Some(reader.finish().await);
        outcome?;
        self.plan.pick.check_filter()?;
        Ok(report)
    }

    async fn visit_reader(
        &self,
        reader: &mut DeadLetterReader<'_, D, C>,
        journal: Option<&RedriveJournal>,
        report: &mut RedriveReport,
        visit: PlannedSendVisitor<'_>,
    ) -> Result<(), DeadLetterError> {
        while let Some(messages) = reader.next_messages().await? {
            for record in messages.into_iter().map(DeadLetterRecord::new) {
                if journal.is_some_and(|journal| journal.was_sent(&record.message.sqs_message_id)) {
                    let _is_named = self.plan.pick.observe_record(&record);
                    report.deleted_only += 1;
                    continue;
                }
                match self.plan.decide_and_count(&record, report)? {
                    Some(send_back) if report.planned + report.sent < self.limits.max => {
                        visit(report, &record, &send_back)?;
                    }
                    Some(_) => report.left_by_max += 1,
                    None => {}
                }
            }
            if (self.interrupted)() {
                report.early_end = Some(EarlyEnd::Interrupted);
                break;
            }
        }
        Ok(())
    }
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> RedriveJob<'_, D, S, C> {
    /// Sends back the messages that the plan selects and deletes them from the DLQ, in as many passes as needed.
    ///
    /// # Errors
    /// If the DLQ or a filter fails before any work is done, or this run's first or last journal line cannot be
    /// written. A later error is in [`RedriveReport::early_end`]. A second run with the same journal continues where
    /// this one ended.
    pub async fn apply(&self, journal: &mut RedriveJournal) -> Result<RedriveReport, DeadLetterError> {
        let report = RedriveRun::new(self, journal).run_to_completion().await?;
        if report.done_count() == 0 {
            self.plan.pick.check_filter()?;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
