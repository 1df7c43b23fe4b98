//! The queues that strategies need.

use std::time::Duration;

use strum::VariantArray;

/// A queue's role in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Role {
    /// Receives messages from producers, or Lambda's records of failed invocations.
    Source,
    /// Holds failed messages until their retry is scheduled.
    IntermediateDlq,
    /// Holds messages that SQS moved from an ordered source queue, for the annotator.
    SourceDlq,
    /// Holds a notice for each blocked group on an ordered source queue.
    Blocked,
    /// Holds verdicts for the annotator.
    Annotation,
    /// Holds the final records.
    FinalDlq,
}

impl Role {
    /// All roles, in the order in which messages pass through the queues.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the human-readable name, such as `intermediate DLQ`.
    #[must_use]
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::IntermediateDlq => "intermediate DLQ",
            Self::SourceDlq => "source DLQ",
            Self::Blocked => "blocked groups",
            Self::Annotation => "annotation",
            Self::FinalDlq => "final DLQ",
        }
    }

    /// Returns the name of the setting for the queue's URL.
    #[must_use]
    pub const fn setting_name(self) -> &'static str {
        match self {
            Self::Source => "SOURCE_QUEUE_URL",
            Self::IntermediateDlq => "INTERMEDIATE_DLQ_URL",
            Self::SourceDlq => "SOURCE_DLQ_URL",
            Self::Blocked => "BLOCKED_QUEUE_URL",
            Self::Annotation => "ANNOTATION_QUEUE_URL",
            Self::FinalDlq => "FINAL_DLQ_URL",
        }
    }
}

/// A queue that a strategy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededQueue {
    /// The queue's role.
    pub role: Role,
    /// Suffix of the queue's name.
    pub name: &'static str,
    /// The queue's retention.
    pub retention: Duration,
    /// The redrive policy; `None` for the final DLQ and the source DLQ.
    pub redrive: Option<RedriveEdge>,
}

/// The redrive policy of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedriveEdge {
    /// The queue to which messages are moved.
    pub to: Role,
    /// `maxReceiveCount`.
    pub receives: u16,
}

/// Retention of the source queue, 7 days. The other queues have SQS's maximum, 14 days.
pub const SOURCE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
pub(super) const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// `maxReceiveCount` of a queue whose function does not count receives: an hour with a broken deployment must neither
/// end all retries nor dead-letter all messages.
pub(super) const RECEIVES: u16 = 100;
/// Spare receives for errors, on top of a policy's attempts or of the receive count that a moved message keeps.
pub(super) const SPARE_RECEIVES: u16 = 10;
/// Limit on `maxReceiveCount`. SQS allows 1..=1000 ("CreateQueue", Amazon SQS API Reference), and the annotation
/// queue's is ten higher.
pub(super) const RECEIVES_MAX: u16 = 990;

/// Returns the final DLQ, the annotation queue, and a queue whose messages SQS moves to the annotation queue after
/// `receives` receives.
pub(super) fn with_dead_letter_queues(
    role: Role,
    name: &'static str,
    retention: Duration,
    receives: u16,
) -> Vec<NeededQueue> {
    let mut queues = dead_letter_queues(receives);
    let redrive = Some(RedriveEdge { to: Role::Annotation, receives });
    queues.push(NeededQueue { role, name, retention, redrive });
    queues
}

/// Returns the final DLQ and the annotation queue. Messages arrive on the latter with a receive count of up to
/// `receives_before`.
pub(super) fn dead_letter_queues(receives_before: u16) -> Vec<NeededQueue> {
    // After ten more receives, a message without an annotation in the final DLQ is better than no dead letter.
    let redrive = Some(RedriveEdge { to: Role::FinalDlq, receives: receives_before + SPARE_RECEIVES });
    vec![
        NeededQueue { role: Role::FinalDlq, name: "final-dlq", retention: RETENTION, redrive: None },
        NeededQueue { role: Role::Annotation, name: "annotation", retention: RETENTION, redrive },
    ]
}
