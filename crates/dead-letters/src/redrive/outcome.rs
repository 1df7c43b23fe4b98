//! The possible outcomes of a redrive.

use crate::ExitCode;

use super::report::{EarlyEnd, RedriveReport};

/// The outcome of a redrive, as documented in `docs/operate/redrive.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveOutcome {
    /// All picked messages were sent back and deleted.
    Done,
    /// Some picked messages remain in the DLQ.
    Left,
    /// The DLQ was not read completely.
    NotSeen,
    /// Too many of the sent messages failed again.
    Stopped,
    /// An error ended the run. The report covers the work done before the error.
    Failed,
    /// Some messages are in both queues.
    NotDeleted,
    Interrupted,
}

impl RedriveOutcome {
    /// Derives the outcome from the run's report. `max` is the run's limit on messages: a run that reached it need not
    /// have read the whole DLQ.
    #[must_use]
    pub fn from_report(report: &RedriveReport, max: u64) -> Self {
        match report.early_end {
            // Checked first: without this warning, another redrive would create copies.
            _ if report.not_deleted > 0 => Self::NotDeleted,
            Some(EarlyEnd::Failed(_)) => Self::Failed,
            Some(EarlyEnd::Interrupted) => Self::Interrupted,
            Some(EarlyEnd::Stopped) => Self::Stopped,
            None if !report.covers_whole_dlq() && report.sent < max => Self::NotSeen,
            None if report.staying_count() + report.returned_count() > 0 => Self::Left,
            None => Self::Done,
        }
    }

    /// Returns the exit code of the `redrive` command for this outcome.
    #[must_use]
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::Done,
            Self::Left | Self::Stopped => ExitCode::PartlyDone,
            Self::Failed => ExitCode::Failed,
            Self::NotSeen => ExitCode::Incomplete,
            Self::NotDeleted => ExitCode::InBothQueues,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}
