//! A source of dead letters: a DLQ or a file.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsQueue;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::Batch;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Clock as _, Depth, EntryError, EntryOutcome, Queue, QueueDepth, QueueSender, ReceiveOptions,
    UnreadableMessage, VisibilityControl,
};
use redeliver_dead_letters::files::open_own_file;
use redeliver_dead_letters::redrive::{JournalError, RedriveJournal};
use redeliver_dead_letters::{ArchivedMessage, BadLines, FileQueue, Retention};

use crate::archive::{ArchiveUri, PeriodArgs};
use crate::file_journals::{check_not_started, redrive_journal_path, send_journal_path};
use crate::files::{check_encoding, unreadable_file_error};
use crate::message_file::{
    InputLines, input_name, is_standard_input, open_input, remark_on_recognized_formats,
};
use crate::queues::{DeadLetterQueue, KnownQueue, QueueCounts, queue_name_from_arn};
use crate::sentences::describe_repeated_lines;
use crate::terminal::stderr;
use crate::terminal::units::{format_count, group_digits};
use crate::{CommandFailure, UsageError};

/// The prefix of a file's ARN.
const FILE: &str = "file:";

/// A DLQ, or a file of dead letters.
#[derive(Clone, Debug, Args)]
pub struct DeadLetterSource {
    /// A file of dead letters, or `-` for standard input; for `audit` also s3://BUCKET[/PREFIX]
    ///
    /// The file was written by `audit --save`, `purge --backup` or `local --final-dlq`, or is the output of `aws sqs
    /// receive-message`. s3://BUCKET[/PREFIX] is an archive.
    #[arg(
        help_heading = None::<&str>,
        value_name = "FILE",
        group = "OneQueue",
        conflicts_with_all = ["queue", "stack", "prefix", "stage", "force"]
    )]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub queue: DeadLetterQueue,
}

/// An opened source of dead letters.
#[derive(Debug)]
pub struct OpenedSource {
    pub dead_letters: DeadLetters,
    /// The display name of the queue or the file.
    pub name: String,
    /// The queue's retention, if it is known.
    pub retention: Option<Retention>,
}

/// The dead letters in a queue or a file. Dead letters from an archive are first copied to a file.
#[derive(Debug)]
pub enum DeadLetters {
    Queue(SqsQueue),
    File(FileQueue),
}

impl DeadLetters {
    /// Returns the file with the dead letters, unless they are in a queue.
    pub fn as_file(&self) -> Option<&FileQueue> {
        match self {
            Self::Queue(_) => None,
            Self::File(file) => Some(file),
        }
    }

    /// Returns the source's name in a journal. A file and its journal are moved together, so the name does not include
    /// the path.
    pub fn name_in_journal(&self) -> &str {
        match self {
            Self::File(file) if file.arn().starts_with(FILE) => FILE,
            source => source.arn(),
        }
    }
}

impl DeadLetterSource {
    /// Returns the address of the archive if the source is one.
    pub fn archive_uri(&self) -> Result<Option<ArchiveUri>, CommandFailure> {
        self.file.as_deref().and_then(ArchiveUri::from_path).transpose()
    }

    /// Returns the command-line arguments that select this source. `None` for standard input, which can be read only
    /// once.
    pub fn to_arguments(&self) -> Option<Vec<String>> {
        match self.file.as_deref() {
            None => Some(self.queue.to_arguments()),
            Some(file) if is_standard_input(file) => None,
            Some(file) => {
                let file = file.to_str()?.to_owned();
                Some([file].into_iter().chain(self.queue.connection.to_arguments()).collect())
            }
        }
    }

    /// Returns the file if it can be read again and therefore has its own journal.
    pub fn regular_file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| !is_standard_input(file) && file.is_file())
    }

    /// Opens a queue or a file, or reads the given period from an archive.
    pub async fn open(&self, period: PeriodArgs) -> Result<OpenedSource, CommandFailure> {
        let archive = self.archive_uri()?;
        if archive.is_none() && !period.is_default() {
            return Err(UsageError::new(
                "--since, --until and --bucket-owner require an archive, s3://BUCKET[/PREFIX]; for other sources, use \
                 `--where '.sent_at >= \"2026-11-27\"'`",
            )
            .into());
        }
        if let Some(archive) = archive {
            let queue = archive.read_period(period, &self.queue.connection).await?;
            let name = queue.name().to_owned();
            return Ok(OpenedSource { dead_letters: DeadLetters::File(queue), name, retention: None });
        }
        if let Some(path) = &self.file {
            let queue = open_file(path)?;
            warn_about_skipped_lines(&queue);
            let name = queue.name().to_owned();
            return Ok(OpenedSource { dead_letters: DeadLetters::File(queue), name, retention: None });
        }
        let KnownQueue { queue, attributes } = self.queue.open().await?;
        Ok(OpenedSource {
            name: queue_name_from_arn(queue.arn()).to_owned(),
            retention: QueueCounts::from_attributes(&attributes).retention(),
            dead_letters: DeadLetters::Queue(queue),
        })
    }
}

/// Opens a file, which must be empty or contain at least one dead letter.
pub fn open_file(path: &Path) -> Result<FileQueue, CommandFailure> {
    let name = input_name(path).display().to_string();
    let failed = |error: io::Error| unreadable_file_error(&input_name(path), &error);
    let arn = if is_standard_input(path) {
        format!("{FILE}-")
    } else {
        format!("{FILE}{}", std::path::absolute(path)?.display())
    };
    let now = SystemClock.now();
    let mut file = open_seekable(path)?;
    if let Some(lines) = convert_export(&file, path, now).map_err(failed)? {
        file = lines;
    }
    let queue = FileQueue::open(file, &name, &arn, now).map_err(failed)?;
    if queue.has_only_bad_lines() {
        let (line, why) =
            queue.bad_lines().first.first().map_or((1, ""), |(line, why)| (*line, why.as_str()));
        return Err(format!(
            "{name}: no line is a dead letter as written by `audit --save`, `purge --backup` or `local \
             --final-dlq`; line {line}: {why}"
        )
        .into());
    }
    Ok(queue)
}

/// Reads the messages in several backups, without duplicates: a killed run leaves messages in the queue, and the next
/// run backs them up again. Only the user's own files are read. `arn` is the queue that the messages were deleted from.
///
/// # Errors
/// If a file cannot be read or might have been written by another user, or if another command has started to send it.
pub fn open_backups(backups: &[PathBuf], arn: &str) -> Result<FileQueue, CommandFailure> {
    for path in backups {
        check_not_started(&send_journal_path(path), "redeliver send --backup")?;
    }
    let mut all = tempfile::tempfile()?;
    for path in backups {
        let mut input =
            BufReader::new(open_own_file(path, false).map_err(|error| unreadable_file_error(path, &error))?);
        let mut line = Vec::new();
        // A run that left an incomplete last line did not delete its message.
        while input.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            all.write_all(&line)?;
            line.clear();
        }
    }
    Ok(FileQueue::open(all, "the backups", arn, SystemClock.now())?)
}

/// Starts a journal next to each backup in a restore except the first, whose journal covers the entire restore. These
/// journals prevent `send --backup` and `redrive` from sending one of the backups again.
///
/// # Errors
/// If another redrive has started to send a backup, or a journal cannot be written.
pub fn claim_backups(backups: &[PathBuf], id: &str, from: &str, to: &str) -> Result<(), CommandFailure> {
    for path in backups.iter().skip(1) {
        let journal = RedriveJournal::open(&redrive_journal_path(path), id, from, to);
        journal.map_err(JournalError::for_file)?;
    }
    Ok(())
}

/// Removes the journals that [`claim_backups`] created, for a restore that sends nothing. Journals of other redrives
/// are kept.
///
/// # Errors
/// If a file cannot be removed.
pub fn release_backups(backups: &[PathBuf], id: &str, from: &str, to: &str) -> io::Result<()> {
    for journal in backups.iter().skip(1).map(|path| redrive_journal_path(path)) {
        if let Ok(Some(_)) = RedriveJournal::read_existing(&journal, id, from, to) {
            fs::remove_file(&journal)?;
        }
    }
    Ok(())
}

fn warn_about_skipped_lines(queue: &FileQueue) {
    let (name, BadLines { count, first }) = (queue.name(), queue.bad_lines());
    for (line, why) in first {
        stderr::warning(format_args!("{name}:{line}: left out: {why}"));
    }
    if *count > first.len() as u64 {
        stderr::warning(format_args!("{name}: {} lines are left out", group_digits(*count)));
    }
    describe_repeated_lines(&name, queue.repeated_lines()).iter().for_each(stderr::remark);
}

/// Converts an export's messages to dead letters, one per line, in an anonymous file. Returns `None` if the file is not
/// an export.
fn convert_export(mut file: &File, path: &Path, now: Timestamp) -> io::Result<Option<File>> {
    file.seek(SeekFrom::Start(0))?;
    let mut lines = InputLines::for_dead_letters(BufReader::new(file), now);
    let mut next = lines.next().transpose()?;
    if lines.describe_recognized_formats().is_none() {
        return Ok(None);
    }
    let mut dead_letters = BufWriter::new(tempfile::tempfile()?);
    let (mut all, mut without_attributes) = (0, 0);
    while let Some(line) = next {
        let too_long = |bytes| io::Error::other(format!("line {} has {bytes} bytes", line.number));
        let content = line.content.map_err(too_long)?;
        all += 1;
        without_attributes += u64::from(!has_attributes(&content));
        dead_letters.write_all(&content)?;
        dead_letters.write_all(b"\n")?;
        next = lines.next().transpose()?;
    }
    remark_on_recognized_formats(path, &lines);
    if let Some(sentence) = describe_missing_attributes(all, without_attributes) {
        stderr::warning(format_args!("{}: {sentence}", input_name(path).display()));
    }
    Ok(Some(dead_letters.into_inner()?))
}

/// Returns true if the dead letter on a line has message attributes.
fn has_attributes(line: &[u8]) -> bool {
    serde_json::from_slice::<ArchivedMessage>(line).is_ok_and(|message| !message.attributes.is_empty())
}

/// Returns a warning if no message in an export has the attributes that explain why and when it became a dead letter.
fn describe_missing_attributes(all: u64, without_attributes: u64) -> Option<String> {
    (all > 0 && without_attributes == all).then(|| {
        let subject = if all == 1 { "its message has no".to_owned() } else { format!("none of its {} has", format_count(all, "message")) };
        format!(
            "{subject} attributes, which hold the reason and the time of death; `aws sqs receive-message` leaves them \
             out without `--message-attribute-names All --message-system-attribute-names All`"
        )
    })
}

/// Opens a file for random access. A pipe is copied to an anonymous file.
fn open_seekable(path: &Path) -> Result<File, CommandFailure> {
    let failed = |error: io::Error| unreadable_file_error(&input_name(path), &error);
    if !is_standard_input(path) && path.is_file() {
        let mut file = File::open(path).map_err(failed)?;
        let mut beginning = Vec::new();
        (&mut file).take(4).read_to_end(&mut beginning).map_err(failed)?;
        check_encoding(path, &beginning)?;
        return Ok(file);
    }
    let mut input = open_input(path)?;
    let mut file = tempfile::tempfile()?;
    io::copy(&mut input, &mut file).map_err(failed)?;
    Ok(file)
}

impl QueueSender for DeadLetters {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        match self {
            Self::Queue(queue) => queue.send_batch(batch).await,
            Self::File(file) => file.send_batch(batch).await,
        }
    }
}

impl VisibilityControl for DeadLetters {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        match self {
            Self::Queue(queue) => queue.change_visibility_batch(entries).await,
            Self::File(file) => file.change_visibility_batch(entries).await,
        }
    }
}

impl QueueDepth for DeadLetters {
    async fn depth(&self) -> Result<Depth, EntryError> {
        match self {
            Self::Queue(queue) => queue.depth().await,
            Self::File(file) => file.depth().await,
        }
    }
}

impl Queue for DeadLetters {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        match self {
            Self::Queue(queue) => queue.receive(request).await,
            Self::File(file) => file.receive(request).await,
        }
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        match self {
            Self::Queue(queue) => queue.take_unreadable(),
            Self::File(file) => file.take_unreadable(),
        }
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        match self {
            Self::Queue(queue) => queue.delete_batch(handles).await,
            Self::File(file) => file.delete_batch(handles).await,
        }
    }

    fn arn(&self) -> &str {
        match self {
            Self::Queue(queue) => queue.arn(),
            Self::File(file) => file.arn(),
        }
    }

    fn url(&self) -> &str {
        match self {
            Self::Queue(queue) => queue.url(),
            Self::File(file) => file.url(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_how_to_export_missing_attributes() {
        let mut message = redeliver_testing::dead_letters::retried_record("NON_RETRYABLE_ERROR", "x", 1);
        let line = |message: &ReceivedMessage| serde_json::to_vec(&ArchivedMessage::new(message)).unwrap();
        assert!(has_attributes(&line(&message)));
        message.attributes.clear();
        assert!(!has_attributes(&line(&message)));
        assert_eq!((describe_missing_attributes(0, 0), describe_missing_attributes(3, 2)), (None, None));
        assert_eq!(
            describe_missing_attributes(3, 3).unwrap(),
            "none of its 3 messages has attributes, which hold the reason and the time of death; `aws sqs receive-message` \
             leaves them out without `--message-attribute-names All --message-system-attribute-names All`"
        );
        assert!(
            describe_missing_attributes(1, 1).unwrap().starts_with("its message has no attributes, which")
        );
    }
}
