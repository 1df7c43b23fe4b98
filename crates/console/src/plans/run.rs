//! Carries out a plan, with the engine of `redeliver redrive` and `redeliver purge`.

use std::path::PathBuf;

use redeliver_aws::Stop;
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::purge::Purge;
use redeliver_dead_letters::redrive::{self, DiedAgain, Progress};
use redeliver_dead_letters::{Archive, Pick};
use redeliver_operator::Failure;
use redeliver_operator::dead_letter_source::{DeadLetters, claim_backups, open_backups};
use redeliver_operator::queues::{DeadLetterQueue, QueueAddress};
use redeliver_operator::redrive::{Applied, RedriveTask, check_destination, not_consumed};
use redeliver_operator::status::consumer::Consumer;

use crate::plans::outcome::{of_journal, of_purge, of_redrive};
use crate::plans::plan::{Action, Outcome, Redrive, StartedPlan};

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
                counts: all
                    .map(|all| of_journal(&all, self.came_back(), &self.started.plan))
                    .unwrap_or_default(),
                remarks: vec![error.to_string()],
                // If there is a journal, messages may have been sent, and are not deleted.
                in_both_queues: self.started.plan.journal(&self.folder).exists(),
                ..Outcome::default()
            }
        });
        self.started.outcome = Some(Outcome { ended_at: rfc3339(SystemClock.now()), ..outcome });
        // Without the outcome the plan looks as after a kill, and can continue.
        let _as_after_a_kill = self.started.write(&self.folder);
    }

    async fn carried_out(&mut self, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let action = self.started.plan.action.clone();
        let pick = || Pick::exactly(self.started.plan.messages.iter().cloned());
        let plan = redrive::Plan {
            pick: pick(),
            schema: self.schema.clone(),
            from_deployment: self.queue.is_of_deployment(),
            ..redrive::Plan::default()
        };
        match action.redrive(plan)? {
            Some(Redrive { to, plan }) => self.redrive(to, &plan, progress).await,
            None => self.delete(&pick(), progress).await,
        }
    }

    /// Messages that a run has seen in the DLQ again. The next run sends none of them, so none counts twice.
    fn came_back(&self) -> u64 {
        self.started.died_again.iter().map(|died| died.count).sum()
    }

    async fn redrive(
        &mut self,
        to: &str,
        how: &redrive::Plan,
        progress: &dyn Fn(Progress),
    ) -> Result<Outcome, Failure> {
        let StartedPlan { plan, pace, .. } = &self.started;
        let from = match &plan.action {
            Action::Restore { .. } => {
                DeadLetters::File(open_backups(&plan.backups(&self.folder), &plan.from)?)
            }
            Action::SendBack { .. } | Action::Delete => DeadLetters::Queue(self.queue.open().await?.queue),
        };
        let to = self.queue.connection.find(&to.parse::<QueueAddress>()?).await?.queue;
        check_destination(&from, to.arn())?;
        if from.lines().is_some() {
            claim_backups(&plan.backups(&self.folder), &plan.id, from.arn(), to.arn())?;
        }
        let task = RedriveTask {
            is_consumed: from.lines().is_some() || self.is_consumed(to.arn()).await?,
            from: &from,
            to: &to,
            plan: how,
            pace: *pace,
            max: u64::MAX,
            interrupted: &|| self.stop.is_requested(),
            progress,
        };
        let Applied { report, all, .. } = task.apply(&plan.journal(&self.folder), &plan.id).await?;
        for died in report.died_again.iter().cloned() {
            DiedAgain::add(&mut self.started.died_again, died);
        }
        Ok(of_redrive(&report, &all, self.came_back(), &self.started.plan))
    }

    async fn delete(&mut self, pick: &Pick, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let from = self.queue.open().await?;
        let path = self.started.plan.backup(&self.folder);
        let mut backup = Archive::on_demand(&path)?;
        let purge = Purge {
            interrupted: &|| self.stop.is_requested(),
            progress: &|deleted| progress(Progress::Sent(deleted)),
            ..Purge::new(&from.queue, &SystemClock, pick)
        };
        let purged = purge.apply(&mut backup).await?;
        let planned = self.started.plan.messages.len() as u64;
        let outcome = of_purge(&purged, self.started.deleted_before, &path.display().to_string(), planned);
        self.started.deleted_before += purged.deleted;
        Ok(outcome)
    }

    /// True if the source queue has a consumer. Without one, messages are sent only with `into_paused`.
    async fn is_consumed(&self, source_arn: &str) -> Result<bool, Failure> {
        match Consumer::look(&self.queue.connection, source_arn, true).await? {
            Consumer::There | Consumer::Unknown(_) => Ok(true),
            Consumer::Nobody(_) if self.started.pace.into_paused => Ok(false),
            Consumer::Nobody(why) => {
                let why = not_consumed(&why);
                Err(format!("{why}. Resume the deployment first, or choose to send them anyway").into())
            }
        }
    }
}
