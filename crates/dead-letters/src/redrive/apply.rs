//! What a redrive does: nothing but look, or a whole run.

use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::journal::Journal;
use super::plan::Verdict;
use super::report::{Early, Report};
use super::run::Run;
use super::task::Redrive;
use crate::{DeadLetterRecord, Failure, Reader};

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Redrive<'_, D, S, C> {
    /// What would be done; nothing is.
    ///
    /// # Errors
    /// If the DLQ cannot be read, or a filter fails.
    pub async fn dry_run(&self) -> Result<Report, Failure> {
        let mut report = Report::default();
        let mut reader = Reader::new(self.dlq, self.clock).await?;
        let outcome = self.look_through(&mut reader, &mut report).await;
        report.coverage = Some(reader.finish().await);
        outcome.map(|()| report)
    }

    async fn look_through(&self, reader: &mut Reader<'_, D, C>, report: &mut Report) -> Result<(), Failure> {
        while let Some(messages) = reader.next().await? {
            for record in messages.into_iter().map(DeadLetterRecord::new) {
                match self.plan.decide(&record)? {
                    Verdict::Send(send_back) if report.planned < self.limits.max => {
                        report.would_send(&record, &send_back);
                    }
                    Verdict::Send(_) | Verdict::NotSelected => report.not_selected += 1,
                    Verdict::Stays(reason) => report.stays(&record, &reason),
                }
            }
            if (self.interrupted)() {
                report.early = Some(Early::Interrupted);
                break;
            }
        }
        Ok(())
    }

    /// Sends back what the plan selects, in as many passes as it takes.
    ///
    /// # Errors
    /// If the DLQ, the disk or a filter fails; a second run with the same journal goes on where this one ended.
    pub async fn apply(&self, journal: &mut Journal) -> Result<Report, Failure> {
        Run::new(self, journal).finish().await
    }
}

#[cfg(test)]
mod tests;
