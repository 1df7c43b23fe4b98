//! The lines of a journal.

use serde::{Deserialize, Serialize};

/// A line of a journal, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEntry {
    /// The first line: the redrive that the journal belongs to.
    Plan {
        id: String,
        from: String,
        /// The ARN of the queue that messages are sent back to.
        to: String,
    },
    /// The start of a run: the lines up to the next one like it are its work. To it, messages that earlier runs sent
    /// and that are in the DLQ again are dead letters like any other.
    Run {
        /// RFC 3339.
        at: String,
    },
    /// The message is about to be sent. Without a later line about it, it may have been sent.
    Intent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        /// The message's own id.
        message_id: String,
        /// The id that it had, if it got a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_message_id: Option<String>,
        generation: u32,
        /// The body before `--edit` changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_body: Option<String>,
    },
    /// Confirmed by SQS.
    Sent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        /// SQS's id of the message that was sent back.
        sent_as: String,
        /// The known number of sends: a send without an answer is repeated.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        sends: u32,
    },
    /// Not confirmed: it stays.
    NotSent {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
        code: String,
        /// The number of sends without an answer. Each may have been accepted. 0 if it was refused.
        #[serde(default, skip_serializing_if = "is_none")]
        sends: u32,
    },
    /// Gone from the DLQ.
    Deleted {
        /// SQS's id of the dead letter.
        sqs_message_id: String,
    },
    /// A run came to its end, and has reported what it did.
    Ended {
        /// Messages that it sent back.
        sent: u64,
        /// Messages that were sent back, by it or before it, and that it could not delete.
        not_deleted: u64,
        /// The number of the [`ExitCode`](crate::ExitCode).
        exit_code: u8,
    },
}

const fn once() -> u32 {
    1
}

const fn is_once(sends: &u32) -> bool {
    *sends == 1
}

const fn is_none(sends: &u32) -> bool {
    *sends == 0
}
