//! What came of a send.

use serde::Serialize;
use thiserror::Error;

use super::reader::{Checked, Numbered, Step};
use super::sender::Watcher;
use redeliver_operator::terminal::units::{grouped, table};

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
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "details")]
pub enum Stopped {
    #[error("interrupted")]
    Interrupted,
    /// SQS's last word.
    #[error("stopped, since SQS confirms nothing any more: {0}")]
    Refused(String),
    /// With the lines that are sent and not in it.
    #[error("stopped, since the journal cannot be written: {0}")]
    Journal(String),
    #[error("stopped, since the input cannot be read on: {0}")]
    Unreadable(String),
}

impl Summary {
    /// Whether no line was sent, now or before, and the send came to its end.
    pub(super) fn has_tried_nothing(&self) -> bool {
        self.sent + self.sent_before + self.unconfirmed == 0 && self.stopped.is_none()
    }

    /// Counts a step through the input; a line that is to be sent goes on.
    pub(super) fn take(&mut self, step: Step, watcher: &impl Watcher) -> Option<Numbered> {
        for (line, warning) in &step.warnings {
            watcher.warning(*line, warning);
        }
        let mut valid = None;
        match step.checked {
            Checked::Valid(line) => valid = Some(line),
            Checked::Invalid { number, findings } => {
                self.invalid += 1;
                findings.iter().for_each(|finding| watcher.problem(number, finding));
            }
            Checked::Confirmed => self.sent_before += 1,
            Checked::Unreadable(word) => self.end(Stopped::Unreadable(word)),
            Checked::End => {}
        }
        watcher.progress(step.bytes, self);
        valid
    }

    /// The first reason counts.
    pub(super) fn end(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
    }

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
