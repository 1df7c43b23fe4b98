//! `direct-resend`: each failed message is decided on here, and sent again, just as the failed-message-processor would.

use redeliver_core::failure::Stage;
use redeliver_core::ports::{Clock, Observer, QueueDepth, QueueSender};
use redeliver_core::redelivery::{FailedMessage, Redelivery, Routes};

use super::Unsent;
use crate::MessageProcessor;
use crate::accepted::Failed;

impl<H, Q: QueueSender + QueueDepth, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) async fn send_all_again(&self, redelivery: &Redelivery<Q>, unsent: Unsent) -> Vec<String> {
        let Unsent { failed, mut verdicts, deadline } = unsent;
        let mut routes = if failed.is_empty() {
            Routes::default()
        } else {
            redelivery.begin(&self.policy, &self.clock, &self.observer, deadline).await
        };
        let now = self.clock.now();
        for message in failed {
            routes.add(&self.policy, &self.schema, to_decide_on(message), now);
        }
        verdicts.append(&mut routes.verdicts);
        let outbox = self.outbox(deadline);
        self.with_verdicts(verdicts, &outbox, redelivery.send(&outbox, routes)).await
    }
}

fn to_decide_on(failed: Failed) -> FailedMessage {
    let Failed { accepted, hand_off, error_type } = failed;
    // Its re-send says its id.
    let (_, arrival) = accepted.into_arrival(|_| None);
    let (stage, error_type) = (Stage::MessageProcessor, Some(error_type));
    FailedMessage { arrival, hand_off, due_at: None, stage, error_type }
}
