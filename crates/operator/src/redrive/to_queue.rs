//! A redrive to a queue: finds and checks the queues, then sends the dead letters or only reports the plan.

use std::path::PathBuf;

use redeliver_aws::sqs::SqsQueue;
use redeliver_core::ports::{Queue as _, is_fifo};
use redeliver_dead_letters::redrive::RedriveProgress;

use super::{
    AppliedRedrive, OMIT_TO_ADVICE, RedriveRequest, RedriveResult, RedriveTask, check_destination,
    describe_other_sources, dry_run,
};
use crate::CommandFailure;
use crate::dead_letter_source::DeadLetters;
use crate::sentences::describe_missing_members;
use crate::status::consumer::Consumer;

/// A redrive with its source and destination open.
pub struct RedriveToQueue<'a> {
    request: RedriveRequest<'a>,
    from: DeadLetters,
    to: SqsQueue,
    id: String,
}

impl<'a> RedriveToQueue<'a> {
    /// Opens the source and finds the destination queue.
    ///
    /// # Errors
    /// If one of them cannot be used, or another command has started to send the file.
    pub async fn open(mut request: RedriveRequest<'a>) -> Result<Self, CommandFailure> {
        let from = request.open_source().await?;
        let queue = &request.from.queue;
        let to = match request.to {
            Some(address) => queue.connection.find_queue(address).await?.queue,
            None => queue.connection.find_queue(&queue.find_source_address().await?).await?.queue,
        };
        check_destination(&from, to.arn())?;
        request.plan.to_fifo = is_fifo(to.arn());
        request.plan.from_deployment = queue.belongs_to_deployment();
        let id = request.id(from.name_in_journal(), to.arn());
        Ok(Self { request, from, to, id })
    }

    fn may_be_shared(&self) -> bool {
        self.from.as_file().is_none() && !self.request.plan.from_deployment
    }

    /// Returns true if the destination is a FIFO queue.
    pub const fn sends_to_fifo(&self) -> bool {
        self.request.plan.to_fifo
    }

    /// Returns the ARN of the DLQ, or the file name.
    pub fn source_arn(&self) -> &str {
        self.from.arn()
    }

    /// Returns the ARN of the destination queue.
    pub fn destination_arn(&self) -> &str {
        self.to.arn()
    }

    /// Returns the path of the journal that a run writes.
    pub fn journal_path(&self) -> PathBuf {
        self.request.journal_path(&self.id)
    }

    /// Determines whether the destination has a consumer. A queue named by the user can have consumers outside of the
    /// stack.
    ///
    /// # Errors
    /// If there is no connection to AWS.
    pub async fn find_consumer(&self) -> Result<Consumer, CommandFailure> {
        let is_stack = self.request.to.is_none();
        Consumer::query_consumer(&self.request.from.queue.connection, self.to.arn(), is_stack).await
    }

    /// Describes how many dead letters in a shared DLQ come from queues other than the destination. Returns `None` for
    /// a deployment, whose dead letters come from its own internal queues, and for a file, whose lines have already
    /// been selected.
    ///
    /// # Errors
    /// If the dead letters or a filter cannot be used.
    pub async fn describe_other_sources(
        &self,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<String>, CommandFailure> {
        if !self.may_be_shared() {
            return Ok(None);
        }
        // Counts all dead letters, regardless of `--max`: the run might read the messages in a different order.
        let report = dry_run(&self.from, &self.request.plan, u64::MAX, None, interrupted).await?;
        Ok(describe_other_sources(&report, self.to.arn()))
    }

    /// Sends the dead letters back, or reports what would be sent.
    ///
    /// # Errors
    /// If the journal, the dead letters or a filter cannot be used, in which case nothing was done.
    pub async fn run(
        &self,
        is_consumed: bool,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(RedriveProgress),
    ) -> Result<RedriveResult, CommandFailure> {
        let RedriveRequest { plan, pace, max, .. } = &self.request;
        let (from, to) = (&self.from, &self.to);
        let task = RedriveTask { from, to, plan, pace: *pace, max: *max, is_consumed, interrupted, progress };
        let path = self.journal_path();
        // Only the first complete pass over a queue can prove that a message is missing: later runs do not see the
        // messages it deleted. A file is never changed.
        let is_file = from.as_file().is_some();
        let missing = |is_complete| if is_complete { plan.pick.describe_missing() } else { Vec::new() };
        if self.request.applied {
            let AppliedRedrive { report, is_first, .. } = task.apply(&path, &self.id).await?;
            let missing = missing(report.covers_whole_dlq() && (is_first || is_file));
            return Ok(RedriveResult { report, missing, remarks: Vec::new() });
        }
        let report = task.dry_run(&path, &self.id).await?;
        let elsewhere = describe_other_sources(&report, to.arn()).filter(|_| self.may_be_shared());
        let elsewhere = elsewhere.map(|sentence| format!("{sentence}: {OMIT_TO_ADVICE}"));
        let remarks = elsewhere.into_iter().chain(describe_missing_members(&plan.pick)).collect();
        Ok(RedriveResult { missing: missing(report.covers_whole_dlq()), report, remarks })
    }
}
