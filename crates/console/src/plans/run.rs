//! Carries out a plan, using the same engine as `redeliver redrive` and `redeliver purge`.

use std::path::PathBuf;

use redeliver_aws::Stop;
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::purge::Purge;
use redeliver_dead_letters::redrive::{self, RedriveProgress, RepeatFailure};
use redeliver_dead_letters::{ArchiveFile, Pick};
use redeliver_operator::CommandFailure;
use redeliver_operator::dead_letter_source::{DeadLetters, claim_backups, open_backups};
use redeliver_operator::queues::{DeadLetterQueue, QueueAddress};
use redeliver_operator::redrive::{
    AppliedRedrive, RedriveTask, check_destination, describe_missing_consumer,
};
use redeliver_operator::status::consumer::Consumer;

use crate::plans::outcome::{journal_counts, purge_outcome, redrive_outcome};
use crate::plans::plan::{PlanAction, PlanOutcome, PlannedRedrive, StartedPlan};

pub(crate) struct PlanRun {
    /// The folder that contains the plan, its journal and its backups.
    pub(crate) folder: PathBuf,
    pub(crate) started: StartedPlan,
    pub(crate) queue: DeadLetterQueue,
    pub(crate) schema: MessageSchema,
    pub(crate) stop: Stop,
}

impl PlanRun {
    /// Carries the plan out and writes its outcome.
    pub(crate) async fn run_to_end(mut self, progress: &dyn Fn(RedriveProgress)) {
        let outcome = self.carry_out(progress).await.unwrap_or_else(|error| {
            let all = self.started.plan.journal_counts(&self.folder);
            PlanOutcome {
                ending: "failed".to_owned(),
                counts: all
                    .map(|all| journal_counts(&all, self.returned_count(), &self.started.plan))
                    .unwrap_or_default(),
                remarks: vec![error.to_string()],
                // If a journal exists, messages might have been sent without being deleted.
                in_both_queues: self.started.plan.journal_path(&self.folder).exists(),
                ..PlanOutcome::default()
            }
        });
        self.started.outcome = Some(PlanOutcome { ended_at: format_rfc3339(SystemClock.now()), ..outcome });
        // Without the outcome, the run looks as if it had been killed, and the plan can be continued.
        let _ignored = self.started.write_file(&self.folder);
    }

    async fn carry_out(&mut self, progress: &dyn Fn(RedriveProgress)) -> Result<PlanOutcome, CommandFailure> {
        let action = self.started.plan.action.clone();
        let pick = || Pick::with_sqs_ids(self.started.plan.messages.iter().cloned());
        let plan = redrive::RedrivePlan {
            pick: pick(),
            schema: self.schema.clone(),
            from_deployment: self.queue.belongs_to_deployment(),
            ..redrive::RedrivePlan::default()
        };
        match action.planned_redrive(plan)? {
            Some(PlannedRedrive { to, plan }) => self.redrive_messages(to, &plan, progress).await,
            None => self.delete_messages(&pick(), progress).await,
        }
    }

    /// Returns the number of sent messages that runs have seen return to the DLQ. The next run does not send them, so
    /// each is counted once.
    fn returned_count(&self) -> u64 {
        self.started.died_again.iter().map(|died| died.count).sum()
    }

    async fn redrive_messages(
        &mut self,
        to: &str,
        how: &redrive::RedrivePlan,
        progress: &dyn Fn(RedriveProgress),
    ) -> Result<PlanOutcome, CommandFailure> {
        let StartedPlan { plan, pace, .. } = &self.started;
        let from = match &plan.action {
            PlanAction::Restore { .. } => {
                DeadLetters::File(open_backups(&plan.backup_paths(&self.folder), &plan.from)?)
            }
            PlanAction::SendBack { .. } | PlanAction::Delete => {
                DeadLetters::Queue(self.queue.open().await?.queue)
            }
        };
        let to = self.queue.connection.find_queue(&to.parse::<QueueAddress>()?).await?.queue;
        check_destination(&from, to.arn())?;
        if from.as_file().is_some() {
            claim_backups(&plan.backup_paths(&self.folder), &plan.id, from.arn(), to.arn())?;
        }
        let task = RedriveTask {
            is_consumed: from.as_file().is_some() || self.has_consumer(to.arn()).await?,
            from: &from,
            to: &to,
            plan: how,
            pace: *pace,
            max: u64::MAX,
            interrupted: &|| self.stop.is_requested(),
            progress,
        };
        let AppliedRedrive { report, all, .. } =
            task.apply(&plan.journal_path(&self.folder), &plan.id).await?;
        for died in report.died_again.iter().cloned() {
            RepeatFailure::merge_into(&mut self.started.died_again, died);
        }
        Ok(redrive_outcome(&report, &all, self.returned_count(), &self.started.plan))
    }

    async fn delete_messages(
        &mut self,
        pick: &Pick,
        progress: &dyn Fn(RedriveProgress),
    ) -> Result<PlanOutcome, CommandFailure> {
        let from = self.queue.open().await?;
        let path = self.started.plan.next_backup_path(&self.folder);
        let mut backup = ArchiveFile::on_demand(&path)?;
        let purge = Purge {
            interrupted: &|| self.stop.is_requested(),
            progress: &|deleted| progress(RedriveProgress::Sent(deleted)),
            ..Purge::new(&from.queue, &SystemClock, pick)
        };
        let purged = purge.apply(&mut backup).await?;
        let planned = self.started.plan.messages.len() as u64;
        let outcome =
            purge_outcome(&purged, self.started.deleted_before, &path.display().to_string(), planned);
        self.started.deleted_before += purged.deleted;
        Ok(outcome)
    }

    /// True if the source queue has a consumer. Without a consumer, messages are sent only with `allow_paused`.
    async fn has_consumer(&self, source_arn: &str) -> Result<bool, CommandFailure> {
        match Consumer::query_consumer(&self.queue.connection, source_arn, true).await? {
            Consumer::Present | Consumer::Unknown(_) => Ok(true),
            Consumer::Absent(_) if self.started.pace.allow_paused => Ok(false),
            Consumer::Absent(why) => {
                let why = describe_missing_consumer(&why);
                Err(format!("{why}. Resume the deployment first, or choose to send them anyway").into())
            }
        }
    }
}
