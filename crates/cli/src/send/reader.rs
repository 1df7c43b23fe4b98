//! Reads the input: each line is checked, and what was sent before is left out.

use std::io::BufRead;

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::schema::MessageSchema;

use super::confirmed::{Confirmed, Digest};
use crate::check::described;
use crate::lines::{Line, Lines};

/// A message and the line that it is on.
#[derive(Debug)]
pub struct Numbered {
    /// 1 for the first.
    pub number: usize,
    /// Of the line.
    pub digest: Digest,
    /// What is sent.
    pub message: OutgoingMessage,
}

/// What a line turned out to be.
#[derive(Debug)]
pub enum Checked {
    /// To be sent.
    Valid(Numbered),
    /// Never sent; what is wrong with it.
    Invalid {
        /// 1 for the first.
        number: usize,
        /// At least one.
        findings: Vec<String>,
    },
    /// Sent before.
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

/// Which lines are sent.
#[derive(Debug)]
pub struct Rules {
    /// What a message must be.
    pub schema: MessageSchema,
    /// What the queue takes, in bytes: its `MaximumMessageSize`.
    pub largest: usize,
    /// What was sent before.
    pub confirmed: Confirmed,
}

impl Rules {
    /// All steps through an input, in order.
    pub fn steps<R: BufRead>(self, input: R) -> impl Iterator<Item = Step> + use<R> {
        let mut lines = Lines::new(input);
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
        let message = match line.message() {
            Ok(message) => message,
            Err(reason) => return Checked::Invalid { number, findings: vec![reason] },
        };
        if message.size() > self.largest {
            let reason = format!("{} bytes; the queue takes at most {}", message.size(), self.largest);
            return Checked::Invalid { number, findings: vec![reason] };
        }
        match self.schema.parse(&message.content().body) {
            Ok(_) => {
                let digest = Digest::of(number, message.content().body.as_bytes());
                Checked::Valid(Numbered { number, digest, message })
            }
            Err(invalid) => Checked::Invalid { number, findings: described(&invalid) },
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { schema: MessageSchema::default(), largest: MESSAGE_BYTES_MAX, confirmed: Confirmed::default() }
    }
}

#[cfg(test)]
mod tests;
