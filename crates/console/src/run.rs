//! Carries out a plan: with the same engine as `redeliver redrive` and `redeliver purge`, and a fixed set.

use std::sync::Arc;
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::purge::purge;
use redeliver_dead_letters::redrive::{self, Journal, Limits, Redrive};
use redeliver_dead_letters::{Archive, Pick};

use super::outcome::{of_purge, of_redrive};
use super::plans::{Begun, Outcome};
use super::work::Works;
use redeliver_operator::Failure;
use redeliver_operator::queues::{DeadLetterQueue, QueueAddress};
use redeliver_operator::status::consumer::Consumer;

pub(super) struct Run {
    pub(super) works: Arc<Works>,
    pub(super) begun: Begun,
    pub(super) queue: DeadLetterQueue,
    pub(super) schema: MessageSchema,
    pub(super) stop: Stop,
}

impl Run {
    /// Carries it out, and keeps what came of it.
    pub(super) async fn finish(self) {
        let Begun { plan, pace, .. } = &self.begun;
        let outcome = self.carried_out().await.unwrap_or_else(|error| Outcome {
            ending: "failed".to_owned(),
            remarks: vec![error.to_string()],
            // What a journal has begun may be sent, and nobody has counted it.
            in_both_queues: plan.journal(&self.works.folder).exists(),
            ..Outcome::default()
        });
        let outcome = Outcome { ended_at: rfc3339(SystemClock.now()), ..outcome };
        let done = Begun { plan: plan.clone(), pace: *pace, outcome: Some(outcome) };
        // If the disk refuses, the plan is as after a kill, and can go on.
        let _as_after_a_kill = done.write(&self.works.folder);
    }

    async fn carried_out(&self) -> Result<Outcome, Failure> {
        let plan = &self.begun.plan;
        let pick = || Pick::exactly(plan.messages.iter().cloned());
        match plan.work.redrive(pick(), &self.schema) {
            Some((to, how)) => self.send_back(to, &how).await,
            None => self.delete(&pick()).await,
        }
    }

    async fn send_back(&self, to: &str, how: &redrive::Plan) -> Result<Outcome, Failure> {
        let Begun { plan, pace, .. } = &self.begun;
        let from = self.queue.open().await?;
        let to = self.queue.connection.source_queue(&to.parse::<QueueAddress>()?).await?;
        let is_consumed = self.is_consumed(to.queue.arn()).await?;
        let limits = Limits {
            rate: pace.rate,
            max: u64::MAX,
            stop_after_failures_percent: pace.stop_after_failures_percent,
            // Where nobody takes what is sent, nothing can come back.
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
            progress: &|progress| self.works.note(progress),
        };
        let journal = plan.journal(&self.works.folder);
        let mut journal = Journal::open(&journal, &plan.id, from.queue.arn(), to.queue.arn())?;
        Ok(of_redrive(&redrive.apply(&mut journal).await?))
    }

    async fn delete(&self, pick: &Pick) -> Result<Outcome, Failure> {
        let from = self.queue.open().await?;
        let path = self.begun.plan.backup(&self.works.folder);
        let mut backup = Archive::on_demand(&path)?;
        let (interrupted, progress) = (|| self.stop.is_requested(), |deleted| self.works.note_done(deleted));
        let purged =
            purge(&from.queue, &SystemClock, pick, u64::MAX, Some(&mut backup), &interrupted, &progress)
                .await?;
        Ok(of_purge(&purged, &path.display().to_string()))
    }

    /// Whether anybody takes what is sent; if nobody does, it is sent only if that is wanted.
    async fn is_consumed(&self, source_arn: &str) -> Result<bool, Failure> {
        match Consumer::look(&self.queue.connection, source_arn, true).await? {
            Consumer::There | Consumer::Unknown(_) => Ok(true),
            Consumer::Nobody(_) if self.begun.pace.into_paused => Ok(false),
            Consumer::Nobody(why) => Err(format!(
                "{why}: what is sent back waits there, and nothing of it can be watched. Resume the deployment first, or choose \
                 to send it all the same"
            )
            .into()),
        }
    }
}
