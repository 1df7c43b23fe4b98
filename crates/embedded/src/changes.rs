//! What happens to messages inside the service, for whoever audits a run from outside.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redeliver_core::message::{Content, Timestamp};

/// One thing that happened to one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When. Moves and expiries happen when somebody looks, as in SQS.
    pub at: Timestamp,
    /// The ARN of the queue that the message was in before, or was sent to.
    pub queue_arn: String,
    /// SQS's id of the message.
    pub sqs_message_id: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It was sent and is in the queue.
    Sent(Content),
    Received {
        /// `ApproximateReceiveCount`.
        receive_count: u32,
    },
    /// Somebody who has it changed when it is seen again.
    Hidden {
        /// From now on.
        seconds: u16,
    },
    /// The queue's redrive moved it to the queue with this ARN.
    Moved(String),
    /// It was deleted by a receipt handle.
    Deleted,
    /// It was older than the queue's retention, and is gone.
    Expired,
}

/// Where queues write their changes, once somebody wants them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    changes: Arc<Mutex<Option<Vec<Change>>>>,
}

impl ChangeLog {
    /// The changes since the last call; the first one begins the log.
    pub(crate) fn take(&self) -> Vec<Change> {
        self.lock().replace(Vec::new()).unwrap_or_default()
    }

    /// Writes one down, if anybody wants it.
    pub(crate) fn write(&self, change: impl FnOnce() -> Change) {
        if let Some(changes) = self.lock().as_mut() {
            changes.push(change());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Change>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
