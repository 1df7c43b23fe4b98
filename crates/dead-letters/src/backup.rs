//! `--backup`: lines that `audit --save` and `purge --backup` wrote, as the messages that a redrive would have sent
//! back.

use redeliver_core::message::metadata::GENERATION_MAX;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{OutgoingMessage, Timestamp};
use redeliver_core::ports::is_fifo;

use crate::DeadLetterRecord;
use crate::file_queue::{BadLine, read_line};
use crate::redrive::{RedriveDecision, RedrivePlan, StayReason};

/// Limit on the bytes of one line, 4 MiB: a message has at most 1 MiB ("Amazon SQS message quotas", Amazon SQS
/// Developer Guide), JSON escapes at most double it, base64 adds less, and the rest is small.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The error for a DLQ that is named as the queue to send to.
const OWN_QUEUE: &str = "was read from this same queue; name the source queue, so that it is handled again";

/// Turns the lines of a backup into the messages that a redrive would send back.
#[derive(Debug)]
pub struct BackupReader {
    plan: RedrivePlan,
    to: String,
}

impl BackupReader {
    /// A backup whose messages are sent to the queue with the ARN `to`, and must match the schema. Dead letters that
    /// were read from that same queue are refused.
    #[must_use]
    pub fn new(schema: MessageSchema, to: &str) -> Self {
        // A file contains only selected messages, so nothing is parked.
        let to_fifo = is_fifo(to);
        let plan = RedrivePlan { schema, to_fifo, max_generation: GENERATION_MAX, ..RedrivePlan::default() };
        Self { plan, to: to.to_owned() }
    }

    /// Checks the first line only, so that a wrong queue is refused before a journal is created for it.
    ///
    /// # Errors
    /// If the queue is the one that the backup was read from.
    pub fn check_queue(&self, first_line: &[u8]) -> Result<(), String> {
        match read_line(first_line, Timestamp::UNIX_EPOCH) {
            Ok(received) if received.queue_arn == self.to => {
                Err(format!("the backup {OWN_QUEUE}; nothing was sent"))
            }
            _ => Ok(()),
        }
    }

    /// True if the line is a dead letter, from a backup or a final record.
    #[must_use]
    pub fn is_dead_letter_line(line: &[u8]) -> bool {
        let read = read_line(line, Timestamp::UNIX_EPOCH);
        // Serde reads a struct from an array, too.
        line.trim_ascii_start().starts_with(b"{") && matches!(read, Ok(_) | Err(BadLine::BinaryAttribute))
    }

    /// SQS's id of the dead letter on a line: two lines with the same one are the same message.
    #[must_use]
    pub fn read_id(line: &[u8]) -> Option<String> {
        read_line(line, Timestamp::UNIX_EPOCH).ok().map(|received| received.sqs_message_id)
    }

    /// The message that a redrive would have sent back.
    ///
    /// # Errors
    /// The reason, without values of the message: the line is not a dead letter, was read from the queue that it would
    /// go to, or cannot be sent.
    pub fn read_message(&self, line: &[u8]) -> Result<OutgoingMessage, String> {
        // When it was sent is of no use here.
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
        // The same decision as in a redrive, so that both send the very same bytes.
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
