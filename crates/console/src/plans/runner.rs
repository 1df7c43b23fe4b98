//! Starts and pauses a DLQ's plans, one at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_aws::{Stop, SystemClock};
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::files::is_owned_by_user;
use redeliver_dead_letters::redrive::{RedriveJournal, RedriveProgress};
use redeliver_operator::CommandFailure;
use redeliver_operator::dead_letter_source::release_backups;
use redeliver_operator::queues::DeadLetterQueue;
use redeliver_operator::redrive::{RedrivePace, describe_wait};
use redeliver_operator::terminal::remaining::RemainingTime;

use crate::background::spawn_task;
use crate::plans::plan::{self, ConsolePlan, PlanAction, PlanFiles, StartedPlan};
use crate::plans::run::PlanRun;

pub(crate) const UNKNOWN_PLAN: &str = "this plan no longer exists: create it again";
pub(crate) const NO_SOURCE_QUEUE: &str = "The source queue is unknown, so nothing can be sent back: start the console \
     with --to, or with the stack's name.";

/// A DLQ's plans, and the one that is running.
#[derive(Debug)]
pub(crate) struct PlanRunner {
    pub(crate) folder: PathBuf,
    /// Held while a plan is started.
    start_lock: Mutex<()>,
    state: Mutex<RunnerState>,
}

#[derive(Debug, Default)]
struct RunnerState {
    /// Plans that were shown but not started. They exist only in this process, not on disk.
    shown: BTreeMap<String, ConsolePlan>,
    running: Option<ActiveRun>,
    /// The time at which the last run of this process ended.
    last_ended: Option<Timestamp>,
}

#[derive(Debug)]
struct ActiveRun {
    plan: RunningPlan,
    stop: Stop,
}

impl ActiveRun {
    fn id(&self) -> &str {
        &self.plan.started.plan.id
    }

    /// Returns an error unless the running plan has this id and these settings.
    fn check_same_request(&self, id: &str, wanted: RedrivePace) -> Result<(), StartError> {
        let (running, pace) = (self.id(), self.plan.started.pace);
        if running != id {
            let words = format!("another plan ({running}) is running: wait until it ends, or pause it");
            return Err(StartError::with_link(running, words));
        }
        if pace != wanted {
            let words = format!("this plan is already running, with {}", pace.describe());
            return Err(StartError::with_link(id, words));
        }
        Ok(())
    }
}

/// A running plan and its progress.
#[derive(Clone, Debug)]
pub(crate) struct RunningPlan {
    pub(crate) started: StartedPlan,
    pub(crate) progress: RunProgress,
}

/// The progress of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunProgress {
    /// Messages sent back, or deleted, by this run.
    pub(crate) done: u64,
    /// Messages sent back, or deleted, by earlier runs.
    pub(crate) before: u64,
    pub(crate) came_back: u64,
    /// The reason that the run is waiting.
    pub(crate) waits: Option<String>,
    /// Set while the run is working.
    remaining: Option<RemainingTime>,
    pub(crate) stopping: bool,
}

impl RunProgress {
    fn apply_progress(&mut self, progress: RedriveProgress, now: Timestamp) {
        self.waits = describe_wait(progress);
        match progress {
            RedriveProgress::Sent(sent) => {
                self.done = sent;
                self.remaining.get_or_insert_with(|| {
                    let mut remaining = RemainingTime::new(now);
                    remaining.restart(sent, now);
                    remaining
                });
            }
            RedriveProgress::CameBack(count) => self.came_back = count,
            RedriveProgress::Read { .. } => {}
            // A wait resets the estimate.
            RedriveProgress::Watching(_) | RedriveProgress::Waiting(_) => self.remaining = None,
        }
    }

    /// Estimates the seconds until the plan's remaining messages are done, or returns `None` if too few were done for
    /// an estimate.
    pub(crate) fn remaining_seconds(&self, total: u64, now: Timestamp) -> Option<i64> {
        let mut remaining = self.remaining?;
        remaining.estimate_seconds(self.done, total.saturating_sub(self.before), now)
    }
}

/// A plan and its state.
#[derive(Clone, Debug)]
pub(crate) enum PlanState {
    /// Not started yet.
    Shown(ConsolePlan),
    Running(RunningPlan),
    /// Ended, or killed.
    Ended(StartedPlan),
}

impl PlanRunner {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, start_lock: Mutex::default(), state: Mutex::default() }
    }

    /// Returns a DLQ's started plans.
    pub(crate) fn started_plans(&self, from: &str) -> PlanFiles {
        plan::read_plans(&self.folder, from)
    }

    /// Keeps a plan until it is started.
    pub(crate) fn keep_plan(&self, plan: ConsolePlan) {
        self.lock_state().shown.insert(plan.id.clone(), plan);
    }

    /// Returns a DLQ's plans that have not been started yet.
    pub(crate) fn unstarted_plans(&self, from: &str) -> Vec<ConsolePlan> {
        self.lock_state().shown.values().filter(|plan| plan.from == from).cloned().collect()
    }

    /// True if a run has changed the queue since `then`, or is running.
    pub(crate) fn has_run_since(&self, then: Timestamp) -> bool {
        let state = self.lock_state();
        state.running.is_some() || state.last_ended.is_some_and(|ended| ended > then)
    }

    /// Returns the plan and its progress, if it is running.
    pub(crate) fn find_running(&self, id: &str) -> Option<RunningPlan> {
        let state = self.lock_state();
        state.running.as_ref().filter(|running| running.id() == id).map(|running| running.plan.clone())
    }

    pub(crate) fn find_plan(&self, from: &str, id: &str) -> Option<PlanState> {
        if let Some(running) = self.find_running(id) {
            return Some(PlanState::Running(running));
        }
        let started = self.started_plans(from).started.into_iter().find(|started| started.plan.id == id);
        let shown = || self.lock_state().shown.get(id).cloned().map(PlanState::Shown);
        started.map(PlanState::Ended).or_else(shown)
    }

    /// Returns the id of the running plan.
    pub(crate) fn running_id(&self) -> Option<String> {
        self.lock_state().running.as_ref().map(|running| running.id().to_owned())
    }

    /// Requests that the run stop after the current batch. The plan can be continued later.
    pub(crate) fn pause_run(&self, id: &str) {
        if let Some(running) = self.lock_state().running.as_mut().filter(|running| running.id() == id) {
            running.stop.request();
            running.plan.progress.stopping = true;
        }
    }

    /// Discards a plan that has never sent or deleted anything.
    ///
    /// # Errors
    /// The plan is running, or it has sent or deleted messages or might have done so.
    pub(crate) fn cancel_plan(&self, from: &str, id: &str) -> Result<(), CommandFailure> {
        let _one_at_a_time = lock(&self.start_lock);
        let Some(state) = self.find_plan(from, id) else { return Ok(()) }; // a second click
        if let PlanState::Running(..) = state {
            return Err("This plan is running: pause it first.".into());
        }
        if let PlanState::Ended(StartedPlan { plan, .. }) = &state {
            let journal = plan.journal_path(&self.folder);
            let mut has_journal = journal.symlink_metadata().is_ok();
            // Locked, so that no other console can run it at the same time.
            let all = match plan.action.destination_arn() {
                Some(to) if has_journal => match RedriveJournal::open(&journal, &plan.id, &plan.from, to) {
                    Ok(journal) => Some(journal.counts()),
                    // The journal belongs to `redrive FILE` or another restore: this plan has sent nothing, and the
                    // journal is kept.
                    Err(error)
                        if error.is_for_another_redrive()
                            && matches!(plan.action, PlanAction::Restore { .. }) =>
                    {
                        has_journal = false;
                        None
                    }
                    Err(error) => return Err(error.into()),
                },
                _ => None,
            };
            if plan.may_have_begun(&self.folder, all.as_ref()) {
                let done = plan.action.past_participle();
                return Err(format!(
                    "This plan has {done} messages, or may have, so it cannot be cancelled."
                )
                .into());
            }
            // The plan is removed first: a journal without a plan shows that nothing was sent.
            fs::remove_file(plan.file_path(&self.folder))?;
            if has_journal {
                fs::remove_file(journal)?;
            }
            if let PlanAction::Restore { to, .. } = &plan.action {
                release_backups(&plan.backup_paths(&self.folder), &plan.id, &plan.from, to)?;
            }
        }
        self.lock_state().shown.remove(id);
        Ok(())
    }

    /// Starts or continues a plan. If it is running or finished, this is a second click and does nothing.
    ///
    /// # Errors
    /// Another plan must be finished first, another tab has changed the settings, or a file cannot be written. In
    /// each case, nothing is done.
    pub(crate) fn start_plan(
        self: &Arc<Self>,
        id: &str,
        wanted: StartRequest,
        at: &RunContext<'_>,
    ) -> Result<(), StartError> {
        // A separate lock, so that pages do not wait for file access.
        let _one_at_a_time = lock(&self.start_lock);
        if let Some(running) = &self.lock_state().running {
            return running.check_same_request(id, wanted.pace);
        }
        let plans = self.started_plans(at.from);
        let Some(started) = self.next_run(id, wanted, &plans.started)? else { return Ok(()) };
        at.check_destination(&started.plan)?;
        check_nothing_in_both_queues(id, &plans)?;
        started.write_file(&self.folder)?;
        self.spawn_run(started, at);
        Ok(())
    }

    /// Returns the plan at the start of its next run, or `None` if it is finished.
    fn next_run(
        &self,
        id: &str,
        StartRequest { pace, shown }: StartRequest,
        plans: &[StartedPlan],
    ) -> Result<Option<StartedPlan>, StartError> {
        let Some(started) = plans.iter().find(|started| started.plan.id == id) else {
            let plan = self.lock_state().shown.get(id).cloned().ok_or(UNKNOWN_PLAN)?;
            return Ok(Some(StartedPlan::new(plan, pace)));
        };
        if started.is_finished() {
            return Ok(None);
        }
        if shown.is_some_and(|shown| shown != started.pace) {
            let now = started.pace.describe();
            let words = format!("another tab changed the settings to {now}, so nothing was done");
            return Err(StartError::with_link(id, words));
        }
        Ok(Some(StartedPlan { pace, outcome: None, ..started.clone() }))
    }

    /// Carries out a plan on a separate thread.
    fn spawn_run(self: &Arc<Self>, started: StartedPlan, at: &RunContext<'_>) {
        let sent_before = started.plan.journal_counts(&self.folder).map_or(0, |all| all.sent);
        let progress = RunProgress { before: sent_before + started.deleted_before, ..RunProgress::default() };
        let stop = Stop::default();
        let mut state = self.lock_state();
        state.shown.remove(&started.plan.id);
        let plan = RunningPlan { started: started.clone(), progress };
        state.running = Some(ActiveRun { plan, stop: stop.clone() });
        drop(state);
        let (folder, queue, schema) = (self.folder.clone(), at.queue.clone(), at.schema.clone());
        let run = PlanRun { folder, started, queue, schema, stop };
        let (recorder, runner) = (Arc::clone(self), Arc::clone(self));
        let finish =
            move || async move { run.run_to_end(&|progress| recorder.record_progress(progress)).await };
        spawn_task(finish, move || {
            let mut state = runner.lock_state();
            state.running = None;
            state.last_ended = Some(SystemClock.now());
        });
    }

    /// Records the progress of a run. Deletions count as sent.
    fn record_progress(&self, progress: RedriveProgress) {
        let mut state = self.lock_state();
        let Some(live) = state.running.as_mut().map(|running| &mut running.plan.progress) else { return };
        live.apply_progress(progress, SystemClock.now());
    }

    fn lock_state(&self) -> MutexGuard<'_, RunnerState> {
        lock(&self.state)
    }
}

/// The parts of the deployment that a run needs.
#[derive(Debug)]
pub(crate) struct RunContext<'d> {
    /// The DLQ's ARN.
    pub(crate) from: &'d str,
    /// The source queue's ARN, if known.
    pub(crate) to: Option<&'d str>,
    pub(crate) queue: &'d DeadLetterQueue,
    pub(crate) schema: &'d MessageSchema,
}

impl RunContext<'_> {
    /// Returns an error if the plan's destination is not the source queue.
    fn check_destination(&self, ConsolePlan { id, action, .. }: &ConsolePlan) -> Result<(), CommandFailure> {
        let Some(planned) = action.destination_arn() else { return Ok(()) };
        let here = self.to.ok_or(NO_SOURCE_QUEUE)?;
        if planned == here {
            return Ok(());
        }
        Err(format!(
            "the plan {id} sends to {planned}, but the source queue here is {here}: create a new plan, or start the \
             console with --to for that queue"
        )
        .into())
    }
}

/// Returns an error if a plan might have sent messages without deleting them: another plan would send them again.
fn check_nothing_in_both_queues(
    id: &str,
    PlanFiles { started, damaged }: &PlanFiles,
) -> Result<(), StartError> {
    // A damaged plan might have left messages in both queues. Files of other users are ignored.
    if let Some(own) = damaged.iter().find(|damaged| is_owned_by_user(&damaged.path)) {
        return Err(format!(
            "{own}. Check the file, and fix it (`chmod 600` if only its mode is wrong) or remove it; without this \
             plan, messages that it sent but did not delete can be sent again"
        )
        .into());
    }
    let mut others = started.iter().filter(|started| started.plan.id != id);
    let Some(other) = others.find(|started| may_be_in_both_queues(started)) else { return Ok(()) };
    let other = &other.plan.id;
    let words = format!("the plan {other} has messages in both queues, or was killed: finish it first");
    Err(StartError::with_link(other, words))
}

/// The settings for a run, and those with which the form was rendered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartRequest {
    pub(crate) pace: RedrivePace,
    pub(crate) shown: Option<RedrivePace>,
}

/// The reason that a plan was not started.
#[derive(Debug)]
pub(crate) struct StartError {
    pub(crate) why: CommandFailure,
    /// The plan that the error page links to.
    pub(crate) see: Option<String>,
}

impl StartError {
    fn with_link(plan: &str, why: String) -> Self {
        Self { why: why.into(), see: Some(plan.to_owned()) }
    }
}

impl<E> From<E> for StartError
where
    CommandFailure: From<E>,
{
    fn from(error: E) -> Self {
        Self { why: error.into(), see: None }
    }
}

/// True if messages might be in both queues: a killed run might have sent messages without deleting them.
fn may_be_in_both_queues(started: &StartedPlan) -> bool {
    match (&started.plan.action, &started.outcome) {
        (PlanAction::Delete | PlanAction::Restore { .. }, _) => false,
        (PlanAction::SendBack { .. }, None) => true,
        (PlanAction::SendBack { .. }, Some(outcome)) => outcome.in_both_queues,
    }
}

#[cfg(test)]
mod tests;
