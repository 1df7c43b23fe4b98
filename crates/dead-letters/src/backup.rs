//! `--backup`: converts lines written by `audit --save` and `purge --backup` to the messages that a redrive would have
//! sent back.

use redeliver_core::message::metadata::GENERATION_MAX;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{OutgoingMessage, Timestamp};
use redeliver_core::ports::is_fifo;

use crate::DeadLetterRecord;
use crate::file_queue::{BadLine, read_line};
use crate::redrive::{RedriveDecision, RedrivePlan, StayReason};

/// The maximum size of a line, 4 MiB: a message is at most 1 MiB ("Amazon SQS message quotas", Amazon SQS Developer
/// Guide), JSON escapes at most double that, base64 adds less, and the rest is small.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The error if the target queue is the DLQ that was backed up.
const OWN_QUEUE: &str = "was read from this same queue; name the source queue, so that it is handled again";

/// A reader that converts the lines of a backup to the messages that a redrive would send back.
#[derive(Debug)]
pub struct BackupReader {
    plan: RedrivePlan,
    to: String,
}

impl BackupReader {
    /// Creates a reader for messages that are sent to the queue with the ARN `to` and must match the schema. Dead
    /// letters that were read from that queue are rejected.
    #[must_use]
    pub fn new(schema: MessageSchema, to: &str) -> Self {
        // A file contains only selected messages, so none are parked.
        let to_fifo = is_fifo(to);
        let plan = RedrivePlan { schema, to_fifo, max_generation: GENERATION_MAX, ..RedrivePlan::default() };
        Self { plan, to: to.to_owned() }
    }

    /// Checks only the first line, so that a wrong queue is rejected before its journal is created.
    ///
    /// # Errors
    /// If the backup was read from that queue.
    pub fn check_queue(&self, first_line: &[u8]) -> Result<(), String> {
        match read_line(first_line, Timestamp::UNIX_EPOCH) {
            Ok(received) if received.queue_arn == self.to => {
                Err(format!("the backup {OWN_QUEUE}; nothing was sent"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the line is a dead letter: a line of a backup, or a final record.
    #[must_use]
    pub fn is_dead_letter_line(line: &[u8]) -> bool {
        let read = read_line(line, Timestamp::UNIX_EPOCH);
        // Serde also deserializes a struct from an array.
        line.trim_ascii_start().starts_with(b"{") && matches!(read, Ok(_) | Err(BadLine::BinaryAttribute))
    }

    /// Returns the SQS message id of the dead letter on a line. Lines with the same id are the same message.
    #[must_use]
    pub fn read_id(line: &[u8]) -> Option<String> {
        read_line(line, Timestamp::UNIX_EPOCH).ok().map(|received| received.sqs_message_id)
    }

    /// Reads the message that a redrive would have sent back.
    ///
    /// # Errors
    /// If the line is not a dead letter, was read from the target queue, or cannot be sent. The error message contains
    /// no values from the message.
    pub fn read_message(&self, line: &[u8]) -> Result<OutgoingMessage, String> {
        // The send time is not used here.
        let received = read_line(line, Timestamp::UNIX_EPOCH).map_err(|why| {
            let hint = match why {
                BadLine::AnotherKind | BadLine::Message => "; messages are sent without --backup",
                _ => "",
            };
            format!("not a line of `audit --save` or `purge --backup`: {why}{hint}")
        })?;
        if received.queue_arn == self.to {
            return Err(OWN_QUEUE.to_owned());
        }
        // The same decision as in a redrive, so that both send exactly the same bytes.
        let verdict =
            self.plan.decide(&DeadLetterRecord::new(received)).map_err(|error| error.to_string())?;
        match verdict {
            RedriveDecision::Send(send_back) => Ok(send_back.message),
            RedriveDecision::Stays(StayReason::Parked(generation)) => {
                Err(format!("was sent back {generation} times already, and that is the limit"))
            }
            RedriveDecision::Stays(reason) => Err(reason.to_string()),
            RedriveDecision::NotSelected => Err("is not selected".to_owned()),
        }
    }
}
