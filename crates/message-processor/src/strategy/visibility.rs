//! `visibility`: each failed message is hidden on its queue until its retry, or given up. Decided here, since nobody else
//! sees a message that stays on its queue.

use redeliver_core::decide::{QueueTimes, Stayed, decide_on_queue};
use redeliver_core::deliver::{Hiding, Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Observer, QueueSender, VisibilityControl};

use super::Unsent;
use crate::MessageProcessor;
use crate::accepted::Failed;

impl<H, Q: QueueSender + VisibilityControl, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) async fn hide_all(
        &self,
        source_queue: &Q,
        queue_times: QueueTimes,
        unsent: Unsent,
    ) -> Vec<String> {
        let Unsent { failed, mut verdicts, deadline } = unsent;
        let now = self.clock.now();
        let mut hidings = Vec::with_capacity(failed.len());
        for message in failed {
            match self.hide(message, queue_times, now) {
                Ok(hiding) => hidings.push(hiding),
                Err(verdict) => verdicts.push(*verdict),
            }
        }
        let outbox = self.outbox(deadline);
        self.with_verdicts(verdicts, &outbox, outbox.hide(source_queue, hidings)).await
    }

    fn hide(&self, failed: Failed, queue_times: QueueTimes, now: Timestamp) -> Result<Hiding, Box<Outgoing>> {
        let Failed { accepted, hand_off, error_type } = failed;
        let first_sent = accepted.first_sent();
        let receive_count = accepted.arrival.record.receive_count;
        let stayed = Stayed {
            metadata: &accepted.metadata,
            hand_off: &hand_off,
            receive_count,
            first_sent,
            queue_times,
        };
        match decide_on_queue(&self.policy, stayed, now) {
            Ok(visibility) => {
                let scheduled = Event::RetryScheduled {
                    message_id: accepted.message.message_id,
                    retry_attempt: receive_count,
                    // The queue counts every receive.
                    spends_attempt: true,
                    delay_seconds: RetryDelay::saturating(visibility.get().into()),
                    age_seconds: until(first_sent, now).as_secs_f64(),
                    error_type: Some(error_type),
                };
                let ReceivedMessage { sqs_message_id: record, receipt_handle, .. } = accepted.arrival.record;
                Ok(Hiding { record, receipt_handle, visibility, confirmed: scheduled })
            }
            Err(give_up) => Err(accepted.give_up(hand_off, give_up)),
        }
    }
}
