//! One deployment of the console, one DLQ or one file: its queues, the last look at its dead letters, its plans.

use std::path::Path;
use std::sync::Arc;

use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;

use super::look::Looks;
use super::now::Now;
use super::work::Works;
use redeliver_operator::Failure;
use redeliver_operator::dead_letter_source::{Source, open_file};
use redeliver_operator::files::FileError;
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::queues::{Connection, DeadLetterQueue, OneQueue, QueueAddress, Queues, name_in};

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) queues: Queues,
    /// The DLQ's ARN; of a file what stands for it.
    pub(super) from: String,
    /// The source queue's ARN, if it is known.
    to: Option<String>,
    pub(super) connection: Connection,
    pub(super) looks: Arc<Looks>,
    pub(super) works: Arc<Works>,
    pub(super) now: Arc<Now>,
}

impl Desk {
    /// Opens the queues, so that what is wrong with them is told before a page is.
    pub(super) async fn open(
        which: OneQueue,
        to: Option<QueueAddress>,
        connection: Connection,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let queue = DeadLetterQueue::new(which.clone(), connection.clone());
        let from = queue.open().await?.queue.arn().to_owned();
        let source = match (&to, which.name()) {
            (Some(address), _) => Some(address.clone()),
            (None, None) => None,
            // A source queue of somebody's own may not be found; the dead letters can be looked at all the same.
            (None, Some(_)) => which.address(&connection, Role::Source).await.ok(),
        };
        let to = match source {
            Some(address) => Some(connection.source_queue(&address).await?.queue.arn().to_owned()),
            None => None,
        };
        if to.as_ref() == Some(&from) {
            return Err("--to names the DLQ itself; name the source queue".into());
        }
        let source = to.as_deref().map(str::parse).transpose()?;
        let queues = which.with(source);
        Ok(Self {
            name: which.name().unwrap_or_else(|| name_in(&from).to_owned()),
            source: Source { file: None, queue },
            queues,
            from,
            to,
            connection,
            looks: Arc::new(Looks::new(folder.to_owned())),
            works: Arc::new(Works::new(folder.to_owned())),
            now: Arc::default(),
        })
    }

    /// A file, which is only looked at.
    pub(super) fn of_file(path: &Path, connection: Connection, folder: &Path) -> Result<Self, Failure> {
        // What is not there, or is a folder, is told by who opens it.
        let is_pipe = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
        if is_standard_input(path) || is_pipe {
            let why = "is no file that can be read again; write what is in it to one, or name another";
            return Err(FileError::new(path, why).into());
        }
        let file = open_file(path)?;
        let queue = DeadLetterQueue::new(OneQueue::default(), connection.clone());
        Ok(Self {
            name: path.file_name().unwrap_or_default().display().to_string(),
            source: Source { file: Some(path.to_owned()), queue },
            queues: Queues::default(),
            from: file.arn().to_owned(),
            to: None,
            connection,
            looks: Arc::new(Looks::new(folder.to_owned())),
            works: Arc::new(Works::new(folder.to_owned())),
            now: Arc::default(),
        })
    }

    pub(super) const fn is_file(&self) -> bool {
        self.source.file.is_some()
    }

    /// The source queue's ARN, or what cannot be done without it.
    pub(super) fn source(&self) -> Result<&str, &'static str> {
        self.to.as_deref().ok_or(
            "The source queue is not known, so nothing can be sent back: start the console with --to, or with the stack's name.",
        )
    }

    /// The DLQ's name, or the file's.
    pub(super) fn dlq(&self) -> &str {
        if self.is_file() { &self.name } else { name_in(&self.from) }
    }
}
