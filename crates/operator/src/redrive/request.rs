//! A request for a redrive, and the path of its journal.

use std::path::{Path, PathBuf};

use redeliver_dead_letters::redrive::{RedrivePlan, RedriveReport, plan_id};

use super::RedrivePace;
use crate::CommandFailure;
use crate::archive::PeriodArgs;
use crate::dead_letter_source::{DeadLetterSource, DeadLetters};
use crate::file_journals::{check_not_started, redrive_journal_path, send_journal_path, with_journal_hint};
use crate::queues::QueueAddress;

/// A request for a redrive, built from the user's options.
pub struct RedriveRequest<'a> {
    pub from: &'a DeadLetterSource,
    /// The destination queue; the deployment's source queue if `None`.
    pub to: Option<&'a QueueAddress>,
    pub plan: RedrivePlan,
    pub pace: RedrivePace,
    /// Maximum number of messages in total.
    pub max: u64,
    /// The journal named by the user, if any.
    pub journal: Option<&'a Path>,
    /// False if only a plan is requested.
    pub applied: bool,
}

/// The result of a plan or a run.
pub struct RedriveResult {
    pub report: RedriveReport,
    /// Sentences about requested ids and groups that were not found. Empty if not all dead letters were read.
    pub missing: Vec<String>,
    /// Remarks about the selection.
    pub remarks: Vec<String>,
}

impl RedriveRequest<'_> {
    /// Opens the source. Unless the user named a journal, rejects a file that `send --backup` has started to send.
    pub(super) async fn open_source(&self) -> Result<DeadLetters, CommandFailure> {
        let opened = self.from.open(PeriodArgs::default()).await?;
        if let Some(file) = self.from.regular_file().filter(|_| self.journal.is_none()) {
            check_not_started(&send_journal_path(file), "redeliver send --backup")
                .map_err(with_journal_hint)?;
        }
        Ok(opened.dead_letters)
    }

    /// Returns the path of the journal named by the user, or else of the file's own journal.
    pub(super) fn known_journal(&self) -> Option<PathBuf> {
        let file_journal = || self.from.regular_file().map(redrive_journal_path);
        self.journal.map(Path::to_owned).or_else(file_journal)
    }

    /// Returns the path of the known journal, or else of a journal named after the redrive's id, so that the same
    /// command finds the journal that it started.
    pub(super) fn journal_path(&self, id: &str) -> PathBuf {
        self.known_journal().unwrap_or_else(|| PathBuf::from(format!("redeliver-redrive-{id}.jsonl")))
    }

    /// Returns the id of the redrive. It depends on the selection, the edit and the queues, but not on the rate or
    /// `--max`. All redrives of a file to the same queue have the same id and therefore the same journal, so that no
    /// message is sent twice, regardless of the selection.
    pub(super) fn id(&self, from: &str, to: &str) -> String {
        if self.from.regular_file().is_some() {
            return plan_id(&[from, to]);
        }
        let RedrivePlan { pick, edit, new_id, .. } = &self.plan;
        let filter = pick.filter.as_ref().map_or("", |filter| filter.text());
        let ids = pick.ids.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let group = pick.group.as_deref().unwrap_or_default();
        let edit = edit.as_ref().map_or("", |edit| edit.text());
        let mut parts = vec![from, to, filter, &ids, group, edit];
        parts.extend(new_id.then_some("--new-id"));
        plan_id(&parts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redeliver_dead_letters::redrive::BodyEdit;
    use redeliver_dead_letters::{Filter, Pick};

    use super::*;
    use crate::queues::{AwsConnection, DeadLetterQueue, OneQueue};

    fn source(file: Option<&Path>) -> DeadLetterSource {
        let queue = DeadLetterQueue::new(OneQueue::default(), AwsConnection::default());
        DeadLetterSource { file: file.map(Path::to_owned), queue }
    }

    fn request(from: &DeadLetterSource, plan: RedrivePlan) -> RedriveRequest<'_> {
        RedriveRequest {
            from,
            to: None,
            plan,
            pace: RedrivePace::default(),
            max: 1,
            journal: None,
            applied: true,
        }
    }

    fn plans() -> [RedrivePlan; 6] {
        let filter = || Some(Filter::for_dead_letters("true").unwrap());
        let edit = || Some(BodyEdit::new(".body.data.n = 1").unwrap());
        [
            RedrivePlan::default(),
            RedrivePlan { pick: Pick::with_id("a"), ..RedrivePlan::default() },
            RedrivePlan { pick: Pick::new(Some("g".to_owned()), [], None), ..RedrivePlan::default() },
            RedrivePlan { pick: Pick::new(None, [], filter()), ..RedrivePlan::default() },
            RedrivePlan { edit: edit(), ..RedrivePlan::default() },
            RedrivePlan { edit: edit(), new_id: true, ..RedrivePlan::default() },
        ]
    }

    /// With a different journal, the entire file would be sent again.
    #[test]
    fn all_redrives_of_a_file_to_a_queue_share_the_files_journal() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dead.jsonl");
        redeliver_dead_letters::files::replace_file(&file, b"").unwrap();
        let from = source(Some(&file));
        let ids: BTreeSet<_> = plans()
            .map(|plan| {
                let request = request(&from, plan);
                let id = request.id("file", "queue");
                assert_eq!(request.journal_path(&id), folder.path().join("dead.jsonl.redriven"));
                id
            })
            .into();
        assert_eq!(ids.len(), 1, "{ids:?}");
        let all = request(&from, RedrivePlan::default());
        assert!(!ids.contains(&all.id("file", "another queue")));
        let named = RedriveRequest { journal: Some(Path::new("own.jsonl")), ..all };
        assert_eq!(named.journal_path("id"), Path::new("own.jsonl"));
    }

    #[test]
    fn redrives_of_a_queue_have_a_journal_for_each_selection_and_edit() {
        let from = source(None);
        let ids = plans().map(|plan| request(&from, plan).id("dlq", "queue"));
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6, "{ids:?}");
        let journal = request(&from, RedrivePlan::default()).journal_path(&ids[0]);
        assert_eq!(journal, PathBuf::from(format!("redeliver-redrive-{}.jsonl", ids[0])));
    }
}
