//! A log of the changes to messages in the service, for an external audit.

use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_core::lock;
use redeliver_core::message::{Content, Timestamp};

/// A change to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The time of the change. As in SQS, messages move or expire only when a later request is processed.
    pub at: Timestamp,
    /// The ARN of the queue in which the change happened; for a move, the queue that the message left.
    pub queue_arn: String,
    /// The SQS message id.
    pub sqs_message_id: String,
    pub what: ChangeKind,
}

/// The kind of change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The message was sent to the queue.
    Sent(Content),
    Received {
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// The message's visibility timeout was changed.
    Hidden {
        /// The new timeout, in seconds from the time of the change.
        seconds: u16,
    },
    /// The redrive policy moved the message to the queue with this ARN.
    Moved(String),
    Deleted,
    /// The message's retention period ended.
    Expired,
}

/// The log of changes, which starts with the first call to `take_changes`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    changes: Arc<Mutex<Option<Vec<MessageChange>>>>,
}

impl ChangeLog {
    /// Returns the changes since the last call. The first call starts the log.
    pub(crate) fn take_changes(&self) -> Vec<MessageChange> {
        self.lock_changes().replace(Vec::new()).unwrap_or_default()
    }

    /// Adds a change if the log has started.
    pub(crate) fn push_change(&self, change: impl FnOnce() -> MessageChange) {
        if let Some(changes) = self.lock_changes().as_mut() {
            changes.push(change());
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, Option<Vec<MessageChange>>> {
        lock(&self.changes)
    }
}
