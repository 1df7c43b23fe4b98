//! Redrives dead letters for the command line and the console, with the same checks, limits, stop conditions and
//! report.
//!
//! The command line opens a [`RedriveRequest`] as a [`RedriveToQueue`], [`RedriveToSources`] or [`RedriveToFile`]. Both
//! the command line and the console send dead letters through a [`RedriveTask`].

mod next_step;
mod request;
mod run_estimate;
mod to_file;
mod to_queue;
mod to_sources;

use std::path::Path;
use std::time::Duration;

use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::redrive::{
    JournalCounts, JournalError, RedriveJob, RedriveJournal, RedriveLimits, RedrivePlan, RedriveProgress,
    RedriveReport,
};
use serde::{Deserialize, Serialize};

use crate::dead_letter_source::DeadLetters;
use crate::queues::queue_name_from_arn;
use crate::terminal::units::{HOUR, format_count, format_span, group_digits};
use crate::{CommandFailure, UsageError};

pub use next_step::{ContinuationWording, describe_missing_consumer, describe_remaining_messages, next_step};
pub use request::{RedriveRequest, RedriveResult};
pub use run_estimate::RunEstimate;
pub use to_file::RedriveToFile;
pub use to_queue::RedriveToQueue;
pub use to_sources::RedriveToSources;

/// The maximum rate of a redrive, in messages per second.
pub const RATE_MAX: u32 = 3000;
/// The maximum time for which a pilot is watched.
pub const WATCH_SECONDS_MAX: u64 = 12 * HOUR;

/// The limits of a run, chosen each time it is started. By default, the rate is unlimited, the pilot is watched for 90
/// seconds, and the run stops if more than 20 % of the pilot fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedrivePace {
    /// Messages per second; unlimited if `None`.
    pub rate: Option<u32>,
    /// The time for which the pilot is watched.
    pub watch_seconds: u64,
    pub stop_after_failures_percent: u8,
    /// True if messages are sent even if the source queue has no consumer.
    pub allow_paused: bool,
}

impl Default for RedrivePace {
    fn default() -> Self {
        // SQS counts are up to a minute old, so a shorter watch would detect only immediate failures.
        Self { rate: None, watch_seconds: 90, stop_after_failures_percent: 20, allow_paused: false }
    }
}

impl RedrivePace {
    /// Describes the limits, such as `at most 20 messages per second, 90 s of watching, and a stop at more than 20 %`.
    pub fn describe(self) -> String {
        let rate = self.rate.map_or("no limit on messages per second".to_owned(), |rate| {
            format!("at most {} per second", format_count(rate.into(), "message"))
        });
        let paused = if self.allow_paused { ", even if the deployment is paused" } else { "" };
        format!(
            "{rate}, {} s of watching, and a stop at more than {} %{paused}",
            self.watch_seconds, self.stop_after_failures_percent
        )
    }
}

/// One run of a redrive to a queue.
pub struct RedriveTask<'a> {
    pub from: &'a DeadLetters,
    pub to: &'a SqsQueue,
    pub plan: &'a RedrivePlan,
    pub pace: RedrivePace,
    /// Maximum number of messages in total.
    pub max: u64,
    /// True if the source queue has a consumer. Without one, nothing can fail again, so the pilot is not watched.
    pub is_consumed: bool,
    /// Returns true to stop as soon as possible.
    pub interrupted: &'a dyn Fn() -> bool,
    pub progress: &'a dyn Fn(RedriveProgress),
}

/// The result of a run: its report, and the counts from its journal.
#[derive(Debug)]
pub struct AppliedRedrive {
    pub report: RedriveReport,
    /// The combined counts of all runs.
    pub all: JournalCounts,
    /// True if no earlier run sent anything.
    pub is_first: bool,
}

impl RedriveTask<'_> {
    /// Reports what a run would do, without doing it. A file still contains the messages that were sent from it, so
    /// those that its journal records as sent are counted separately.
    ///
    /// # Errors
    /// If the dead letters or the file's journal cannot be read, or a filter fails.
    pub async fn dry_run(&self, journal: &Path, id: &str) -> Result<RedriveReport, CommandFailure> {
        let journal = match self.from.as_file() {
            None => None,
            Some(_) => RedriveJournal::read_existing(journal, id, self.from.name_in_journal(), self.to.arn())
                .map_err(|error| self.explain_error(error))?,
        };
        self.build_job().dry_run_with_journal(journal.as_ref()).await
    }

    /// Sends the dead letters back. The journal belongs to this redrive only, so that the next run with the same
    /// journal finishes the job.
    ///
    /// # Errors
    /// If the journal, the dead letters or a filter cannot be used, in which case nothing was done.
    pub async fn apply(&self, journal: &Path, id: &str) -> Result<AppliedRedrive, CommandFailure> {
        let journal = RedriveJournal::open(journal, id, self.from.name_in_journal(), self.to.arn());
        let mut journal = journal.map_err(|error| self.explain_error(error))?;
        let is_first = journal.is_new();
        let report = self.build_job().apply(&mut journal).await?;
        Ok(AppliedRedrive { report, all: journal.counts(), is_first })
    }

    /// Adapts the error for a file, for which no alternative journal can be suggested.
    fn explain_error(&self, error: JournalError) -> JournalError {
        if self.from.as_file().is_some() { error.for_file() } else { error }
    }

    fn build_job(&self) -> RedriveJob<'_, DeadLetters, SqsQueue, SystemClock> {
        let can_come_back = matches!(self.from, DeadLetters::Queue(_));
        let is_watched = self.is_consumed && can_come_back;
        RedriveJob {
            dlq: self.from,
            source: self.to,
            clock: &SystemClock,
            plan: self.plan,
            can_come_back,
            limits: RedriveLimits {
                rate: self.pace.rate,
                max: self.max,
                stop_after_failures_percent: self.pace.stop_after_failures_percent,
                watch: if is_watched { Duration::from_secs(self.pace.watch_seconds) } else { Duration::ZERO },
            },
            interrupted: self.interrupted,
            progress: self.progress,
        }
    }
}

/// Reports what a run would do, without opening a destination queue.
async fn dry_run(
    from: &DeadLetters,
    plan: &RedrivePlan,
    max: u64,
    journal: Option<&RedriveJournal>,
    interrupted: &dyn Fn() -> bool,
) -> Result<RedriveReport, CommandFailure> {
    build_job_without_queue(from, plan, max, interrupted).dry_run_with_journal(journal).await
}

/// Builds a redrive that sends nothing to a queue.
fn build_job_without_queue<'a>(
    from: &'a DeadLetters,
    plan: &'a RedrivePlan,
    max: u64,
    interrupted: &'a dyn Fn() -> bool,
) -> RedriveJob<'a, DeadLetters, (), SystemClock> {
    RedriveJob {
        dlq: from,
        source: &(),
        clock: &SystemClock,
        plan,
        can_come_back: false,
        limits: RedriveLimits { rate: None, max, stop_after_failures_percent: 100, watch: Duration::ZERO },
        interrupted,
        progress: &|_| {},
    }
}

/// Returns a sentence about dead letters from queues other than their destination, with the counts for the first five
/// queues, or `None` if there are none.
pub fn describe_other_sources(report: &RedriveReport, to: &str) -> Option<String> {
    let others: Vec<_> = report.counts_from_other_queues(to).collect();
    let count: u64 = others.iter().map(|(_, count)| count).sum();
    let shown = others.iter().take(QUEUES_SHOWN);
    let mut names: Vec<_> = shown
        .map(|(arn, count)| format!("{} ({})", queue_name_from_arn(arn), group_digits(*count)))
        .collect();
    if others.len() > QUEUES_SHOWN {
        names.push(format_count((others.len() - QUEUES_SHOWN) as u64, "more queue"));
    }
    (count > 0).then(|| {
        let (messages, to) = (format_count(count, "dead letter"), queue_name_from_arn(to));
        format!("{messages} did not come from {to}, but from {}", names.join(", "))
    })
}

/// Advice on dead letters from other queues.
pub const OMIT_TO_ADVICE: &str = "leave out --to to send each back to its own queue";

/// Maximum number of queues named in a sentence.
const QUEUES_SHOWN: usize = 5;

/// Checks that dead letters are not sent to the queue they were read from. Compares ARNs, since a queue can have
/// several URLs.
///
/// # Errors
/// If `to` is the queue itself, or the queue the file was read from.
pub fn check_destination(from: &DeadLetters, to: &str) -> Result<(), CommandFailure> {
    if to == from.arn() {
        return Err(UsageError::new("--to names the DLQ itself; name the source queue").into());
    }
    match from.as_file().filter(|file| file.was_read_from(to)) {
        Some(file) => {
            let name = file.name();
            let sentence = format!("--to names the queue that {name} was read from; name the source queue");
            Err(UsageError::new(sentence).into())
        }
        None => Ok(()),
    }
}

/// Describes the event that a run is waiting for. Returns `None` while the run is working.
pub fn describe_wait(progress: RedriveProgress) -> Option<String> {
    match progress {
        RedriveProgress::Read { .. } | RedriveProgress::Sent(_) | RedriveProgress::CameBack(_) => None,
        RedriveProgress::Watching(left) => {
            Some(format!("watching the pilot, {} left", format_span(left.as_secs())))
        }
        RedriveProgress::Waiting(left) => {
            Some(format!("waiting for hidden messages, {} left", format_span(left.as_secs())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use aws_config::BehaviorVersion;
    use redeliver_core::message::Timestamp;
    use redeliver_dead_letters::{ArchivedMessage, FileQueue};
    use redeliver_testing::dead_letters::retried_record;

    use super::*;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";
    const SOURCE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

    fn queue(arn: &str) -> SqsQueue {
        let config = aws_sdk_sqs::Config::builder().behavior_version(BehaviorVersion::latest()).build();
        SqsQueue::new(aws_sdk_sqs::Client::from_conf(config), "http://127.0.0.1:9", arn)
    }

    /// Returns a file with a dead letter from the DLQ.
    fn dead_letter_file() -> DeadLetters {
        let mut message = retried_record("NON_RETRYABLE_ERROR", "x", 1);
        message.queue_arn = DLQ.to_owned();
        let mut file = tempfile::tempfile().unwrap();
        writeln!(file, "{}", serde_json::to_string(&ArchivedMessage::new(&message)).unwrap()).unwrap();
        let opened = FileQueue::open(file, "dead.jsonl", "file:/dead.jsonl", Timestamp::UNIX_EPOCH);
        DeadLetters::File(opened.unwrap())
    }

    #[test]
    fn a_redrive_keeps_its_pace_and_watches_only_a_consumed_queue() {
        let (dlq, file, to, plan) =
            (DeadLetters::Queue(queue(DLQ)), dead_letter_file(), queue(SOURCE), RedrivePlan::default());
        for (from, is_consumed, watched, can_come_back) in
            [(&dlq, true, 7, true), (&dlq, false, 0, true), (&file, true, 0, false), (&file, false, 0, false)]
        {
            let pace = RedrivePace {
                rate: Some(3),
                watch_seconds: 7,
                stop_after_failures_percent: 9,
                allow_paused: true,
            };
            let (interrupted, progress) = (&|| false, &|_| {});
            let task =
                RedriveTask { from, to: &to, plan: &plan, pace, max: 11, is_consumed, interrupted, progress };
            let job = task.build_job();
            let RedriveLimits { rate, max, stop_after_failures_percent, watch } = job.limits;
            assert_eq!((rate, max, stop_after_failures_percent), (Some(3), 11, 9));
            assert_eq!((watch.as_secs(), job.can_come_back), (watched, can_come_back), "{is_consumed}");
        }
    }

    #[test]
    fn dead_letters_from_elsewhere_are_counted_by_source_queue() {
        let by_source = |counts: &[(&str, u64)]| RedriveReport {
            by_source: counts.iter().map(|(name, count)| (SOURCE.replace("orders", name), *count)).collect(),
            ..RedriveReport::default()
        };
        assert_eq!(describe_other_sources(&by_source(&[("orders", 3)]), SOURCE), None);
        assert_eq!(
            describe_other_sources(&by_source(&[("orders", 3), ("mails", 1200), ("bills", 1)]), SOURCE)
                .unwrap(),
            "1,201 dead letters did not come from orders, but from bills (1), mails (1,200)"
        );
        let many = by_source(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1)]);
        assert!(describe_other_sources(&many, SOURCE).unwrap().ends_with("d (1), e (1), 1 more queue"));
    }

    /// Sending dead letters to their own DLQ would duplicate them there.
    #[test]
    fn dead_letters_are_not_sent_to_the_queue_they_came_from() {
        let checked = |from: &DeadLetters, to| check_destination(from, to).map_err(|error| error.to_string());
        let (dlq, file) = (DeadLetters::Queue(queue(DLQ)), dead_letter_file());
        let itself = "--to names the DLQ itself; name the source queue";
        assert_eq!(checked(&dlq, DLQ), Err(itself.to_owned()));
        let read_from = "--to names the queue that dead.jsonl was read from; name the source queue";
        assert_eq!(checked(&file, DLQ), Err(read_from.to_owned()));
        assert_eq!((checked(&dlq, SOURCE), checked(&file, SOURCE)), (Ok(()), Ok(())));
    }
}
