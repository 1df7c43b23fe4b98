//! Carries out a plan, with the engine of `redeliver redrive` and `redeliver purge`.

use std::path::PathBuf;
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::purge::purge;
use redeliver_dead_letters::redrive::{self, Journal, Limits, Progress, Redrive};
use redeliver_dead_letters::{Archive, Pick};
use redeliver_operator::Failure;
use redeliver_operator::queues::{DeadLetterQueue, QueueAddress};
use redeliver_operator::status::consumer::Consumer;

use crate::plans::outcome::{of_purge, of_redrive};
use crate::plans::plan::{Outcome, StartedPlan};

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
    pub(crate) async fn finish(self, progress: &dyn Fn(Progress)) {
        let StartedPlan { plan, pace, .. } = &self.started;
        let outcome = self.carried_out(progress).await.unwrap_or_else(|error| Outcome {
            ending: "failed".to_owned(),
            remarks: vec![error.to_string()],
            // If there is a journal, messages may have been sent, and nobody has counted them.
            in_both_queues: plan.journal(&self.folder).exists(),
            ..Outcome::default()
        });
        let outcome = Outcome { ended_at: rfc3339(SystemClock.now()), ..outcome };
        let done = StartedPlan { plan: plan.clone(), pace: *pace, outcome: Some(outcome) };
        // Without the outcome the plan looks as after a kill, and can go on.
        let _as_after_a_kill = done.write(&self.folder);
    }

    async fn carried_out(&self, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let plan = &self.started.plan;
        let pick = || Pick::exactly(plan.messages.iter().cloned());
        match plan.action.redrive(pick(), &self.schema) {
            Some((to, how)) => self.send_back(to, &how, progress).await,
            None => self.delete(&pick(), progress).await,
        }
    }

    async fn send_back(
        &self,
        to: &str,
        how: &redrive::Plan,
        progress: &dyn Fn(Progress),
    ) -> Result<Outcome, Failure> {
        let StartedPlan { plan, pace, .. } = &self.started;
        let from = self.queue.open().await?;
        let to = self.queue.connection.source_queue(&to.parse::<QueueAddress>()?).await?;
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
        Ok(of_redrive(&redrive.apply(&mut journal).await?))
    }

    async fn delete(&self, pick: &Pick, progress: &dyn Fn(Progress)) -> Result<Outcome, Failure> {
        let from = self.queue.open().await?;
        let path = self.started.plan.backup(&self.folder);
        let mut backup = Archive::on_demand(&path)?;
        let (interrupted, progress) =
            (|| self.stop.is_requested(), |deleted| progress(Progress::Sent(deleted)));
        let purged =
            purge(&from.queue, &SystemClock, pick, u64::MAX, Some(&mut backup), &interrupted, &progress)
                .await?;
        Ok(of_purge(&purged, &path.display().to_string()))
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
