//! The exit codes of `redeliver`: one list for all commands. It is here since the journal of a redrive records the code
//! of each run. `docs/exit-codes.md` has the same list, and which command ends with which.

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything is done, and nothing needs attention.
    Done = 0,
    /// The command failed, for example at a file, a setting, a queue or AWS. It has printed the reason, and the report
    /// of what it had done before.
    Failed = 1,
    /// The arguments cannot be used. Nothing was begun. Also clap's own code.
    Usage = 2,
    /// It found what it looks for: dead letters, invalid messages, something wrong with a DLQ.
    Found = 3,
    /// It could not read all of it: messages that another program holds, a queue, a metric. The rest is shown or done.
    Incomplete = 4,
    /// Part of the work was not done: something was refused, not confirmed, or stays where it is.
    NotAllDone = 5,
    /// A cause of dead letters is new or came back (`audit --known-causes`).
    NewCause = 6,
    /// SQS deletes dead letters soon (`audit`).
    DeletedSoon = 7,
    /// The message, the group or the event source mapping that was named is not there.
    NotThere = 8,
    /// Messages were sent and not deleted, so they are in both queues until the same command has run again (`redrive`).
    InBothQueues = 9,
    /// Ctrl-C or SIGTERM ended it early: 128 and the number of SIGINT, as shells have it.
    Interrupted = 130,
}

impl ExitCode {
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Found,
        Self::Incomplete,
        Self::NotAllDone,
        Self::NewCause,
        Self::DeletedSoon,
        Self::NotThere,
        Self::InBothQueues,
        Self::Interrupted,
    ];

    /// The number that a shell sees.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its meaning, as `docs/exit-codes.md` has it.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done, and nothing needs attention",
            Self::Failed => "the command failed; what it had done before is reported",
            Self::Usage => "wrong usage; nothing was begun",
            Self::Found => "something was found that needs attention",
            Self::Incomplete => "not everything could be read; the rest is shown or done",
            Self::NotAllDone => "not everything was done; the rest stays as it was",
            Self::NewCause => "a cause of dead letters is new or came back",
            Self::DeletedSoon => "SQS deletes dead letters soon",
            Self::NotThere => "what was named is not there",
            Self::InBothQueues => "messages were sent and not deleted; the same command deletes them",
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
        let section = page.split("\n## ").next().expect("a text has a first part");
        let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let expected = ExitCode::ALL.map(|code| format!("| `{}` | {} |", code.number(), code.meaning()));
        assert_eq!(rows, expected);
    }
}
