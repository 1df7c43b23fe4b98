//! `delayed-resend`: failed messages are handed off to the intermediate DLQ, and sent again with a delay.

use super::Definition;
use super::queues::{NeededQueue, RECEIVES, RETENTION, Redrive, Role, SOURCE_RETENTION, ending_with};

pub(super) const DEFINITION: Definition = Definition {
    name: "delayed-resend",
    summary: "It is handed off to the intermediate DLQ and sent again with a delay",
    default_policy: "{}",
    refusals: &[],
    queues,
    has_message_processor: true,
    stays_on_queue: false,
    is_fifo: false,
};

fn queues(_: u32) -> Vec<NeededQueue> {
    let mut queues = ending_with(Role::IntermediateDlq, "intermediate-dlq", RETENTION, RECEIVES);
    queues.push(NeededQueue {
        role: Role::Source,
        name: "source",
        retention: SOURCE_RETENTION,
        // One: a message that the message-processor could not hand off is retried by the policy, not at once.
        redrive: Some(Redrive { to: Role::IntermediateDlq, receives: 1 }),
    });
    queues
}
