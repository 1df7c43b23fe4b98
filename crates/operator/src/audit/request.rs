//! The steps of an audit: open and check the dead letters and the files, then read the dead letters.

use std::io::Write;
use std::path::Path;
use std::pin::pin;

use futures_util::future::{Either, select};
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::{FileQueue, Pick};

use super::known_causes::KnownCausesFile;
use super::{AuditContext, AuditProgress, AuditResult, AuditTally, Auditor, SaveFile, View};
use crate::archive::PeriodArgs;
use crate::dead_letter_source::{DeadLetterSource, DeadLetters, OpenedSource};
use crate::{CommandFailure, InterruptedError};

/// A requested audit, built from the user's options.
pub struct AuditRequest<'a> {
    pub source: &'a DeadLetterSource,
    /// The period to read from an archive.
    pub period: PeriodArgs,
    pub pick: Pick,
    /// Maximum number of messages to read.
    pub max: u64,
    /// The file of causes already reported.
    pub known_causes: Option<&'a Path>,
    /// The new file for the selected dead letters.
    pub save: Option<&'a Path>,
}

/// An audit with its dead letters and files open.
pub struct OpenAudit {
    pub known_causes: Option<KnownCausesFile>,
    dead_letters: DeadLetters,
    pick: Pick,
    max: u64,
    context: AuditContext,
    save: Option<SaveFile>,
}

impl AuditRequest<'_> {
    /// Opens the dead-letter source and the files, unless `stop` completes first.
    ///
    /// # Errors
    /// If the dead letters or a file cannot be used, or if `stop` completed. In that case, no file was created.
    pub async fn open(self, stop: impl Future<Output = ()> + Unpin) -> Result<OpenAudit, CommandFailure> {
        let OpenedSource { dead_letters, name, retention } =
            match select(stop, pin!(self.open_source())).await {
                Either::Left(_) => return Err(InterruptedError("anything was read").into()),
                Either::Right((opened, _)) => opened?,
            };
        let now = SystemClock.now();
        let virtual_now = dead_letters.as_file().and_then(FileQueue::virtual_now);
        let filter = self.pick.filter.as_ref().map(|filter| filter.text().to_owned());
        let arn = dead_letters.arn();
        let known_causes = self.known_causes.map(|path| KnownCausesFile::read(path, arn)).transpose()?;
        let archive_read_at = self.source.archive_uri()?.map(|_| now);
        let save = self.save.map(|path| SaveFile::create(path, archive_read_at, virtual_now)).transpose()?;
        Ok(OpenAudit {
            known_causes,
            dead_letters,
            pick: self.pick,
            max: self.max,
            context: AuditContext { queue: name, retention, now, virtual_now, filter },
            save,
        })
    }

    async fn open_source(&self) -> Result<OpenedSource, CommandFailure> {
        if self.save.is_some()
            && let Some(archive) = self.source.archive_uri()?
        {
            archive.check_single_deployment(&self.source.queue.connection, self.period.owner).await?;
        }
        self.source.open(self.period).await
    }
}

impl OpenAudit {
    /// Reads all dead letters, unless `stop` completes first.
    ///
    /// # Errors
    /// If the dead letters, a file or the filter cannot be used.
    pub async fn run_audit(
        self,
        view: Box<dyn View>,
        output: &mut dyn Write,
        stop: impl Future<Output = ()> + Unpin,
        progress: impl Fn(AuditProgress),
    ) -> Result<AuditResult, CommandFailure> {
        let Self { dead_letters, pick, max, context, save, .. } = self;
        let tally = AuditTally::new(context).with_comparison(pick.group.as_deref());
        let auditor = Auditor { pick, max, tally, save, view, output };
        auditor.run_audit(&dead_letters, &SystemClock, stop, progress).await
    }
}
