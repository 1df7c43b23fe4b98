//! What came of a send.

use std::fmt;

use serde::Serialize;

use crate::people::{grouped, table};

/// What came of a send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines that would be sent, without --apply.
    pub planned: u64,
    /// Lines that SQS has confirmed.
    pub sent: u64,
    /// Lines that were confirmed in an earlier run.
    pub sent_before: u64,
    /// Lines that are no message that the queue should get; never sent.
    pub invalid: u64,
    /// Lines that were sent, and not confirmed.
    pub unconfirmed: u64,
    /// Why not all lines were tried, if they were not.
    pub stopped: Option<Stopped>,
}

/// Why a send ended before its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "details")]
pub enum Stopped {
    Interrupted,
    /// SQS confirms nothing any more; its last word.
    Refused(String),
    /// The journal cannot be written; the lines that are sent and not in it.
    Journal(String),
    /// The input cannot be read on.
    Unreadable(String),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Refused(word) => write!(f, "stopped, since SQS confirms nothing any more: {word}"),
            Self::Journal(word) => write!(f, "stopped, since the journal cannot be written: {word}"),
            Self::Unreadable(word) => write!(f, "stopped, since the input cannot be read on: {word}"),
        }
    }
}

impl Summary {
    pub fn exit_code(&self) -> u8 {
        match self.stopped {
            Some(Stopped::Interrupted) => 130,
            Some(_) => 1,
            None if self.invalid + self.unconfirmed > 0 => 1,
            None => 0,
        }
    }

    pub fn table(&self, applied: bool) -> String {
        let first = if applied { ("sent", self.sent) } else { ("would be sent", self.planned) };
        let others = [
            ("sent before", self.sent_before),
            ("invalid, not sent", self.invalid),
            ("not confirmed by SQS", self.unconfirmed),
        ];
        let rows = [first].into_iter().chain(others.into_iter().filter(|(_, count)| *count > 0));
        table(&[], rows.map(|(name, count)| vec![name.to_owned(), grouped(count)]), [1])
    }
}
