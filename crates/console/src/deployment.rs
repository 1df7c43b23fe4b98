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
use redeliver_operator::queues::{Connection, DeadLetterQueue, OneQueue, QueueAddress, Queues, name_in};
use redeliver_operator::status::containers::Containers;
use redeliver_operator::{Failure, UsageError};

use crate::dead_letters::reading::{Reading, causes_file};
use crate::plans::runner::{NO_SOURCE_QUEUE, PlanRunner, RunContext};
use crate::status_poll::StatusPoll;

#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) name: String,
    pub(crate) source: DeadLetterSource,
    /// The part of an archive that is read.
    pub(crate) period: PeriodArgs,
    pub(crate) queues: Queues,
    /// The DLQ's ARN, or what stands for it in a file.
    pub(crate) from: String,
    /// The source queue's ARN, if it is known.
    to: Option<String>,
    pub(crate) connection: Connection,
    pub(crate) reading: Arc<Reading>,
    pub(crate) runner: Arc<PlanRunner>,
    pub(crate) status: Arc<StatusPoll>,
}

/// The places of a console's files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'f> {
    /// The folder of plans, journals, backups and, by default, the known causes.
    pub(crate) folder: &'f Path,
    /// Another file of known causes.
    pub(crate) known_causes: Option<&'f Path>,
}

impl Deployment {
    /// Opens the queues, so that their errors come before the first page.
    pub(crate) async fn open(
        which: OneQueue,
        to: Option<QueueAddress>,
        connection: Connection,
        files: Files<'_>,
        containers: Option<Containers>,
    ) -> Result<Self, Failure> {
        let queue = DeadLetterQueue::new(which.clone(), connection.clone());
        let from = queue.open().await?.queue.arn().to_owned();
        let source = match (&to, which.name()) {
            (Some(address), _) => Some(address.clone()),
            (None, None) => None,
            // An existing source queue may not be found. The dead letters can be shown without it.
            (None, Some(_)) => which.address(&connection, Role::Source).await.ok(),
        };
        let to = match source {
            Some(address) => Some(connection.find(&address).await?.queue.arn().to_owned()),
            None => None,
        };
        if to.as_ref() == Some(&from) {
            return Err(UsageError::new("--to names the DLQ itself; name the source queue").into());
        }
        let source = to.as_deref().map(str::parse).transpose()?;
        let queues = which.with(source);
        let Files { folder, known_causes } = files;
        if let Some(path) = known_causes {
            KnownCauses::read(path, &from)?;
        }
        let causes = known_causes.map_or_else(|| folder.join(causes_file(&from)), Path::to_owned);
        Ok(Self {
            name: which.name().unwrap_or_else(|| name_in(&from).to_owned()),
            source: DeadLetterSource { file: None, queue },
            period: PeriodArgs::default(),
            queues,
            from,
            to,
            connection,
            reading: Arc::new(Reading::new(causes)),
            runner: Arc::new(PlanRunner::new(folder.to_owned())),
            status: Arc::new(StatusPoll::new(containers)),
        })
    }

    /// Opens a file or an archive, which is only shown.
    pub(crate) async fn of_file(
        path: &Path,
        period: PeriodArgs,
        connection: Connection,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let queue = DeadLetterQueue::new(OneQueue::default(), connection.clone());
        let source = DeadLetterSource { file: Some(path.to_owned()), queue };
        let (name, from) = match source.archive()? {
            Some(archive) => {
                archive.check(&connection, period.owner).await?;
                (archive.as_str().to_owned(), archive.as_str().to_owned())
            }
            None => {
                let file = open_rereadable(path)?;
                (path.file_name().unwrap_or_default().display().to_string(), file.arn().to_owned())
            }
        };
        let causes = folder.join(causes_file(&from));
        Ok(Self {
            name,
            source,
            period,
            queues: Queues::default(),
            from,
            to: None,
            connection,
            reading: Arc::new(Reading::new(causes)),
            runner: Arc::new(PlanRunner::new(folder.to_owned())),
            status: Arc::default(),
        })
    }

    pub(crate) const fn is_file(&self) -> bool {
        self.source.file.is_some()
    }

    /// The way to send the dead letters of a file or an archive, which can only be shown; `None` of a queue.
    pub(crate) fn only_shown(&self) -> Option<String> {
        let file = "A file can only be shown: `redeliver redrive FILE` edits its messages, and sends them or writes them to \
                    another file.";
        self.source.file.as_ref()?;
        Some(match self.source.archive() {
            Ok(Some(archive)) => archive.how_to_send() + ".",
            _ => file.to_owned(),
        })
    }

    /// The source queue's ARN, or an error that says what needs it.
    pub(crate) fn source(&self) -> Result<&str, &'static str> {
        self.to.as_deref().ok_or(NO_SOURCE_QUEUE)
    }

    /// The context in which its plans are carried out.
    pub(crate) fn run_context<'d>(&'d self, schema: &'d MessageSchema) -> RunContext<'d> {
        RunContext { from: &self.from, to: self.to.as_deref(), queue: &self.source.queue, schema }
    }

    /// The DLQ's name, or the file's.
    pub(crate) fn dlq(&self) -> &str {
        if self.is_file() { &self.name } else { name_in(&self.from) }
    }
}

/// Opens a file that can be read again at each look.
fn open_rereadable(path: &Path) -> Result<FileQueue, Failure> {
    // Opening it reports a missing file or a folder.
    let is_pipe = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    if is_standard_input(path) || is_pipe {
        let why = "can be read only once; copy it to a file first, or name another";
        return Err(FileError::new(path, why).into());
    }
    open_file(path)
}
