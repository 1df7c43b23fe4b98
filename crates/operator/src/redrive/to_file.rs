//! A redrive from a file to another: the messages are written instead of sent, one body a line.

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

    /// Writes the messages to a new file, or reports what would be written. A run that fails or is interrupted
    /// removes the file; one that is killed leaves its first part.
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
        Ok(Redriven { report, missing, remarks: picked_without_members(&plan.pick).into_iter().collect() })
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
    let is_whole = report.as_ref().is_ok_and(|report| report.early.is_none());
    // A pipe or a device was there before.
    if !is_whole && path.is_file() {
        let _best_effort = std::fs::remove_file(path);
    }
    report
}
