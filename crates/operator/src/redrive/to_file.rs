//! A redrive from one file to another: the messages are written instead of sent, one body per line.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_dead_letters::files::sync_parent_directory;
use redeliver_dead_letters::redrive::{JournalError, RedriveJob, RedriveJournal, RedriveReport};

use super::{RedriveRequest, RedriveResult, build_job_without_queue};
use crate::CommandFailure;
use crate::dead_letter_source::DeadLetters;
use crate::sentences::describe_missing_members;
use crate::terminal::output::create_file;
use crate::terminal::units::format_count;

/// A redrive with its file and journal open.
pub struct RedriveToFile<'a> {
    request: RedriveRequest<'a>,
    from: DeadLetters,
    /// The journal named by the user, or else the file's own. Messages that it records as sent are not written:
    /// otherwise, they would be sent twice.
    journal: Option<RedriveJournal>,
}

impl<'a> RedriveToFile<'a> {
    /// Opens the file and reads its journal, if it has one.
    ///
    /// # Errors
    /// If one of them cannot be used, or another command has started to send the file.
    pub async fn open(request: RedriveRequest<'a>) -> Result<Self, CommandFailure> {
        let from = request.open_source().await?;
        let journal = match request.known_journal() {
            Some(path) => RedriveJournal::read_for_source(&path, from.name_in_journal()),
            None => Ok(None),
        };
        Ok(Self { journal: journal.map_err(JournalError::for_file)?, request, from })
    }

    /// Returns a warning about messages that a run might have sent: the journal does not record their outcome.
    pub fn duplicates_warning(&self) -> Option<String> {
        let unknown = self.journal.as_ref()?.counts().unknown;
        let messages = format_count(unknown, "message");
        (unknown > 0).then(|| {
            format!(
                "{messages} may have been sent by a run that was killed or received no response, so sending them \
                 again might duplicate them: first finish that redrive, to its queue",
            )
        })
    }

    /// Writes the messages to a new file, or reports what would be written. A run that fails, is interrupted or has
    /// nothing to write removes the file; a killed run leaves a partial file.
    ///
    /// # Errors
    /// If a file or a filter cannot be used.
    pub async fn run(
        &self,
        path: &Path,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<RedriveResult, CommandFailure> {
        let plan = &self.request.plan;
        let redrive = build_job_without_queue(&self.from, plan, self.request.max, interrupted);
        let report = if self.request.applied {
            write_file(&redrive, self.journal.as_ref(), path).await?
        } else {
            redrive.dry_run_with_journal(self.journal.as_ref()).await?
        };
        let missing = if report.early_end.is_none() { plan.pick.describe_missing() } else { Vec::new() };
        let is_empty = self.request.applied && report.early_end.is_none() && report.sent == 0;
        let not_created =
            is_empty.then(|| format!("there is nothing to write, so {} was not created", path.display()));
        let remarks = describe_missing_members(&plan.pick).into_iter().chain(not_created).collect();
        Ok(RedriveResult { report, missing, remarks })
    }
}

async fn write_file(
    redrive: &RedriveJob<'_, DeadLetters, (), SystemClock>,
    journal: Option<&RedriveJournal>,
    path: &Path,
) -> Result<RedriveReport, CommandFailure> {
    let mut output = BufWriter::new(create_file(path)?);
    let report = redrive.write_lines(journal, &mut output).await;
    let report = report.and_then(|report| {
        output.flush()?;
        // The user might delete the dead letters next. A pipe cannot be synced.
        if path.is_file() {
            output.get_ref().sync_all()?;
            sync_parent_directory(path)?;
        }
        Ok(report)
    });
    let is_kept = report.as_ref().is_ok_and(|report| report.early_end.is_none() && report.sent > 0);
    // A pipe or a device existed before the run, and is kept.
    if !is_kept && path.is_file() {
        let _best_effort = std::fs::remove_file(path);
    }
    report
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::redrive::RedrivePlan;
    use redeliver_dead_letters::{ArchivedMessage, Pick};
    use redeliver_testing::dead_letters::retried_record;

    use super::*;
    use crate::dead_letter_source::DeadLetterSource;
    use crate::queues::{AwsConnection, DeadLetterQueue, OneQueue};
    use crate::redrive::RedrivePace;

    /// An empty file would look as if its messages had been sent.
    #[tokio::test]
    async fn a_redrive_of_no_messages_creates_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let [file, output] = ["dead.jsonl", "fixed.jsonl"].map(|name| folder.path().join(name));
        let mut message = retried_record("NON_RETRYABLE_ERROR", "x", 1);
        let kept = ["DeadLetter", "ErrorType", "ErrorDetails"];
        message.attributes.retain(|name, _| kept.contains(&name.as_str()));
        let line = serde_json::to_vec(&ArchivedMessage::new(&message)).unwrap();
        redeliver_dead_letters::files::replace_file(&file, &line).unwrap();
        let queue = DeadLetterQueue::new(OneQueue::default(), AwsConnection::default());
        let from = DeadLetterSource { file: Some(file), queue };
        for (group, sent) in [(Some("0".repeat(16)), 0), (None, 1)] {
            let plan = RedrivePlan {
                pick: Pick::new(group, [], None),
                into_lines: true,
                max_generation: 3,
                ..RedrivePlan::default()
            };
            let request = RedriveRequest {
                from: &from,
                to: None,
                plan,
                pace: RedrivePace::default(),
                max: u64::MAX,
                journal: None,
                applied: true,
            };
            let redrive = RedriveToFile::open(request).await.unwrap();
            let RedriveResult { report, remarks, .. } = redrive.run(&output, &|| false).await.unwrap();
            assert_eq!((report.sent, output.exists()), (sent, sent > 0), "{:?}", report.staying);
            let remark = format!("there is nothing to write, so {} was not created", output.display());
            assert_eq!(remarks, if sent > 0 { Vec::new() } else { vec![remark] });
        }
    }
}
