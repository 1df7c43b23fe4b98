//! Message files for `check`, `send` and `local`: all three accept the same files and reject the same lines with the
//! same errors.

mod export;
mod jsonl;
mod seen_ids;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use redeliver_core::message::schema::{InvalidMessage, MessageSchema, ParsedMessage};
use redeliver_core::message::{OutgoingMessage, Timestamp};
use redeliver_dead_letters::{BackupReader, LINE_BYTES_MAX};
use uuid::Uuid;

pub use jsonl::{InputLine, InputLines};
pub use seen_ids::SeenIds;

use crate::files::{self, FileError, check_encoding};
use crate::terminal::stderr;

/// Placeholder for the SQS message id of a message that has not been sent.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The hint for a dead letter found where a message was expected.
const SEND_AGAIN: &str = "a dead letter, not a message: `redeliver audit FILE` says why it died, `redeliver redrive FILE` \
                          and `redeliver send --backup FILE` send it again";

/// The format of a file's lines.
#[derive(Debug)]
pub enum LineFormat {
    /// A message body that must match the schema.
    Body(Box<MessageSchema>),
    /// Any body that SQS accepts, even if it is not a valid message.
    Anything,
    /// The input to an asynchronous invocation, validated by this function.
    Payload(fn(&OutgoingMessage) -> Result<(), String>),
    /// A dead letter, as written by `audit --save` and `purge --backup`.
    Backup(Box<BackupReader>),
}

/// A line that can be sent.
#[derive(Debug)]
pub struct FileMessage {
    pub sendable: OutgoingMessage,
    /// The `message_id`, if the line was parsed and its producer set one.
    pub id: Option<Uuid>,
    /// True if the line was parsed as a plain message.
    pub is_plain: bool,
}

impl LineFormat {
    /// Returns the lines of an input.
    pub fn read_lines<R: BufRead>(&self, input: R) -> InputLines<R> {
        match self {
            Self::Body(_) | Self::Anything => InputLines::for_messages(input),
            Self::Payload(_) => InputLines::for_payloads(input),
            // The send time is not used.
            Self::Backup(_) => InputLines::for_dead_letters(input, Timestamp::UNIX_EPOCH),
        }
    }

    /// Returns the message on a line, or all problems with it.
    pub fn read_message(&self, line: InputLine) -> Result<FileMessage, Vec<String>> {
        let unparsed = |sendable| FileMessage { sendable, id: None, is_plain: false };
        match self {
            Self::Body(schema) => {
                let sendable = line.into_message().map_err(|refused| vec![refused])?;
                let content = sendable.content();
                let (id, is_plain) = match schema.read_message(&content.body, &content.attributes, NO_ID) {
                    Ok(ParsedMessage::Envelope(envelope)) => (Some(envelope.metadata.message_id), false),
                    Ok(ParsedMessage::Plain(plain)) => {
                        let metadata = plain.metadata();
                        (Some(metadata.message_id).filter(|_| metadata.message_id_text != NO_ID), true)
                    }
                    Err(invalid) => {
                        return Err(dead_letter_hint(&content.body)
                            .map_or_else(|| describe_violations(&invalid), |hint| vec![hint]));
                    }
                };
                Ok(FileMessage { sendable, id, is_plain })
            }
            Self::Anything => Ok(unparsed(line.into_message().map_err(|refused| vec![refused])?)),
            Self::Payload(check) => {
                let sendable = line.into_message().map_err(|refused| vec![refused])?;
                check(&sendable).map_err(|refused| vec![refused])?;
                Ok(unparsed(sendable))
            }
            Self::Backup(backup) => {
                let content = line.content.map_err(|bytes| {
                    vec![format!("{bytes} bytes; a line of a backup has at most {LINE_BYTES_MAX}")]
                })?;
                backup.read_message(&content).map(unparsed).map_err(|reason| vec![reason])
            }
        }
    }
}

impl Default for LineFormat {
    fn default() -> Self {
        Self::Body(Box::default())
    }
}

/// Returns true if these problems were reported for a line that contains a dead letter.
pub fn is_dead_letter(problems: &[String]) -> bool {
    matches!(problems, [hint] if hint == SEND_AGAIN)
}

/// Returns a hint if the line contains a dead letter instead of a message.
pub fn dead_letter_hint(line: &str) -> Option<String> {
    BackupReader::is_dead_letter_line(line.as_bytes()).then(|| SEND_AGAIN.to_owned())
}

/// Describes the violations, each with its code.
pub fn describe_violations(invalid: &InvalidMessage) -> Vec<String> {
    match invalid {
        InvalidMessage::Format(malformed) => vec![format!("INVALID_MESSAGE_FORMAT {malformed}")],
        InvalidMessage::Schema(violations) => {
            violations.iter().map(|violation| format!("INVALID_MESSAGE_SCHEMA {violation}")).collect()
        }
    }
}

/// Prints the format of an input that was not read line by line, and the number of messages in it, such as `12 messages
/// of a receive-message export`.
pub fn remark_on_recognized_formats(path: &Path, lines: &InputLines<impl BufRead>) {
    if let Some(recognized) = lines.describe_recognized_formats() {
        stderr::remark(format_args!("{}: {recognized}", input_name(path).display()));
    }
}

/// Returns true if the path denotes standard input.
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
    // A terminal must not be read again after the end of the input: it would wait for more.
    let is_complete = beginning.len() < 3;
    let beginning = Cursor::new(beginning);
    Ok(if is_complete { Box::new(beginning) } else { Box::new(beginning.chain(input)) })
}

/// Returns the error for an input that cannot be opened or read.
pub fn input_error(path: &Path, error: &io::Error) -> FileError {
    files::unreadable_file_error(&input_name(path), error)
}

/// Returns the input's name for messages to the user.
pub fn input_name(path: &Path) -> PathBuf {
    if is_standard_input(path) { "standard input".into() } else { path.to_owned() }
}
