//! `on_give_up: block`: a message that is given up stays on its ordered queue, hidden, and the rest of its group behind it.

use redeliver_core::blocked::{ReceiveTimes, hidden_for, notice};
use redeliver_core::deliver::Outgoing;
use redeliver_core::message::Timestamp;
use redeliver_core::strategy::OnFailure;

use super::MessageProcessor;
use super::strategy::Unsent;

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// Gives a message up: it blocks its group, if the policy says so and its queue can keep it.
    pub(super) fn give_up(
        &self,
        verdict: Outgoing,
        times: ReceiveTimes,
        unsent: &mut Unsent,
        now: Timestamp,
    ) {
        let hidden = match &self.on_failure {
            OnFailure::Ordered { blocked: Some(_), queue_times, .. } => hidden_for(*queue_times, times, now),
            _ => None,
        };
        let Some(hidden) = hidden else { return unsent.verdicts.push(verdict) };
        match notice(verdict, times) {
            Ok(notice) => unsent.notices.push((notice, hidden)),
            Err(verdict) => unsent.verdicts.push(*verdict),
        }
    }
}
