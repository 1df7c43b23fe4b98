//! Plans: a fixed set of dead letters and what is to be done with it.
//!
//! The set is fixed when it is shown: what comes later is in none of the plans. A plan is named by what it does, so
//! that a second click and a second tab come to the same plan, and it is on the disk before its first message is
//! touched: whoever starts the console again can finish it.

use std::fs;
use std::path::{Path, PathBuf};

use redeliver_core::message::schema::MessageSchema;
use redeliver_dead_letters::Pick;
use redeliver_dead_letters::files::{FileError, read_own, replace};
use redeliver_dead_letters::redrive::{self, Edit, plan_id};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A set of dead letters, and what is to be done with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) id: String,
    /// RFC 3339.
    pub(super) made_at: String,
    /// The DLQ's ARN.
    pub(super) from: String,
    pub(super) work: Work,
    /// What was selected, in words.
    pub(super) selected: String,
    /// SQS's ids in the DLQ.
    pub(super) messages: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Work {
    SendBack {
        /// The source queue's ARN.
        to: String,
        /// The body that the only message becomes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<String>,
        /// The edited body gets a new `message_id`.
        #[serde(default)]
        new_id: bool,
        /// What was sent back so often stays.
        max_generation: u32,
    },
    Delete,
}

impl Work {
    /// The source queue, and what the engine is to do with what is picked; `None` if it is to be deleted.
    pub(super) fn redrive(&self, pick: Pick, schema: &MessageSchema) -> Option<(&str, redrive::Plan)> {
        let Self::SendBack { to, edit, new_id, max_generation } = self else { return None };
        let how = redrive::Plan {
            pick,
            edit: edit.as_deref().map(Edit::body),
            new_id: *new_id,
            into_lines: false,
            max_generation: *max_generation,
            schema: schema.clone(),
        };
        Some((to, how))
    }
}

/// How a plan is carried out; chosen when it is started, and again when it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// Messages a second; `None`: as fast as it goes.
    pub(super) rate: Option<u32>,
    /// How long the pilot is watched.
    pub(super) watch_seconds: u64,
    pub(super) stop_after_failures_percent: u8,
    /// Send also if nobody takes messages from the source queue.
    pub(super) into_paused: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate: None, watch_seconds: 60, stop_after_failures_percent: 20, into_paused: false }
    }
}

/// A plan that was begun, as it is on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) plan: Plan,
    pub(super) pace: Pace,
    /// What came of its last run; none if that was killed.
    pub(super) outcome: Option<Outcome>,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// RFC 3339.
    pub(super) ended_at: String,
    /// Whether there is nothing left to do.
    pub(super) finished: bool,
    /// How it ended, in a word or two.
    pub(super) ending: String,
    /// Numbers, each with its name.
    pub(super) counts: Vec<(String, u64)>,
    /// Sentences for people: what stays and why, what to do now.
    pub(super) remarks: Vec<String>,
    /// Whether messages are in both queues: nothing else may be sent before this plan has deleted them.
    #[serde(default)]
    pub(super) in_both_queues: bool,
}

impl Plan {
    pub(super) fn new(
        made_at: String,
        from: &str,
        work: Work,
        selected: String,
        mut messages: Vec<String>,
    ) -> Self {
        messages.sort_unstable();
        let what = serde_json::to_string(&work).expect("strings always serialise");
        let mut parts = vec!["console", from, &what];
        parts.extend(messages.iter().map(String::as_str));
        Self { id: plan_id(&parts), made_at, from: from.to_owned(), work, selected, messages }
    }

    /// The journal of the redrive, next to the plan.
    pub(super) fn journal(&self, folder: &Path) -> PathBuf {
        folder.join(format!("redeliver-redrive-{}.jsonl", self.id))
    }

    /// Where deleted messages are kept: each run has a file of its own.
    pub(super) fn backup(&self, folder: &Path) -> PathBuf {
        let name = |run: u32| folder.join(format!("redeliver-deleted-{}-{run}.jsonl", self.id));
        (1..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0))
    }

    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{PREFIX}{}{SUFFIX}", self.id))
    }
}

const PREFIX: &str = "redeliver-plan-";
const SUFFIX: &str = ".json";

impl Begun {
    /// Puts it on the disk; whoever reads it finds the old one or this one, whole.
    ///
    /// # Errors
    /// If the disk refuses: nothing of the plan may be done then.
    pub(super) fn write(&self, folder: &Path) -> Result<(), FileError> {
        let path = self.plan.path(folder);
        let text = serde_json::to_vec(self).map_err(|error| FileError::new(&path, error))?;
        replace(&path, &text)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.finished)
    }
}

/// A file with the name of a plan that is none.
#[derive(Debug, Error)]
#[error("{} cannot be read as a plan: {why}", .path.display())]
pub(super) struct Damaged {
    pub(super) path: PathBuf,
    why: String,
}

/// The plans of a DLQ in a folder, newest first, and what is wrong with files that look like plans.
pub(super) fn read(folder: &Path, from: &str) -> (Vec<Begun>, Vec<Damaged>) {
    let (mut plans, mut damaged) = (Vec::new(), Vec::new());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !(name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            continue;
        }
        let mut tell = |why: String| damaged.push(Damaged { path: path.clone(), why });
        let read = read_own(&path).and_then(|text| Ok(serde_json::from_str::<Begun>(&text)?));
        match read {
            // The names of its journal and its backups are made of its id.
            Ok(Begun { plan, .. }) if plan.path(folder) != path => {
                tell(format!("it is the plan {}", plan.id))
            }
            Ok(begun) if begun.plan.from == from => plans.push(begun),
            Ok(_) => {}
            Err(why) => tell(why.to_string()),
        }
    }
    plans.sort_by(|one, other| (&other.plan.made_at, &other.plan.id).cmp(&(&one.plan.made_at, &one.plan.id)));
    damaged.sort_by(|one, other| one.path.cmp(&other.path));
    (plans, damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

    fn plan(work: Work, messages: &[&str]) -> Plan {
        let messages = messages.iter().map(|id| (*id).to_owned()).collect();
        Plan::new("2026-01-01T00:00:00Z".to_owned(), FROM, work, "all".to_owned(), messages)
    }

    fn send_back(edit: Option<&str>) -> Work {
        Work::SendBack {
            to: "arn".to_owned(),
            edit: edit.map(str::to_owned),
            new_id: false,
            max_generation: 3,
        }
    }

    #[test]
    fn the_same_work_on_the_same_set_is_the_same_plan() {
        let one = plan(send_back(None), &["a", "b"]);
        assert_eq!(one.id, plan(send_back(None), &["b", "a"]).id);
        for other in [
            plan(send_back(None), &["a"]),
            plan(send_back(None), &["ab"]),
            plan(send_back(Some("{}")), &["a", "b"]),
            plan(Work::Delete, &["a", "b"]),
        ] {
            assert_ne!(one.id, other.id, "{other:?}");
        }
    }

    #[test]
    fn what_was_begun_is_found_again_and_what_is_damaged_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut begun = Begun { plan: plan(Work::Delete, &["a"]), pace: Pace::default(), outcome: None };
        begun.write(folder).unwrap();
        begun.outcome = Some(Outcome { finished: true, ..Outcome::default() });
        begun.write(folder).unwrap();
        replace(&folder.join("redeliver-plan-0.json"), b"{").unwrap();
        replace(&folder.join("other.json"), b"{").unwrap();
        let (plans, damaged) = read(folder, FROM);
        assert_eq!(plans, [begun]);
        assert!(plans[0].is_finished());
        assert!(
            damaged.len() == 1
                && damaged[0].to_string().contains("redeliver-plan-0.json cannot be read as a plan"),
            "{damaged:?}"
        );
        assert_eq!(read(folder, "arn:of-another-queue").0, []);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 3, "nothing half written is left");
    }

    #[test]
    fn a_plan_that_another_user_may_have_written_is_told_and_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let begun = Begun { plan: plan(Work::Delete, &["a"]), pace: Pace::default(), outcome: None };
        let path = begun.plan.path(folder);
        let text = serde_json::to_string(&begun).unwrap();
        redeliver_testing::planted::each_planted(&path, &text, |why| {
            let (plans, damaged) = read(folder, FROM);
            assert_eq!(plans, []);
            let damaged: Vec<_> = damaged.iter().map(ToString::to_string).collect();
            assert_eq!(damaged, [format!("{} cannot be read as a plan: {why}", path.display())]);
        });
    }

    #[test]
    fn a_plan_under_another_name_is_told_and_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let begun = Begun { plan: plan(Work::Delete, &["a"]), pace: Pace::default(), outcome: None };
        let other = folder.join("redeliver-plan-other.json");
        replace(&other, &serde_json::to_vec(&begun).unwrap()).unwrap();
        let why = format!("{} cannot be read as a plan: it is the plan {}", other.display(), begun.plan.id);
        let (plans, damaged) = read(folder, FROM);
        assert_eq!((plans, damaged[0].to_string(), damaged.len()), (Vec::new(), why, 1));
    }

    #[test]
    fn each_run_has_a_backup_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let plan = plan(Work::Delete, &["a"]);
        let first = plan.backup(folder);
        replace(&first, b"").unwrap();
        assert_ne!(plan.backup(folder), first);
    }
}
