//! `delayed-resend`: each failed message goes to the failed-message-processor with the reason, which decides on it.

use redeliver_core::deliver::{Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::failure::Kind;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::Timestamp;
use redeliver_core::message::plain::Plain;
use redeliver_core::ports::{Clock, Observer, QueueSender};

use super::Unsent;
use crate::MessageProcessor;
use crate::accepted::Failed;

impl<H, Q: QueueSender, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) async fn hand_off_all(&self, intermediate_dlq: &Q, unsent: Unsent) -> Vec<String> {
        let Unsent { failed, verdicts, deadline } = unsent;
        let now = self.clock.now();
        let hand_offs = failed.into_iter().map(|message| hand_off(message, now)).collect();
        let outbox = self.outbox(deadline);
        let kept = outbox.send(intermediate_dlq, "hand-off", hand_offs);
        self.with_verdicts(verdicts, &outbox, kept).await
    }
}

fn hand_off(failed: Failed, now: Timestamp) -> Outgoing {
    let Failed { accepted, hand_off, error_type } = failed;
    let age_seconds = until(accepted.first_sent(), now).as_secs_f64();
    let retry_attempt = accepted.message.retry_attempt;
    let (message_id, arrival) = accepted.into_arrival(Plain::named);
    let kind = hand_off.answer.kind();
    // A message may be held a hundred times: one line a batch tells of it.
    let handed_off = (kind != Kind::Held).then(|| {
        let kind = kind.as_str();
        Event::HandedOff { message_id, retry_attempt, error_type, kind, age_seconds }
    });
    arrival.handed_off(&hand_off).pass_on(DelaySeconds::ZERO, handed_off)
}
