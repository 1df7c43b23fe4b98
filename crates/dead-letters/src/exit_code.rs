//! The exit codes of `redeliver`: one list for all commands. The list is in this crate because the redrive journal
//! records the exit code of each run. `docs/exit-codes.md` has the same list, and the codes for each command.

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// The command succeeded, and nothing needs attention.
    Done = 0,
    /// The command failed, for example because of a file, a setting, a queue or AWS. It has printed the reason, and a
    /// report of the work done before the failure.
    Failed = 1,
    /// The arguments are invalid, and nothing was started. Clap uses the same code.
    Usage = 2,
    /// The command found problems, such as dead letters, invalid messages, or a misconfigured DLQ.
    ProblemsFound = 3,
    /// Something could not be read, such as a queue, a metric, or messages that another program holds. The rest is
    /// shown or done.
    Incomplete = 4,
    /// Part of the work was not done: an item was rejected, not confirmed, or left in place.
    PartlyDone = 5,
    /// A cause of dead letters is new or recurred (`audit --known-causes`).
    NewCause = 6,
    /// SQS will delete dead letters soon (`audit`).
    ExpiringSoon = 7,
    /// The requested message, group or event source mapping does not exist.
    NotFound = 8,
    /// Messages were sent but not deleted, so they are in both queues until the same command is run again (`redrive`).
    InBothQueues = 9,
    /// Ctrl-C or SIGTERM ended the command early: 128 plus SIGINT's number, by shell convention.
    Interrupted = 130,
}

impl ExitCode {
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::ProblemsFound,
        Self::Incomplete,
        Self::PartlyDone,
        Self::NewCause,
        Self::ExpiringSoon,
        Self::NotFound,
        Self::InBothQueues,
        Self::Interrupted,
    ];

    /// Returns the numeric exit code.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the meaning of the code, as documented in `docs/exit-codes.md`.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done, and nothing needs attention",
            Self::Failed => "the command failed; work done before the failure is reported",
            Self::Usage => "invalid usage; nothing was started",
            Self::ProblemsFound => "something was found that needs attention",
            Self::Incomplete => "not everything could be read; the rest is shown or done",
            Self::PartlyDone => "not everything was done; the rest is unchanged",
            Self::NewCause => "a cause of dead letters is new or came back",
            Self::ExpiringSoon => "SQS will delete dead letters soon",
            Self::NotFound => "a requested item does not exist",
            Self::InBothQueues => "messages were sent but not deleted; run the same command again",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts branch on the numbers.
    #[test]
    fn the_docs_list_every_exit_code_with_its_meaning() {
        let page = include_str!("../../../docs/exit-codes.md");
        let section = page.split("\n## ").next().expect("split yields at least one part");
        let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let expected = ExitCode::ALL.map(|code| format!("| `{}` | {} |", code.number(), code.meaning()));
        assert_eq!(rows, expected);
    }
}
