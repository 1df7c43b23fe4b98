//! The queues of a strategy.

use std::time::Duration;

use strum::VariantArray;

/// What a queue is to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Role {
    /// Where producers send; or Lambda, its records of failed invocations.
    Source,
    /// Where failed messages wait for their retry to be scheduled.
    IntermediateDlq,
    /// Where verdicts wait for the annotator.
    Annotation,
    /// Where final records are read.
    FinalDlq,
}

impl Role {
    /// In the order of the loop.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// For people.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::IntermediateDlq => "intermediate DLQ",
            Self::Annotation => "annotation",
            Self::FinalDlq => "final DLQ",
        }
    }

    /// The setting that names the queue.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Source => "SOURCE_QUEUE_URL",
            Self::IntermediateDlq => "INTERMEDIATE_DLQ_URL",
            Self::Annotation => "ANNOTATION_QUEUE_URL",
            Self::FinalDlq => "FINAL_DLQ_URL",
        }
    }
}

/// A queue that a strategy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededQueue {
    /// What it is for.
    pub role: Role,
    /// What its name ends with.
    pub name: &'static str,
    /// How long it keeps a message.
    pub retention: Duration,
    /// Where SQS moves what nobody deletes; nothing is moved out of the final DLQ.
    pub redrive: Option<Redrive>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// The queue that messages are moved to.
    pub to: Role,
    /// After so many receives: `maxReceiveCount`.
    pub receives: u16,
}

/// How long the source queue keeps a message. The others keep theirs for as long as SQS can.
pub const SOURCE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
pub(super) const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// Receives of a queue whose function does not count them: a deployment that is broken for an hour must neither end all
/// retries nor dead-letter everything.
pub(super) const RECEIVES: u16 = 100;
/// Beyond the attempts of a policy, and beyond the receives that a moved message brings along: for what goes wrong.
pub(super) const SPARE_RECEIVES: u16 = 10;
/// `maxReceiveCount` is 1..=1000 ("CreateQueue", Amazon SQS API Reference), and the annotation queue's is ten more than
/// this.
pub(super) const RECEIVES_MAX: u16 = 990;

/// The final DLQ, the annotation queue, and the queue whose messages SQS moves there after so many receives.
pub(super) fn ending_with(
    role: Role,
    name: &'static str,
    retention: Duration,
    receives: u16,
) -> Vec<NeededQueue> {
    let moved = |to, receives| Some(Redrive { to, receives });
    // A moved message brings its receives along. Ten failed annotations more: the raw message is better than none.
    let annotated = moved(Role::FinalDlq, receives + SPARE_RECEIVES);
    vec![
        NeededQueue { role: Role::FinalDlq, name: "final-dlq", retention: RETENTION, redrive: None },
        NeededQueue { role: Role::Annotation, name: "annotation", retention: RETENTION, redrive: annotated },
        NeededQueue { role, name, retention, redrive: moved(Role::Annotation, receives) },
    ]
}
