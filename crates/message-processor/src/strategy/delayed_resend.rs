//! `delayed-resend`: each failed message goes to the failed-message-processor with the reason, which decides on it.

use redeliver_core::delivery::{Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::failure::Kind;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::Timestamp;
use redeliver_core::plain::Plain;
use redeliver_core::ports::{Clock, Observer, QueueSender};

use super::Unsent;
use crate::MessageProcessor;
use crate::accepted::Failed;

impl<H, Q: QueueSender, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) async fn hand_off_all(&self, intermediate_dlq: &Q, unsent: Unsent) -> Vec<String> {
        let Unsent { failed, verdicts, deadline } = unsent;
        let now = self.clock.now();
        let mut hand_offs = Vec::with_capacity(failed.len());
        let mut without_place = Vec::new();
        for message in failed {
            match self.hand_off(message, now) {
                Ok(outgoing) => hand_offs.push(outgoing),
                Err(record) => without_place.push(record),
            }
        }
        let outbox = self.outbox(deadline);
        let kept = outbox.send(intermediate_dlq, "hand-off", hand_offs);
        [without_place, self.with_verdicts(verdicts, &outbox, kept).await].concat()
    }

    /// The id of the record if ten attributes, or 1 MiB, leave no place for the reason: SQS's redrive takes the message
    /// without it.
    fn hand_off(&self, failed: Failed, now: Timestamp) -> Result<Outgoing, String> {
        let Failed { accepted, hand_off, error_type } = failed;
        let age_seconds = until(accepted.first_sent(), now).as_secs_f64();
        let retry_attempt = accepted.message.retry_attempt;
        let (message_id, arrival) = accepted.into_arrival(Plain::named);
        // A hand-off folds nothing: what says that it does is forged. So ten attributes leave it no place.
        let Some(attributes) = hand_off.attached(&arrival.record.attributes, arrival.record.body.len())
        else {
            let record = arrival.record.sqs_message_id;
            self.observer.observe(&Event::NotConfirmed {
                sqs_message_id: record.clone(),
                send: "hand-off",
                code: "NoPlaceForFailure".to_owned(),
            });
            return Err(record);
        };
        let kind = hand_off.answer.kind();
        // A message may be held a hundred times: one line a batch tells of it.
        let handed_off = (kind != Kind::Held).then(|| {
            let kind = kind.as_str();
            Event::HandedOff { message_id, retry_attempt, error_type, kind, age_seconds }
        });
        Ok(arrival.with_attributes(attributes).pass_on(DelaySeconds::ZERO, handed_off))
    }
}
