//! Carries out plans, one at a time for each DLQ, on a thread of its own: with the same engine as `redeliver redrive`
//! and `redeliver purge`, and a fixed set.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redeliver_aws::SystemClock;
use redeliver_core::metadata::rfc3339;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_core::schema::MessageSchema;
use redeliver_dead_letters::purge::{Purged, purge};
use redeliver_dead_letters::redrive::{
    self, Early, Edit, Ending, Journal, Limits, Progress, Redrive, Report,
};
use redeliver_dead_letters::{Archive, Pick};
use redeliver_loop::Stop;

use super::plans::{Begun, Outcome, Pace, Plan, Work};
use crate::connection::{DeadLetterQueue, QueueAddress};
use crate::coverage::incompleteness;
use crate::event_sources::EventSources;
use crate::people::{counted, span};
use crate::redrive::{Consumer, watched_in_words};
use crate::{Failure, text};

/// The plans of a DLQ, and the one that is being carried out.
#[derive(Debug)]
pub(super) struct Works {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Shown and not begun; of this process alone.
    shown: BTreeMap<String, Plan>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    begun: Begun,
    stop: Stop,
    progress: Live,
}

impl Running {
    fn is(&self, id: &str) -> bool {
        self.begun.plan.id == id
    }
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) sent: u64,
    pub(super) came_back: u64,
    /// What it waits for.
    pub(super) waits: Option<String>,
    pub(super) stopping: bool,
}

/// A plan and where it stands.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    /// Nothing of it was done yet.
    Shown(Plan),
    Running(Begun, Live),
    /// It has ended, or was killed.
    Ended(Begun),
}

impl Works {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, state: Mutex::default() }
    }

    /// Plans that were begun, newest first, and what is wrong with files.
    pub(super) fn begun(&self, from: &str) -> (Vec<Begun>, Vec<String>) {
        super::plans::read(&self.folder, from)
    }

    /// Keeps a plan to be looked at. One that was begun stays as it is.
    pub(super) fn show(&self, plan: Plan) {
        self.state().shown.insert(plan.id.clone(), plan);
    }

    pub(super) fn find(&self, from: &str, id: &str) -> Option<Standing> {
        if let Some(Running { begun, progress, .. }) =
            self.state().running.as_ref().filter(|running| running.is(id))
        {
            return Some(Standing::Running(begun.clone(), progress.clone()));
        }
        let begun = self.begun(from).0.into_iter().find(|begun| begun.plan.id == id);
        let shown = || self.state().shown.get(id).cloned().map(Standing::Shown);
        begun.map(Standing::Ended).or_else(shown)
    }

    /// The plan that is being carried out.
    pub(super) fn running(&self) -> Option<String> {
        self.state().running.as_ref().map(|running| running.begun.plan.id.clone())
    }

    /// Asks the run to end: it brings to an end what is under way. It can go on later.
    pub(super) fn pause(&self, id: &str) {
        if let Some(running) = self.state().running.as_mut().filter(|running| running.is(id)) {
            running.stop.request();
            running.progress.stopping = true;
        }
    }

    /// Begins a plan, or goes on with it. What runs already, and what is finished, is left alone: a second click does
    /// nothing.
    ///
    /// # Errors
    /// If another one must be finished first, or the disk refuses; nothing was done then.
    pub(super) fn start(
        self: &Arc<Self>,
        from: &str,
        id: &str,
        pace: Pace,
        queue: &DeadLetterQueue,
        schema: &MessageSchema,
    ) -> Result<(), Failure> {
        let mut state = self.state();
        match &state.running {
            Some(running) if running.is(id) => return Ok(()),
            Some(running) => {
                return Err(format!(
                    "another plan ({}) is being carried out: wait for its end, or pause it",
                    running.begun.plan.id
                )
                .into());
            }
            None => {}
        }
        let begun = self.begun(from).0;
        let plan = match begun.iter().find(|begun| begun.plan.id == id) {
            Some(begun) if begun.is_finished() => return Ok(()),
            Some(begun) => begun.plan.clone(),
            None => state.shown.get(id).cloned().ok_or("this plan is not known any more: make it again")?,
        };
        // What an earlier plan has sent and not deleted would be sent a second time by any other.
        let first = begun.iter().find(|begun| begun.plan.id != id && may_be_in_both_queues(begun));
        if let Some(first) = first {
            return Err(format!(
                "the plan {} has messages in both queues, or was killed: let it go on to its end first",
                first.plan.id
            )
            .into());
        }
        let begun = Begun { plan, pace, outcome: None };
        begun.write(&self.folder)?;
        let stop = Stop::default();
        state.running = Some(Running { begun: begun.clone(), stop: stop.clone(), progress: Live::default() });
        state.shown.remove(id);
        drop(state);
        let (works, ended, queue, schema) =
            (Arc::clone(self), Arc::clone(self), queue.clone(), schema.clone());
        let run = move || async move {
            let outcome = works.run(&begun, &queue, schema, &stop).await;
            let outcome = outcome.unwrap_or_else(|error| Outcome {
                ending: "failed".to_owned(),
                remarks: vec![error.to_string()],
                // What a journal has begun may be sent, and nobody has counted it.
                in_both_queues: begun.plan.journal(&works.folder).exists(),
                ..Outcome::default()
            });
            let done = Begun { outcome: Some(Outcome { ended_at: now(), ..outcome }), ..begun };
            // If the disk refuses, the plan is as after a kill, and can go on.
            let _as_after_a_kill = done.write(&works.folder);
        };
        super::thread(run, move || ended.state().running = None);
        Ok(())
    }

    async fn run(
        &self,
        begun: &Begun,
        queue: &DeadLetterQueue,
        schema: MessageSchema,
        stop: &Stop,
    ) -> Result<Outcome, Failure> {
        let Begun { plan, pace, .. } = begun;
        match &plan.work {
            Work::Delete => self.delete(plan, queue, stop).await,
            Work::SendBack { to, edit, new_id, max_generation } => {
                let edit = edit.as_deref().map(Edit::body).transpose()?;
                let how = redrive::Plan {
                    pick: Pick::exactly(plan.messages.iter().cloned()),
                    edit,
                    new_id: *new_id,
                    max_generation: *max_generation,
                    schema,
                };
                self.send_back(plan, *pace, to, &how, queue, stop).await
            }
        }
    }

    async fn send_back(
        &self,
        plan: &Plan,
        pace: Pace,
        to: &str,
        how: &redrive::Plan,
        queue: &DeadLetterQueue,
        stop: &Stop,
    ) -> Result<Outcome, Failure> {
        let from = queue.open().await?;
        let to = queue.connection.source_queue(&to.parse::<QueueAddress>()?).await?;
        let is_consumed = is_consumed(queue, to.queue.arn(), pace.into_paused).await?;
        let limits = Limits {
            rate: pace.rate,
            max: u64::MAX,
            stop_after_failures_percent: pace.stop_after_failures_percent,
            watch: if is_consumed { Duration::from_secs(pace.watch_seconds) } else { Duration::ZERO },
        };
        let redrive = Redrive {
            dlq: &from.queue,
            source: &to.queue,
            clock: &SystemClock,
            plan: how,
            limits,
            interrupted: &|| stop.is_requested(),
            progress: &|progress| self.note(progress),
        };
        let mut journal =
            Journal::open(&plan.journal(&self.folder), &plan.id, from.queue.arn(), to.queue.arn())?;
        Ok(of_redrive(&redrive.apply(&mut journal).await?))
    }

    async fn delete(&self, plan: &Plan, queue: &DeadLetterQueue, stop: &Stop) -> Result<Outcome, Failure> {
        let from = queue.open().await?;
        let path = plan.backup(&self.folder);
        let mut backup = Archive::on_demand(&path)?;
        let pick = Pick::exactly(plan.messages.iter().cloned());
        let interrupted = || stop.is_requested();
        let purged =
            purge(&from.queue, &SystemClock, &pick, u64::MAX, Some(&mut backup), &interrupted).await?;
        Ok(of_purge(&purged, &path.display().to_string()))
    }

    fn note(&self, progress: Progress) {
        let mut state = self.state();
        let Some(Running { progress: live, .. }) = &mut state.running else { return };
        live.waits = None;
        match progress {
            Progress::Sent(sent) => live.sent = sent,
            Progress::CameBack(count) => live.came_back = count,
            Progress::Watching(left) => {
                live.waits =
                    Some(format!("watching what becomes of the pilot, {} left", span(left.as_secs())));
            }
            Progress::Waiting(left) => {
                live.waits = Some(format!("waiting for what is hidden, {} left", span(left.as_secs())));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that was killed may have sent what it has not deleted.
fn may_be_in_both_queues(begun: &Begun) -> bool {
    match (&begun.plan.work, &begun.outcome) {
        (Work::Delete, _) => false,
        (Work::SendBack { .. }, None) => true,
        (Work::SendBack { .. }, Some(outcome)) => outcome.in_both_queues,
    }
}

fn now() -> String {
    rfc3339(SystemClock.now())
}

/// Whether anybody takes what is sent; if nobody does, it is sent only if that is wanted.
async fn is_consumed(queue: &DeadLetterQueue, source_arn: &str, into_paused: bool) -> Result<bool, Failure> {
    let sources = EventSources::near(&queue.connection, source_arn).await?;
    match Consumer::of(sources.of(source_arn).await, true) {
        Consumer::There | Consumer::Unknown(_) => Ok(true),
        Consumer::Nobody(_) if into_paused => Ok(false),
        Consumer::Nobody(why) => Err(format!(
            "{why}: what is sent back waits there, and nothing of it can be watched. Resume the deployment first, or choose to \
             send it all the same"
        )
        .into()),
    }
}

fn of_redrive(report: &Report) -> Outcome {
    let ending = Ending::of(report, u64::MAX);
    let counts = [
        ("sent back", report.sent),
        ("edited", report.edited),
        ("sent before, now deleted", report.deleted_only),
        ("copies of them, at most", report.possible_copies),
        ("came straight back", report.came_back_count()),
        ("sent, not deleted from the DLQ", report.not_deleted),
        ("stay", report.staying_count()),
    ];
    let mut remarks: Vec<_> = report.watched.iter().map(watched_in_words).collect();
    remarks.extend(report.staying.iter().map(|(reason, (count, examples))| {
        format!("{} stay: {reason} (e.g. {})", counted(*count, "message"), examples.join(", "))
    }));
    if let Some(Early::Failed(why)) = &report.early {
        remarks.push(why.clone());
    }
    remarks.extend(next(ending, report));
    Outcome {
        ended_at: String::new(),
        // What stays, stays for a reason that another run would not change.
        finished: matches!(ending, Ending::Done | Ending::Left),
        ending: match ending {
            Ending::Done => "done",
            Ending::Left => "done, except for what stays",
            Ending::NotSeen => "not all of the queue was seen",
            Ending::Stopped => "stopped: too much of it failed again",
            Ending::Failed => "failed",
            Ending::NotDeleted => "messages are in both queues",
            Ending::Interrupted => "paused",
        }
        .to_owned(),
        counts: shown(&counts),
        remarks: remarks.iter().map(|remark| text::escaped_lines(remark)).collect(),
        in_both_queues: report.not_deleted > 0,
    }
}

/// What is to be done now, if anything is.
fn next(ending: Ending, report: &Report) -> Option<String> {
    Some(match ending {
        Ending::Done | Ending::Left => return None,
        Ending::NotSeen => {
            "somebody else reads the queue, or did: what is hidden is visible again within two minutes. Go on then".to_owned()
        }
        Ending::Failed | Ending::Interrupted => "it goes on where it ended".to_owned(),
        Ending::Stopped => {
            let waiting = report.watched.and_then(|watched| watched.waiting).unwrap_or(0);
            format!(
                "of {} that this run sent, {} came straight back, and about {waiting} wait for a retry: the cause is not gone. \
                 Mend it and go on, or go on all the same with 100 %",
                counted(report.sent, "message"),
                report.came_back_count()
            )
        }
        Ending::NotDeleted => format!(
            "{} were sent and are in the DLQ, too, since SQS did not confirm their deletion: {}. Do not send them back by other \
             means: that makes copies. Allow sqs:DeleteMessage on the DLQ, and go on here",
            counted(report.not_deleted, "message"),
            report.why_not_deleted.as_deref().unwrap_or("no answer")
        ),
    })
}

fn of_purge(purged: &Purged, backup: &str) -> Outcome {
    let all_seen = purged.coverage.is_some_and(|coverage| coverage.complete);
    let left = purged.picked.saturating_sub(purged.deleted);
    let mut remarks =
        vec![format!("what was deleted is in {backup}: `redeliver send --backup` sends it again")];
    remarks.extend(purged.failed.clone());
    remarks.extend(purged.why_not_deleted.clone());
    remarks.extend(
        purged.coverage.filter(|coverage| !coverage.complete).map(|coverage| incompleteness(&coverage)),
    );
    let finished = all_seen && left == 0 && purged.failed.is_none() && !purged.interrupted;
    Outcome {
        ended_at: String::new(),
        finished,
        ending: match (finished, purged.interrupted, purged.failed.is_some()) {
            (true, ..) => "done",
            (_, true, _) => "paused",
            (_, _, true) => "failed",
            _ => "not all of it was deleted",
        }
        .to_owned(),
        counts: shown(&[("deleted", purged.deleted), ("not deleted", left)]),
        remarks: remarks.iter().map(|remark| text::escaped_lines(remark)).collect(),
        in_both_queues: false,
    }
}

/// The first always, the others if there are any.
fn shown(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    let seen = counts.iter().enumerate().filter(|(index, (_, count))| *index == 0 || *count > 0);
    seen.map(|(_, (name, count))| ((*name).to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests;
