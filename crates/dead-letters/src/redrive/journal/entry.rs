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
    /// The start of a run: all lines up to the next start belong to it. Messages that earlier runs sent and that are in
    /// the DLQ again are treated like any other dead letter.
    Run {
        /// The timestamp of the start, RFC 3339.
        at: String,
    },
    /// The message is about to be sent. Without a later line, it may have been sent.
    Intent {
        /// The SQS message id of the dead letter.
        sqs_message_id: String,
        /// The message's own id.
        message_id: String,
        /// Its previous id, if it was assigned a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_message_id: Option<String>,
        generation: u32,
        /// The body before `--edit` changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_body: Option<String>,
    },
    /// The send is confirmed by SQS.
    Sent {
        /// The SQS message id of the dead letter.
        sqs_message_id: String,
        /// The SQS message id of the message that was sent back.
        sent_as: String,
        /// The known number of sends: a send without a response is retried.
        #[serde(default = "one_send", skip_serializing_if = "is_one")]
        sends: u32,
    },
    /// The send is not confirmed, so the dead letter is not deleted.
    NotSent {
        /// The SQS message id of the dead letter.
        sqs_message_id: String,
        code: String,
        /// The number of sends without a response, each of which may have been accepted. 0 if the send was rejected.
        #[serde(default, skip_serializing_if = "is_zero")]
        sends: u32,
    },
    /// The dead letter is deleted from the DLQ.
    Deleted {
        /// The SQS message id of the dead letter.
        sqs_message_id: String,
    },
    /// The run has ended and reported its results.
    Ended {
        /// The number of messages that the run sent back.
        sent: u64,
        /// The number of messages, sent back by this run or earlier ones, that it could not delete.
        not_deleted: u64,
        /// The numeric [`ExitCode`](crate::ExitCode).
        exit_code: u8,
    },
}

const fn one_send() -> u32 {
    1
}

const fn is_one(sends: &u32) -> bool {
    *sends == 1
}

const fn is_zero(sends: &u32) -> bool {
    *sends == 0
}
