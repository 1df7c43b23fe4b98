//! A deployment, a single DLQ or a file in the console: its queues, its dead letters and its plans.

use std::path::Path;
use std::sync::Arc;

use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::{FileQueue, KnownCauses};
use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::dead_letter_source::{DeadLetterSource, open_file};
use redeliver_operator::files::FileError;
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::queues::{
    AwsConnection, DeadLetterQueue, OneQueue, QueueAddress, QueueSelection, queue_name_from_arn,
};
use redeliver_operator::status::containers::Containers;
use redeliver_operator::{CommandFailure, UsageError};

use crate::dead_letters::reading::{DlqReading, causes_file_name};
use crate::plans::runner::{NO_SOURCE_QUEUE, PlanRunner, RunContext};
use crate::status_poll::StatusPoll;

#[derive(Debug)]
pub(crate) struct ConsoleDeployment {
    pub(crate) name: String,
    pub(crate) source: DeadLetterSource,
    /// The period to read from an archive.
    pub(crate) period: PeriodArgs,
    pub(crate) queues: QueueSelection,
    /// The DLQ's ARN or, for a file, a substitute.
    pub(crate) from: String,
    /// The source queue's ARN, if known.
    to: Option<String>,
    pub(crate) connection: AwsConnection,
    pub(crate) reading: Arc<DlqReading>,
    pub(crate) runner: Arc<PlanRunner>,
    pub(crate) status: Arc<StatusPoll>,
}

/// The paths of a console's files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsoleFiles<'f> {
    /// The folder for plans, journals, backups and, by default, the known causes.
    pub(crate) folder: &'f Path,
    /// A different file for the known causes.
    pub(crate) known_causes: Option<&'f Path>,
}

impl ConsoleDeployment {
    /// Opens the queues, so that errors appear before the first page.
    pub(crate) async fn open_queues(
        which: OneQueue,
        to: Option<QueueAddress>,
        connection: AwsConnection,
        files: ConsoleFiles<'_>,
        containers: Option<Containers>,
    ) -> Result<Self, CommandFailure> {
        let queue = DeadLetterQueue::new(which.clone(), connection.clone());
        let from = queue.open().await?.queue.arn().to_owned();
        let source = match (&to, which.deployment_name()) {
            (Some(address), _) => Some(address.clone()),
            (None, None) => None,
            // If the lookup of the source queue fails, the dead letters can still be shown.
            (None, Some(_)) => which.find_address(&connection, Role::Source).await.ok(),
        };
        let to = match source {
            Some(address) => Some(connection.find_queue(&address).await?.queue.arn().to_owned()),
            None => None,
        };
        if to.as_ref() == Some(&from) {
            return Err(UsageError::new("--to names the DLQ itself; name the source queue").into());
        }
        let source = to.as_deref().map(str::parse).transpose()?;
        let queues = which.with_others(source);
        let ConsoleFiles { folder, known_causes } = files;
        if let Some(path) = known_causes {
            KnownCauses::read_file(path, &from)?;
        }
        let causes = known_causes.map_or_else(|| folder.join(causes_file_name(&from)), Path::to_owned);
        Ok(Self {
            name: which.deployment_name().unwrap_or_else(|| queue_name_from_arn(&from).to_owned()),
            source: DeadLetterSource { file: None, queue },
            period: PeriodArgs::default(),
            queues,
            from,
            to,
            connection,
            reading: Arc::new(DlqReading::new(causes)),
            runner: Arc::new(PlanRunner::new(folder.to_owned())),
            status: Arc::new(StatusPoll::new(containers)),
        })
    }

    /// Opens a file or an archive as a read-only deployment.
    pub(crate) async fn from_file(
        path: &Path,
        period: PeriodArgs,
        connection: AwsConnection,
        folder: &Path,
    ) -> Result<Self, CommandFailure> {
        let queue = DeadLetterQueue::new(OneQueue::default(), connection.clone());
        let source = DeadLetterSource { file: Some(path.to_owned()), queue };
        let (name, from) = match source.archive_uri()? {
            Some(archive) => {
                archive.check_exists(&connection, period.owner).await?;
                (archive.as_str().to_owned(), archive.as_str().to_owned())
            }
            None => {
                let file = open_rereadable_file(path)?;
                (path.file_name().unwrap_or_default().display().to_string(), file.arn().to_owned())
            }
        };
        let causes = folder.join(causes_file_name(&from));
        Ok(Self {
            name,
            source,
            period,
            queues: QueueSelection::default(),
            from,
            to: None,
            connection,
            reading: Arc::new(DlqReading::new(causes)),
            runner: Arc::new(PlanRunner::new(folder.to_owned())),
            status: Arc::default(),
        })
    }

    pub(crate) const fn is_file(&self) -> bool {
        self.source.file.is_some()
    }

    /// Explains how to send the dead letters in a file or an archive, which the console only shows, or returns `None`
    /// for a queue.
    pub(crate) fn read_only_hint(&self) -> Option<String> {
        let file = "A file can only be shown: `redeliver redrive FILE` edits its messages, and sends them or writes \
                    them to another file.";
        self.source.file.as_ref()?;
        Some(match self.source.archive_uri() {
            Ok(Some(archive)) => archive.send_hint() + ".",
            _ => file.to_owned(),
        })
    }

    /// Returns the source queue's ARN, or an error if the queue is unknown.
    pub(crate) fn source_arn(&self) -> Result<&str, &'static str> {
        self.to.as_deref().ok_or(NO_SOURCE_QUEUE)
    }

    /// Returns the context in which plans are carried out.
    pub(crate) fn run_context<'d>(&'d self, schema: &'d MessageSchema) -> RunContext<'d> {
        RunContext { from: &self.from, to: self.to.as_deref(), queue: &self.source.queue, schema }
    }

    /// Returns the name of the DLQ or the file.
    pub(crate) fn dlq_name(&self) -> &str {
        if self.is_file() { &self.name } else { queue_name_from_arn(&self.from) }
    }
}

/// Opens a file that can be read again for each reading.
fn open_rereadable_file(path: &Path) -> Result<FileQueue, CommandFailure> {
    // `open_file` reports a missing file or a folder.
    let is_pipe = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    if is_standard_input(path) || is_pipe {
        let why = "can be read only once; copy it to a file first, or name another file";
        return Err(FileError::new(path, why).into());
    }
    open_file(path)
}
