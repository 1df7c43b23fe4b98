//! Files of messages for `check`, `send` and `local`: all three accept the same files and reject the same lines with
//! the same errors.

mod export;
mod jsonl;
mod seen_ids;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use redeliver_core::message::schema::{Invalid, MessageSchema, Parsed};
use redeliver_core::message::{OutgoingMessage, Timestamp};
use redeliver_dead_letters::{BackupReader, LINE_BYTES_MAX};
use uuid::Uuid;

pub use jsonl::{InputLine, InputLines};
pub use seen_ids::SeenIds;

use crate::files::{self, FileError, check_encoding};
use crate::terminal::stderr;

/// A placeholder for the SQS id, since nothing has been sent yet.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The advice for a dead letter found in place of a message.
const SEND_AGAIN: &str = "a dead letter, not a message: `redeliver audit FILE` says why it died, `redeliver redrive FILE` \
                          and `redeliver send --backup FILE` send it again";

/// The kind of lines in a file.
#[derive(Debug)]
pub enum LineForm {
    /// A message's body; it must match the schema.
    Body(Box<MessageSchema>),
    /// Anything SQS accepts, even if it is not a message.
    Anything,
    /// The input of an asynchronous invocation, validated by this function.
    Payload(fn(&OutgoingMessage) -> Result<(), String>),
    /// A dead letter, as written by `audit --save` and `purge --backup`.
    Backup(Box<BackupReader>),
}

/// A line that can be sent.
#[derive(Debug)]
pub struct FileMessage {
    pub sendable: OutgoingMessage,
    /// `message_id`, if it was parsed and was set by the producer.
    pub id: Option<Uuid>,
    /// True if it was parsed as a plain message.
    pub is_plain: bool,
}

impl LineForm {
    /// The lines of an input.
    pub fn read_lines<R: BufRead>(&self, input: R) -> InputLines<R> {
        match self {
            Self::Body(_) | Self::Anything => InputLines::for_messages(input),
            Self::Payload(_) => InputLines::for_payloads(input),
            // The send time is not used here.
            Self::Backup(_) => InputLines::for_dead_letters(input, Timestamp::UNIX_EPOCH),
        }
    }

    /// Returns the message of a line, or all its problems.
    pub fn read_message(&self, line: InputLine) -> Result<FileMessage, Vec<String>> {
        let unread = |sendable| FileMessage { sendable, id: None, is_plain: false };
        match self {
            Self::Body(schema) => {
                let sendable = line.into_message().map_err(|refused| vec![refused])?;
                let content = sendable.content();
                let (id, is_plain) = match schema.read_message(&content.body, &content.attributes, NO_ID) {
                    Ok(Parsed::Envelope(envelope)) => (Some(envelope.metadata.message_id), false),
                    Ok(Parsed::Plain(plain)) => {
                        let metadata = plain.metadata();
                        (Some(metadata.message_id).filter(|_| metadata.message_id_text != NO_ID), true)
                    }
                    Err(invalid) => {
                        return Err(dead_letter_hint(&content.body)
                            .map_or_else(|| describe_invalid(&invalid), |hint| vec![hint]));
                    }
                };
                Ok(FileMessage { sendable, id, is_plain })
            }
            Self::Anything => Ok(unread(line.into_message().map_err(|refused| vec![refused])?)),
            Self::Payload(check) => {
                let sendable = line.into_message().map_err(|refused| vec![refused])?;
                check(&sendable).map_err(|refused| vec![refused])?;
                Ok(unread(sendable))
            }
            Self::Backup(backup) => {
                let content = line.content.map_err(|bytes| {
                    vec![format!("{bytes} bytes; a line of a backup has at most {LINE_BYTES_MAX}")]
                })?;
                backup.read_message(&content).map(unread).map_err(|reason| vec![reason])
            }
        }
    }
}

impl Default for LineForm {
    fn default() -> Self {
        Self::Body(Box::default())
    }
}

/// True if these problems are those of a line that contains a dead letter.
pub fn is_dead_letter(problems: &[String]) -> bool {
    matches!(problems, [hint] if hint == SEND_AGAIN)
}

/// A hint for a line that contains a dead letter instead of a message.
pub fn dead_letter_hint(line: &str) -> Option<String> {
    BackupReader::is_dead_letter_line(line.as_bytes()).then(|| SEND_AGAIN.to_owned())
}

/// The violations, each with its code.
pub fn describe_invalid(invalid: &Invalid) -> Vec<String> {
    match invalid {
        Invalid::Format(malformed) => vec![format!("INVALID_MESSAGE_FORMAT {malformed}")],
        Invalid::Schema(violations) => {
            violations.iter().map(|violation| format!("INVALID_MESSAGE_SCHEMA {violation}")).collect()
        }
    }
}

/// Prints the format of an input that was not read line by line, such as `12 messages of a receive-message export`,
/// with the number of its messages.
pub fn remark_on_recognized(path: &Path, lines: &InputLines<impl BufRead>) {
    if let Some(recognized) = lines.describe_recognized() {
        stderr::remark(format_args!("{}: {recognized}", input_name(path).display()));
    }
}

/// True if the path stands for standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file, or standard input if the path is `-`.
pub fn open_input(path: &Path) -> Result<Box<dyn BufRead + Send>, FileError> {
    let failed = |error: io::Error| input_error(path, &error);
    let mut input: Box<dyn BufRead + Send> = if is_standard_input(path) {
        if io::stdin().is_terminal() {
            stderr::remark("reading messages from standard input, one per line; end with Ctrl-D");
        }
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path).map_err(failed)?))
    };
    let mut beginning = Vec::new();
    input.by_ref().take(3).read_to_end(&mut beginning).map_err(failed)?;
    check_encoding(&input_name(path), &beginning)?;
    // After end of input a terminal must not be read again: it would wait for more.
    let is_all = beginning.len() < 3;
    let beginning = Cursor::new(beginning);
    Ok(if is_all { Box::new(beginning) } else { Box::new(beginning.chain(input)) })
}

/// The error for an input that cannot be opened or read.
pub fn input_error(path: &Path, error: &io::Error) -> FileError {
    files::read_error(&input_name(path), error)
}

/// The input's name, as used in messages.
pub fn input_name(path: &Path) -> PathBuf {
    if is_standard_input(path) { "standard input".into() } else { path.to_owned() }
}
