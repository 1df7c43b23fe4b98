//! `--backup`: lines that `audit --archive` and `purge --backup` wrote, as the messages that a redrive would have sent
//! back.

use redeliver_core::message::OutgoingMessage;
use redeliver_core::metadata::GENERATION_MAX;
use redeliver_core::schema::MessageSchema;

use crate::redrive::{Plan, Reason, Verdict};
use crate::{ArchivedMessage, DeadLetterRecord};

/// What is kept of such a line at most: in JSON each byte of a message may take two, those of an attribute's value in
/// base64 less, and what stands around them is small.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is wrong with a DLQ as the queue to send to.
const OWN_QUEUE: &str = "was read from this very queue; name the source queue, for it to be handled again";

/// Makes messages of the lines of a backup.
#[derive(Debug)]
pub struct Backup {
    plan: Plan,
    to: String,
}

impl Backup {
    /// For the queue with this ARN; messages must match the schema.
    #[must_use]
    pub fn new(schema: MessageSchema, to: &str) -> Self {
        // Whoever names a file has picked what is in it: nothing is parked.
        let plan = Plan { schema, max_generation: GENERATION_MAX, ..Plan::default() };
        Self { plan, to: to.to_owned() }
    }

    /// Looks at the first line only, before a journal is begun for a queue that was named by mistake.
    ///
    /// # Errors
    /// If the queue is the one that the backup was read from.
    pub fn check_queue(&self, first_line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice::<ArchivedMessage>(first_line) {
            Ok(archived) if archived.queue_arn == self.to => {
                Err(format!("the backup {OWN_QUEUE}; nothing was sent"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a line is one of a backup.
    #[must_use]
    pub fn is_line(line: &[u8]) -> bool {
        serde_json::from_slice::<ArchivedMessage>(line).is_ok()
    }

    /// What a redrive would have sent back.
    ///
    /// # Errors
    /// What is wrong with the line, without the message's values.
    pub fn message(&self, line: &[u8]) -> Result<OutgoingMessage, String> {
        let foreign = |what: &str| format!("not a line of `audit --archive` or `purge --backup`: {what}");
        // The library's own words would quote values.
        let archived: ArchivedMessage =
            serde_json::from_slice(line).map_err(|error| match error.is_data() {
                true => foreign("it is JSON of another kind; messages are sent without --backup"),
                false => foreign(&format!("it cannot be read from column {} on", error.column())),
            })?;
        if archived.queue_arn == self.to {
            return Err(OWN_QUEUE.to_owned());
        }
        let received =
            archived.restored().ok_or_else(|| foreign("a time or an attribute of it was changed"))?;
        // The same decision as in a redrive, so that both send the very same bytes.
        let verdict =
            self.plan.decide(&DeadLetterRecord::new(received)).map_err(|error| error.to_string())?;
        match verdict {
            Verdict::Send(send_back) => Ok(send_back.message),
            Verdict::Stays(Reason::Parked(generation)) => {
                Err(format!("was sent back {generation} times already, and that is the limit"))
            }
            Verdict::Stays(reason) => Err(reason.to_string()),
            Verdict::NotSelected => Err("is not selected".to_owned()),
        }
    }
}
