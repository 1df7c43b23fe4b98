//! Redelivers failed messages: decide → re-send with a delay, hop, or give up → confirm. Used by the
//! failed-message-processor and, with the strategy `direct-resend`, by the message-processor itself.

use futures_util::join;

use crate::accepted::FailedMessage;
use crate::decide::{Budget, Decision, Resend, decide};
use crate::deliver::{Outbox, PendingSend, time_until};
use crate::events::Event;
use crate::message::{Confirmed, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueSender};

/// The queues to which failed messages are sent.
#[derive(Debug)]
pub struct Redelivery<Q> {
    /// Receives re-sends.
    pub source_queue: Q,
    /// Receives hops: messages that wait out a long delay.
    pub intermediate_dlq: Q,
}

impl<Q: QueueSender> Redelivery<Q> {
    /// Sends all messages in a batch, including verdicts, to the three queues concurrently. Returns the records whose
    /// messages SQS has confirmed. All other records are received again.
    pub async fn send_routes<C: Clock, O: Observer>(
        &self,
        outbox: &Outbox<'_, C, O>,
        annotation_queue: &Q,
        routes: Routes,
    ) -> Vec<Confirmed> {
        let Routes { resends, hops, verdicts } = routes;
        let (resends, hops, verdicts) = join!(
            outbox.send(&self.source_queue, "re-send", resends),
            outbox.send_hops(&self.intermediate_dlq, hops),
            outbox.send(annotation_queue, "verdict", verdicts),
        );
        resends.into_iter().chain(hops).chain(verdicts).collect()
    }
}

/// The messages in a batch, by destination.
#[derive(Debug, Default)]
#[must_use = "the messages are received again unless they are sent"]
pub struct Routes {
    /// For the source queue.
    resends: Vec<PendingSend>,
    /// For the intermediate DLQ.
    hops: Vec<PendingSend>,
    /// For the annotation queue.
    verdicts: Vec<PendingSend>,
}

impl Routes {
    /// Decides what happens to a message, and adds it to its route. Returns the decision, for the message's span:
    /// `resend`, `hop`, or the code of the reason for giving up.
    pub fn route_message(&mut self, policy: &Policy, failed: FailedMessage, now: Timestamp) -> &'static str {
        match decide(policy, &failed, now) {
            Decision::Resend(retry) => {
                self.add_resend(failed, retry, now);
                "resend"
            }
            Decision::Hop(due_at) => {
                self.add_hop(failed.into_hop(due_at));
                "hop"
            }
            Decision::GiveUp(give_up) => {
                let reason = give_up.reason.as_str();
                self.add_verdict(failed.give_up(None, give_up));
                reason
            }
        }
    }

    /// Adds a message that waits for another 900 s on the intermediate DLQ.
    pub fn add_hop(&mut self, hop: PendingSend) {
        self.hops.push(hop);
    }

    /// Adds a verdict on a message that redeliver gives up on.
    pub fn add_verdict(&mut self, verdict: PendingSend) {
        self.verdicts.push(verdict);
    }

    fn add_resend(&mut self, failed: FailedMessage, retry: Resend, now: Timestamp) {
        let FailedMessage { accepted, hand_off, error_type, span, .. } = failed;
        let request_id = hand_off.delivery.request_id().filter(|_| error_type.is_some());
        // Holds are not reported here: a message may be held a hundred times, and the message-processor reports holds
        // once per batch.
        let scheduled = (retry.budget != Budget::Hold).then(|| Event::RetryScheduled {
            message_id: accepted.metadata().message_id_text.clone(),
            retry_attempt: retry.retry_attempt,
            spends_attempt: retry.budget == Budget::Attempt,
            delay_seconds: retry.total_delay,
            age_seconds: time_until(retry.first_sent, now).as_secs_f64(),
            error_type,
            request_id,
        });
        let resend = accepted.into_arrival().with_rewrite(retry.rewritten).pass_on(retry.delay, scheduled);
        self.resends.push(resend.with_span(span));
    }
}
