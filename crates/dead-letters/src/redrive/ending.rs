//! The endings of a redrive.

use crate::ExitCode;

use super::report::{EarlyEnd, RedriveReport};

/// The ending of a redrive, as documented in `docs/operate/redrive.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveEnding {
    /// All that was picked is sent back and deleted.
    Done,
    /// Something that was picked stays.
    Left,
    /// Not all of the DLQ was seen.
    NotSeen,
    /// Too many of the sent messages failed again.
    Stopped,
    /// An error ended it. The report has the work until then.
    Failed,
    /// Something is in both queues.
    NotDeleted,
    Interrupted,
}

impl RedriveEnding {
    /// The ending of a run with this report. `max` is the run's limit on messages: a run that reached it need not have
    /// read all of the DLQ.
    #[must_use]
    pub fn from_report(report: &RedriveReport, max: u64) -> Self {
        match report.early {
            // First: without this hint another redrive would make copies.
            _ if report.not_deleted > 0 => Self::NotDeleted,
            Some(EarlyEnd::Failed(_)) => Self::Failed,
            Some(EarlyEnd::Interrupted) => Self::Interrupted,
            Some(EarlyEnd::Stopped) => Self::Stopped,
            None if !report.is_covered() && report.sent < max => Self::NotSeen,
            None if report.staying_count() + report.came_back_count() > 0 => Self::Left,
            None => Self::Done,
        }
    }

    /// The exit code of the `redrive` command for this ending.
    #[must_use]
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::Done,
            Self::Left | Self::Stopped => ExitCode::NotAllDone,
            Self::Failed => ExitCode::Failed,
            Self::NotSeen => ExitCode::Incomplete,
            Self::NotDeleted => ExitCode::InBothQueues,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}
