//! Carries out a plan, with the engine of `redeliver redrive` and `redeliver purge`.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_aws::SystemClock;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::purge::purge;
use redeliver_dead_letters::redrive::{
    self, DiedAgain, Journal, JournalCounts, Limits, Progress, Redrive, RedriveReport,
};
use redeliver_dead_letters::{Archive, Pick};
use redeliver_operator::Failure;
use redeliver_operator::queues::{DeadLetterQueue, QueueAddress};
use redeliver_operator::sending::{Sender, Summary, Watcher, restore};
use redeliver_operator::status::consumer::Consumer;

use crate::plans::outcome::{of_journal, of_purge, of_redrive, of_restore};
use crate::plans::plan::{Action, Outcome, StartedPlan};

pub(crate) struct Run {
    /// The folder of the plan, its journal and its backups.
    pub(crate) folder: PathBuf,
    pub(crate) started: StartedPlan,
    pub(crate) queue: DeadLetterQueue,
    pub(crate) schema: MessageSchema,
    pub(crate) stop: Stop,
}

impl Run {
    /// Carries the plan out and writes its outcome.
    pub(crate) async fn finish(mut self, progress: &dyn Fn(Progress)) {
        let outcome = self.carried_out(progress).await.unwrap_or_else(|error| {
            let all = self.started.plan.journal_counts(&self.folder);
            Outcome {
                ending: "failed".to_owned(),
                counts: all.map(|all| of_journal(&all, self.came_back())).unwrap_or_default(),
                remarks: vec![error.to_string()],
                // If there is a journal, messages may have been sent, and nobody has deleted them.
                in_both_queues: self.started.plan.journal(&self.folder).exists(),
                ..Outcome::default()
            }
        });
        self.started.outcome = Some(Outcome { ended_at: rfc3339(SystemClock.now()), ..outcome });
        // Without the outcome the plan looks as after a kill, and can go on.
        let _as_after_a_kill = self.started.write(&self.folder);
    }

    async fn carried_out(&mut self, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let plan = self.started.plan.clone();
        if let Action::Restore { to, .. } = &plan.action {
            return self.restore(to, progress).await;
        }
        let pick = || Pick::exactly(plan.messages.iter().cloned());
        match plan.action.redrive(pick(), &self.schema)? {
            Some((to, how)) => {
                let (report, all) = self.send_back(to, &how, progress).await?;
                for died in report.died_again.iter().cloned() {
                    DiedAgain::add(&mut self.started.died_again, died);
                }
                Ok(of_redrive(&report, &all, self.came_back(), plan.messages.len() as u64))
            }
            None => self.delete(&pick(), progress).await,
        }
    }

    /// Messages that a run has seen in the DLQ again. The next run sends none of them, so none counts twice.
    fn came_back(&self) -> u64 {
        self.started.died_again.iter().map(|died| died.count).sum()
    }

    async fn send_back(
        &self,
        to: &str,
        how: &redrive::Plan,
        progress: &dyn Fn(Progress),
    ) -> Result<(RedriveReport, JournalCounts), Failure> {
        let StartedPlan { plan, pace, .. } = &self.started;
        let from = self.queue.open().await?;
        let to = self.queue.connection.find(&to.parse::<QueueAddress>()?).await?;
        let is_consumed = self.is_consumed(to.queue.arn()).await?;
        let limits = Limits {
            rate: pace.rate,
            max: u64::MAX,
            stop_after_failures_percent: pace.stop_after_failures_percent,
            // Without a consumer nothing can come back.
            watch: if is_consumed { Duration::from_secs(pace.watch_seconds) } else { Duration::ZERO },
        };
        let redrive = Redrive {
            dlq: &from.queue,
            source: &to.queue,
            clock: &SystemClock,
            plan: how,
            can_come_back: true,
            limits,
            interrupted: &|| self.stop.is_requested(),
            progress,
        };
        let journal = plan.journal(&self.folder);
        let mut journal = Journal::open(&journal, &plan.id, from.queue.arn(), to.queue.arn())?;
        let report = redrive.apply(&mut journal).await?;
        Ok((report, journal.counts()))
    }

    async fn delete(&mut self, pick: &Pick, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let from = self.queue.open().await?;
        let path = self.started.plan.backup(&self.folder);
        let mut backup = Archive::on_demand(&path)?;
        let (interrupted, progress) =
            (|| self.stop.is_requested(), |deleted| progress(Progress::Sent(deleted)));
        let purged =
            purge(&from.queue, &SystemClock, pick, u64::MAX, Some(&mut backup), &interrupted, &progress)
                .await?;
        let planned = self.started.plan.messages.len() as u64;
        let outcome = of_purge(&purged, self.started.deleted_before, &path.display().to_string(), planned);
        self.started.deleted_before += purged.deleted;
        Ok(outcome)
    }

    async fn restore(&self, to: &str, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let StartedPlan { plan, pace, .. } = &self.started;
        let to = self.queue.connection.find(&to.parse::<QueueAddress>()?).await?;
        let largest = to.attributes.get("MaximumMessageSize").and_then(|text| text.parse().ok());
        let watcher = RestoreWatcher { progress, problems: RefCell::default() };
        let rate = pace.rate.and_then(NonZeroU32::new);
        let sender = Sender { queue: &to.queue, clock: &SystemClock, rate, watcher: &watcher };
        let backups = plan.backups(&self.folder);
        let largest = largest.unwrap_or(MESSAGE_BYTES_MAX);
        let summary = restore(&backups, &sender, &self.schema, largest, &self.stop).await?;
        Ok(of_restore(&summary, &watcher.problems.borrow()))
    }

    /// True if the source queue has a consumer. Without one, messages are sent only with `into_paused`.
    async fn is_consumed(&self, source_arn: &str) -> Result<bool, Failure> {
        match Consumer::look(&self.queue.connection, source_arn, true).await? {
            Consumer::There | Consumer::Unknown(_) => Ok(true),
            Consumer::Nobody(_) if self.started.pace.into_paused => Ok(false),
            Consumer::Nobody(why) => Err(format!(
                "{why}: messages that are sent back wait there and cannot be watched. Resume the deployment first, or \
                 choose to send them anyway"
            )
            .into()),
        }
    }
}

/// Problems of lines that are remembered.
const PROBLEMS_MAX: usize = 10;

struct RestoreWatcher<'a> {
    progress: &'a dyn Fn(Progress),
    problems: RefCell<Vec<String>>,
}

impl Watcher for RestoreWatcher<'_> {
    fn problem(&self, line: usize, what: &str) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < PROBLEMS_MAX {
            problems.push(format!("line {line} of the backup: {what}"));
        }
    }

    // A backup has no warnings that its deletion did not have.
    fn warning(&self, _: Option<usize>, _: &str) {}

    fn progress(&self, _: u64, so_far: &Summary) {
        (self.progress)(Progress::Sent(so_far.sent));
    }
}
