//! Sends failed messages again: decide → re-send with a delay, hop, or give up → confirm. Used by the
//! failed-message-processor, and with the strategy `direct-resend` by the message-processor itself.

mod delayed_count;

use futures_util::join;

use crate::accepted::FailedMessage;
use crate::decide::pacing::{Pace, Window};
use crate::decide::{Budget, Decision, Resend, decide};
use crate::deliver::{Outbox, Outgoing, until};
use crate::events::Event;
use crate::message::{Confirmed, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueDepth, QueueSender};
pub use delayed_count::DelayedCount;

/// The queues that failed messages are sent to, and the last count of waiting messages.
#[derive(Debug)]
pub struct Redelivery<Q> {
    /// Receives re-sends.
    pub source_queue: Q,
    /// Receives hops: messages with a long delay wait there.
    pub intermediate_dlq: Q,
    /// The cached count for `max_redelivery_per_second`.
    pub delayed_count: DelayedCount,
}

impl<Q> Redelivery<Q> {
    /// For these queues, without a count.
    #[must_use]
    pub fn new(source_queue: Q, intermediate_dlq: Q) -> Self {
        Self { source_queue, intermediate_dlq, delayed_count: DelayedCount::default() }
    }
}

impl<Q: QueueSender + QueueDepth> Redelivery<Q> {
    /// Begins a batch. If the policy has a rate, this asks SQS for the number of waiting messages, which may take two
    /// seconds, but at most a quarter of the time until `deadline`; delays count from afterwards.
    pub async fn begin(
        &self,
        policy: &Policy,
        clock: &impl Clock,
        observer: &impl Observer,
        deadline: Timestamp,
    ) -> Routes {
        let pace = match policy.max_redelivery_per_second {
            // Boxed: the request's future is large, and most policies have no rate.
            Some(rate) => {
                Box::pin(self.delayed_count.window(rate, &self.source_queue, clock, observer, deadline)).await
            }
            None => None,
        };
        Routes { pace, ..Routes::default() }
    }

    /// Sends all messages of a batch, verdicts included.
    pub async fn send<C: Clock, O: Observer>(
        &self,
        outbox: &Outbox<'_, C, O>,
        annotation_queue: &Q,
        routes: Routes,
    ) -> Vec<Confirmed> {
        let Routes { pace, resends, hops, verdicts, paced, exceeds_rate } = routes;
        let (resends, hops, verdicts) = join!(
            outbox.send(&self.source_queue, "re-send", resends),
            outbox.hop(&self.intermediate_dlq, hops),
            outbox.send(annotation_queue, "verdict", verdicts),
        );
        if let Some((_, waiting)) = pace {
            // Only a confirmed re-send counts as paced.
            let is_paced = |record: &&Confirmed| paced.iter().any(|paced| paced == record.sqs_message_id());
            let paced = resends.iter().filter(is_paced).count();
            if paced > 0 {
                let paced = u32::try_from(paced).unwrap_or(u32::MAX);
                outbox.report(&Event::Paced { waiting, paced, rate_is_held: !exceeds_rate });
            }
        }
        resends.into_iter().chain(hops).chain(verdicts).collect()
    }
}

/// The messages of a batch, by destination.
#[derive(Debug, Default)]
#[must_use = "its messages are received again unless they are sent"]
pub struct Routes {
    /// The window of `max_redelivery_per_second`, and the number of waiting messages.
    pace: Option<(Window, u64)>,
    /// For the source queue.
    resends: Vec<Outgoing>,
    /// For the intermediate DLQ.
    hops: Vec<Outgoing>,
    /// For the annotation queue.
    verdicts: Vec<Outgoing>,
    /// SQS message ids of the records with stretched re-sends.
    paced: Vec<String>,
    exceeds_rate: bool,
}

impl Routes {
    /// Decides on a message, and adds it. Returns the decision for its span: `resend`, `hop`, or the reason why it is
    /// given up.
    pub fn add(&mut self, policy: &Policy, failed: FailedMessage, now: Timestamp) -> &'static str {
        match decide(policy, &failed, self.pace.map(|(window, _)| window), now) {
            Decision::Resend(retry) => {
                self.resend(failed, retry, now);
                "resend"
            }
            Decision::Hop(due_at) => {
                self.hop(failed.hop(due_at));
                "hop"
            }
            Decision::GiveUp(give_up) => {
                let reason = give_up.reason.as_str();
                self.give_up(failed.give_up(None, give_up));
                reason
            }
        }
    }

    /// Adds a message that waits for another 900 s on the intermediate DLQ.
    pub fn hop(&mut self, hop: Outgoing) {
        self.hops.push(hop);
    }

    /// Adds a message that is given up.
    pub fn give_up(&mut self, verdict: Outgoing) {
        self.verdicts.push(verdict);
    }

    fn resend(&mut self, failed: FailedMessage, retry: Resend, now: Timestamp) {
        let FailedMessage { accepted, error_type, span, .. } = failed;
        // A message may be held a hundred times, and the message-processor reports the holds of each batch.
        let scheduled = (retry.spends != Budget::Hold).then(|| Event::RetryScheduled {
            message_id: accepted.metadata().message_id_text.clone(),
            retry_attempt: retry.retry_attempt,
            spends_attempt: retry.spends == Budget::Attempt,
            delay_seconds: retry.waited,
            age_seconds: until(retry.first_sent, now).as_secs_f64(),
            error_type,
        });
        if retry.pace != Pace::Own {
            self.paced.push(accepted.record().sqs_message_id.clone());
        }
        self.exceeds_rate |= retry.pace == Pace::NotHeld;
        let resend = accepted.into_arrival().rewritten(retry.rewritten).pass_on(retry.delay, scheduled);
        self.resends.push(resend.within(span));
    }
}
