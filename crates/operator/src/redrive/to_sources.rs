//! A redrive of a DLQ shared by several queues: each dead letter is sent back to the queue SQS moved it from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use redeliver_aws::sqs::SqsQueue;
use redeliver_core::ports::{Queue as _, is_fifo};
use redeliver_dead_letters::redrive::{EarlyEnd, RedriveProgress, RedriveReport, Sources, StayReason};

use super::{AppliedRedrive, RedriveRequest, RedriveResult, RedriveTask, check_destination, dry_run};
use crate::CommandFailure;
use crate::dead_letter_source::DeadLetters;
use crate::queues::{QueueAddress, queue_name_from_arn};
use crate::sentences::describe_missing_members;
use crate::status::consumer::Consumer;

/// A redrive whose DLQ has been read once to find the queues its messages come from.
pub struct RedriveToSources<'a> {
    request: RedriveRequest<'a>,
    from: DeadLetters,
    /// The plan for all source queues.
    planned: RedriveReport,
    missing: Vec<String>,
    sources: Vec<SqsQueue>,
    /// The possible reasons why messages stay in the DLQ, as known before the runs.
    staying: Vec<String>,
}

impl<'a> RedriveToSources<'a> {
    /// Reads the DLQ and finds the queues its messages come from.
    ///
    /// # Errors
    /// If the DLQ or a filter cannot be used.
    pub async fn open(
        mut request: RedriveRequest<'a>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, CommandFailure> {
        let from = request.open_source().await?;
        let known = |unusable| Sources::Known { unusable };
        request.plan.sources = known(BTreeMap::new());
        let mut planned = dry_run(&from, &request.plan, request.max, None, interrupted).await?;
        let (mut sources, mut unusable) = (Vec::new(), BTreeMap::new());
        for arn in planned.by_source.keys() {
            match find_source(&request, &from, arn).await {
                Ok(source) => sources.push(source),
                Err(error) => drop(unusable.insert(arn.clone(), error.to_string())),
            }
        }
        let reasons =
            unusable.values().cloned().map(StayReason::UnusableSource).chain([StayReason::UnknownSource]);
        let staying = reasons.map(|reason| reason.to_string()).collect();
        if !unusable.is_empty() {
            request.plan.sources = known(unusable);
            planned = dry_run(&from, &request.plan, request.max, None, interrupted).await?;
        }
        let missing =
            if planned.covers_whole_dlq() { request.plan.pick.describe_missing() } else { Vec::new() };
        Ok(Self { request, from, planned, missing, sources, staying })
    }

    /// Returns the ARN of the DLQ.
    pub fn dlq_arn(&self) -> &str {
        self.from.arn()
    }

    /// Returns the ARNs of the queues to which the dead letters are sent back.
    pub fn destination_arns(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(SqsQueue::arn)
    }

    /// Returns the path of the journal for one of these queues.
    pub fn journal_path(&self, to: &str) -> PathBuf {
        let id = self.request.id(self.from.name_in_journal(), to);
        match self.request.known_journal() {
            // Each destination has its own journal.
            Some(named) => {
                let mut path = named.into_os_string();
                path.push(format!(".{}", queue_name_from_arn(to)));
                path.into()
            }
            None => self.request.journal_path(&id),
        }
    }

    /// Determines whether one of these queues has a consumer.
    ///
    /// # Errors
    /// If there is no connection to AWS.
    pub async fn find_consumer(&self, to: &str) -> Result<Consumer, CommandFailure> {
        Consumer::query_consumer(&self.request.from.queue.connection, to, false).await
    }

    /// Returns the plan.
    pub fn into_plan(self) -> RedriveResult {
        let remarks = describe_missing_members(&self.request.plan.pick).into_iter().collect();
        RedriveResult { report: self.planned, missing: self.missing, remarks }
    }

    /// Sends the dead letters back, one queue at a time. `is_consumed` returns true for a queue with a consumer.
    ///
    /// # Errors
    /// If a journal, the DLQ or a filter cannot be used, and nothing was sent.
    pub async fn run(
        mut self,
        is_consumed: impl Fn(&str) -> bool,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(RedriveProgress),
    ) -> Result<RedriveResult, CommandFailure> {
        let mut report = self.planned.part_not_counted_by_runs(&self.staying);
        for to in &self.sources {
            let id = self.request.id(self.from.name_in_journal(), to.arn());
            let journal = self.journal_path(to.arn());
            self.request.plan.sources = Sources::Only(to.arn().to_owned());
            self.request.plan.to_fifo = is_fifo(to.arn());
            let sent_before = report.sent;
            let task = RedriveTask {
                from: &self.from,
                to,
                plan: &self.request.plan,
                pace: self.request.pace,
                max: self.request.max - sent_before,
                is_consumed: is_consumed(to.arn()),
                interrupted,
                progress: &|at| {
                    progress(match at {
                        RedriveProgress::Sent(sent) => RedriveProgress::Sent(sent_before + sent),
                        other => other,
                    });
                },
            };
            // A stop ends only this queue's run: the next queue's messages might have failed for a different reason.
            let proceed = match task.apply(&journal, &id).await {
                Ok(AppliedRedrive { report: run, .. }) => {
                    let proceed =
                        matches!(run.early_end, None | Some(EarlyEnd::Stopped)) && run.not_deleted == 0;
                    report.add_report(run);
                    proceed
                }
                Err(error) if report.done_count() == 0 => return Err(error),
                Err(error) => {
                    report.early_end = Some(EarlyEnd::Failed(error.to_string()));
                    false
                }
            };
            if !proceed || report.sent >= self.request.max {
                break;
            }
        }
        Ok(RedriveResult { report, missing: self.missing, remarks: Vec::new() })
    }
}

async fn find_source(
    request: &RedriveRequest<'_>,
    from: &DeadLetters,
    arn: &str,
) -> Result<SqsQueue, CommandFailure> {
    let address: QueueAddress = arn.parse().map_err(|error| format!("{arn} {error}"))?;
    let queue = request.from.queue.connection.find_queue(&address).await?.queue;
    check_destination(from, queue.arn())?;
    Ok(queue)
}
