//! The changes of messages inside the service, for an audit from outside.

use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_core::lock;
use redeliver_core::message::{Content, Timestamp};

/// One change of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The time of the change. As in SQS, a message moves or expires at a later request.
    pub at: Timestamp,
    /// The ARN of the queue that the message was in, or was sent to.
    pub queue_arn: String,
    /// SQS's id of the message.
    pub sqs_message_id: String,
    pub what: ChangeKind,
}

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was sent to the queue.
    Sent(Content),
    Received {
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// Its visibility timeout was changed.
    Hidden {
        /// From now.
        seconds: u16,
    },
    /// The redrive policy moved it to the queue with this ARN.
    Moved(String),
    Deleted,
    /// The queue's retention ended.
    Expired,
}

/// The log of changes, which begins with the first call of `take`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    changes: Arc<Mutex<Option<Vec<MessageChange>>>>,
}

impl ChangeLog {
    /// The changes since the last call. The first call begins the log.
    pub(crate) fn take_changes(&self) -> Vec<MessageChange> {
        self.lock_changes().replace(Vec::new()).unwrap_or_default()
    }

    /// Adds a change, if the log has begun.
    pub(crate) fn push_change(&self, change: impl FnOnce() -> MessageChange) {
        if let Some(changes) = self.lock_changes().as_mut() {
            changes.push(change());
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, Option<Vec<MessageChange>>> {
        lock(&self.changes)
    }
}
