//! The three ways to redrive: a dry run, a file of messages, or a run.

use std::io;

use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::journal::Journal;
use super::plan::SendBack;
use super::report::{Early, RedriveReport};
use super::run::Run;
use super::task::Redrive;
use crate::{DeadLetterRecord, Failure, Reader};

/// Receives each message that goes back.
type Take<'t> = &'t mut dyn FnMut(&mut RedriveReport, &DeadLetterRecord, &SendBack) -> io::Result<()>;

impl<D: Queue, S, C: Clock> Redrive<'_, D, S, C> {
    /// Reports what would be done, and does nothing.
    ///
    /// # Errors
    /// If the DLQ cannot be read, or a filter's output is neither true nor false.
    pub async fn dry_run(&self) -> Result<RedriveReport, Failure> {
        self.dry_run_after(None).await
    }

    /// Reports like [`Redrive::dry_run`] what would be done after the runs of this journal.
    ///
    /// # Errors
    /// As [`Redrive::dry_run`].
    pub async fn dry_run_after(&self, journal: Option<&Journal>) -> Result<RedriveReport, Failure> {
        let mut would_send = |report: &mut RedriveReport, record: &DeadLetterRecord, send_back: &SendBack| {
            report.would_send(record, send_back);
            report.show_edit(self.plan, record, send_back);
            Ok(())
        };
        self.look(journal, &mut would_send).await
    }

    /// Writes the bodies that would be sent back, one per line, and leaves all dead letters where they are. Those that
    /// were sent according to the journal are counted and left out. [`Plan::into_lines`](super::Plan::into_lines) must
    /// be set.
    ///
    /// # Errors
    /// If the dead letters cannot be read, the output cannot be written, or a filter's output is neither true nor
    /// false.
    pub async fn write(
        &self,
        journal: Option<&Journal>,
        output: &mut dyn io::Write,
    ) -> Result<RedriveReport, Failure> {
        self.look(journal, &mut |report, record, send_back| {
            // In JSON a line break is white space, wherever it stands.
            let body = send_back.message.content().body.replace(['\n', '\r'], " ");
            writeln!(output, "{body}")?;
            report.sent(record, send_back);
            Ok(())
        })
        .await
    }

    async fn look(&self, journal: Option<&Journal>, take: Take<'_>) -> Result<RedriveReport, Failure> {
        let mut report = RedriveReport::default();
        let mut reader = Reader::new(self.dlq, self.clock).await?;
        let outcome = self.look_through(&mut reader, journal, &mut report, take).await;
        report.coverage = Some(reader.finish().await);
        outcome?;
        self.plan.pick.check_filter()?;
        Ok(report)
    }

    async fn look_through(
        &self,
        reader: &mut Reader<'_, D, C>,
        journal: Option<&Journal>,
        report: &mut RedriveReport,
        take: Take<'_>,
    ) -> Result<(), Failure> {
        while let Some(messages) = reader.next().await? {
            for record in messages.into_iter().map(DeadLetterRecord::new) {
                if journal.is_some_and(|journal| journal.was_sent(&record.message.sqs_message_id)) {
                    let _is_named = self.plan.pick.observe(&record);
                    report.deleted_only += 1;
                    continue;
                }
                match self.plan.choose(&record, report)? {
                    Some(send_back) if report.planned + report.sent < self.limits.max => {
                        take(report, &record, &send_back)?;
                    }
                    Some(_) => report.left_by_max += 1,
                    None => {}
                }
            }
            if (self.interrupted)() {
                report.early = Some(Early::Interrupted);
                break;
            }
        }
        Ok(())
    }
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Redrive<'_, D, S, C> {
    /// Sends back what the plan selects and deletes it from the DLQ, in as many passes as that takes.
    ///
    /// # Errors
    /// If the DLQ or a filter fails before anything was done, or the first or the last line of the journal cannot be
    /// written. A later error is in [`RedriveReport::early`]. A second run with the same journal continues where this
    /// one ended.
    pub async fn apply(&self, journal: &mut Journal) -> Result<RedriveReport, Failure> {
        let report = Run::new(self, journal).finish().await?;
        if report.done() == 0 {
            self.plan.pick.check_filter()?;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
