//! A redrive from a file to another: the messages are written instead of sent, one body per line.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use redeliver_aws::SystemClock;
use redeliver_dead_letters::files::sync_directory_of;
use redeliver_dead_letters::redrive::{Journal, JournalError, Redrive, RedriveReport};

use super::{RedriveRequest, Redriven, without_queue};
use crate::Failure;
use crate::dead_letter_source::DeadLetters;
use crate::sentences::picked_without_members;
use crate::terminal::output::create;
use crate::terminal::units::counted;

/// A redrive whose file and journal are open.
pub struct RedriveToFile<'a> {
    request: RedriveRequest<'a>,
    from: DeadLetters,
    /// The journal that is named, or the file's. What it says was sent is not written: it would be sent twice.
    journal: Option<Journal>,
}

impl<'a> RedriveToFile<'a> {
    /// Opens the file, and reads its journal if it has one.
    ///
    /// # Errors
    /// If one of them cannot be used, or another command has begun to send the file.
    pub async fn open(request: RedriveRequest<'a>) -> Result<Self, Failure> {
        let from = request.open_source().await?;
        let journal = match request.known_journal() {
            Some(path) => Journal::read_of_source(&path, from.name_in_journal()),
            None => Ok(None),
        };
        Ok(Self { journal: journal.map_err(JournalError::for_file)?, request, from })
    }

    /// Warns of messages that a run may have sent without writing it to the journal.
    pub fn warning(&self) -> Option<String> {
        let unknown = self.journal.as_ref()?.counts().unknown;
        let messages = counted(unknown, "message");
        (unknown > 0).then(|| {
            format!(
                "{messages} may have been sent by a run that was killed, or without an answer, and may then be sent \
                 twice: first finish that redrive, to its queue",
            )
        })
    }

    /// Writes the messages to a new file, or reports what would be written. A run that fails, is interrupted or has
    /// nothing to write removes the file; one that is killed leaves its first part.
    ///
    /// # Errors
    /// If a file or a filter cannot be used.
    pub async fn run(&self, path: &Path, interrupted: &dyn Fn() -> bool) -> Result<Redriven, Failure> {
        let plan = &self.request.plan;
        let redrive = without_queue(&self.from, plan, self.request.max, interrupted);
        let report = if self.request.applied {
            write(&redrive, self.journal.as_ref(), path).await?
        } else {
            redrive.dry_run_after(self.journal.as_ref()).await?
        };
        let missing = if report.early.is_none() { plan.pick.missing() } else { Vec::new() };
        let is_empty = self.request.applied && report.early.is_none() && report.sent == 0;
        let not_made =
            is_empty.then(|| format!("there is nothing to write, so {} was not created", path.display()));
        let remarks = picked_without_members(&plan.pick).into_iter().chain(not_made).collect();
        Ok(Redriven { report, missing, remarks })
    }
}

async fn write(
    redrive: &Redrive<'_, DeadLetters, (), SystemClock>,
    journal: Option<&Journal>,
    path: &Path,
) -> Result<RedriveReport, Failure> {
    let mut output = BufWriter::new(create(path)?);
    let report = redrive.write(journal, &mut output).await;
    let report = report.and_then(|report| {
        output.flush()?;
        // The dead letters may be deleted next. A pipe cannot be synchronised.
        if path.is_file() {
            output.get_ref().sync_all()?;
            sync_directory_of(path)?;
        }
        Ok(report)
    });
    let is_kept = report.as_ref().is_ok_and(|report| report.early.is_none() && report.sent > 0);
    // A pipe or a device was there before.
    if !is_kept && path.is_file() {
        let _best_effort = std::fs::remove_file(path);
    }
    report
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::redrive::Plan;
    use redeliver_dead_letters::{ArchivedMessage, Pick};
    use redeliver_testing::dead_letters::record;

    use super::*;
    use crate::dead_letter_source::DeadLetterSource;
    use crate::queues::{Connection, DeadLetterQueue, OneQueue};
    use crate::redrive::Pace;

    /// An empty file would pass for one whose messages were sent.
    #[tokio::test]
    async fn a_file_without_messages_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let [file, output] = ["dead.jsonl", "fixed.jsonl"].map(|name| folder.path().join(name));
        let mut message = record("NON_RETRYABLE_ERROR", "x", 1);
        let kept = ["DeadLetter", "ErrorType", "ErrorDetails"];
        message.attributes.retain(|name, _| kept.contains(&name.as_str()));
        let line = serde_json::to_vec(&ArchivedMessage::new(&message)).unwrap();
        redeliver_dead_letters::files::replace(&file, &line).unwrap();
        let queue = DeadLetterQueue::new(OneQueue::default(), Connection::default());
        let from = DeadLetterSource { file: Some(file), queue };
        for (group, sent) in [(Some("0".repeat(16)), 0), (None, 1)] {
            let plan = Plan {
                pick: Pick::new(group, [], None),
                into_lines: true,
                max_generation: 3,
                ..Plan::default()
            };
            let request = RedriveRequest {
                from: &from,
                to: None,
                plan,
                pace: Pace::default(),
                max: u64::MAX,
                journal: None,
                applied: true,
            };
            let redrive = RedriveToFile::open(request).await.unwrap();
            let Redriven { report, remarks, .. } = redrive.run(&output, &|| false).await.unwrap();
            assert_eq!((report.sent, output.exists()), (sent, sent > 0), "{:?}", report.staying);
            let remark = format!("there is nothing to write, so {} was not created", output.display());
            assert_eq!(remarks, if sent > 0 { Vec::new() } else { vec![remark] });
        }
    }
}
