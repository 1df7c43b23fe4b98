//! What becomes of the messages that failed. Each strategy has a file of its own: all that it decides and sends.

mod delayed_resend;
mod direct_resend;
mod visibility;

use futures_util::join;
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::may_be_called;
use redeliver_core::deliver::{Outbox, Outgoing};
use redeliver_core::failure::HandOff;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::Metadata;
use redeliver_core::message::origin::Resenders;
use redeliver_core::ports::{Clock, Observer, QueueDepth, QueueSender, VisibilityControl};
use redeliver_core::strategy::OnFailure;

use super::MessageProcessor;
use super::accepted::{Accepted, Failed};

/// If each receive is an attempt: what is known if nobody has answered for the receive before this one.
const GIVEN_ONCE_MORE: &str = "SQS gave the message once more: the function crashed, timed out, ran out of memory or was throttled, and nobody knows what became of the call";

/// What is still to be sent once the calls are over.
pub(super) struct Unsent {
    pub(super) failed: Vec<Failed>,
    pub(super) verdicts: Vec<Outgoing>,
    pub(super) deadline: Timestamp,
}

impl<H, Q: QueueSender + QueueDepth + VisibilityControl, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Sends the verdicts, and keeps what failed. Answers with the ids of the records that are not done: whose send is
    /// not confirmed, and what stays on its queue.
    pub(super) async fn keep(&self, unsent: Unsent) -> Vec<String> {
        match &self.on_failure {
            OnFailure::DelayedResend { intermediate_dlq } => {
                self.hand_off_all(intermediate_dlq, unsent).await
            }
            OnFailure::DirectResend(redelivery) => self.send_all_again(redelivery, unsent).await,
            OnFailure::Visibility { source_queue, queue_times } => {
                self.hide_all(source_queue, *queue_times, unsent).await
            }
        }
    }
}

impl<H, Q: QueueSender, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    fn outbox(&self, deadline: Timestamp) -> Outbox<'_, C, O> {
        Outbox::new(&self.clock, &self.observer, deadline)
    }

    /// Sends the verdicts at the same time as what is kept.
    async fn with_verdicts(
        &self,
        verdicts: Vec<Outgoing>,
        outbox: &Outbox<'_, C, O>,
        kept: impl Future<Output = Vec<String>>,
    ) -> Vec<String> {
        let (kept, verdicts) = join!(kept, outbox.send(&self.annotation_queue, "verdict", verdicts));
        [kept, verdicts].concat()
    }
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// The queue says how many, or the message does.
    pub(super) fn retries_made(&self, metadata: &Metadata, receive_count: u32) -> u32 {
        if self.on_failure.strategy().definition().attempts_are_receives {
            receive_count.saturating_sub(1)
        } else {
            metadata.retry_attempt
        }
    }

    /// Where each receive is an attempt nobody sends a message again.
    pub(super) fn of_its_origin(&self, arrival: Arrival) -> Arrival {
        if self.on_failure.strategy().definition().attempts_are_receives {
            return arrival.sent_by_one_of(&Resenders::nobody());
        }
        arrival.sent_by_one_of(&self.resenders)
    }

    /// If the queue counts the attempts, it also counts those for which nobody answered.
    pub(super) fn check_receives(
        &self,
        accepted: Accepted,
        now: Timestamp,
    ) -> Result<Accepted, Box<Outgoing>> {
        if !self.on_failure.strategy().definition().attempts_are_receives {
            return Ok(accepted);
        }
        match may_be_called(&self.policy, &accepted.metadata, accepted.arrival.record.receive_count) {
            Ok(()) => Ok(accepted),
            Err(give_up) => {
                let hand_off = HandOff::unanswered(GIVEN_ONCE_MORE, accepted.arrival.delivery(now));
                Err(accepted.give_up(hand_off, give_up))
            }
        }
    }
}
