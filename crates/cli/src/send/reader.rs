//! Reads the input: each line is checked, and what was sent before is left out.

use std::io::BufRead;

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::schema::MessageSchema;
use redeliver_dead_letters::{Backup, LINE_BYTES_MAX};

use super::confirmed::{Confirmed, Digest};
use crate::check::described;
use crate::lines::{Line, Lines};

/// A message and the line that it is on.
#[derive(Debug)]
pub struct Numbered {
    /// 1 for the first.
    pub number: usize,
    pub digest: Digest,
    pub message: OutgoingMessage,
}

/// What a line turned out to be.
#[derive(Debug)]
pub enum Checked {
    Valid(Numbered),
    /// Never sent; what is wrong with it.
    Invalid {
        /// 1 for the first.
        number: usize,
        /// At least one.
        findings: Vec<String>,
    },
    Confirmed,
    /// The input cannot be read on; nothing follows.
    Unreadable(String),
    /// All lines were read; nothing follows.
    End,
}

/// One step through the input.
#[derive(Debug)]
pub struct Step {
    /// Bytes of the input so far.
    pub bytes: u64,
    /// What they end with.
    pub checked: Checked,
}

/// What is on a line.
#[derive(Debug)]
pub enum Form {
    /// A message's body; it must match the schema.
    Body(Box<MessageSchema>),
    /// A dead letter, as `audit --archive` and `purge --backup` write it.
    Backup(Box<Backup>),
}

impl Form {
    /// The lines of an input.
    pub(super) fn lines<R: BufRead>(&self, input: R) -> Lines<R> {
        match self {
            Self::Body(_) => Lines::new(input),
            Self::Backup(_) => Lines::keeping(input, LINE_BYTES_MAX),
        }
    }

    /// What is sent of a line.
    fn message(&self, line: Line) -> Result<OutgoingMessage, Vec<String>> {
        match self {
            Self::Body(schema) => {
                let message = line.message().map_err(|reason| vec![reason])?;
                // SQS has not given it an id yet.
                match schema.read(&message.content().body, &message.content().attributes, "") {
                    Ok(_) => Ok(message),
                    Err(_) if Backup::is_line(message.content().body.as_bytes()) => {
                        Err(vec!["a line of a backup: add --backup".to_owned()])
                    }
                    Err(invalid) => Err(described(&invalid)),
                }
            }
            Self::Backup(backup) => {
                let content = line.content.map_err(|bytes| {
                    vec![format!("{bytes} bytes; a line of a backup has at most {}", LINE_BYTES_MAX)]
                })?;
                backup.message(&content).map_err(|reason| vec![reason])
            }
        }
    }
}

#[derive(Debug)]
pub struct Rules {
    pub form: Form,
    /// What the queue takes, in bytes: its `MaximumMessageSize`.
    pub largest: usize,
    pub confirmed: Confirmed,
}

impl Rules {
    /// All steps through an input, in order.
    pub fn steps<R: BufRead>(self, input: R) -> impl Iterator<Item = Step> + use<R> {
        let mut lines = self.form.lines(input);
        let mut bytes = 0;
        let mut over = false;
        std::iter::from_fn(move || {
            if over {
                return None;
            }
            let checked = match lines.next() {
                Some(Ok(line)) => {
                    bytes = line.end;
                    self.check(line)
                }
                Some(Err(error)) => Checked::Unreadable(error.to_string()),
                None => Checked::End,
            };
            over = matches!(checked, Checked::Unreadable(_) | Checked::End);
            Some(Step { bytes, checked })
        })
    }

    fn check(&self, line: Line) -> Checked {
        let number = line.number;
        if self.confirmed.contains(number) {
            return Checked::Confirmed;
        }
        // Of the line as it stands in the file: that is what the next run looks at.
        let digest = line.content.as_ref().map(|content| Digest::of(number, content)).unwrap_or_default();
        let message = match self.form.message(line) {
            Ok(message) => message,
            Err(findings) => return Checked::Invalid { number, findings },
        };
        if message.size() > self.largest {
            let reason = format!("{} bytes; the queue takes at most {}", message.size(), self.largest);
            return Checked::Invalid { number, findings: vec![reason] };
        }
        Checked::Valid(Numbered { number, digest, message })
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { form: Form::Body(Box::default()), largest: MESSAGE_BYTES_MAX, confirmed: Confirmed::default() }
    }
}

#[cfg(test)]
mod tests;
