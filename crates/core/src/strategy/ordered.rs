//! `ordered`: the source queue is a FIFO queue. A failed message stays there, hidden for the delay, and the rest of its
//! group waits behind it.

use super::queues::{NeededQueue, RECEIVES, RETENTION, Redrive, Role, dead_letter_queues};
use super::{Definition, redriven};
use crate::message::schema::Violation;
use crate::policy::Policy;

/// `maxReceiveCount` of the source queue: all that SQS counts ("CreateQueue", Amazon SQS API Reference), since a receive
/// need not be a call.
const FIFO_RECEIVES: u16 = 1000;
/// Receives that are not retries: the first one, crashes and holds.
const NOT_RETRIES: u16 = 20;

pub(super) const DEFINITION: Definition = Definition {
    name: "ordered",
    summary: "It stays on the FIFO source queue, hidden for the delay, and the rest of its group waits behind it",
    // By time: a receive need not be a call.
    default_policy: r#"{"max_attempts":980,"max_age_seconds":86400,"backoff":{"kind":"exponential","initial_delay_seconds":5}}"#,
    refusals: &[uncountable, redriven],
    queues,
    has_message_processor: true,
    stays_on_queue: true,
    is_fifo: true,
};

fn queues(_: u32) -> Vec<NeededQueue> {
    let mut queues = dead_letter_queues(RECEIVES);
    // A FIFO queue's DLQ must be a FIFO queue ("Amazon SQS dead-letter queues"). The annotator reads it, too; it has no
    // DLQ of its own, since that would have to be the final DLQ.
    let (role, name) = (Role::SourceDlq, "source-dlq.fifo");
    queues.push(NeededQueue { role, name, retention: RETENTION, redrive: None });
    let redrive = Some(Redrive { to: Role::SourceDlq, receives: FIFO_RECEIVES });
    // The longest that SQS has: messages wait behind a failed one.
    queues.push(NeededQueue { role: Role::Source, name: "source.fifo", retention: RETENTION, redrive });
    queues
}

/// SQS would move the message before the last retry.
fn uncountable(&Policy { max_attempts, .. }: &Policy) -> Option<Violation> {
    let most = FIFO_RECEIVES - NOT_RETRIES;
    let rule = format!(
        "which is {max_attempts}: use at most {most} with the strategy ordered, since each retry is a receive, \
         {NOT_RETRIES} are to spare, and SQS counts to {FIFO_RECEIVES}"
    );
    (max_attempts > most.into()).then(|| Violation::new("/max_attempts", rule))
}
