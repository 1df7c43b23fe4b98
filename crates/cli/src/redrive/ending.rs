//! How a redrive ends: an exit code, and a sentence where something is left to do.

use crate::people::{counted, grouped};

use super::report::Report;

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

    /// What is to be done now, where that is not all in the report.
    #[must_use]
    pub fn sentence(self, report: &Report) -> Option<String> {
        match self {
            Self::Done => None,
            Self::NotSeen => {
                let hidden = "what a killed run or an audit held is visible again within two minutes";
                Some(format!(
                    "not all of the DLQ was seen: somebody else reads it, or did; {hidden}. Run it again"
                ))
            }
            Self::Left => (report.came_back_count() > 0).then(|| {
                format!("{} came straight back and stay", counted(report.came_back_count(), "message"))
            }),
            Self::Failed => Some("run the same command again: it goes on where this one ended".to_owned()),
            Self::Stopped => Some(stopped(report)),
            Self::NotDeleted => Some(not_deleted(report)),
            Self::Interrupted => Some("interrupted: run it again to finish".to_owned()),
        }
    }
}

fn stopped(report: &Report) -> String {
    let (back, sent) = (grouped(report.came_back_count()), counted(report.sent, "message"));
    let waiting = grouped(report.watched.and_then(|watched| watched.waiting).unwrap_or(0));
    format!(
        "stopped: of {sent} that this run sent, {back} came straight back, and about {waiting} wait for a retry: the cause is \
         not gone. Mend it and run the same command again, or go on all the same with --stop-after-failures 100"
    )
}

fn not_deleted(report: &Report) -> String {
    let count = counted(report.not_deleted, "message");
    let why = report.why_not_deleted.as_deref().unwrap_or("no answer");
    format!(
        "sent, NOT deleted: {count} of the DLQ are in the source queue, too, since SQS did not confirm their deletion: {why}. \
         Do not send them back by other means, or from another machine: that makes copies. Allow sqs:DeleteMessage on the \
         DLQ, then run the same command here again: it deletes them by its journal, and sends the rest"
    )
}
