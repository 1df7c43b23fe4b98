//! Plans: each is a fixed set of dead letters and the action to take on them.
//!
//! The set is fixed when the plan is shown; later messages are not included. A plan's id is a digest of its effect, so
//! a second click or a second tab opens the same plan. The plan is on disk before its first message is touched, so the
//! next console can finish it.

use std::fs;
use std::path::{Path, PathBuf};

use redeliver_core::message::metadata::GENERATION_MAX;
use redeliver_core::ports::is_fifo;
use redeliver_dead_letters::files::{FileError, read_own_file, replace_file};
use redeliver_dead_letters::redrive::{
    self, BodyEdit, JournalCounts, RedriveJournal, RepeatFailure, plan_id,
};
use redeliver_operator::CommandFailure;
use redeliver_operator::file_journals::redrive_journal_path;
use redeliver_operator::redrive::RedrivePace;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A fixed set of dead letters and the action to take on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConsolePlan {
    pub(crate) id: String,
    /// RFC 3339.
    pub(crate) made_at: String,
    /// The DLQ's ARN.
    pub(crate) from: String,
    #[serde(rename = "work")]
    pub(crate) action: PlanAction,
    /// A description of the selection.
    pub(crate) selected: String,
    /// The selection's fields, named as in URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) selection: Vec<(String, String)>,
    /// SQS message ids in the DLQ.
    pub(crate) messages: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PlanAction {
    SendBack {
        /// The source queue's ARN.
        to: String,
        /// The new body of the plan's only message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<String>,
        /// The jq expression that changes each message. Messages that it leaves unchanged are not in the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<String>,
        /// The edited body gets a new `message_id`.
        new_id: bool,
        /// Messages that were sent back this many times are skipped.
        max_generation: u32,
    },
    Delete,
    /// Re-sends the messages in a deletion's backups.
    Restore {
        /// The source queue's ARN.
        to: String,
        /// The id of the plan that deleted them.
        deletion: String,
    },
}

impl PlanAction {
    /// Returns the ARN of the destination queue.
    pub(crate) fn destination_arn(&self) -> Option<&str> {
        match self {
            Self::SendBack { to, .. } | Self::Restore { to, .. } => Some(to),
            Self::Delete => None,
        }
    }

    /// Returns the past participle of the action, for a sentence about messages.
    pub(crate) const fn past_participle(&self) -> &'static str {
        match self {
            Self::SendBack { .. } => "sent back",
            Self::Delete => "deleted",
            Self::Restore { .. } => "restored",
        }
    }

    /// Returns the source queue and the engine's plan for this action, with the given plan's selection, schema and
    /// origin, or `None` if the action does not redrive.
    ///
    /// # Errors
    /// The jq expression is invalid.
    pub(crate) fn planned_redrive(
        &self,
        plan: redrive::RedrivePlan,
    ) -> Result<Option<PlannedRedrive<'_>>, CommandFailure> {
        let Some(to) = self.destination_arn() else { return Ok(None) };
        let mut plan = redrive::RedrivePlan { to_fifo: is_fifo(to), ..plan };
        match self {
            Self::SendBack { edit, program, new_id, max_generation, .. } => {
                plan.edit = match program {
                    Some(program) => Some(BodyEdit::new(program)?),
                    None => edit.as_deref().map(BodyEdit::replace_body),
                };
                plan.edited_only = program.is_some();
                plan.new_id = *new_id;
                plan.max_generation = *max_generation;
            }
            // The generation limit does not apply to messages that a user chose to delete.
            Self::Restore { .. } => plan.max_generation = GENERATION_MAX,
            Self::Delete => {}
        }
        Ok(Some(PlannedRedrive { to, plan }))
    }
}

/// A redrive in the form that the engine expects.
pub(crate) struct PlannedRedrive<'a> {
    /// The source queue's ARN.
    pub(crate) to: &'a str,
    pub(crate) plan: redrive::RedrivePlan,
}

/// A plan that was started, as stored on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartedPlan {
    pub(crate) plan: ConsolePlan,
    pub(crate) pace: RedrivePace,
    /// The outcome of its last run; `None` if that run was killed.
    pub(crate) outcome: Option<PlanOutcome>,
    /// The causes of the repeat failures seen while a run was watching, over all runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) died_again: Vec<RepeatFailure>,
    /// Number of messages that earlier runs deleted.
    pub(crate) deleted_before: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanOutcome {
    /// RFC 3339.
    pub(crate) ended_at: String,
    /// True if no work is left.
    pub(crate) finished: bool,
    /// The outcome in a few words.
    pub(crate) ending: String,
    /// Named counts, over all runs.
    pub(crate) counts: Vec<(String, u64)>,
    /// Sentences about the run, such as the reasons for skipped messages, and the next step.
    pub(crate) remarks: Vec<String>,
    /// True if messages are in both queues: no other plan may send before this one has deleted them.
    pub(crate) in_both_queues: bool,
}

impl ConsolePlan {
    pub(crate) fn new(
        made_at: String,
        from: &str,
        action: PlanAction,
        selected: String,
        selection: Vec<(String, String)>,
        mut messages: Vec<String>,
    ) -> Self {
        messages.sort_unstable();
        let what = serde_json::to_string(&action).expect("strings always serialize");
        let mut parts = vec!["console", from, &what];
        parts.extend(messages.iter().map(String::as_str));
        Self { id: plan_id(&parts), made_at, from: from.to_owned(), action, selected, selection, messages }
    }

    /// Returns the path of the redrive's journal, next to the plan. The journal of a restore is next to the first
    /// backup, where `redrive FILE` and `send --backup` look for it, so that neither sends a message again.
    pub(crate) fn journal_path(&self, folder: &Path) -> PathBuf {
        match (&self.action, self.backup_paths(folder).first()) {
            (PlanAction::Restore { .. }, Some(first)) => redrive_journal_path(first),
            _ => folder.join(format!("redeliver-redrive-{}.jsonl", self.id)),
        }
    }

    /// Returns the redrive's counts over all runs, or `None` if there is no readable journal.
    pub(crate) fn journal_counts(&self, folder: &Path) -> Option<JournalCounts> {
        RedriveJournal::read_counts(&self.journal_path(folder)).ok()
    }

    /// Returns the path for the next backup of deleted messages. Each run has a separate file.
    pub(crate) fn next_backup_path(&self, folder: &Path) -> PathBuf {
        let run = self.backup_paths(folder).len() + 1;
        folder.join(backup_name(&self.id, run))
    }

    /// Returns the backups that the plan's runs have written, in order, or those that it restores.
    pub(crate) fn backup_paths(&self, folder: &Path) -> Vec<PathBuf> {
        let id = match &self.action {
            PlanAction::Restore { deletion, .. } => deletion,
            PlanAction::SendBack { .. } | PlanAction::Delete => &self.id,
        };
        let names = (1..).map(|run| folder.join(backup_name(id, run)));
        names.take_while(|path| path.symlink_metadata().is_ok()).collect()
    }

    /// True if the plan may have sent or deleted messages. `all` is the progress of its redrive.
    pub(crate) fn may_have_begun(&self, folder: &Path, all: Option<&JournalCounts>) -> bool {
        match &self.action {
            PlanAction::Delete => !self.backup_paths(folder).is_empty(),
            PlanAction::SendBack { .. } | PlanAction::Restore { .. } => {
                all.is_some_and(|all| all.sent + all.unknown > 0)
            }
        }
    }

    pub(crate) fn file_path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{PREFIX}{}{SUFFIX}", self.id))
    }
}

fn backup_name(id: &str, run: usize) -> String {
    format!("redeliver-deleted-{id}-{run}.jsonl")
}

const PREFIX: &str = "redeliver-plan-";
const SUFFIX: &str = ".json";

impl StartedPlan {
    /// Creates a plan that has not run yet.
    pub(crate) fn new(plan: ConsolePlan, pace: RedrivePace) -> Self {
        Self { plan, pace, outcome: None, died_again: Vec::new(), deleted_before: 0 }
    }

    /// Writes the plan atomically: a reader finds either the old file or the new one.
    ///
    /// # Errors
    /// The file cannot be written. In that case, the plan must not be carried out.
    pub(crate) fn write_file(&self, folder: &Path) -> Result<(), FileError> {
        let path = self.plan.file_path(folder);
        let text = serde_json::to_vec(self).map_err(|error| FileError::new(&path, error))?;
        replace_file(&path, &text)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.finished)
    }
}

/// A file that is named like a plan but cannot be read as one.
#[derive(Debug, Error)]
#[error("{} cannot be read as a plan: {why}", .path.display())]
pub(crate) struct DamagedPlan {
    pub(crate) path: PathBuf,
    why: String,
}

/// A DLQ's plans in a folder.
#[derive(Debug, Default)]
pub(crate) struct PlanFiles {
    /// Newest first.
    pub(crate) started: Vec<StartedPlan>,
    /// Files that are named like plans but cannot be read as such.
    pub(crate) damaged: Vec<DamagedPlan>,
}

/// Reads a DLQ's plans.
pub(crate) fn read_plans(folder: &Path, from: &str) -> PlanFiles {
    let PlanFiles { mut started, mut damaged } = PlanFiles::default();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !(name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            continue;
        }
        let mut report = |why: String| damaged.push(DamagedPlan { path: path.clone(), why });
        let read = read_own_file(&path).and_then(|text| Ok(serde_json::from_str::<StartedPlan>(&text)?));
        match read {
            // The names of a plan's journal and backups contain its id.
            Ok(StartedPlan { plan, .. }) if plan.file_path(folder) != path => {
                report(format!("it is the plan {}", plan.id))
            }
            Ok(own) if own.plan.from == from => started.push(own),
            Ok(_) => {}
            Err(why) => report(why.to_string()),
        }
    }
    started.sort_by(|left, right| {
        (&right.plan.made_at, &right.plan.id).cmp(&(&left.plan.made_at, &left.plan.id))
    });
    damaged.sort_by(|left, right| left.path.cmp(&right.path));
    PlanFiles { started, damaged }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

    fn plan(action: PlanAction, messages: &[&str]) -> ConsolePlan {
        let messages = messages.iter().map(|id| (*id).to_owned()).collect();
        ConsolePlan::new(
            "2026-01-01T00:00:00Z".to_owned(),
            FROM,
            action,
            "all".to_owned(),
            Vec::new(),
            messages,
        )
    }

    fn send_back_action(edit: Option<&str>) -> PlanAction {
        PlanAction::SendBack {
            to: "arn".to_owned(),
            edit: edit.map(str::to_owned),
            program: None,
            new_id: false,
            max_generation: 3,
        }
    }

    #[test]
    fn the_same_action_on_the_same_set_has_the_same_id() {
        let one = plan(send_back_action(None), &["a", "b"]);
        assert_eq!(one.id, plan(send_back_action(None), &["b", "a"]).id);
        for other in [
            plan(send_back_action(None), &["a"]),
            plan(send_back_action(None), &["ab"]),
            plan(send_back_action(Some("{}")), &["a", "b"]),
            plan(PlanAction::Delete, &["a", "b"]),
        ] {
            assert_ne!(one.id, other.id, "{other:?}");
        }
    }

    #[test]
    fn started_plans_are_read_back_and_damaged_ones_reported() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut started = StartedPlan::new(plan(PlanAction::Delete, &["a"]), RedrivePace::default());
        started.write_file(folder).unwrap();
        started.outcome = Some(PlanOutcome { finished: true, ..PlanOutcome::default() });
        started.write_file(folder).unwrap();
        replace_file(&folder.join("redeliver-plan-0.json"), b"{").unwrap();
        replace_file(&folder.join("other.json"), b"{").unwrap();
        let PlanFiles { started: plans, damaged } = read_plans(folder, FROM);
        assert_eq!(plans, [started]);
        assert!(plans[0].is_finished());
        assert!(
            damaged.len() == 1
                && damaged[0].to_string().contains("redeliver-plan-0.json cannot be read as a plan"),
            "{damaged:?}"
        );
        assert_eq!(read_plans(folder, "arn:of-another-queue").started, []);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 3, "no partial file is left");
    }

    #[test]
    #[cfg(unix)]
    fn a_plan_writable_by_another_user_is_reported_and_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let started = StartedPlan::new(plan(PlanAction::Delete, &["a"]), RedrivePace::default());
        let path = started.plan.file_path(folder);
        let text = serde_json::to_string(&started).unwrap();
        redeliver_testing::planted::check_each_planted_file(&path, &text, |why| {
            let PlanFiles { started: plans, damaged } = read_plans(folder, FROM);
            assert_eq!(plans, []);
            let damaged: Vec<_> = damaged.iter().map(ToString::to_string).collect();
            assert_eq!(damaged, [format!("{} cannot be read as a plan: {why}", path.display())]);
        });
    }

    #[test]
    fn a_misnamed_plan_file_is_reported_and_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let started = StartedPlan::new(plan(PlanAction::Delete, &["a"]), RedrivePace::default());
        let other = folder.join("redeliver-plan-other.json");
        replace_file(&other, &serde_json::to_vec(&started).unwrap()).unwrap();
        let why = format!("{} cannot be read as a plan: it is the plan {}", other.display(), started.plan.id);
        let PlanFiles { started: plans, damaged } = read_plans(folder, FROM);
        assert_eq!((plans, damaged[0].to_string(), damaged.len()), (Vec::new(), why, 1));
    }

    /// `redrive FILE` and `send --backup` look for a journal next to each backup; the run itself creates the journals
    /// of the other backups.
    #[test]
    fn the_journal_of_a_restore_is_next_to_its_first_backup() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let deletion = plan(PlanAction::Delete, &["a"]);
        let [first, second] = [(); 2].map(|()| {
            let backup = deletion.next_backup_path(folder);
            replace_file(&backup, b"").unwrap();
            backup
        });
        let restore =
            plan(PlanAction::Restore { to: "arn".to_owned(), deletion: deletion.id.clone() }, &["a"]);
        assert_eq!(restore.backup_paths(folder), [first.clone(), second]);
        let name = format!("redeliver-deleted-{}-1.jsonl.redriven", deletion.id);
        assert_eq!(restore.journal_path(folder), folder.join(name));
        assert_eq!(restore.journal_path(folder), redrive_journal_path(&first));
    }

    #[test]
    fn each_run_has_its_own_backup() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let plan = plan(PlanAction::Delete, &["a"]);
        let first = plan.next_backup_path(folder);
        replace_file(&first, b"").unwrap();
        assert_ne!(plan.next_backup_path(folder), first);
        assert_eq!(plan.backup_paths(folder), [first]);
    }
}
