//! The plans of a DLQ: shown, carried out one at a time, ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_aws::Stop;
use redeliver_core::message::schema::MessageSchema;
use redeliver_dead_letters::files::is_ones_own;
use redeliver_dead_letters::redrive::Progress;

use super::latest::thread;
use super::plans::{Begun, Pace, Plan, Work};
use super::run::Run;
use redeliver_operator::Failure;
use redeliver_operator::lock::lock;
use redeliver_operator::queues::DeadLetterQueue;
use redeliver_operator::terminal::units::span;

pub(super) const NOT_KNOWN: &str = "this plan is not known any more: make it again";

/// The plans of a DLQ, and the one that is being carried out.
#[derive(Debug)]
pub(super) struct Works {
    pub(super) folder: PathBuf,
    /// Held while a plan is begun.
    starting: Mutex<()>,
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
    /// Messages that are sent back, or deleted.
    pub(super) done: u64,
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
        Self { folder, starting: Mutex::default(), state: Mutex::default() }
    }

    /// Plans that were begun, newest first, and what is wrong with files.
    pub(super) fn begun(&self, from: &str) -> (Vec<Begun>, Vec<String>) {
        let (begun, damaged) = super::plans::read(&self.folder, from);
        (begun, damaged.iter().map(ToString::to_string).collect())
    }

    /// Keeps a plan to be looked at. One that was begun stays as it is.
    pub(super) fn show(&self, plan: Plan) {
        self.state().shown.insert(plan.id.clone(), plan);
    }

    /// A plan and how far it is, if it is being carried out.
    pub(super) fn under_way(&self, id: &str) -> Option<(Begun, Live)> {
        let state = self.state();
        let running = state.running.as_ref().filter(|running| running.is(id))?;
        Some((running.begun.clone(), running.progress.clone()))
    }

    pub(super) fn find(&self, from: &str, id: &str) -> Option<Standing> {
        if let Some((begun, progress)) = self.under_way(id) {
            return Some(Standing::Running(begun, progress));
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
        (from, to): (&str, Result<&str, &'static str>),
        id: &str,
        pace: Pace,
        queue: &DeadLetterQueue,
        schema: &MessageSchema,
    ) -> Result<(), Failure> {
        // What a page shows waits for no file.
        let _one_at_a_time = lock(&self.starting);
        match &self.state().running {
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
        let (begun, damaged) = super::plans::read(&self.folder, from);
        let plan = match begun.iter().find(|begun| begun.plan.id == id) {
            Some(begun) if begun.is_finished() => return Ok(()),
            Some(begun) => begun.plan.clone(),
            None => self.state().shown.get(id).cloned().ok_or(NOT_KNOWN)?,
        };
        if let Work::SendBack { to: planned, .. } = &plan.work
            && planned != to?
        {
            return Err(format!(
                "the plan {id} sends to {planned}, and the source queue here is {}: make a new plan, or start the console with --to \
                 for that queue",
                to?
            )
            .into());
        }
        // It may have messages in both queues. One that somebody else has put there is nobody's plan.
        if let Some(own) = damaged.iter().find(|damaged| is_ones_own(&damaged.path)) {
            return Err(format!(
                "{own}. Look at it, and mend it (`chmod 600` if only its mode is wrong) or remove it; without its plan, \
                 messages that it has sent and not yet deleted can be sent again"
            )
            .into());
        }
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
        let mut state = self.state();
        state.running = Some(Running { begun: begun.clone(), stop: stop.clone(), progress: Live::default() });
        state.shown.remove(id);
        drop(state);
        let run = Run { works: Arc::clone(self), begun, queue: queue.clone(), schema: schema.clone(), stop };
        let ended = Arc::clone(self);
        thread(move || async move { run.finish().await }, move || ended.state().running = None);
        Ok(())
    }

    /// What a deletion tells of itself.
    pub(super) fn note_done(&self, count: u64) {
        if let Some(Running { progress, .. }) = &mut self.state().running {
            progress.done = count;
        }
    }

    /// What a redrive tells of itself.
    pub(super) fn note(&self, progress: Progress) {
        let mut state = self.state();
        let Some(Running { progress: live, .. }) = &mut state.running else { return };
        live.waits = None;
        match progress {
            Progress::Sent(sent) => live.done = sent,
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
        lock(&self.state)
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

#[cfg(test)]
mod tests;
