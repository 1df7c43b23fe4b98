//! The summary of a send.

use serde::Serialize;
use thiserror::Error;

use crate::ExitCode;
use crate::terminal::units::{format_table, group_digits};

/// The outcome of a send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines that would be sent. Counted only without `--apply`.
    pub planned: u64,
    /// Lines confirmed by SQS.
    pub sent: u64,
    /// Lines confirmed in an earlier run.
    pub sent_before: u64,
    /// Skipped lines in a backup or an export that repeat an earlier line's message.
    pub repeated: u64,
    /// Lines that are not valid messages for the queue. They are never sent.
    pub invalid: u64,
    /// Lines that were sent but not confirmed.
    pub unconfirmed: u64,
    /// The reason for stopping before all lines were attempted.
    pub stopped: Option<StopReason>,
    /// A description of the recognized formats other than plain lines, if any.
    #[serde(skip)]
    pub recognized: Option<String>,
}

/// Reasons for stopping before the end of the input.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "details")]
pub enum StopReason {
    #[error("interrupted")]
    Interrupted,
    /// The last SQS error.
    #[error("stopped because SQS no longer confirms anything: {0}")]
    Refused(String),
    /// Names the lines that were sent but are not in the journal.
    #[error("stopped because the journal cannot be written: {0}")]
    Journal(String),
    #[error("stopped because the rest of the input cannot be read: {0}")]
    Unreadable(String),
}

impl Summary {
    /// Returns true if the send finished and no line was sent, either by this run or by an earlier one.
    pub fn attempted_nothing(&self) -> bool {
        self.sent + self.sent_before + self.unconfirmed == 0 && self.stopped.is_none()
    }

    /// Records a reason for stopping. Only the first one is kept.
    pub(crate) fn record_stop(&mut self, why: StopReason) {
        self.stopped.get_or_insert(why);
    }

    /// Returns 130 after an interrupt, 1 if the send stopped early for another reason, 5 if a line was invalid or not
    /// confirmed, and 0 otherwise.
    pub fn exit_code(&self) -> ExitCode {
        match self.stopped {
            Some(StopReason::Interrupted) => ExitCode::Interrupted,
            Some(_) => ExitCode::Failed,
            None if self.invalid + self.unconfirmed > 0 => ExitCode::PartlyDone,
            None => ExitCode::Done,
        }
    }

    /// Formats the counts as a table. All counts except the first are omitted if they are 0.
    pub fn render_table(&self, applied: bool) -> String {
        let first = if applied { ("sent", self.sent) } else { ("would be sent", self.planned) };
        let others = [
            ("sent before", self.sent_before),
            ("invalid, not sent", self.invalid),
            ("not confirmed by SQS", self.unconfirmed),
        ];
        let rows = [first].into_iter().chain(others.into_iter().filter(|(_, count)| *count > 0));
        format_table(&[], rows.map(|(name, count)| vec![name.to_owned(), group_digits(count)]), [1])
    }
}
