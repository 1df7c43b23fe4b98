//! Opens a file and its destination queue, checks both, and then counts or sends the lines.

use std::fs::File;
use std::io::BufRead;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use futures_util::{Stream, stream};
use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::BackupReader;
use tokio::sync::mpsc;

use super::journal::{self, SendJournal};
use super::reader::{InputStep, LineRules};
use super::sender::{FileSender, Watcher, count_step};
use super::summary::Summary;
use crate::CommandFailure;
use crate::message_file::{self, LineFormat};
use crate::queues::{AwsConnection, KnownQueue, QueueAddress};

/// Maximum number of lines to read ahead, each at most 1 MiB.
const READ_AHEAD: usize = 32;

/// A file to send.
#[derive(Debug)]
pub struct FileToSend<'a> {
    pub path: &'a Path,
    /// True if the lines are dead letters, as written by `audit --save` or `purge --backup`.
    pub is_backup: bool,
    pub schema: MessageSchema,
    /// The journal's path; `None` if the input cannot be read a second time.
    pub journal: Option<&'a Path>,
    /// If false, the lines are only counted, and no journal is started.
    pub applied: bool,
}

/// A file that is ready to be sent to its queue.
pub struct OpenFile {
    pub queue: SqsQueue,
    input: Box<dyn BufRead + Send>,
    rules: LineRules,
    journal: Option<SendJournal<File>>,
    journal_path: Option<PathBuf>,
}

impl FileToSend<'_> {
    /// Opens the file and its journal, and finds the queue. Does not start a journal for a queue that cannot be the
    /// right one.
    pub async fn open(
        self,
        connection: &AwsConnection,
        address: &QueueAddress,
    ) -> Result<OpenFile, CommandFailure> {
        let input = message_file::open_input(self.path)?;
        if address.is_fifo() && !self.is_backup {
            return Err(format!(
                "{address} is a FIFO queue, but lines have no message group: let your producer send them"
            )
            .into());
        }
        let KnownQueue { queue, attributes } = connection.find_queue(address).await?;
        let largest = attributes.get("MaximumMessageSize").and_then(|text| text.parse().ok());
        let form = if self.is_backup {
            LineFormat::Backup(Box::new(BackupReader::new(self.schema, queue.arn())))
        } else {
            LineFormat::Body(Box::new(self.schema))
        };
        if let LineFormat::Backup(backup) = &form
            && self.journal.is_some()
        {
            // The queue is checked before the journal is opened, so that a queue named by mistake does not leave one
            // behind.
            let first = form.read_lines(message_file::open_input(self.path)?).next().and_then(Result::ok);
            backup.check_queue(&first.and_then(|line| line.content.ok()).unwrap_or_default())?;
        }
        let journal = self
            .journal
            // A dry run reads an existing journal, but does not start one.
            .filter(|path| self.applied || path.exists())
            .map(|path| journal::open_journal(path, self.path, queue.arn(), &form))
            .transpose()?;
        let (journal, confirmed) = journal.unzip();
        let rules = LineRules {
            form,
            largest: largest.unwrap_or(MESSAGE_BYTES_MAX),
            confirmed: confirmed.unwrap_or_default(),
        };
        let journal_path = self.journal.map(Path::to_path_buf);
        Ok(OpenFile { queue, input, rules, journal, journal_path })
    }
}

impl OpenFile {
    /// Counts the lines by how a send would handle them.
    pub fn preview(self, watcher: &impl Watcher) -> Summary {
        let mut summary = Summary::default();
        for step in self.rules.read_steps(self.input) {
            summary.planned += u64::from(count_step(step, &mut summary, watcher).is_some());
        }
        summary
    }

    /// Sends the lines. Removes the journal if no line was ever attempted.
    pub async fn send(
        self,
        rate: Option<NonZeroU32>,
        watcher: &impl Watcher,
        stop: impl Future<Output = ()>,
    ) -> Summary {
        let Self { queue, input, rules, mut journal, journal_path } = self;
        let sender = FileSender { queue: &queue, clock: &SystemClock, rate, watcher };
        let summary = sender.send(read_ahead(rules.read_steps(input)), journal.as_mut(), stop).await;
        if let Some(path) = &journal_path {
            remove_unused_journal(path, &summary);
        }
        summary
    }
}

/// Removes a journal if no line was ever attempted: it would only block a send to a different queue.
fn remove_unused_journal(path: &Path, summary: &Summary) {
    if summary.attempted_nothing() {
        // A leftover journal is harmless: it only causes an error that names its queue and suggests what to do.
        let _removed = std::fs::remove_file(path);
    }
}

/// Reads and checks the lines on a separate thread, so that an idle input does not block the batches in flight.
fn read_ahead(steps: impl Iterator<Item = InputStep> + Send + 'static) -> impl Stream<Item = InputStep> {
    let (sender, mut receiver) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        for step in steps {
            if sender.blocking_send(step).is_err() {
                break; // the send has finished
            }
        }
    });
    stream::poll_fn(move |context| receiver.poll_recv(context))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sending::StopReason;

    #[test]
    fn a_journal_is_removed_only_if_no_line_was_attempted() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("input.sent");
        let left = |summary: Summary| {
            redeliver_dead_letters::files::replace_file(&journal, b"its first line").unwrap();
            remove_unused_journal(&journal, &summary);
            journal.exists()
        };
        let nothing = Summary { invalid: 2, ..Summary::default() };
        assert!(!left(nothing.clone()));
        assert!(left(Summary { sent: 1, ..nothing.clone() }));
        assert!(left(Summary { sent_before: 1, ..nothing.clone() }));
        assert!(left(Summary { unconfirmed: 1, ..nothing.clone() }), "it may be in the queue");
        assert!(left(Summary { stopped: Some(StopReason::Interrupted), ..nothing }));
    }
}
