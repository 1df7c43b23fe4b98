//! `visibility`: failed messages stay on the source queue, hidden for the delay. Each retry is a receive.

use super::queues::{NeededQueue, RECEIVES_MAX, Role, SOURCE_RETENTION, SPARE_RECEIVES, ending_with};
use super::{Definition, redriven};
use crate::message::schema::Violation;
use crate::policy::Policy;

pub(super) const DEFINITION: Definition = Definition {
    name: "visibility",
    summary: "It stays on the source queue, hidden for the delay",
    // Each receive is an attempt, so a hold would spend one.
    default_policy: r#"{"circuit_breaker":false}"#,
    refusals: &[uncountable, redriven],
    queues,
    has_message_processor: true,
    stays_on_queue: true,
    is_fifo: false,
};

fn queues(max_attempts: u32) -> Vec<NeededQueue> {
    // Ten more than the policy spends.
    let receives =
        u16::try_from(max_attempts).unwrap_or(u16::MAX).saturating_add(SPARE_RECEIVES).min(RECEIVES_MAX);
    ending_with(Role::Source, "source", SOURCE_RETENTION, receives)
}

/// Each retry is a receive. SQS would move the message before the last one, and its verdict would be lost.
fn uncountable(&Policy { max_attempts, .. }: &Policy) -> Option<Violation> {
    let most = RECEIVES_MAX - SPARE_RECEIVES;
    let rule = format!(
        "which is {max_attempts}: use at most {most} with the strategy visibility, since each retry is a receive, ten \
         are to spare on the source queue and ten on the annotation queue, and SQS counts to 1000"
    );
    (max_attempts > most.into()).then(|| Violation::new("/max_attempts", rule))
}
