//! How a redrive ends.

/// How a redrive ended, as `redeliver redrive --help` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All that was picked is sent back and deleted.
    Done,
    /// Something that was picked stays.
    Left,
    /// Not all of the DLQ was seen.
    NotSeen,
    /// Too much of what was sent has failed again.
    Stopped,
    /// It could not go on; what was done until then is in the report.
    Failed,
    /// Something is in both queues.
    NotDeleted,
    /// Ctrl-C.
    Interrupted,
}

impl Ending {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Left => 1,
            Self::Failed => 2,
            Self::NotSeen => 4,
            Self::Stopped => 5,
            Self::NotDeleted => 6,
            Self::Interrupted => 130,
        }
    }
}
